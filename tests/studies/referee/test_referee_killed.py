"""Sessions whose processes are killed at any call to the server, and processes that judge at once."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from run_helpers import Place, copied, sqlite_place

from mlflow_l3d import Referee
from mlflow_l3d.studies.referee.numbers.session import Course

pytestmark = pytest.mark.slow

LOOP = """
import json, os, random, signal, sys
from mlflow.tracking import MlflowClient
import mlflow_l3d

kill_at, candidates = int(sys.argv[1]), json.loads(sys.argv[2])
calls = 0

def counted(method):
    def call(*arguments, **named):
        global calls
        calls += 1
        if calls == kill_at and kill_at % 2:
            os.kill(os.getpid(), signal.SIGKILL)  # before the server has it, or after
        answer = method(*arguments, **named)
        if calls == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer
    return call

for name in ("create_run", "log_batch", "log_artifacts", "set_terminated", "update_run"):
    setattr(MlflowClient, name, counted(getattr(MlflowClient, name)))

def score(candidate, seed):
    with open("made.txt", "a") as file:
        file.write(json.dumps([candidate["x"], seed]) + "\\n")
    return candidate["x"] + random.Random(seed).gauss(0, 1) + random.Random(f"{candidate}{seed}").gauss(0, 0.3)

referee = mlflow_l3d.Referee(score, baseline={"x": 0}, candidates=20, baseline_runs=6, confirm=2)
for x in candidates:
    referee.judge({"x": x})
    print(json.dumps([each.verdict for each in referee.status().course.systems]))
"""
CANDIDATES = [-1, 3, 2, 5]
RULES: dict[str, Any] = {"candidates": 20, "baseline_runs": 6, "confirm": 2}


def looped(place: Place, kill_at: int, candidates: list[float]) -> Any:
    script = place.cache.parent / "loop.py"
    script.write_text(LOOP, encoding="utf-8")
    return place.start(str(script), str(kill_at), json.dumps(candidates))


def ended(process: Any) -> int | None:
    """Return the exit status of a process; a negative number is a signal."""
    process.join(120)
    status: int | None = process.exitcode
    return status


def made(place: Place) -> Counter[str]:
    return Counter((place.cache.parent / "made.txt").read_text(encoding="utf-8").splitlines())


def course_of(place: Place) -> Course:
    """Return the course of the latest session, whose function is not run again."""

    def score(candidate: Any, seed: int) -> float:
        raise AssertionError((candidate, seed))

    with place.entered():
        score.__qualname__ = "score"
        return Referee(score, baseline={"x": 0}, **RULES).status().course


def numbers_of(course: Course) -> list[Any]:
    return [(each.title, each.verdict, dict(each.scores), repr(each.looks)) for each in course.systems]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> Place:
    """Give a place with a session that nothing disturbed; the tests that take it change nothing."""
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("whole"))
    process = looped(place, -1, CANDIDATES)
    assert ended(process) == 0, process.communicate()
    return place


def test_a_session_that_is_killed_again_and_again_is_the_same(
    whole: Place, tmp_path: Path, migrated_store: Path
) -> None:
    place = sqlite_place(migrated_store, tmp_path)
    # While the baseline runs, which begins a new session; then in the midst of judgements and between them.
    kills = [9, 40, 23, 24, 33, 36, -1]
    status: int | None = None
    for kill_at in kills:
        process = looped(place, kill_at, CANDIDATES)
        status = ended(process)
        if status == 0:
            break
        assert status == -signal.SIGKILL, process.communicate()
    assert status == 0
    course = course_of(place)
    assert [each.verdict for each in course.systems] == ["", "reject", "keep", "reject", "keep"]
    assert numbers_of(course) == numbers_of(course_of(whole))
    assert course.path == course_of(whole).path
    # What was made twice was made by a process that was killed before it was recorded.
    assert made(place).total() <= made(whole).total() + 6 + len(kills)


def test_two_that_judge_at_once_count_nothing_twice(whole: Place, tmp_path: Path) -> None:
    place = copied(whole, tmp_path / "two")
    before = made(place)
    both = [looped(place, -1, candidates) for candidates in ([4, 7, 5.5], [5.5, 4, 7])]
    for process in both:
        assert ended(process) == 0, process.communicate()
    course = course_of(place)
    assert [each.number for each in course.systems] == [*range(8)]
    assert len({each.title for each in course.systems}) == 8
    assert set(made(place).values()) == {1}
    assert course.spent == made(place).total()
    assert course.spent > before.total()
    assert sorted(each.verdict for each in course.systems[5:]) in (
        ["keep", "reject", "reject"],
        ["keep", "keep", "reject"],
    )


def test_what_a_killed_process_recorded_is_known_to_one_that_lives(whole: Place, tmp_path: Path) -> None:
    place = copied(whole, tmp_path / "lives")

    def score(candidate: Any, seed: int) -> float:
        with (place.cache.parent / "made.txt").open("a", encoding="utf-8") as file:
            file.write(json.dumps([candidate["x"], seed]) + "\n")
        return float(candidate["x"])

    with place.entered():
        score.__qualname__ = "score"
        living = Referee(score, baseline={"x": 0}, **RULES)
        assert living.judge({"x": 5.1}, most_runs=1).verdict == "undecided"
    # Killed after its first run was recorded, and before its judgement ended.
    assert ended(looped(place, 6, [5.1])) == -signal.SIGKILL
    with place.entered():
        living.judge({"x": 5.1})
    assert set(made(place).values()) == {1}
