from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from mlflow_l3d.approaches.base import Approach, CellwiseSession, answered
from mlflow_l3d.approaches.failures import LONGEST_ERROR, one_line
from mlflow_l3d.approaches.synthetic import FACTORS
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.outcomes import finished, run_cell
from mlflow_l3d.execution.sessions import prepared
from mlflow_l3d.metrics.known import of_kind
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.packaged import generate
from mlflow_l3d.testing import Trouble, bench_job, differences, one_cell

CELL = one_cell(FACTORS)
GOOD = Outcome(
    key=CELL.key,
    example_ids=np.array([7, 3, 5, 4]),
    labels=np.array([0, 1, 2, 2]),
    predictions=np.array([0, 1, 2, -1]),
    scores=np.eye(4, 3, dtype=np.float32),
    metrics={"loss": 1, "f1_macro": 0.123},
    curves={"loss": [2, 1.5]},
)


def checked(outcome, tmp_path):
    return finished(outcome, CELL, bench_job(Trouble(), tmp_path))


def test_metrics_of_the_predictions_are_added(tmp_path):
    outcome = checked(GOOD, tmp_path)
    # Class 2 has one hit, one miss, no false alarm: F1 is 2/3; the others are 1.
    assert outcome.metrics["f1_macro"] == pytest.approx((1 + 1 + 2 / 3) / 3)
    assert outcome.metrics["accuracy"] == 0.75
    assert outcome.metrics["loss"] == 1.0
    assert set(outcome.metrics) == {"loss", *(metric.name for metric in of_kind("classification"))}
    assert all(type(value) is float for value in outcome.metrics.values())
    assert outcome.curves == {"loss": (2.0, 1.5)}


def test_no_metric_is_computed_from_the_reference_set(tmp_path):
    job = bench_job(Trouble(), tmp_path)
    settings = replace(job.task.settings, reference_size=3)
    job = replace(job, task=replace(job.task, settings=settings))
    ids = np.concatenate([np.setdiff1d(job.task.example_ids, job.task.reference_ids)[:2], job.task.reference_ids])
    assert len(ids) == 5
    answers = {"labels": np.array([0, 1, 2, 2, 2]), "predictions": np.array([0, 1, 0, 0, 0])}
    good = replace(GOOD, example_ids=ids, **answers, scores=None)
    outcome = finished(good, CELL, job)
    assert outcome.metrics["accuracy"] == 1.0
    assert outcome.reference.tolist() == [False] * 2 + [True] * 3
    only = {"test": slice(2), "reference": slice(2, None)}
    for part, why in (("reference", "no prediction of a test example"), ("test", "no prediction of the reference set")):
        kept = {name: array[only[part]] for name, array in {**answers, "example_ids": ids}.items()}
        with pytest.raises(L3DError, match=why):
            finished(replace(good, **kept), CELL, job)
    with pytest.raises(L3DError, match="no predictions, without which a reference set is of no use"):
        finished(Outcome(CELL.key, metrics={"f1_macro": 0.5}), CELL, job)


def test_a_class_without_an_example_counts(tmp_path):
    two = replace(GOOD, labels=np.array([0, 1, 1, 0]), predictions=np.array([0, 1, 1, 0]))
    outcome = checked(two, tmp_path)  # of three classes
    assert outcome.metrics["accuracy"] == 1.0
    for name in ("f1_macro", "precision_macro", "recall_macro"):
        assert outcome.metrics[name] == pytest.approx(2 / 3)


def test_macro_averages_are_over_the_classes_that_the_approach_tells_apart(tmp_path):
    class TwoOfThree(Trouble):
        metrics = ("f1_macro_published",)

        def classes(self, task, hyperparameters):
            return 2

    two = replace(GOOD, labels=np.array([0, 2, 2, 0]), predictions=np.array([0, 2, 2, 0]))
    found = finished(replace(two, predictions=np.array([0, 2, -1, 0])), CELL, bench_job(TwoOfThree(), tmp_path)).metrics
    assert found["f1_macro"] == pytest.approx((1 + 2 / 3) / 2)
    assert found["f1_macro_published"] == pytest.approx((1 + 2 / 3) / 3)


