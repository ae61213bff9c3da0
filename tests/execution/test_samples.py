"""The factor `test_sample`: halves of the test examples, of one training each."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from mlflow_l3d.approaches.base import answered
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.cells.cell import half, training
from mlflow_l3d.cells.factors import TEST_SAMPLE, configuration_seed
from mlflow_l3d.designs import design_named
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.execution.workers import Queue
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.studies.investigation.run import investigate
from mlflow_l3d.testing import changed, one_cell

SIZES = {"approach": "synthetic", "investigation_runs": 3, "mitigation_runs": 2}


def outcome(correct):
    places, labels = np.arange(len(correct)), np.ones(len(correct), dtype=np.int64)
    task = SimpleNamespace(example_ids=places, labels=labels)
    return answered("key", task, places, np.asarray(correct, dtype=np.int64))


def score(correct, number):
    drawn = half(outcome(correct), changed(one_cell(()), TEST_SAMPLE, number))
    return float((drawn.predictions == drawn.labels).mean())


def test_the_variance_over_all_halves_is_that_of_a_fresh_test_set():
    correct = np.array([1, 0, 0, 1, 1, 0, 1, 1, 0, 0])
    halves = [correct[list(chosen)].mean() for chosen in combinations(range(10), 5)]
    assert np.var(halves) == pytest.approx(correct.var(ddof=1) / 10)


def test_every_half_is_as_likely():
    correct, draws = np.zeros(4, dtype=np.int64), 3000
    drawn = [half(outcome(correct), changed(one_cell(()), TEST_SAMPLE, number)) for number in range(draws)]
    found = Counter(tuple(each.example_ids.tolist()) for each in drawn)
    assert set(found) == set(combinations(range(4), 2))
    assert sum((count - draws / 6) ** 2 / (draws / 6) for count in found.values()) < 20  # 5 degrees


def test_a_reference_set_stays_whole_and_changes_no_half():
    correct, cell = np.arange(10) % 2, changed(one_cell(()), TEST_SAMPLE, 3)
    marks = np.array([False] * 10 + [True] * 4)
    more = replace(outcome([*correct, 1, 1, 1, 1]), reference=marks)
    drawn, without = half(more, cell), half(outcome(correct), cell)
    assert drawn.example_ids.tolist() == [*without.example_ids.tolist(), 10, 11, 12, 13]
    assert drawn.reference.tolist() == [False] * 5 + [True] * 4


def test_it_finds_what_a_fresh_test_set_does():
    """60 test sets of 40 examples from a population of which 70 % are right: the variance is 0.7 0.3 / 40."""
    generator = np.random.default_rng(0)
    rows = generator.random((60, 40)) < 0.7
    table = np.array([[score(row, 40 * at + number) for number in range(12)] for at, row in enumerate(rows)])
    found = table.var(axis=1, ddof=1)
    assert found.mean() == pytest.approx(0.7 * 0.3 / 40, abs=3 * found.std(ddof=1) / np.sqrt(60))
    np.testing.assert_allclose(table.mean(axis=1), rows.mean(axis=1), atol=0.11)


def test_cells_of_other_tables_are_those_without_it():
    sizes = (3, 2, 4, 7, "context")
    without = list(design_named("crossed")(("order",), ("order", "split"), *sizes).cells())
    cells = list(design_named("crossed")(("order", TEST_SAMPLE), ("order", "split", TEST_SAMPLE), *sizes).cells())
    own = [cell for cell in cells if cell.factor == TEST_SAMPLE]
    assert {cell.key for cell in cells if cell not in own} == {cell.key for cell in without}
    assert len({cell.key for cell in cells}) == len(cells)
    assert len({training(cell) for cell in own}) == 2
    # A row is one call, and so is one training, however few cells a worker takes.
    queue, calls = Queue(iter(cells)), []
    while call := queue.take(1):
        calls.append(len(call.cells))
    assert sorted(calls) == [1] * (len(cells) - 6) + [3, 3]


class Counted:
    """Guesses by the seed of the order, and counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def __call__(self, task, split, seeds, hyperparameters):
        assert TEST_SAMPLE not in seeds
        self.asked += 1
        return np.random.default_rng(seeds["data_order"]).integers(2, size=len(split.test))


def investigation(function, **given):
    approach = FunctionApproach(function, name="counted", version="1", factors=("data_order",))
    sizes = {"investigation_runs": 4, "mitigation_runs": 3, "golden_runs": 5, "num_labelled": 20, "test_size": 30}
    return investigate(approach=approach, task="synthetic", executor="inline", self_test="skip", **sizes, **given)


def test_a_row_is_trained_once(place):
    counted = Counted()
    with place.entered():
        found = investigation(counted, factor=TEST_SAMPLE)
    assert counted.asked == 3 + 5
    table = found.analysis.importances[TEST_SAMPLE].table
    assert np.isfinite(table).all()
    assert (np.ptp(table, axis=1) > 0).all()
    assert found.analysis.consistencies[TEST_SAMPLE].consistency == 1  # the same answers to what both halves hold
    assert "L3D006" not in {check.code for check in found.analysis.checks}


def test_a_score_without_predictions_has_no_half():
    with pytest.raises(ValueError, match="it has no predictions"):
        half(replace(outcome([1, 0]), predictions=None), changed(one_cell(()), TEST_SAMPLE, 0))
    with pytest.raises(ValueError, match="no half"):
        half(outcome([1]), changed(one_cell(()), TEST_SAMPLE, 0))


def test_it_joins_all_factors_on_request():
    every = specify({**SIZES, "factor": "all"})
    found = specify({**SIZES, "factor": f"all,replicate,{TEST_SAMPLE}"})
    assert found.factors == (*every.factors, "replicate", TEST_SAMPLE)
    assert {cell.key for cell in every.design().cells()} < {cell.key for cell in found.design().cells()}
    assert configuration_seed(0, TEST_SAMPLE, 0) != configuration_seed(0, "replicate", 0)
    with pytest.raises(ParameterError, match=r"design=radial has no place for\. Use design=crossed or nested"):
        specify({**SIZES, "factor": TEST_SAMPLE, "design": "radial", "investigation_runs": 10})
    with pytest.raises(ParameterError, match="joins factors of the approach only"):
        specify({**SIZES, "factor": f"data_order+{TEST_SAMPLE}"})


def test_a_metric_that_no_prediction_decides_is_refused():
    with pytest.raises(ParameterError, match="synthetic_score comes from the approach itself, not from predictions"):
        specify({**SIZES, "factor": TEST_SAMPLE, "metric": "synthetic_score"})
