"""Other hyperparameters and ensembles on top: known when their golden runs are stored, and trained with these."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from run_helpers import Place
from scipy.stats import binom

from mlflow_l3d import FunctionApproach, investigate, plan_cure
from mlflow_l3d.analysis.cure import Range, Remedy
from mlflow_l3d.approaches.hyperparameters import Hyperparameter
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.report.remedies import remedy_words
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import Split

EXAMPLES, GOLDEN = 100, 20
BETTER = "a better coin"
SIZES: dict[str, Any] = {"investigation_runs": 2, "mitigation_runs": 2, "golden_runs": GOLDEN, "test_size": EXAMPLES}
SIZES["test_selection"] = "fixed"
trained: list[float] = []


def coin(task: Task, split: Split, seeds: dict[str, int], hyperparameters: Any) -> npt.NDArray[np.int64]:
    """Return predictions of which each is right with a probability that is a hyperparameter."""
    trained.append(hyperparameters["right"])
    labels = task.labels[split.test]
    right = stream(seeds["model_randomness"], "coin").random(len(labels)) < hyperparameters["right"]
    return np.asarray(np.where(right, labels, 1 - labels))


class Coin(FunctionApproach):
    def __init__(self) -> None:
        right = {"right": Hyperparameter(0.7, "how often a prediction is right")}
        super().__init__(coin, name="coin", version="1", factors=["model_randomness"], hyperparameters=right)

    def remedies(self, task: Task, hyperparameters: Any) -> list[Remedy]:
        del task, hyperparameters
        return [Remedy("training", changes={"right": 0.9}, words=BETTER, trainings=5)]


def std(right: float) -> float:
    return math.sqrt(right * (1 - right) / EXAMPLES)


@pytest.mark.slow
def test_ensembles_on_top_of_a_trained_remedy_are_predicted_and_verified_from_its_runs(place: Place) -> None:
    common: dict[str, Any] = {"metric": "accuracy", "executor": "inline", "self_test": "skip"}
    result = investigate("synthetic", approach=Coin(), factor="model_randomness", **SIZES, **common)

    def cure(**options: Any) -> Any:
        trained.clear()
        return result.cure(executor="inline", most_members=3, runs=GOLDEN, **options).answer

    before = {each.remedy.words: each for each in cure().predictions}
    assert (before[BETTER].basis, before[BETTER].trainings) == ("unknown", 5)
    assert not any(words.endswith(f", {BETTER}") for words in before)
    second, first = cure(verify=2).verified
    assert (first.prediction.remedy.kind, second.prediction.remedy.words) == ("vote", BETTER)  # it needs no labels
    assert trained == [0.9] * GOLDEN + [0.7] * 2 * GOLDEN

    after = {each.remedy.words: each for each in cure().predictions}
    alone, vote = after[BETTER], next(each for words, each in after.items() if words.endswith(f", {BETTER}"))
    assert alone.basis == "exact"
    assert alone.ratio.value == second.ratio.value  # its interval is not one of two
    assert alone.mean_change.value == pytest.approx(second.mean_change.value)
    right = float(binom.sf(1, 3, 0.9))
    assert vote.mean_change.value == pytest.approx(right - 0.7, abs=0.02)
    assert vote.mean_change.low < right - 0.7 < vote.mean_change.high
    assert vote.ratio.value == pytest.approx(std(right) / std(0.7), rel=0.35)
    assert vote.ratio.low < std(right) / std(0.7) < vote.ratio.high
    assert vote.std.value == pytest.approx(vote.std_before * vote.ratio.value)
    assert (alone.trainings, vote.trainings, vote.remedy.trainings) == (5, 15, 5)
    assert vote.seconds == pytest.approx(3 * alone.seconds)  # those of a run are its five trainings

    named: dict[str, Any] = {"remedy": remedy_words(vote.remedy), "verify": 1}
    plan = plan_cure(result, executor="inline", most_members=3, runs=GOLDEN, **named)
    assert plan.parts[["cells", "done", "to_compute"]].to_numpy().tolist() == [[15 * GOLDEN, 5 * GOLDEN, 10 * GOLDEN]]
    (found,) = cure(**named).verified
    assert found.prediction.remedy == vote.remedy
    assert trained == [0.9] * 2 * GOLDEN  # the stored runs with the change are members, those without are not
    assert found.cured.value == pytest.approx(std(right), rel=0.35)
    assert found.mean_change.low < right - 0.7 < found.mean_change.high
    assert found.prediction.ratio.low < found.ratio.value < found.prediction.ratio.high


def test_products_and_sums_of_ranges_add_independent_errors() -> None:
    product = Range(2.0, 1.0, 4.0).times(Range(3.0, 1.5, 6.0))
    half = math.sqrt(2) * math.log(2)
    assert product == pytest.approx((6.0, 6.0 * math.exp(-half), 6.0 * math.exp(half)))
    assert Range(1.0, -2.0, 4.0).plus(Range(2.0, -2.0, 6.0)) == pytest.approx((3.0, -2.0, 8.0))
    assert math.isnan(Range(2.0, 1.0, 4.0).times(Range(1.0, 0.0, 2.0)).low)