def test_narrow_types_are_widened(tmp_path):
    narrow = replace(
        GOOD,
        example_ids=np.array(["a", "b", "c", "d"], dtype=object),
        labels=GOOD.labels.astype(np.int8),
        predictions=GOOD.predictions.tolist(),
        scores=GOOD.scores.astype(np.float64),
    )
    outcome = checked(narrow, tmp_path)
    assert outcome.predictions.dtype == outcome.labels.dtype == np.int64
    assert outcome.scores.dtype == np.float32
    assert outcome.example_ids.dtype.kind == "U"


def test_an_outcome_without_predictions_needs_metrics(tmp_path):
    bare = Outcome(CELL.key, metrics={"bleu": np.float32(0.5)})
    assert checked(bare, tmp_path).metrics == {"bleu": 0.5}
    with pytest.raises(L3DError, match="neither predictions nor metrics"):
        checked(Outcome(CELL.key), tmp_path)


def test_an_outcome_with_an_error_is_left_alone(tmp_path):
    outcome = checked(Outcome(CELL.key, error="no\nluck", traceback="Traceback", duration_seconds=2), tmp_path)
    assert (outcome.error, outcome.traceback, outcome.duration_seconds) == ("no luck", "Traceback", 2.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key": "other"}, "its key is 'other'"),
        ({"predictions": GOOD.predictions[:3]}, "4 example_ids, 4 labels and 3 predictions"),
        ({"labels": None}, "come together"),
        ({"predictions": None}, "come together"),
        ({"predictions": np.array([0, 1, 2, 3])}, "predictions go from 0 to 3, allowed is -1 to 2"),
        ({"labels": np.array([0, 1, 2, -1])}, "labels go from -1 to 2, allowed is 0 to 2"),
        ({"predictions": GOOD.predictions.astype(float)}, "type float64, not integers"),
        ({"predictions": np.array([True, False, True, True])}, "type bool, not integers"),
        ({"predictions": GOOD.predictions[:, None]}, r"shape \(4, 1\)"),
        ({"example_ids": np.array([1, 1, 2, 3])}, "example_ids are not unique"),
        ({"example_ids": np.array([1.0, 1.5, 2, 3])}, "not integers or texts"),
        ({"scores": np.zeros((4, 2))}, r"scores have shape \(4, 2\)"),
        ({"metrics": {"loss": float("inf")}}, "metric loss is inf"),
        ({"metrics": {"loss": "high"}}, "could not convert"),
        ({"duration_seconds": float("nan")}, "duration_seconds is nan"),
        (dict.fromkeys(("example_ids", "labels", "predictions"), np.array([], int)), "it has no example"),
    ],
)
def test_violations_name_the_approach(tmp_path, change, said):
    with pytest.raises(L3DError, match=said) as info:
        checked(replace(GOOD, **change), tmp_path)
    assert str(info.value).startswith("approach trouble returned an outcome that is not valid: ")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("raise", "RuntimeError: this cell goes wrong"),
        ("sys.exit", "SystemExit: this cell gives up"),
        ("short", "8 predictions"),
        ("float", "float64"),
        ("nan", "metric synthetic_score is nan"),
        ("same ids", "not unique"),
        ("wrong key", "'another'"),
        ("none", "approach trouble returned 0 outcomes for one cell"),
        ("twice", "approach trouble returned 2 outcomes for one cell"),
    ],
)
def test_a_cell_that_goes_wrong(tmp_path, kind, said):
    approach = Trouble({CELL.key: kind})
    job = bench_job(approach, tmp_path)
    session = approach.prepare(job.task, job.hyperparameters, model="", device="cpu", cache=tmp_path)
    outcome = run_cell(session, CELL, job)
    assert said in outcome.error
    assert outcome.key == CELL.key
    assert outcome.traceback.startswith("Traceback")
    assert outcome.predictions is None
    assert run_cell(session, one_cell(FACTORS, 1), job).error is None


