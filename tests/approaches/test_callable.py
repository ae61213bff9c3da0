import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.command.written import warn_once
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.hyperparameters import Hyperparameter
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.sessions import prepared
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.packaged import generate
from mlflow_l3d.testing import check_approach, one_cell


def small_task():
    return replace(generate(90, 3), settings=SplitSettings(num_labelled=15, test_size=12))


def guess(task, split, seeds, hyperparameters):
    """Order and initialisation both decide a few guesses."""
    order = stream(seeds["data_order"], "order").permutation(split.train)
    shift = stream(seeds["model_initialisation"], "weights").integers(3)
    votes = task.labels[order[: len(split.scored) % len(order) or 1]]
    return (np.resize(votes, len(split.test)) + shift * hyperparameters["scale"]) % 3


def class_scores(task, split, seeds, hyperparameters):
    return stream(seeds["data_order"], "scores").random((len(split.test), 3))


def wrap(function, **given):
    return FunctionApproach(function, name="mine", version="1", factors=given.pop("factors", ("data_order",)), **given)


def small_choice():
    return replace(generate(60, 2), settings=SplitSettings(num_labelled=10, test_size=8))


def run(approach, task=None, **given):
    task = small_task() if task is None else task
    session = prepared(Job(approach, task, resolve_hyperparameters(approach, given), "", "cpu", Path()))
    (outcome,) = session.run([one_cell(approach.factors)])
    session.close()
    return outcome


def test_a_hyperparameter_may_be_its_default_alone():
    approach = wrap(guess, factors=("data_order", "model_initialisation"), hyperparameters={"scale": 1})
    assert resolve_hyperparameters(approach, {"scale": "2"}) == {"scale": 2}
    assert run(approach).error is None


def test_a_function_keeps_the_contract(tmp_path):
    approach = wrap(
        guess,
        factors=("data_order", "model_initialisation"),
        hyperparameters={"scale": Hyperparameter(1, "shift of classes", low=1)},
    )
    assert approach.factors == ("label_selection", "data_split", "data_order", "model_initialisation")
    check_approach(approach, small_task(), cache=tmp_path, configurations=4)
    assert pickle.loads(pickle.dumps(approach)).version == "1"


def test_class_scores_become_predictions():
    outcome = run(wrap(class_scores))
    assert (outcome.error, outcome.scores.shape, outcome.scores.dtype) == (None, (12, 3), np.float32)
    np.testing.assert_array_equal(outcome.predictions, outcome.scores.argmax(axis=1))


def test_labels_and_ids_are_those_of_the_split():
    task = small_task()
    outcome = run(wrap(lambda task, split, seeds, _: task.labels[split.test]))
    np.testing.assert_array_equal(outcome.predictions, outcome.labels)
    np.testing.assert_array_equal(outcome.labels, task.labels[outcome.example_ids])
    assert outcome.duration_seconds > 0


def test_lists_and_unparsed_answers_are_welcome():
    assert run(wrap(lambda task, split, *_: [-1] * len(split.test))).predictions.tolist() == [-1] * 12


def test_a_function_sees_the_seeds_that_it_declares():
    seen = {}

    def look(task, split, seeds, _):
        seen.update(seeds)
        return np.zeros(len(split.test), dtype=int)

    run(wrap(look))
    assert set(seen) == {"label_selection", "data_split", "data_order"}


@pytest.mark.parametrize(
    ("returned", "choices", "predicted"),
    [
        (lambda task, n: [task.class_names[1]] * n, 3, 1),
        (lambda task, n: torch.ones(n, 1, dtype=torch.int32), 3, 1),
        (lambda task, n: torch.eye(3)[1].repeat(n, 1).bfloat16().requires_grad_(), 3, 1),
        (lambda task, n: np.full((n, 1), 1.5), 2, 1),
        (lambda task, n: torch.full((n, 1), -0.5), 2, 0),
    ],
    ids=["names", "a column of a tensor", "class scores of a model in training", "logits", "negative logits"],
)
def test_names_tensors_and_logits_are_welcome(returned, choices, predicted):
    function = wrap(lambda task, split, *_: returned(task, len(split.test)))
    assert set(run(function, small_choice() if choices == 2 else None).predictions.tolist()) == {predicted}


def test_a_number_that_may_be_a_logit_or_a_probability_is_refused():
    error = run(wrap(lambda task, split, *_: np.full((len(split.test), 1), 0.5)), small_choice()).error
    assert "may be logits or probabilities" in error


