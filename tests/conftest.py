"""What all tests share: an environment of their own, ready tracking stores, and real tracking servers."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from stores import copy_store
from warm_start import WarmStart, share_server

DATA_VARIABLES = ("L3D_TEST_DATA", "L3D_TEST_REFERENCE")
"""Folders with data for tests; a test that needs one may be skipped only where the variable is not set."""

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "LANGUAGE": "C",  # else argparse looks for a translation of each of its words, on the disk
    # Tests run side by side, and threads of one small model that wait for each other would take most of the time.
    "OMP_NUM_THREADS": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "TOKENIZERS_PARALLELISM": "false",
}
_STATE = ("EXPERIMENT_ID", "EXPERIMENT_NAME", "REGISTRY_URI", "RUN_ID", "TRACKING_URI")
MLFLOW_STATE = [f"MLFLOW_{name}" for name in _STATE]
"""MLflow reads these, and writes them into this process when its fluent functions are called."""

settings.register_profile("l3d", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a busy machine, too
settings.load_profile("l3d")
gc.disable()  # until all tests are collected: what is imported and collected stays
# A shell and nohup start background jobs so, and what we start inherits it: tests of signals would wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """Set the environment before anything is imported: some libraries read it only then."""
    os.environ.update(ENVIRONMENT)
    # The package is that of a plugin of pytest, which would rewrite the assertions of 500 modules: nobody reads them.
    vars(config.pluginmanager.rewrite_hook).get("_must_rewrite", set()).discard("mlflow_l3d")
    if not _is_worker(config):
        os.environ["L3D_CACHE"] = tempfile.mkdtemp(prefix="l3d-test-cache-")
        if getattr(config.option, "numprocesses", None) and not _is_quick(config):
            share_server()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the cache of this test session."""
    if not _is_worker(config):
        shutil.rmtree(os.environ.get("L3D_CACHE", ""), ignore_errors=True)
        _imported().unlink(missing_ok=True)


