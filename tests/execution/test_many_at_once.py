"""Sessions that take many cells in one call."""

import logging
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_helpers import calls_of_sessions, wait_until

from mlflow_l3d.approaches.synthetic import FACTORS
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.execution.outcomes import run_cells
from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.testing import Trouble, bench_job, design_cells, differences
from mlflow_l3d.testing.cells import worker_processes

CELLS = list(design_cells(FACTORS, 30))
KEYS = [cell.key for cell in CELLS]
# Those that a call of many survives without the cell: it is then tried alone, or the outcome itself is wrong.
HARMLESS = ["raise", "sys.exit", "short", "float", "nan", "same ids", "wrong key", "none"]


def run(executor, approach, folder, cells=CELLS, **hyperparameters):
    workers = {"workers": 2} if executor is ProcessExecutor else {}
    found = list(executor(job=bench_job(approach, folder, **hyperparameters), **workers).run(iter(cells)))
    assert sorted(outcome.key for outcome in found) == sorted(cell.key for cell in cells)
    return {outcome.key: outcome for outcome in found}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    together=st.booleans(),
    spoilt=st.dictionaries(st.sampled_from(KEYS[:12]), st.sampled_from(HARMLESS), max_size=5),
)
def test_whatever_goes_wrong_each_cell_has_one_outcome_of_its_own(tmp_path, together, spoilt):
    cells, approach = CELLS[:12], Trouble(spoilt, at_once=12, together=together)
    job = bench_job(approach, tmp_path)
    session = approach.prepare(job.task, job.hyperparameters, model="", device="cpu", cache=tmp_path)
    alone = {outcome.key: outcome for cell in cells for outcome in run_cells(session, [cell], job)}
    found = list(run_cells(session, cells, job))
    assert sorted(outcome.key for outcome in found) == sorted(KEYS[:12])
    for outcome in found:
        assert bool(outcome.error) == (outcome.key in spoilt)
        assert differences(outcome, alone[outcome.key]) == []


class Odd:
    """A session that yields what it was told to."""

    cells_at_once = 9

    def __init__(self, script):
        self.script = script
        self.calls = []

    def run(self, cells):
        self.calls.append(len(cells))
        yield from self.script(cells)


def good(cell, **changes):
    return replace(Outcome(cell.key, metrics={"one": 1.0}), **changes)


def outcomes_of(session, cells):
    return run_cells(session, cells, bench_job(Trouble(), Path()))


def test_a_second_outcome_and_one_of_nobody_are_dropped(caplog):
    def script(cells):
        yield good(cells[0], duration_seconds=1.0)
        yield good(cells[0], duration_seconds=2.0)
        yield "no outcome"
        yield Outcome("nobody's", metrics={"one": 1.0})
        yield from (good(cell) for cell in cells[1:])

    session = Odd(script)
    found = list(outcomes_of(session, CELLS[:4]))
    assert [outcome.key for outcome in found] == KEYS[:4]
    assert found[0].duration_seconds == 1.0
    assert session.calls == [4]
    assert "a call of 4 cells: 3 outcomes of no cell, or second ones, are dropped" in caplog.text


def test_cells_without_an_outcome_are_tried_again_in_halves(caplog):
    def script(cells):
        if len(cells) > 2:
            yield good(cells[2])
            raise MemoryError("too many at once")
        yield from (good(cell) for cell in cells)

    session = Odd(script)
    found = list(outcomes_of(session, CELLS[:9]))
    assert [outcome.error for outcome in found] == [None] * 9
    assert session.calls == [9, 4, 2, 1, 4, 2, 1]
    said = "9 cells: 8 without an outcome are tried again in smaller calls (MemoryError: too many at once)"
    assert said in caplog.text


def test_outcomes_come_before_the_call_is_over():
    events = []

    def script(cells):
        for cell in cells:
            events.append(f"made {cell.key}")
            yield good(cell)

    events.extend(f"seen {outcome.key}" for outcome in outcomes_of(Odd(script), CELLS[:2]))
    assert events == [f"{what} {key}" for key in KEYS[:2] for what in ("made", "seen")]


def test_a_duration_is_the_calls_by_its_cells_where_there_is_none():
    def script(cells):
        time.sleep(0.2)
        yield from (good(cell) for cell in cells)

    started = time.perf_counter()
    found = list(outcomes_of(Odd(script), CELLS[:4]))
    elapsed = time.perf_counter() - started
    assert all(0.05 <= outcome.duration_seconds <= elapsed / 4 for outcome in found)


def test_what_the_caller_throws_in_is_not_the_sessions_error():
    ended = []

    def script(cells):
        try:
            yield from (good(cell) for cell in cells)
        finally:
            ended.append(True)

    for error in (KeyboardInterrupt(), LookupError("the caller's")):
        session = Odd(script)
        outcomes = outcomes_of(session, CELLS[:3])
        next(outcomes)
        with pytest.raises(type(error)):
            outcomes.throw(error)
        assert session.calls == [3]
    assert ended == [True, True]


def test_cells_that_are_the_same_are_run_alone():
    session = Odd(lambda cells: (good(cell) for cell in cells))
    assert [outcome.key for outcome in outcomes_of(session, [*CELLS[:2], CELLS[0]])] == [*KEYS[:2], KEYS[0]]
    assert session.calls == [1, 1, 1]
    assert list(outcomes_of(session, [])) == []


