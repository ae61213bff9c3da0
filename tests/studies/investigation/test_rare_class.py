"""A class that is hardly tested spoils a macro average: an investigation says so, and what the runs predict."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from mlflow_l3d.analysis.cure.ensembles import RunPredictions
from mlflow_l3d.designs import design_named
from mlflow_l3d.studies.investigation.remedies import MemberRows


def run(labels: list[int], predictions: list[int], test: int) -> RunPredictions:
    marks = np.arange(len(labels)) < test
    return RunPredictions(-1, np.arange(len(labels)), np.array(labels), np.array(predictions), marks)


def test_what_runs_predict_of_their_own_test_examples() -> None:
    members = MemberRows(design_named("crossed"))
    place: dict[str, Any] = {"factor": "a", "row": 0, "column": 0}
    members.add(SimpleNamespace(phase="golden", **place), run([0, 0, 1, 2, 2], [0, 0, 0, 0, 2], test=4))
    members.add(SimpleNamespace(phase="investigation", **place), run([0, 1, 1, 2, 2], [1, -1, 1, 0, 2], test=4))
    answers = members.answers(3)
    assert answers is not None
    assert (answers.runs, answers.constant) == (2, 1)
    assert answers.tested.tolist() == [1.5, 1.5, 1.0]
    assert answers.predicted.tolist() == [2.5, 1.0, 0.0]
    assert members.answers(None) is None
    assert MemberRows(design_named("crossed")).answers(3) is None
