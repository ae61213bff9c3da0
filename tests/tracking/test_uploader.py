"""Uploads outlive an outage, in any order, and never hold up who gives them work."""

import errno
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from run_helpers import wait_until

from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tracking import uploader as module
from mlflow_l3d.tracking.claims import Claims
from mlflow_l3d.tracking.recorder import RunRecorder, patience_seconds
from mlflow_l3d.tracking.uploader import Uploader


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.05)


@pytest.fixture
def uploader() -> Iterator[Uploader]:
    made = Uploader(4)
    yield made
    made.stop()


class Server:
    """Takes work, or is away."""

    def __init__(self, *, is_away: bool = False) -> None:
        self.away = threading.Event()
        if is_away:
            self.away.set()
        self.held: list[int] = []
        self._lock = threading.Lock()

    def take(self, number: int) -> Callable[[], None]:
        def work() -> None:
            if self.away.is_set():
                raise ConnectionError("refused")
            with self._lock:
                self.held.append(number)

        return work

    def submit(self, uploader: Uploader, count: int) -> None:
        """Give work of all numbers below `count`."""
        for number in range(count):
            uploader.submit(str(number), self.take(number))


def test_everything_arrives_once(uploader: Uploader) -> None:
    server = Server()
    server.submit(uploader, 200)
    assert uploader.wait(patience=1)
    assert sorted(server.held) == list(range(200))
    assert uploader.pending == 0
    assert uploader.outage_seconds == 0.0


def test_an_outage_drops_nothing(uploader: Uploader) -> None:
    server = Server(is_away=True)
    server.submit(uploader, 50)
    wait_until(lambda: uploader.outage_seconds > 0, "the outage")
    assert not uploader.wait(patience=0.3)
    assert uploader.pending == 50
    assert server.held == []
    server.away.clear()
    assert uploader.wait(patience=5)
    assert sorted(server.held) == list(range(50))
    assert uploader.outage_seconds == 0.0


@pytest.mark.slow
def test_one_thread_at_a_time_probes_a_server_that_is_away(uploader: Uploader) -> None:
    under_way, most, attempts = 0, [0], 0
    lock, first = threading.Lock(), threading.Event()

    def work() -> None:
        nonlocal under_way, attempts
        if not first.is_set():
            first.set()
            raise ConnectionError
        with lock:
            under_way += 1
            most[0] = max(most[0], under_way)
        time.sleep(0.01)
        with lock:
            under_way, attempts = under_way - 1, attempts + 1
        raise ConnectionError

    uploader.submit("first", work)
    wait_until(lambda: uploader.outage_seconds > 0, "the outage")
    for number in range(10):
        uploader.submit(str(number), work)
    wait_until(lambda: attempts >= 10, "some attempts")
    assert most[0] == 1


@pytest.mark.slow
def test_flaky_work_is_repeated_until_done(uploader: Uploader) -> None:
    draws, lock = random.Random(1), threading.Lock()
    done: list[int] = []

    def flaky(number: int) -> Callable[[], None]:
        def work() -> None:
            with lock:
                if draws.random() < 0.3:
                    raise TimeoutError
                done.append(number)

        return work

    for number in range(60):
        uploader.submit(str(number), flaky(number))
    assert uploader.wait(patience=20)
    assert sorted(done) == list(range(60))


def test_what_is_refused_is_kept_and_the_rest_goes_on(uploader: Uploader, caplog: pytest.LogCaptureFixture) -> None:
    server = Server()

    def refused() -> None:
        raise MlflowException("too long\nby far, see http://me:secret@host/", error_code=INVALID_PARAMETER_VALUE)

    for name in ("cell bad", "cell worse"):
        uploader.submit(name, refused)
    server.submit(uploader, 10)
    assert uploader.wait(patience=1)
    assert sorted(server.held) == list(range(10))
    (_, line), (_, other) = uploader.refused
    assert line == other
    assert caplog.text.count("was refused by the tracking server") == 1
    assert "\n" not in line
    assert "secret" not in line


def test_a_disk_of_artifacts_is_not_called_a_server(uploader: Uploader, caplog: pytest.LogCaptureFixture) -> None:
    """One that is full may have room later; what may not be written is not waited for."""
    uploader.submit("the table", Mock(side_effect=PermissionError(errno.EACCES, "denied", "/artifacts")))
    assert uploader.wait(patience=0.05)
    line = "/artifacts may not be written or read. Change its permissions, or name another place."
    assert uploader.refused == [("the table", line)]
    full = OSError(errno.ENOSPC, "No space left on device", "/artifacts/report.html")
    uploader.submit("the report", Mock(side_effect=full))
    assert not uploader.wait(patience=0.05)
    assert uploader.why.startswith("The disk of /artifacts/report.html is full. Make room")
    assert caplog.messages[1:] == [f"{uploader.why} Results are kept in the spool."]


@pytest.mark.slow
def test_a_server_that_comes_and_goes_is_one_pair_of_lines_and_wears_patience_out(uploader, caplog) -> None:
    def restless() -> Callable[[], None]:
        attempts = iter([True, True, False])

        def work() -> None:
            if next(attempts):
                raise ConnectionError

        return work

    for number in range(40):
        uploader.submit(str(number), restless())
    assert not uploader.wait(patience=0.05)
    assert uploader.wait(patience=20)
    said = [record.message.split(":")[0].split(" after")[0] for record in caplog.records]
    assert said == ["The tracking server does not answer", "The tracking server is back"]


def test_patience_counts_from_the_beginning_of_the_wait(uploader: Uploader) -> None:
    server = Server(is_away=True)
    uploader.submit("one", server.take(1))
    wait_until(lambda: uploader.outage_seconds > 0, "the outage")
    uploader._line.outage_since -= 3600
    threading.Timer(0.15, server.away.clear).start()
    assert uploader.wait(patience=60)


def test_submit_and_stop_do_not_wait_for_a_server_that_is_away() -> None:
    uploader, server = Uploader(2), Server(is_away=True)
    server.submit(uploader, 1000)
    uploader.stop()
    for thread in uploader._line.threads:
        thread.join(60)
        assert not thread.is_alive()
    assert server.held == []


@pytest.mark.parametrize("earlier", [False, True])
def test_a_recorder_says_whether_a_try_to_write_a_run_went_before(uploader, earlier, tmp_path) -> None:
    flags, key = list[bool](), content_key({"cell": "k"})

    class Writer:
        def write(self, _spool: object, key: str, *, repeated: bool) -> str:
            flags.append(repeated)
            if len(flags) < 3:
                raise ConnectionError
            return key

    recorder: Any = object.__new__(RunRecorder)
    recorder.uploader, recorder._writer, recorder.spool = uploader, Writer(), None
    recorder.claims, recorder._repeated = Claims(tmp_path / "claims"), False
    assert recorder.claims.take(key)
    recorder.submit(key, repeated=earlier)
    assert uploader.wait(patience=5)
    assert flags == [earlier, True, True]
    assert uploader.refused == []


def test_the_patience_of_uploads_has_no_upper_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L3D_UPLOAD_PATIENCE", "inf")
    assert patience_seconds() == float("inf")
    monkeypatch.setenv("L3D_UPLOAD_PATIENCE", "soon")
    with pytest.raises(ParameterError, match=r"L3D_UPLOAD_PATIENCE=soon: must be a number of seconds, 0 or more"):
        patience_seconds()
