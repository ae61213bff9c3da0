"""Answers of gates, made by hand."""

import math
from dataclasses import replace
from typing import Any

from mlflow_l3d.analysis.comparison.power import Forecast, Outlook
from mlflow_l3d.analysis.planning.spending import Measured, SequentialPlan
from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.report.page import Document
from mlflow_l3d.studies.gate.numbers import GateAnswer, Look, look_at
from mlflow_l3d.studies.gate.report import GateSource, gate_document

PLAN = SequentialPlan((10, 20), 0.01)
OUTLOOK = Outlook(0.01, 0.02, 0.85, 0.12, 15.4)


def gate_answer(difference: float, error: float = 0.002, **more: object) -> GateAnswer:
    looks: tuple[Look, ...] = ()
    for runs in PLAN.looks:
        found = Measured(difference, error * math.sqrt(20 / runs), runs - 1, 0.0)
        looks = (*looks, look_at(PLAN, looks, runs, runs, found, runs / 20))
        if looks[-1].decision != "undecided":
            break
    forecast = Forecast(0.02, OUTLOOK, replace(OUTLOOK, equivalent=0.03, worse=0.85))
    return GateAnswer(
        baseline="old <b>",
        candidate="rate=1e-4",
        metric=F1_MACRO,
        paired=True,
        plan=PLAN,
        before=forecast,
        looks=looks,
        means=(0.73, 0.73 + difference),
        notes=("No run collapsed.",),
        **{"examples": "fixed", **more},  # type: ignore[arg-type]
    )


def document_of(answer: GateAnswer, **more: Any) -> Document:
    return gate_document(answer, **{"source": GateSource(), "settings": {}, "lines": (), **more})
