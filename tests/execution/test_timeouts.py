"""Time limits of cells: against a clock of its own, and with processes that really hang."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mlflow_l3d.approaches.synthetic import FACTORS
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.execution import dispatch, workers
from mlflow_l3d.execution.dispatch import FIRST_SECONDS, FLOOR_SECONDS, Limits
from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.execution.sessions import JointApproach, JointCell, NoFurtherCellError
from mlflow_l3d.execution.workers import Pool, Ready, Worker
from mlflow_l3d.testing import Trouble, bench_job, design_cells
from mlflow_l3d.testing.cells import worker_processes

CELLS = list(design_cells(FACTORS, 12))
JOB = bench_job(Trouble(), Path())


def test_auto_is_a_multiple_of_the_median_and_no_less_than_the_floor():
    limits = Limits(JOB)
    assert limits.exceeded(CELLS[:5], FIRST_SECONDS) == 0.0
    assert limits.exceeded(CELLS[:5], FIRST_SECONDS + 1) == FIRST_SECONDS
    for seconds in (1.0, 40.0, 1000.0):
        limits.finished(CELLS[0], seconds)
    assert limits.exceeded(CELLS[:1], 800.0) == 0.0
    assert limits.exceeded(CELLS[:1], 801.0) == 20 * 40.0
    assert limits.exceeded(CELLS[:3], 2400.0) == 0.0
    for _ in range(4):
        limits.finished(CELLS[0], 0.1)
    assert limits.exceeded(CELLS[:3], 601.0) == FLOOR_SECONDS


def test_each_job_of_a_call_has_its_own_median():
    cells = [JointCell.of(cell, int(number >= 3)) for number, cell in enumerate(CELLS)]
    limits = Limits(JointApproach([JOB, replace(JOB)]).job())
    limits.finished(cells[0], 100.0)
    assert limits.exceeded(cells[:2], 4001.0) == 4000.0
    assert limits.exceeded(cells[:4], 6601.0) == 0.0  # of the other job nothing is known
    limits.finished(cells[5], 1.0)
    assert limits.exceeded(cells[:4], 6601.0) == 6000.0 + FLOOR_SECONDS


def test_seconds_that_are_given_count_for_each_cell():
    limits = Limits(replace(JOB, cell_timeout=3.0))
    limits.finished(CELLS[0], 1e6)
    assert limits.exceeded(CELLS[:4], 12.0) == 0.0
    assert limits.exceeded(CELLS[:4], 12.5) == 12.0
    assert Limits(replace(JOB, cell_timeout=float("inf"))).exceeded(CELLS, 1e12) == 0.0


class Still(Worker):
    """Gives each cell of a call at once, those after a hanging one never."""

    def __init__(self, calls):
        super().__init__()
        self.calls, self.say = calls, [Ready(8)]

    def give(self, cells):
        self.calls.append([cell.key for cell in cells])
        for cell in cells:
            if cell.key == CELLS[5].key:
                return
            self.say.append(Outcome(cell.key, duration_seconds=0.5))


@dataclass
class Clock:
    """Time passes where somebody waits."""

    now: float = 0.0

    def monotonic(self):
        return self.now


class StillPool(Pool):
    most = 1

    def __init__(self, clock):
        super().__init__(self.most)
        self.clock, self.calls, self.started = clock, [], 0

    def start(self):
        self.started += 1
        return Still(self.calls)

    def events(self, seconds):
        said = [(worker, worker.say.pop(0)) for worker in self.workers for _ in tuple(worker.say)]
        self.clock.now += 0.0 if said else seconds
        yield from said

    def end(self, workers, *, at_once):
        pass


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    for module in (dispatch, workers):
        monkeypatch.setattr(module, "time", made)
    return made


def test_a_call_that_hangs_is_tried_again_until_the_hanging_cell_is_alone(clock):
    pool = StillPool(clock)
    outcomes = []
    for outcome in dispatch.dispatch(lambda: pool, CELLS, replace(JOB, cell_timeout=10.0)):
        clock.now += 3600.0  # a slow caller is nobody's fault
        outcomes.append(outcome)
    assert sorted(outcome.key for outcome in outcomes) == sorted(cell.key for cell in CELLS)
    (failed,) = [outcome for outcome in outcomes if outcome.error]
    assert failed.key == CELLS[5].key
    assert failed.error == "no outcome within 10 s (cell_timeout=10), so its worker was stopped"
    hung = [len(call) for call in pool.calls if CELLS[5].key in call]
    assert hung == [8, 2, 1]  # the cells before it in its call have their outcomes
    assert pool.started == 1 + len(hung)


class SpentPool(StillPool):
    """Two workers with a call each: the first ends the study, the second has something under way for half a minute."""

    most = 2

    def __init__(self, clock):
        super().__init__(clock)
        self.ended = []

    def events(self, seconds):
        self.clock.now += seconds
        for worker in self.workers:
            if not worker.ready:
                yield worker, Ready(1)
        if all(worker.in_flight for worker in self.workers):
            if self.clock.now < 10:
                yield self.workers[0], NoFurtherCellError("spent")
            elif self.clock.now > 30:
                for worker in self.workers:
                    yield worker, workers.Ended("")

    def end(self, workers, *, at_once):
        self.ended.append((at_once, self.clock.now))


def test_where_no_further_cell_can_be_run_the_others_keep_what_is_under_way(clock):
    pool = SpentPool(clock)
    with pytest.raises(NoFurtherCellError, match="spent"):
        list(dispatch.dispatch(lambda: pool, CELLS, JOB))
    assert pool.ended == [(False, 31.0)]


@pytest.mark.slow
def test_a_worker_that_hangs_is_replaced(tmp_path):
    job = replace(bench_job(Trouble({CELLS[1].key: "stuck"}), tmp_path), cell_timeout=0.5)
    outcomes = {outcome.key: outcome for outcome in ProcessExecutor(job=job, workers=1).run(CELLS[:4])}
    assert "no outcome within 0.5 s" in outcomes.pop(CELLS[1].key).error
    assert [outcome.error for outcome in outcomes.values()] == [None] * 3
    assert len(worker_processes(tmp_path)) == 2
