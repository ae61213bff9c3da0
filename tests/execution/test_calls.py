"""Which cells make a call, and how calls are handed out: against brute force, and against simulated workers."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.approaches.synthetic import FACTORS
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.execution.base import CountedCells
from mlflow_l3d.execution.dispatch import ATTEMPTS, Dispatcher
from mlflow_l3d.execution.workers import Call, Ended, Pool, Queue, Ready, Worker, share
from mlflow_l3d.testing import Trouble, bench_job, design_cells, one_cell

CELLS = list(design_cells(FACTORS, 40))
JOB = bench_job(Trouble(), Path())


def poured(waiting, loads, most):
    """Cell by cell to whoever has least, the free worker first."""
    have = [0, *loads]
    for _ in range(waiting):
        have[have.index(min(have))] += 1
    return max(1, min(most, have[0]))


@given(st.integers(0, 60), st.lists(st.integers(0, 40), max_size=4), st.integers(1, 50))
def test_a_share_is_what_pouring_cell_by_cell_gives(waiting, loads, most):
    assert share(waiting, loads, most) == poured(waiting, loads, most)


@pytest.mark.parametrize(
    ("waiting", "loads", "most", "expected"),
    [
        (40, [0], 64, 20),  # the first of two workers gets half, and so does the second:
        (20, [20], 64, 20),
        (76, [0.0], 64, 38),  # the other one is about to be done
        (76, [500.0], 64, 64),  # it is not
        (76, [500.0, 0.0], 512, 38),  # what a third worker has left is none of the two free ones' business
        (1000, [0, 0, 0], 64, 64),
        (0, [3], 8, 1),
        (5, [], 8, 5),
    ],
)
def test_shares(waiting, loads, most, expected):
    assert share(waiting, loads, most) == expected


def test_a_queue_takes_from_the_caller_what_it_is_asked_for():
    taken = []
    queue = Queue(taken.append(cell) or cell for cell in CELLS)
    assert queue.look_ahead(3) == len(taken) == 3
    assert [cell.key for cell in queue.take(2).cells] == [cell.key for cell in CELLS[:2]]
    assert queue.expected(5) == 5
    assert len(taken) == 7
    assert queue.expected(100) == len(taken) - 2 == 38
    first, second = Call(CELLS[:4]).again()
    queue.put_back([first, second])
    assert queue.look_ahead(100) == 42
    assert [queue.take(9) is call for call in (first, second)] == [True, True]
    assert len(queue.take(100).cells) == 38
    assert queue.take(1) is None


def test_cells_that_say_how_many_they_are_stay_where_they_are():
    taken = []
    cells = (taken.append(cell) or cell for cell in CELLS)
    queue = Queue(CountedCells(cells, lambda: 40 - len(taken)))
    assert queue.expected(100) == 40
    assert queue.expected(7) == 7
    assert taken == []
    assert len(queue.take(6).cells) == len(taken) == 6
    assert queue.expected(100) == 34
    # A hint is a guess: there are more cells, or fewer.
    assert len(Queue(CountedCells(iter(CELLS), lambda: -1)).take(50).cells) == 40
    assert Queue(CountedCells(iter(()), lambda: 9)).take(50) is None
    assert Queue(CELLS).expected(100) == 40


def test_a_call_is_tried_again_in_halves():
    call = Call(CELLS[:6])
    call.received(CELLS[3].key)
    first, second = call.again()
    assert (call.size, len(call.cells)) == (6, 5)
    assert [first.cells, second.cells] == [[CELLS[0], CELLS[1], CELLS[2]], [CELLS[4], CELLS[5]]]
    assert first.attempt == second.attempt == 2
    (alone,) = Call(CELLS[:1]).again()
    assert alone.cells == CELLS[:1]
    assert [len(part.cells) for part in Call(CELLS[:7], 3).split(3)] == [3, 3, 1]
    assert {part.attempt for part in Call(CELLS[:7], 3).split(3)} == {3}


class Simulated(Worker):
    """A worker without a process; `calls` are the sizes of what it was sent."""

    def __init__(self, cells_at_once, calls):
        super().__init__()
        self.will_take = cells_at_once
        self.calls = calls

    def give(self, cells):
        assert 1 <= len(cells) <= self.will_take
        self.calls.append(len(cells))


class SimulatedPool(Pool):
    """Workers whose next event is drawn; `killers` are keys of cells that end their worker, each time.

    Machines go away `losses` times: their cells must not be the worse for it.
    """

    def __init__(self, data, workers, at_once, killers, deaths, losses=0):
        super().__init__(workers)
        self.draw = data.draw
        self.at_once, self.killers, self.deaths, self.losses = at_once, killers, deaths, losses
        self.calls, self.started, self.lost, self.room = [], 0, 0, workers

    @property
    def most(self):
        return self.room

    def start(self):
        self.started += 1
        return Simulated(self.at_once, self.calls)

    def end(self, workers, *, at_once):
        assert not set(workers) & set(self.workers)

    def events(self, seconds):
        able = [worker for worker in self.workers if worker.in_flight or not worker.ready]
        assert able or not seconds, "everybody waits for everybody"
        if not able:
            return
        worker = self.draw(st.sampled_from(able))
        if self.losses and self.draw(st.integers(0, 5)) == 0:
            self.losses, self.lost = self.losses - 1, self.lost + 1
            yield worker, Ended("worker lost its machine", blameless=True)
            return
        if not worker.ready:
            yield worker, Ready(worker.will_take)
            return
        for _ in range(self.draw(st.integers(1, worker.will_take))):
            if not worker.in_flight:
                return
            message = self.event(worker.in_flight[0].cells)
            yield worker, message
            if isinstance(message, Ended):
                return

    def event(self, cells):
        cell = self.draw(st.sampled_from(cells)) if self.at_once > 1 else cells[0]
        if self.deaths and self.draw(st.integers(0, 9)) == 0:
            self.deaths -= 1
            return Ended("worker ended")
        if cell.key in self.killers:
            return Ended("worker ended")
        return Outcome(cell.key, metrics={"one": 1.0}, duration_seconds=self.draw(st.floats(0, 9)))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_cell_has_one_outcome_whatever_dies(data):
    count = data.draw(st.integers(1, 40))
    workers = min(count, data.draw(st.integers(1, 4)))
    at_once = data.draw(st.integers(1, 20))
    killers = data.draw(st.sets(st.sampled_from([cell.key for cell in CELLS]), max_size=5))
    deaths = data.draw(st.integers(0, 3))
    losses = data.draw(st.integers(0, 3))
    pool = SimulatedPool(data, workers, at_once, killers, deaths, losses)
    taken = itertools.count()
    seen = 0
    cells = CELLS[:count]
    source = (cell for cell in cells if next(taken) >= 0)
    lazily = data.draw(st.booleans())
    queue = Queue(CountedCells(source, lambda: count - seen) if lazily else source)
    outcomes = {}
    for outcome in Dispatcher(pool, queue, JOB).outcomes():
        assert outcome.key not in outcomes
        outcomes[outcome.key] = outcome
        seen += 1
    assert set(outcomes) == {cell.key for cell in cells}
    failed = {key for key, outcome in outcomes.items() if outcome.error}
    # A worker that is killed from outside can take a cell with it that was alone in its call, as often as that happens.
    assert failed >= killers & set(outcomes)
    assert len(failed - killers) <= deaths
    if not deaths:
        assert failed == killers & set(outcomes)
        if at_once == 1:
            assert pool.started <= workers + ATTEMPTS * len(killers) + pool.lost
    assert sum(pool.calls) >= count
    if not killers and not deaths and not losses:
        assert sum(pool.calls) == count


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_cells_are_taken_only_as_they_are_needed(data):
    workers, at_once = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 6))
    pool = SimulatedPool(data, workers, at_once, (), 0)
    taken = []

    def endless():
        for index in itertools.count():
            taken.append(index)
            yield one_cell(FACTORS, index)

    allowed = 2 * workers if at_once == 1 else 4 * workers * at_once
    for done, _ in enumerate(itertools.islice(Dispatcher(pool, Queue(endless()), JOB).outcomes(), 30), start=1):
        assert len(taken) - done <= allowed


def test_a_call_from_a_session_that_takes_more_is_split():
    calls = []
    small, large = Simulated(2, calls), Simulated(8, calls)
    queue = Queue([])
    queue.put_back([Call(CELLS[:5], 2)])
    pool = type("Pool", (), {"workers": [small, large]})()
    dispatch = Dispatcher(pool, queue, JOB)
    for worker in (small, large):
        worker.ready, worker.cells_at_once = True, worker.will_take
        dispatch._fill(worker)
    assert calls == [2, 2]
    assert queue.look_ahead(9) == 1
    assert [worker.in_flight[0].attempt for worker in (small, large)] == [2, 2]


def test_a_cell_whose_worker_ended_is_kept_for_a_fresh_one():
    pool = SimulatedPool(SimpleNamespace(draw=None), 1, 1, (), 0)
    dispatch = Dispatcher(pool, Queue([]), JOB)
    assert dispatch._again(Call(CELLS[:1]), ATTEMPTS)
    assert pool.workers[0].reserved.cells == CELLS[:1]


def test_what_a_worker_has_left_is_guessed_from_the_clock(monkeypatch):
    worker = Simulated(10, [])
    assert worker.load(1.0) == 0.0
    worker.send(Call(CELLS[:10]))
    monkeypatch.setattr(worker, "current_seconds", lambda: 3.0)
    assert worker.load(0.0) == 10.0
    assert worker.load(0.5) == 4.0
    assert worker.load(0.1) == 0.0
    for cell in CELLS[:8]:
        worker.received(cell.key)
    assert worker.load(0.5) == 2.0
    worker.reserved = Call(CELLS[10:13])
    assert worker.load(0.5) == 5.0
