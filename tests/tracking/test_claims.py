"""Claims of cells: nobody else gets one, they end with their process, and nothing is left lying about."""

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mlflow import MlflowClient
from stores import copy_store

from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.tracking.claims import Claims
from mlflow_l3d.tracking.opening import open_claims

pytest.importorskip("fcntl")
FIRST, SECOND, THIRD = (content_key({"cell": number}) for number in range(3))
OTHER = """
import sys
from pathlib import Path
from mlflow_l3d.tracking.claims import Claims

claims = Claims(Path(sys.argv[1]))
for line in sys.stdin:
    what, key = line.split()
    does = {"take": claims.take, "leave": claims.release, "release": lambda key: claims.release(key, done=True)}
    print(does[what](key), flush=True)
"""


class Other:
    """Another process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def does(self, what: str, key: str) -> str:
        self.process.stdin.write(f"{what} {key}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def another(path: Path) -> Iterator[Other]:
    command = [sys.executable, "-c", OTHER, str(path)]
    other = Other(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    try:
        yield other
    finally:
        other.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "claims" / "context"


@pytest.fixture
def claim(path: Path) -> Iterator[Callable[[], Claims]]:
    """Give a function that opens claims, as each recorder has; they are closed after the test."""
    opened: list[Claims] = []
    yield lambda: opened.append(Claims(path)) or opened[-1]  # type: ignore[func-returns-value]
    for each in opened:
        each.close()


def test_a_claim_is_one_process_s_until_it_ends(path: Path, claim: Callable[[], Claims]) -> None:
    mine = claim()
    with another(path) as other:
        assert mine.take(FIRST)
        assert other.does("take", FIRST) == "False"
        assert other.does("take", SECOND) == "True"
        assert not mine.take(SECOND)
        assert SECOND not in mine
        mine.release(FIRST)
        assert other.does("take", FIRST) == "True"
        other.kill()
        assert mine.take(FIRST)
        assert mine.take(SECOND)
    mine.close()
    assert list(path.parent.iterdir()) == []


def test_what_another_process_has_done_is_not_free_although_nobody_claims_it(path, claim) -> None:
    mine = claim()
    with another(path) as other:
        assert other.does("take", FIRST) == "True"
        other.does("release", FIRST)
        assert not mine.take(FIRST)
        assert mine.lock(FIRST)
        assert mine.take(THIRD)
    mine.close()
    assert claim().take(FIRST)


def test_recorders_of_one_process_do_not_end_each_other_s_claims(path: Path, claim: Callable[[], Claims]) -> None:
    mine, too = claim(), claim()
    assert mine.take(FIRST)
    too.close()
    with another(path) as other:
        assert other.does("take", FIRST) == "False"


def test_a_recorder_is_refused_what_another_of_its_process_has_claimed_if_it_asks_to_be_alone(claim) -> None:
    mine, too = claim(), claim()
    assert mine.take(FIRST)
    assert too.take(FIRST)
    too.release(FIRST)
    assert mine.take(SECOND)
    assert not too.take(SECOND, alone=True)
    assert not too.lock(SECOND, alone=True)
    mine.release(SECOND, done=True)
    assert too.lock(SECOND, alone=True)
    too.release(SECOND)
    assert not too.take(SECOND, alone=True)


@pytest.mark.slow
@pytest.mark.parametrize(("given_back", "is_free"), [("release", False), ("leave", True)])
def test_what_is_wanted_soon_is_waited_for(given_back, is_free, path, claim) -> None:
    mine, found = claim(), list[bool]()
    waits = threading.Thread(target=lambda: found.append(mine.take_soon(FIRST)))
    with another(path) as other:
        assert other.does("take", FIRST) == "True"
        waits.start()
        waits.join(0.3)
        assert found == []
        other.does(given_back, FIRST)
        waits.join()
    assert found == [is_free]
    assert (FIRST in mine) == is_free


def test_a_claim_is_given_back_though_the_disk_is_full(path, claim, monkeypatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    mine = claim()
    with another(path) as other, monkeypatch.context() as patch:
        assert mine.take(FIRST)
        patch.setattr(os, "write", full)
        mine.release(FIRST, done=True)
        assert other.does("take", FIRST) == "True"


def test_where_no_file_can_be_written_everything_is_free(path: Path, claim: Callable[[], Claims]) -> None:
    path.parent.touch()
    claims = claim()
    assert claims.take(FIRST)
    assert FIRST in claims
    claims.release(FIRST, done=True)


def test_two_stores_with_the_same_experiment_have_claims_of_their_own(tmp_path: Path, migrated_store: Path) -> None:
    every = []
    for name in "ab":
        (tmp_path / name).mkdir()
        uri = copy_store(migrated_store, tmp_path / name, (tmp_path / name / "mlruns" / "0").as_uri())
        every.append(open_claims(MlflowClient(uri), "0", "key"))
    assert every[0]._path != every[1]._path
    for claims in every:
        claims.close()