def test_numbers_in_the_place_of_predictions():
    given = {"name": "rl", "version": "1", "factors": ["data_order", "b"]}
    of_number = FunctionApproach(lambda *given: np.float32(0.5), metrics="reward", **given)
    assert (of_number.factors, of_number.brings_data) == (("data_order", "b"), True)
    assert dict(run(of_number, of_number.own_task({}, None)).metrics) == {"reward": 0.5}
    of_mapping = FunctionApproach(lambda *given: {"reward": 1, "cost": 2}, metrics=["cost", "reward"], **given)
    assert dict(run(of_mapping, of_mapping.own_task({}, None)).metrics) == {"reward": 1, "cost": 2}
    specification = specify({}, approach=of_mapping)
    assert specification.factors == of_mapping.factors  # all that the user wrote, with or without data_order
    assert (specification.metric.name, len(specification.setup.task)) == ("cost", 0)
    assert FunctionApproach(print, metrics="reward", default_task="synthetic", **given).factors[0] == "label_selection"


def test_a_metric_that_is_a_function():
    def wrong(labels, predictions):
        return 3 * (labels != predictions).mean()

    approach = wrap(lambda task, split, seeds, _: task.labels[split.test] * 0)
    outcome = run(approach.scored_by(wrong))
    assert outcome.metrics == {"wrong": pytest.approx(3 * (outcome.labels != 0).mean())}
    assert run(approach).metrics == {}
    given = {"task": "synthetic", "factor": "data_order"}
    asked = specify({**given, "metric": wrong}, approach=approach)
    assert (asked.metric.name, asked.given["metric"]) == ("wrong", "wrong")
    assert asked.context_key != specify({**given, "metric": "accuracy"}, approach=approach).context_key
    for metric, own, why in (
        (lambda labels, predictions: 0, approach, "is the name of the function"),
        (wrong, None, "is a function, which scores functions, and finetuning is none"),
    ):
        with pytest.raises(ParameterError, match=why):
            specify({"metric": metric}, approach=own)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (lambda n: np.zeros(n - 1, dtype=int), r"returned shape \(11,\).*\(12,\)"),
        (lambda n: np.zeros((n, 2)), r"returned shape \(12, 2\).*\(12, 3\)"),
        (lambda n: np.zeros((3, n)), r"returned shape \(3, 12\)"),
        (lambda n: np.zeros(n), "type float64; class numbers are integers"),
        (lambda n: np.full(n, 3), "from 3 to 3; class numbers go from 0 to 2"),
        (lambda n: np.full(n, -2), "from -2 to -2"),
        (lambda n: np.full((n, 3), np.nan), "class scores that are not numbers"),
        (lambda n: np.full((n, 3), "a"), "class scores that are not numbers"),
        (lambda n: np.full((n, 3), np.inf), "class scores that are not numbers, or all infinite"),
        (lambda n: {"accuracy": 87.0}, "accuracy 87, which is neither a fraction nor marked as per cent"),
        (lambda n: (0 for _ in range(n)), r"returned generator; it must return class numbers of shape \(12,\)"),
        (lambda n: 0.5, r"returned numbers of its own: .*metrics=\['score'\]"),
        (lambda n: {"accuracy": 1.0, "reward": 1.0}, r"metrics=\['reward'\]"),
        (lambda n: [[1], [2, 3]], "rows of unequal length"),
        (lambda n: ["c9"] * n, "the class 'c9'; class names are c0, c1, c2"),
    ],
)
def test_what_is_returned_is_checked(returned, said):
    outcome = run(wrap(lambda task, split, seeds, _: returned(len(split.test))))
    assert outcome.predictions is None
    assert "\n" not in outcome.error
    assert re.search(said, outcome.error)
    assert "mine" in outcome.error


def test_classes_that_are_numbers_are_not_read_as_other_ones():
    texts = [[f"t{at}" for at in range(40)]]
    for names, returned in ((["-1", "1"], -1), (["1", "2"], 2)):
        task = replace(
            make_task("n", texts, np.arange(40) % 2, names), settings=SplitSettings(num_labelled=8, test_size=4)
        )
        error = run(wrap(lambda task, split, *_, value=returned: np.full(len(split.test), value)), task).error
        assert f"from {returned} to {returned}; class numbers go from 0 to 1, and -1 is none; of classes with" in error
        outcome = run(wrap(lambda task, split, *_: [task.class_names[0]] * len(split.test)), task)
        assert set(outcome.predictions) == {0}
    three = replace(task, labels=np.arange(40) % 3, class_names=("1", "2", "3"))
    error = run(wrap(lambda task, split, *_: np.arange(len(split.test)) % 2 + 1), three).error
    assert "predictions from 1 to 2; " in error
    assert error.endswith("as these may be either")
    assert set(run(wrap(lambda task, split, *_: np.arange(len(split.test)) % 3), three).predictions) == {0, 1, 2}
    same = replace(task, class_names=("0", "1"))
    assert set(run(wrap(lambda task, split, *_: np.ones(len(split.test), dtype=int)), same).predictions) == {1}


