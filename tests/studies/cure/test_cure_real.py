"""A real classifier on real data: what is predicted of a vote is what it achieves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from run_helpers import Place, sqlite_place

from mlflow_l3d import investigate
from mlflow_l3d.analysis.cure import helping
from mlflow_l3d.tasks.sources.packaged import rotten_tomatoes

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    task = rotten_tomatoes({})
    some = np.argsort([len(text) for text in task.texts[0]], kind="stable")[:540]  # to encode all takes a minute
    return pd.DataFrame({"text": np.array(task.texts[0], dtype=object)[some], "label": task.labels[some]})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> Place:
    """Give one place, where the texts are encoded once."""
    return sqlite_place(migrated_store, tmp_path_factory.mktemp("cures"))


def test_a_vote_of_heads_achieves_what_was_predicted(place: Place, frame: pd.DataFrame) -> None:
    sizes = {"investigation_runs": 7, "mitigation_runs": 8, "golden_runs": 12}
    sizes |= {"num_labelled": 40, "test_size": 100}
    with place.entered():
        found = investigate(frame, factor="model_initialisation", executor="inline", **sizes)
        named = {"verify": 1, "remedy": "vote of 3 runs over model_initialisation"}
        (verified,) = found.cure(**named, most_members=4, executor="inline").answer.verified
    assert verified.runs == 12
    predicted, achieved = verified.prediction, verified.mean_change
    assert predicted.remedy.over == ("model_initialisation",)
    assert achieved.low <= predicted.mean_change.high
    assert predicted.mean_change.low <= achieved.high
    assert verified.cured.low <= predicted.std.high
    assert predicted.std.low <= verified.cured.high


def test_heads_that_converge_vary_less_and_several_of_them_less_than_one(place: Place, frame: pd.DataFrame) -> None:
    sizes = {"investigation_runs": 2, "mitigation_runs": 2, "golden_runs": 16, "num_labelled": 40, "test_size": 100}
    converged = "training to convergence (30 epochs at rate 0.003, restarts)"
    with place.entered():
        common = {"test_selection": "fixed", "executor": "inline"}
        found = investigate(frame, factor="model_initialisation", **sizes, **common)
        (verified,) = found.cure(verify=1, remedy=converged, executor="inline").answer.verified
        cured = found.cure().answer
    assert verified.ratio.value < 0.8
    assert verified.mean_change.low > 0
    # By trainings, as its seconds depend on the machine.
    by_trainings = helping([replace(each, seconds=0.0) for each in cured.predictions], cured.std, cured.metric.sign)
    (alone,) = [each for each in by_trainings if each.remedy.words == converged]
    several = next(each for each in cured.helping() if each.remedy.words.endswith(f", {converged}"))
    assert several.remedy.changes == alone.remedy.changes == verified.prediction.remedy.changes
    assert several.std.value < alone.std.value == pytest.approx(verified.cured.value, rel=0.1)
