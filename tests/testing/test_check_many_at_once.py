"""The conformance suite where sessions take many cells in one call."""

from dataclasses import replace

import numpy as np
import pytest

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.execution.outcomes import run_cell
from mlflow_l3d.execution.sessions import session_of
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.packaged import generate
from mlflow_l3d.testing import check_approach, check_executor, differences

TASK = replace(generate(90, 3), settings=SplitSettings(num_labelled=15, test_size=12))


class Together(Synthetic):
    """Trains up to 4 cells side by side; `disturb` changes an outcome by its place in the call."""

    cells_at_once = 4

    def disturb(self, outcome, place):
        return outcome

    def prepare(self, task, hyperparameters, *, model, device, cache):
        inner = super().prepare(task, hyperparameters, model=model, device=device, cache=cache)
        return TogetherSession(self, inner)


class TogetherSession(Session):
    def __init__(self, approach, inner):
        self.approach, self.inner = approach, inner
        self.cells_at_once = approach.cells_at_once

    def run(self, cells):
        for place, outcome in enumerate(list(self.inner.run(cells))):
            yield self.approach.disturb(outcome, place)

    def close(self):
        pass


class Rounded(Together):
    """Sums are in another order, as in a batched matrix product."""

    def disturb(self, outcome, place):
        return replace(
            outcome,
            scores=outcome.scores + np.float32(1e-6 * place),
            metrics={"synthetic_score": outcome.metrics["synthetic_score"] + 1e-7 * place},
        )


class RoundedAndAlone(Rounded):
    cells_at_once = 1


class Mixed(Together):
    """The predictions of the sixth cell of a call are others."""

    def disturb(self, outcome, place):
        return replace(outcome, predictions=np.zeros_like(outcome.predictions)) if place == 5 else outcome


class OnlyInSmallCalls(Together):
    """The third of three or four cells goes wrong; in a call of all cells it does not."""

    def prepare(self, task, hyperparameters, *, model, device, cache):
        session = super().prepare(task, hyperparameters, model=model, device=device, cache=cache)
        run = session.run

        def broken(cells):
            for place, outcome in enumerate(run(cells)):
                zeros = np.zeros_like(outcome.predictions)
                yield replace(outcome, predictions=zeros) if len(cells) == 4 and place == 2 else outcome

        session.run = broken
        return session


class Zero(Together):
    cells_at_once = 0


def test_an_approach_that_trains_side_by_side_keeps_the_contract(tmp_path):
    check_approach(Together(), TASK, cache=tmp_path)


def test_scores_may_differ_within_the_stated_tolerance(tmp_path):
    check_approach(Rounded(), TASK, cache=tmp_path, tolerance=1e-4)
    with pytest.raises(AssertionError, match=r"a cell gives other scores, metric synthetic_score .*among other cells"):
        check_approach(Rounded(), TASK, cache=tmp_path)
    with pytest.raises(AssertionError, match="a cell gives other scores"):
        check_approach(Rounded(), TASK, cache=tmp_path, tolerance=1e-7)


@pytest.mark.parametrize(
    ("approach", "said"),
    [
        (Mixed(), "a cell gives other .*predictions.* among other cells"),
        (OnlyInSmallCalls(), "a cell gives other predictions.* in a call of up to cells_at_once=4 cells"),
    ],
)
def test_predictions_may_not_differ(tmp_path, approach, said):
    with pytest.raises(AssertionError, match=said):
        check_approach(approach, TASK, cache=tmp_path, tolerance=0.5)


def test_a_tolerance_is_for_sessions_that_take_many_cells(tmp_path):
    with pytest.raises(AssertionError, match="a cell gives other scores"):
        check_approach(RoundedAndAlone(), TASK, cache=tmp_path, tolerance=0.1)


def test_a_number_that_is_none_is_named(tmp_path):
    with pytest.raises(L3DError, match="cells_at_once of its session must be a positive number, it is 0"):
        check_approach(Zero(), TASK, cache=tmp_path)


def test_a_tolerance_of_differences():
    one = Outcome("k", scores=np.ones((2, 2), np.float32), metrics={"loss": 100.0})
    other = replace(one, scores=one.scores + np.float32(0.01), metrics={"loss": 101.0})
    assert differences(one, other) == ["scores", "metric loss"]
    assert differences(one, other, 0.006) == ["metric loss"]
    assert differences(one, other, 0.01) == []
    assert differences(one, replace(other, metrics={}), 0.01) == ["metric loss"]
    assert differences(one, replace(other, scores=None), 0.01) == ["scores"]


@pytest.mark.parametrize(("dtype", "allowed"), [(np.int64, ["predictions"]), (np.float64, [])])
def test_predicted_numbers_may_differ_as_scores_do(dtype, allowed):
    one, other = (Outcome("k", predictions=np.array([100, last], dtype)) for last in (200, 201))
    assert differences(one, other) == ["predictions"]
    assert differences(one, other, 0.01) == allowed


class Greedy(InlineExecutor):
    """Gives a session everything at once where it says that it takes more than one."""

    def run(self, cells):
        if self._job.approach.at_once == 1 or hasattr(cells, "gi_frame"):
            yield from super().run(cells)
            return
        with session_of(self._job) as session:
            yield from session.run(list(cells))


class Resigned(InlineExecutor):
    """Gives up a whole call where one cell spoils it."""

    def run(self, cells):
        if self._job.approach.at_once == 1 or hasattr(cells, "gi_frame"):
            yield from super().run(cells)
            return
        waiting = list(cells)
        with session_of(self._job) as session:
            for start in range(0, len(waiting), 4):
                call = waiting[start : start + 4]
                found = [run_cell(session, cell, self._job) for cell in call]
                error = next((outcome.error for outcome in found if outcome.error), None)
                yield from (Outcome(cell.key, error=error) for cell in call) if error else found


@pytest.mark.parametrize(
    ("executor", "said"),
    [
        (Greedy, "24 cells gave|this cell goes wrong|a call had 24 cells, cells_at_once is 4"),
        (Resigned, "was lost with another cell of its call"),
    ],
)
def test_executors_that_break_the_contract_are_named(tmp_path, executor, said):
    with pytest.raises((AssertionError, RuntimeError), match=said):
        check_executor(executor, cache=tmp_path, workers=1, separate_processes=False)
