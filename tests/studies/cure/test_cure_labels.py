"""More labels: golden runs of another size are trained, and show, or predict by a line, what twice as many do."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cure_cases import known
from run_helpers import Place

from mlflow_l3d import FunctionApproach, investigate, load, plan_cure
from mlflow_l3d.analysis.cure import Prediction, Range, Remedy
from mlflow_l3d.analysis.cure.examples import other_labels
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.metrics.known import named
from mlflow_l3d.studies.cure.request import CureRequest
from mlflow_l3d.studies.investigation.results import Investigation
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import Split
from mlflow_l3d.tasks.sources.packaged import generate

pytestmark = pytest.mark.slow

GOLDEN = 16
COMMON: dict[str, Any] = {"metric": "accuracy", "executor": "inline", "self_test": "skip", "factor": "model_randomness"}
COMMON |= {"investigation_runs": 2, "mitigation_runs": 2, "golden_runs": GOLDEN, "test_selection": "fixed"}
trained: list[int] = []


def law(task: Task, split: Split, seeds: dict[str, int], hyperparameters: Any) -> npt.NDArray[np.int64]:
    """Return predictions whose accuracy is 0.9 - 1 / n, and varies by 0.8 / sqrt(n) with n labelled examples."""
    del hyperparameters
    labelled = len(split.train) + len(split.validation)
    trained.append(labelled)
    luck = stream(seeds["model_randomness"], "law").uniform(-1, 1) * math.sqrt(3)
    right = round(len(split.test) * (0.9 - 1 / labelled + luck * 0.8 / math.sqrt(labelled) / 8))
    labels = task.labels[split.test]
    return np.asarray(np.where(np.arange(len(labels)) < right, labels, 1 - labels))


def investigated(num_labelled: int, test_size: int = 1000, **more: Any) -> Investigation:
    approach = FunctionApproach(law, name="law", version="1", factors=["model_randomness"])
    task = generate(5 * test_size, 2)
    return investigate(task, approach=approach, num_labelled=num_labelled, test_size=test_size, **{**COMMON, **more})


def row(result: Any, size: int, now: int) -> Any:
    words = f"{size:,} labelled examples in place of {now:,}"
    return next(each for each in result.answer.predictions if each.remedy.words == words)


def test_twice_as_many_labels_are_trained_and_achieve_what_their_law_says(place: Place) -> None:
    result = investigated(32)
    before = result.cure(executor="inline")
    name = "64 labelled examples in place of 32"
    assert row(before, 64, 32).basis == "unknown"
    assert any("unknown until verified by golden runs with 64 labels." in each for each in before.answer.reasons)
    plan = plan_cure(result, executor="inline", verify=1, remedy=name)
    assert plan.parts[["cells", "done", "to_compute"]].to_numpy().tolist() == [[GOLDEN, 0, GOLDEN]]
    trained.clear()
    verified = result.cure(executor="inline", verify=1, remedy=name)
    assert trained == [64] * GOLDEN
    (found,) = verified.answer.verified
    assert found.ratio.value == pytest.approx(1 / math.sqrt(2), rel=0.02)
    assert found.mean_change.value == pytest.approx(1 / 32 - 1 / 64, abs=0.001 + 0.3 * found.plain.value)
    assert verified.answer.best is found
    assert "cure.json" not in [each.path for each in place.client.list_artifacts(verified.run_id)]
    assert "twice the labels" in verified.report().to_text()
    assert load(verified.run_id).report().to_html() == verified.report().to_html()

    trained.clear()
    after = row(result.cure(executor="inline", verify=1, remedy=name), 64, 32)
    assert trained == []
    assert after.basis == "exact"
    assert after.ratio == pytest.approx(found.ratio, rel=0.2)
    assert after.reason == "measured by golden runs with 64 labels"
    cured = result.cure(executor="inline")
    assert name in cured.report().to_text()
    assert cured.answer.helping()[-1].remedy.words == name

    investigated(64)  # what is its golden run was trained
    assert len(trained) == 4


def test_half_as_many_labels_are_trained_if_the_data_have_no_more_and_a_line_goes_through_both(place: Place) -> None:
    result = investigated(400, test_size=200)  # of 640 for training
    name = "800 labelled examples in place of 400"
    trained.clear()
    done = result.cure(executor="inline", verify=1, remedy=name)
    assert trained == [200] * GOLDEN
    assert done.answer.verified == ()
    after = row(done, 800, 400)
    assert after.basis == "extrapolated"
    assert after.reason == "a line through golden runs with 200 labels (the data have no 800)"
    assert math.isnan(after.std.value)  # a line gives a range
    assert after.std.low / after.std_before < 1 / math.sqrt(2) < after.std.high / after.std_before
    low, high = (f"{100 * end:.1f}" for end in after.std[1:])
    for words in (after.reason, f"800 labelled examples in place of 400: +- {low} to {high}, mean "):
        assert words in " ".join(done.report().to_text().split())
    assert not any("unknown until verified" in each for each in done.answer.reasons)
    trained.clear()
    again = result.cure(executor="inline")
    assert trained == []
    assert repr(row(again, 800, 400)) == repr(after)  # nan is not equal to itself


def test_labels_that_the_user_may_lack_are_tried_last(place: Place) -> None:
    result = investigated(32, investigation_runs=4, mitigation_runs=2, design="nested")
    answer = result.cure(executor="inline").answer
    assert [each.remedy.kind for each in answer.upcoming] == ["vote", "more_data"]
    assert "Remedies for which you may lack labels are verified last." in result.cure().report().to_html()


def test_two_ensembles_that_help_come_before_labels_of_which_nothing_is_known() -> None:
    few = known(Remedy("vote", ("model_randomness",), 3), Range(0.07, 0.035, 0.084))
    many = known(Remedy("vote", ("data_order",), 9), Range(0.04, 0.02, 0.048))
    labels = Prediction(remedy=other_labels(32, 64), basis="unknown", std_before=0.1)
    gathered = SimpleNamespace(spread=Range(0.1, 0.08, 0.12), metric=named("accuracy"), collapsed=0)
    given: Any = SimpleNamespace(predictions=(labels, few, many), gathered=gathered, tried=())
    assert CureRequest.ranked(given)[-1] is labels
    assert len(CureRequest.ranked(given)) == 3