def _imported() -> Path:
    """Return the file that has one byte for each test file that the first worker has imported."""
    return Path(os.environ.get("L3D_CACHE", "") + ".imported")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let other workers import each test file after the first one, which compiles what nobody has imported before."""
    if not isinstance(collector, pytest.Module) or not _is_worker(collector.config):
        return (yield)
    if collector.config.workerinput["workerid"] == "gw0":
        report = yield
        with _imported().open("a") as file:
            file.write(".")
        return report
    session = collector.session
    number, patience = getattr(session, "_imported", (0, 60.0))
    while patience > 0 and not (_imported().exists() and _imported().stat().st_size > number):
        time.sleep(0.02)
        patience -= 0.02
    session._imported = (number + 1, patience)
    return (yield)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Return what a mapping holds as its part of the id of a test; None for other values, which pytest names."""
    if not isinstance(val, dict):
        return None
    plain = ((name, each if isinstance(each, str | int | float) else type(each).__name__) for name, each in val.items())
    return ",".join(f"{name}={each}" for name, each in plain).encode("unicode_escape").decode()[:60] or "nothing"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files of most slow tests: no worker should meet one of them last. A quick check draws less."""
    if _is_quick(config):
        _draw_fewer({getattr(item.obj, "__func__", item.obj) for item in items if isinstance(item, pytest.Function)})
    if _is_worker(config):
        slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
        items.sort(key=lambda item: -slow[item.path])


def _draw_fewer(tests: set[object]) -> None:
    """Let hypothesis draw a quarter of a test's examples; its own plugin sets the same attribute."""
    name = "_hypothesis_internal_use_settings"
    for test in tests:
        if whole := getattr(test, name, None):
            setattr(test, name, type(whole)(whole, max_examples=-(-whole.max_examples // 4)))


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of the collection of garbage, which some libraries ask for often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)  # to look for it more often takes a tenth of all time
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Do the same after each file: what it left, such as models and loaded libraries, is looked through only once."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def _is_quick(config: pytest.Config) -> bool:
    """Return whether slow tests are left out."""
    return "not slow" in config.option.markexpr.split(" and ")


def _is_worker(config: pytest.Config) -> bool:
    """Return whether this is a worker of pytest-xdist, which shares the cache of the process that started it."""
    return hasattr(config, "workerinput")


def _wrongly_skipped(config: pytest.Config) -> list[str]:
    """Return what was skipped for lack of data although the data is there."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter else []
    present = [name for name in DATA_VARIABLES if os.environ.get(name)]
    wanted = [*present, "got empty parameter set"] if present else []
    return [f"{r.nodeid}: {r.longrepr[2]}" for r in reports if any(word in str(r.longrepr) for word in wanted)]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a session in which data is present and a test that needs it was skipped."""
    if exitstatus == pytest.ExitCode.OK and _wrongly_skipped(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say why a session without a failed test failed."""
    if wrong := _wrongly_skipped(config):
        terminalreporter.section("skipped although the data is there", red=True)
        for line in wrong:
            terminalreporter.line(line)


@pytest.fixture(autouse=True)
def mlflow_state() -> Iterator[None]:
    """Start every test without a tracking URI, an experiment and a run, and leave none behind."""

    def clean() -> None:
        for name in MLFLOW_STATE:
            os.environ.pop(name, None)

    clean()
    yield
    if "mlflow.tracking.fluent" in sys.modules:
        import mlflow

        # Not `end_run`: the server of a run that a test left open may be gone, and MLflow tries for minutes.
        mlflow.tracking.fluent._active_run_stack.get().clear()
        mlflow.tracking.fluent._active_experiment_id = None
        mlflow.set_tracking_uri(None)
    clean()


def _folder(variable: str) -> Path:
    if not os.environ.get(variable):
        pytest.skip(f"{variable} is not set")
    return Path(os.environ[variable])


@pytest.fixture
def data_folder() -> Path:
    """Give the folder ``$L3D_TEST_DATA``."""
    return _folder("L3D_TEST_DATA")


@pytest.fixture
def reference_folder() -> Path:
    """Give the folder ``$L3D_TEST_REFERENCE``, of published tables."""
    return _folder("L3D_TEST_REFERENCE")


@pytest.fixture(scope="module")
def pecher2024() -> Iterator[Callable[[str], ModuleType]]:
    """Give a function that imports modules of ``projects/pecher2024``; they are forgotten with the file of tests."""
    folder = str(Path(__file__).resolve().parents[1] / "projects" / "pecher2024")
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
            del sys.modules[name]


@pytest.fixture(scope="session")
def migrated_store(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Make one empty SQLite store, to be copied, for all workers of a session: MLflow's migrations take seconds."""
    import known_schema  # noqa: F401 - the tests that use this store open many
    from filelock import FileLock
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if _is_worker(request.config) else base) / "migrated"
    folder.mkdir(exist_ok=True)
    path, draft = folder / "mlflow.db", folder / "draft.db"
    with FileLock(folder / "lock"):
        if not path.exists():
            SqlAlchemyStore(f"sqlite:///{draft}", str(folder / "artifacts")).engine.dispose()
            draft.rename(path)
    return path


@pytest.fixture
def tracking_uri(tmp_path: Path, migrated_store: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the URI of an empty SQLite store of this test's own; nothing is set, pass it on.

    The test runs in `tmp_path`, where MLflow puts the artifacts of new experiments (`./mlruns`).
    """
    monkeypatch.chdir(tmp_path)
    return copy_store(migrated_store, tmp_path, (tmp_path / "mlruns" / "0").as_uri())


@pytest.fixture
def place(tmp_path: Path, migrated_store: Path) -> Any:
    """Give a place for studies of this test's own, with an empty store: see :mod:`run_helpers`, which loads MLflow."""
    from run_helpers import sqlite_place

    return sqlite_place(migrated_store, tmp_path / "place")


class TrackingServer:
    """A real ``mlflow server`` of one worker, on a port that stays the same over restarts."""

    def __init__(self, folder: Path, template: Path) -> None:
        self.folder = folder
        self._store = copy_store(template, folder, "mlflow-artifacts:/0")
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process: WarmStart | None = None

    def start(self, timeout: float = 180) -> TrackingServer:
        """Start the server and wait until it answers."""
        command = [str(Path(__file__).with_name("tracking_server.py")), "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--workers", "1"]  # four, the default, import MLflow four times
        command += ["--backend-store-uri", self._store, "--artifacts-destination", str(self.folder / "artifacts")]
        # Jobs are of no use here, and their consumers are seven more processes.
        environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        self.process = WarmStart(command, self.folder, environment)
        deadline = time.monotonic() + timeout
        while not self.healthy():
            if self.process.poll() is not None or time.monotonic() > deadline:
                process = self.process
                self.stop()
                raise RuntimeError(f"mlflow server did not start:\n{process.communicate()[1][-3000:]}")
            time.sleep(0.05)
        return self

    def healthy(self) -> bool:
        """Tell whether the server answers."""
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self, sig: signal.Signals = signal.SIGTERM, timeout: float = 30) -> None:
        """End the server and its workers, which are one process group; SIGKILL ends them as a crash would."""
        if self.process is None:
            return
        group = self.process.pid
        with suppress(ProcessLookupError):
            os.killpg(group, sig)
        self.process.join(timeout)
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        self.process.join()
        self.process = None


@pytest.fixture
def make_mlflow_server(tmp_path_factory, migrated_store: Path) -> Iterator[Callable[[], TrackingServer]]:
    """Give a function that starts a server which the test may stop and start again: same port, same store."""
    made: list[TrackingServer] = []

    def make() -> TrackingServer:
        made.append(TrackingServer(tmp_path_factory.mktemp("server"), migrated_store))
        return made[-1].start()

    yield make
    for server in made:
        server.stop()


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> Iterator[str]:
    """Give the URI of one server for the whole session: use an experiment of your own, and do not stop it."""
    server = TrackingServer(tmp_path_factory.mktemp("shared-server"), migrated_store)
    try:
        yield server.start().uri
    finally:
        server.stop()