def test_ctrl_c_is_not_the_error_of_a_cell(tmp_path):
    interrupted = Mock(run=Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run_cell(interrupted, CELL, bench_job(Trouble(), tmp_path))


def test_a_duration_is_measured_where_there_is_none(tmp_path):
    timeless = Mock(run=Mock(return_value=[replace(GOOD, duration_seconds=0.0)]))
    assert run_cell(timeless, CELL, bench_job(Trouble(), tmp_path)).duration_seconds > 0


def test_long_errors_are_cut():
    text = one_line(ValueError("word\n" * 1000))
    assert len(text) == LONGEST_ERROR
    assert text.endswith("...")
    assert one_line(KeyError()) == "KeyError"


def test_differences_see_a_single_bit(tmp_path):
    one = checked(GOOD, tmp_path)
    scores = one.scores.copy()
    scores[0, 0] = np.nextafter(scores[0, 0], np.float32(2))
    assert differences(one, replace(one, duration_seconds=9)) == []
    assert differences(one, replace(one, scores=scores)) == ["scores"]
    assert differences(one, replace(one, scores=None)) == ["scores"]
    assert differences(one, replace(one, metrics={**one.metrics, "loss": 2, "wait_seconds": 1})) == ["metric loss"]


def numbers_job(tmp_path):
    job = bench_job(Trouble(), tmp_path)
    labels = np.linspace(0.0, 1.0, len(job.task))
    return replace(job, task=replace(job.task, kind="regression", class_names=(), labels=labels))


NUMBERS = Outcome(
    key=CELL.key,
    example_ids=np.array([7, 3, 5]),
    labels=np.array([0.0, 1.0, 2.0]),
    predictions=np.array([1, 2, 3], dtype=np.int32),
)


def test_numbers_of_a_regression(tmp_path):
    outcome = finished(NUMBERS, CELL, numbers_job(tmp_path))
    assert outcome.predictions.dtype == outcome.labels.dtype == np.float64
    assert outcome.scores is None
    assert outcome.metrics == pytest.approx({"pearson": 1.0, "spearman": 1.0, "mse": 1.0, "rmse": 1.0, "mae": 1.0})
    flat = replace(NUMBERS, predictions=np.ones(3))
    assert finished(flat, CELL, numbers_job(tmp_path)).metrics["pearson"] == 0.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"predictions": np.array([0.0, np.nan, 1.0])}, "predictions must be finite, 1 are not"),
        ({"labels": np.array([0.0, np.inf, 1.0])}, "labels must be finite, 1 are not"),
        ({"predictions": np.array(["1", "2", "3"])}, "must be one axis of numbers"),
        ({"predictions": np.ones((3, 1))}, r"shape \(3, 1\)"),
        ({"predictions": np.ones(2)}, "3 labels and 2 predictions"),
        ({"scores": np.ones((3, 2))}, "class scores, and the task is a regression"),
    ],
)
def test_what_is_no_outcome_of_a_regression(change, said, tmp_path):
    with pytest.raises(L3DError, match=said):
        finished(replace(NUMBERS, **change), CELL, numbers_job(tmp_path))


class Bare(Approach):
    """An approach of a user's own, whose sessions return what they are told."""

    name, version, factors = "bare", "1", TASK_FACTORS

    def prepare(self, task, hyperparameters, **_):
        return ToldSession()


class ToldSession(CellwiseSession):
    returned = None

    def run_cell(self, cell):
        return self.returned


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda task, split, good: good, None),
        (lambda task, split, good: answered(good.key, task, split.test[::-1], good.predictions[::-1]), None),
        (lambda task, split, good: answered(good.key, task, split.test[2:], good.predictions[2:]), "are not the 10 of"),
        (lambda task, split, good: answered(good.key, task, split.train, task.labels[split.train]), "are not the 10"),
        (lambda task, split, good: replace(good, labels=good.predictions), "labels are not those of its example_ids"),
        (lambda task, split, good: replace(good, example_ids=good.example_ids[::-1]), "labels are not those of"),
        (lambda task, split, good: replace(good, scores=np.full((10, 2), np.nan)), "scores are nan where it predicts"),
        (lambda task, split, good: good.predictions, "it is a ndarray. Return an Outcome"),
    ],
)
def test_an_approach_of_ones_own_predicts_the_test_examples_of_the_cell(tmp_path, change, said):
    cell = one_cell(TASK_FACTORS)
    task = replace(generate(60), settings=SplitSettings(num_labelled=12, test_size=10))
    job = Job(Bare(), task, {}, "", "cpu", tmp_path)
    split, session = task.split(cell.seeds), prepared(job)
    predictions = np.where(np.arange(10) < 6, 0, 1)
    session.returned = change(task, split, answered(cell.key, task, split.test, predictions))
    outcome = run_cell(session, cell, job)
    assert outcome.error is None if said is None else said in outcome.error


def test_an_approach_of_ones_own_cannot_write_into_the_task(tmp_path):
    class Kept(Bare):
        def prepare(self, task, hyperparameters, **_):
            task.labels[0] = 1 - task.labels[0]

    with pytest.raises(L3DError, match="read-only"):
        prepared(Job(Kept(), generate(20), {}, "", "cpu", tmp_path))
