"""What cures predict and find, made by hand."""

from __future__ import annotations

from typing import Any

from mlflow_l3d.analysis.cure import Prediction, Remedy
from mlflow_l3d.analysis.intervals import Range
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.cure.numbers import CureAnswer, Verified
from mlflow_l3d.studies.cure.report import cure_document

SOURCE = Source(run_id="p", approach="head", given={"task": "trec"})


def answer_of(*verified: Verified, **more: Any) -> CureAnswer:
    """Return what a cure found, with the remedies that it trained."""
    usual = {"metric": named("accuracy"), "std": 0.1, "mean": 0.5, "predictions": ()}
    return CureAnswer(**{**usual, "verified": verified, **more})


def page_of(answer: CureAnswer, source: Source = SOURCE) -> Document:
    return cure_document(answer, source=source, run_id="r", settings={})


def known(remedy: Remedy, std: Range, *, before: float = 0.1, **more: Any) -> Prediction:
    """Return the prediction that a remedy leaves so large a standard deviation, and about the same mean."""
    ratio = Range(*(each / before for each in std))
    found = {"std": std, "ratio": ratio, "mean_change": Range(0.0, -0.01, 0.01), "std_before": before}
    return Prediction(**{"remedy": remedy, "basis": "exact", "trainings": remedy.members, **found, **more})