def test_classes_that_a_model_calls_minus_one_and_one_are_named(caplog):
    warn_once.cache_clear()
    two = replace(generate(90, 2), settings=SplitSettings(num_labelled=10, test_size=12))
    for _ in range(2):
        found = run(wrap(lambda task, split, *_: np.arange(len(split.test)) % 2 * 2 - 1), two)
        assert {*found.predictions} == {-1, 1}
    assert [each for each in caplog.messages if "return (p + 1) // 2" in each] == caplog.messages[:1]


@pytest.mark.parametrize("name", ["labels", "example_ids"])
def test_a_function_that_writes_into_the_task_gets_an_error(name):
    def write(task, split, *_):
        getattr(task, name)[split.test] = 0
        return np.zeros(len(split.test), dtype=int)

    task = small_task()
    before = task.labels.copy()
    assert "read-only" in run(wrap(write), task).error
    assert task.labels.flags.writeable
    np.testing.assert_array_equal(task.labels, before)


def test_a_function_that_reorders_the_test_examples_gets_an_error():
    """Its predictions would be scored in another order than they were made in; training examples may be shuffled."""

    def reorder(task, split, *_):
        split.train.sort()
        predictions = task.labels[split.test]
        split.test[:] = split.test[::-1].copy()
        return predictions

    assert "read-only" in run(wrap(reorder)).error


def test_a_function_that_raises():
    def broken(*_):
        raise ZeroDivisionError("too\nbad")

    outcome = run(wrap(broken))
    assert outcome.error.startswith("ZeroDivisionError: too bad (the function was given task.texts, 1 column of ")
    assert "in broken" in outcome.traceback


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": ""}, "name=''"),
        ({"version": 1}, "version=1"),
        ({"factors": ("data_order", "data_order")}, "must name each factor once"),
        ({"function": 3}, "function=int: must be callable"),
        ({"task_kinds": ("regresion",)}, "task_kinds='regresion': must be one of"),
        ({"task_kinds": ()}, "task_kinds="),
    ],
)
def test_bad_declarations(given, said):
    complete = {"function": guess, "name": "mine", "version": "1", "factors": ("data_order",), **given}
    with pytest.raises(ParameterError, match=said):
        FunctionApproach(complete.pop("function"), **complete)


def test_one_factor_may_be_given_as_text():
    assert wrap(guess, factors="data_order").factors[-1] == "data_order"


OWN, TEXTS = SplitSettings(source="own"), [[f"two{at} words" for at in range(20)]]
NUMBERS = make_task("n", TEXTS, np.linspace(0, 1, 20), kind="regression", parts=np.repeat([0, 1], 10))
TAGS = make_task("tags", TEXTS, [["O", "B-X"]] * 20, kind="tagging", parts=np.repeat([0, 2], 10))


def run_on(task, returned):
    return run(wrap(lambda *_: returned, task_kinds=task.kind), replace(task, settings=OWN))


def test_tags_of_other_tokens_are_an_error():
    """Such as the letters of a label, which is a JSON text, or tags of [CLS] and [SEP] too."""
    for size in (1, 4):
        error = run_on(TAGS, [["O"] * size] * 10).error
        assert f"another number of tags than tokens in every text, {size} for 2 in the first" in error
    assert run_on(TAGS, [["O", "O"], *[["O"]] * 9]).error is None  # one that was cut off is wrong, and no error


def test_numbers_for_a_regression():
    assert wrap(guess, task_kinds="regression").task_kinds == ("regression",)
    outcome = run_on(NUMBERS, list(range(10)))
    assert outcome.predictions.dtype == np.float64
    assert outcome.predictions.tolist() == list(range(10))
    assert outcome.scores is None
    np.testing.assert_array_equal(outcome.labels, np.linspace(0, 1, 20)[10:])


@pytest.mark.parametrize("returned", [np.ones(9), np.ones((10, 2)), [np.nan] * 10, ["1"] * 10, [[1], [2, 3]], None])
def test_no_numbers_for_a_regression(returned):
    assert "a regression needs 10 finite numbers" in run_on(NUMBERS, returned).error