@pytest.mark.parametrize("value", [0, -3, True, 2.5, "8", None])
def test_a_number_of_cells_that_is_none(tmp_path, value):
    executor = InlineExecutor(job=bench_job(Trouble(at_once=value), tmp_path))
    with pytest.raises(L3DError, match=r"^approach trouble: cells_at_once of its session must be a positive number"):
        list(executor.run(CELLS))


def test_a_bad_number_reaches_the_parent(tmp_path):
    with pytest.raises(L3DError, match="cells_at_once of its session must be a positive number, it is 0"):
        list(ProcessExecutor(job=bench_job(Trouble(at_once=0), tmp_path), workers=1).run(CELLS))


def test_the_inline_executor_fills_its_calls(tmp_path):
    run(InlineExecutor, Trouble(at_once=8), tmp_path)
    assert calls_of_sessions(tmp_path) == [KEYS[:8], KEYS[8:16], KEYS[16:24], KEYS[24:]]


@pytest.mark.slow
def test_processes_share_calls_out(tmp_path):
    approach = Trouble(at_once=10, together=True)
    outcomes = run(ProcessExecutor, approach, tmp_path, duration=0.02)
    inline = run(InlineExecutor, Trouble(), tmp_path)
    assert all(differences(outcome, inline[key]) == [] for key, outcome in outcomes.items())
    sizes = [len(call) for call in calls_of_sessions(tmp_path)]
    assert sum(sizes) == 30
    assert max(sizes) == 10


@pytest.mark.slow
def test_a_few_cells_are_halved_between_two_workers(tmp_path):
    run(ProcessExecutor, Trouble(at_once=100, together=True), tmp_path, CELLS[:12], duration=0.15)
    sizes = [len(call) for call in calls_of_sessions(tmp_path)]
    assert max(sizes) == 6
    assert len(worker_processes(tmp_path)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("together", [False, True])
def test_a_cell_that_ends_its_worker_is_found_and_fails_alone(tmp_path, together, caplog):
    caplog.set_level(logging.WARNING)
    outcomes = run(ProcessExecutor, Trouble({KEYS[5]: "exit"}, at_once=8, together=together), tmp_path, CELLS[:16])
    lost = outcomes.pop(KEYS[5])
    assert lost.error.startswith("worker ended with exit code 7; the cell was tried ")
    assert [outcome.error for outcome in outcomes.values()] == [None] * 15
    calls = calls_of_sessions(tmp_path)
    tries = [len(call) for call in calls if KEYS[5] in call]
    assert sorted(tries)[0] == 1
    assert lost.error.endswith(f" {len(tries)} times")
    # The other half of its first call, and everything else, is run once unless it was in a call with that cell.
    for key in outcomes:
        with_it = sum(KEYS[5] in call for call in calls if key in call)
        assert sum(key in call for call in calls) <= with_it + 1


@pytest.mark.slow
def test_what_was_sent_before_the_end_is_not_run_again(tmp_path):
    approach = Trouble({KEYS[3]: "kill"}, once=True, at_once=8)
    outcomes = run(ProcessExecutor, approach, tmp_path, CELLS[:8], duration=0.05)
    assert [outcome.error for outcome in outcomes.values()] == [None] * 8
    calls = calls_of_sessions(tmp_path)
    runs = {key: sum(key in call for call in calls) for key in KEYS[:8]}
    first = next(call for call in calls if KEYS[3] in call)
    assert runs[KEYS[3]] == 2
    assert {runs[key] for key in first[: first.index(KEYS[3])]} <= {1}


@pytest.mark.slow
def test_a_worker_killed_from_outside_in_the_middle_of_a_call(tmp_path):
    job = bench_job(Trouble(at_once=12), tmp_path, duration=0.05)
    outcomes = ProcessExecutor(job=job, workers=2).run(iter(CELLS))
    done = [next(outcomes), next(outcomes)]
    os.kill(min(worker_processes(tmp_path)), signal.SIGKILL)
    done += outcomes
    assert sorted(outcome.key for outcome in done) == sorted(KEYS)
    assert not any(outcome.error for outcome in done)
    assert len(worker_processes(tmp_path)) == 3


@pytest.mark.slow
def test_a_caller_who_is_slow_bounds_what_has_arrived(tmp_path):
    taken = []

    def cells():
        for cell in design_cells(FACTORS, 200):
            taken.append(cell)
            yield cell

    outcomes = ProcessExecutor(job=bench_job(Trouble(at_once=5), tmp_path), workers=1).run(cells())
    for done in range(1, 16):
        next(outcomes)
        time.sleep(0.03)
        assert len(taken) - done <= 20
    outcomes.close()


@pytest.mark.slow
def test_the_next_call_does_not_wait_for_the_caller(tmp_path):
    job = bench_job(Trouble(at_once=4, together=True), tmp_path)
    outcomes = ProcessExecutor(job=job, workers=1).run(iter(CELLS[:8]))
    next(outcomes)
    time.sleep(0.3)
    next(outcomes)
    # Two outcomes of the first call are still to be asked for.
    wait_until(lambda: len(calls_of_sessions(tmp_path)) == 2, "the second call")
    assert len(list(outcomes)) == 6
