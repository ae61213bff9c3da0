"""Active selection chooses the informative examples of a pool, each cell alike in any session and order."""

from dataclasses import replace

import numpy as np
import pytest
from finetuning_helpers import handmade_task
from refusals import refusal
from test_cured import HEAD, NUMBERS, job_of, outcomes_of

import mlflow_l3d
from mlflow_l3d.analysis.cure import Remedy
from mlflow_l3d.approaches.cured import Cured, sessions
from mlflow_l3d.approaches.cured.sessions import smallest_margins
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.execution.sessions import session_of
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.testing import check_approach, one_cell

ACTIVE = Remedy("active")
FACTORS = ("label_selection", "data_split", "model_randomness")
PLACES = np.random.default_rng(1).permutation(np.linspace(-1, 1, 1200))
"""Examples lie on a line, and their class is their sign: those next to 0 are informative."""
SETTINGS = SplitSettings(num_labelled=40, test_size=100, test_selection="fixed", reference_size=40)
LINE = make_task("line", [[str(x) for x in PLACES]], (PLACES > 0).astype(int), class_names=["down", "up"])
LINE = replace(LINE, settings=SETTINGS)


class Line:
    """Learns the middle between the classes, and remembers its calls."""

    def __init__(self):
        self.calls = []

    def __call__(self, task, split, seeds, _):
        del seeds
        x, labels = np.array([float(text) for text in task.texts[0]]), task.labels
        below, above = (x[split.train[labels[split.train] == number]] for number in (0, 1))
        middle = (below.max() + above.min()) / 2
        self.calls.append((split, middle))
        up = (x[split.test] - middle + 2) / 4
        return np.column_stack([1 - up, up]).astype(np.float32)


def line(task=LINE):
    learner = Line()
    return learner, FunctionApproach(learner, name="line", version="1", factors=FACTORS)


@pytest.mark.slow
def test_half_of_the_examples_are_those_next_to_the_line_that_the_other_half_draws(tmp_path):
    learner, plain = line()
    job = job_of(Cured(plain, ACTIVE), LINE, tmp_path)
    cells = [one_cell(plain.factors, number) for number in range(40)]
    outcomes = outcomes_of(job, cells)
    assert len(learner.calls) == 80
    x = np.array([float(text) for text in LINE.texts[0]])
    for cell, (first, middle), (second, _) in zip(cells, learner.calls[::2], learner.calls[1::2], strict=True):
        drawn = LINE.split(cell.seeds)
        assert np.isin(first.train, drawn.train).all()
        assert np.bincount(LINE.labels[first.train]).tolist() == [8, 8]
        used = np.concatenate([drawn.train, drawn.validation, drawn.test])
        assert not np.isin(first.test, used).any()
        # 1,200 less 40 in reference, 100 tested, a fifth, 40.
        assert len(np.unique(first.test)) == len(first.test) == 808
        chosen = np.setdiff1d(second.train, first.train)
        distances = x[first.test] - middle
        for side in (first.test[distances < 1e-9], first.test[distances > 1e-9]):
            nearest = side[np.argsort(abs(x[side] - middle))[:8]]
            assert np.isin(nearest, chosen).all()
        assert len(chosen) == 16
        assert len(second.train) == len(drawn.train)
        for name in ("validation", "test", "reference"):
            assert np.array_equal(getattr(second, name), getattr(drawn, name))
        assert np.array_equal(outcomes[cell.key].example_ids, LINE.example_ids[drawn.test])
    learner.calls.clear()
    outcomes_of(job_of(plain, LINE, tmp_path), cells)
    random_std = np.std([middle for _, middle in learner.calls])
    learner.calls.clear()
    outcomes_of(job, cells)
    assert np.std([middle for _, middle in learner.calls[1::2]]) < 0.8 * random_std


def test_the_pool_is_drawn_by_the_seed_of_the_labels_and_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(sessions, "MOST_ASKED", 60)
    learner, plain = line()
    cell = one_cell(plain.factors)
    job = job_of(Cured(plain, ACTIVE), LINE, tmp_path)
    others = [{"model_randomness": 5}, {"label_selection": 5}]
    for seeds in ({}, *others):
        outcomes_of(job, [replace(cell, seeds={**cell.seeds, **seeds})])
    (one, _), _, (same, _), _, (other, _), _ = learner.calls
    assert len(one.test) == 60
    assert np.array_equal(one.test, same.test)
    assert np.array_equal(one.train, same.train)
    assert not np.array_equal(one.test, other.test)


def test_classes_take_turns_and_the_closest_come_first():
    scores = np.array([[0.9, 0.1, 0], [0.5, 0.4, 0.1], [0.4, 0.35, 0.25], [0.1, 0.9, 0], [0, 0.2, 0.8]], np.float32)
    assert smallest_margins(scores, 1).tolist() == [2]
    assert smallest_margins(scores, 3).tolist() == [2, 3, 4]
    assert smallest_margins(scores, 4).tolist() == [1, 2, 3, 4]


@pytest.mark.slow
def test_keeps_the_contract_around_the_head(tmp_path):
    task = handmade_task(100, num_labelled=20, test_size=16)
    check_approach(
        Cured(Finetuning(), ACTIVE), task, hyperparameters=HEAD, cache=tmp_path, configurations=2, tolerance=1e-5
    )


def test_it_is_part_of_the_key_and_of_the_name():
    cured, plain = mlflow_l3d.cured("synthetic", {"kind": "active"}), Synthetic()
    assert cured.name == "synthetic, active selection"
    assert cured.identity({}) != plain.identity({})
    assert cured.label({}) == "synthetic, active selection"


def guess(task, split, seeds, _):
    del seeds
    return np.zeros(len(split.test), dtype=np.int64) + len(task.class_names) - 1


EVERY = replace(LINE, settings=SplitSettings(num_labelled=1200 * 4 // 5 - 10, test_size=100))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (NUMBERS, "cure.kind=active: needs class scores, and numbers is a regression task."),
        (EVERY, "cure.kind=active: chooses 380 of the unlabelled examples, and line has 10 left."),
    ],
)
def test_what_cannot_be_chosen_is_refused_in_one_line(task, message, tmp_path):
    kinds = ("classification", "regression")
    plain = FunctionApproach(guess, name="guess", version="1", factors=FACTORS, task_kinds=kinds)
    job = job_of(Cured(plain, ACTIVE), task, tmp_path)
    assert refusal(job.approach.check_task, task, {}) == message


def test_an_approach_without_labels_is_refused():
    class Ordered(Synthetic):
        factors = ("data_order",)

    with pytest.raises(ParameterError, match="chooses other labels, and synthetic selects none"):
        Cured(Ordered(), ACTIVE)


def test_cells_without_class_scores_say_so(tmp_path):
    plain = FunctionApproach(guess, name="guess", version="1", factors=FACTORS)
    with session_of(job_of(Cured(plain, ACTIVE), LINE, tmp_path)) as session:
        (outcome,) = session.run([one_cell(plain.factors)])
    assert outcome.error is not None
    assert "cure.kind=active: the approach returns no class scores. Use vote." in outcome.error
