"""The way to a tracking server: quick refusals instead of minutes of silence."""

from __future__ import annotations

import errno
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from mlflow_l3d.errors import L3DError, ParameterError, disk_line
from mlflow_l3d.execution.environment import variables
from mlflow_l3d.paths import public_path
from mlflow_l3d.privacy import public_text

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow import entities as mlflow_entities

T = TypeVar("T")
Client: TypeAlias = "MlflowClient"
Run: TypeAlias = "mlflow_entities.Run"
"""What studies know of MLflow: its client and its runs, as types; the package itself is loaded with the first call."""

# One call to a dead server blocks for minutes with MLflow's own settings, and repeats POSTs on the way, which doubles
# runs. The uploader repeats calls itself, after looking whether the first one arrived.
_SETTINGS: Final = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_OUTAGES: Final = {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 530}
"""Answers of HTTP after which the same call may succeed; from 520 on those of Cloudflare for a server that is away."""
_DENIED: Final = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}
"""Numbers of errors of a folder of this machine that do not pass by themselves."""
_PERMANENT: Final = {"FEATURE_DISABLED": 403, "INVALID_STATE": 409, "RESOURCE_LIMIT_EXCEEDED": 403}
"""Codes of MLflow that are refusals, and that it answers with 500."""
_PAUSES: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds between the attempts of one call."""
_LONGEST: Final = 30.0
"""No call is tried again after so many seconds."""
_FINAL: Final = re.compile("Failed to establish a new connection|Connection refused|Failed to resolve|database schema")
_STATUS: Final = re.compile(r"(?<=too many )\d{3}\b|(?<=error code )\d{3}\b|\b\d{3}(?= (?:Client|Server) Error)")
"""The status of HTTP in what MLflow, or requests, say of an answer."""
_REFUSALS: Final = {
    401: ("the login fails", "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN."),
    403: ("the server denies this user access", "Ask for permission to read and write."),
    413: ("a request is too large for the server or its proxy", "Raise that limit (nginx: client_max_body_size)."),
    421: ("the server does not know this name", "Start it with --allowed-hosts {host} and its other addresses."),
}
_DRIVERS: Final = {"MySQLdb": "mysqlclient", "psycopg": "psycopg[binary]", "psycopg2": "psycopg2-binary"}
"""Modules of databases whose packages have other names."""
STRANGER: Final = (
    "what answers there is not an MLflow tracking server, or a page to log in is in between",
    "Check the address in a browser.",
)
_NEWER: Final = "a newer", "Upgrade MLflow: pip install --upgrade mlflow"
_NOISY: Final = ("mlflow.store.db.utils", "mlflow.utils.rest_utils")
"""Loggers of MLflow that show a traceback, or an answer, which the caller reports in one line."""


def public_uri(uri: str) -> str:
    """Return an address without the user and the password in it."""
    return re.sub(r"(?<=://)[^/\s]*@", "", uri)


def is_outage(error: BaseException) -> bool:
    """Return whether a failed call may succeed later: the server is away, overloaded or locked, not unwilling."""
    code = getattr(error, "error_code", None)
    if code is None:
        # requests' errors are OSErrors; so is a full or absent disk. An answer that refuses is no outage.
        status = getattr(getattr(error, "response", None), "status_code", 500)
        return isinstance(error, OSError) and status in _OUTAGES and error.errno not in _DENIED
    if _is_of_proxy(error):
        return False
    from mlflow.exceptions import ERROR_CODE_TO_HTTP_STATUS

    stated = map(int, _STATUS.findall(str(error)))
    return {{**ERROR_CODE_TO_HTTP_STATUS, **_PERMANENT}.get(code, 500), *stated} <= _OUTAGES


def _is_of_proxy(error: BaseException) -> bool:
    """Return whether a proxy refuses: in JSON without MLflow's code. Of an outage's answer MLflow passes no JSON on."""
    answer = getattr(error, "json", None)
    return isinstance(answer, dict) and "error_code" not in answer


@contextmanager
def own_settings() -> Iterator[None]:
    """Let calls to a tracking server fail at once and in silence, except if the user has set MLflow's variables."""
    levels = {logger: logger.level for logger in map(logging.getLogger, _NOISY)}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)
    try:
        with variables({name: value for name, value in _SETTINGS.items() if name not in os.environ}):
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def again(call: Callable[[], T]) -> T:
    """Make a call that may be repeated; while it meets an outage, up to eight times in :data:`_LONGEST` seconds.

    If nobody listens at the address, or the store is of another MLflow, it fails at once.
    """
    began, pauses = time.monotonic(), iter(_PAUSES)
    while True:
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - it is raised, or what it means to the user
            late = time.monotonic() - began > _LONGEST
            if late or not is_outage(error) or _FINAL.search(str(error)) or (pause := next(pauses, None)) is None:
                raise refusal_of(error) or error  # noqa: B904 - `from` would repeat the error under itself
        time.sleep(pause)


class Patient:
    """A client of MLflow each of whose calls is made :func:`again`, but for `create_run`, which would double a run."""

    def __init__(self, client: MlflowClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        """Return what the client has of this name."""
        inner = getattr(self._client, name)
        if name == "create_run" or not callable(inner):
            return inner
        return lambda *given, **named: again(partial(inner, *given, **named))

    def log_artifacts(self, run_id: str, folder: str) -> None:
        """Upload a folder to the root of a run's artifacts."""
        log_files(self.get_run(run_id).info.artifact_uri, Path(folder), str(self.tracking_uri))


def log_files(uri: str, folder: Path, tracking_uri: str) -> None:
    """Upload the files of a folder, or one file, one call each; `MlflowClient` would ask for the run once more."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    repository = get_artifact_repository(uri, tracking_uri=tracking_uri)
    for path in [folder] if folder.is_file() else sorted(each for each in folder.rglob("*") if each.is_file()):
        place = None if path == folder or path.parent == folder else path.parent.relative_to(folder).as_posix()
        again(partial(repository.log_artifact, str(path), place))


def file_of(uri: str, artifact: str, folder: Path, tracking_uri: str) -> Path | None:
    """Return one artifact as a file, downloaded to `folder` unless it lies on this machine; None if there is none.

    `MlflowClient.download_artifacts` would ask for the run, and copy what is here.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
    from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository

    repository = get_artifact_repository(uri, tracking_uri=tracking_uri)
    try:
        if isinstance(repository, LocalArtifactRepository):
            path = Path(repository.artifact_dir) / artifact
            return path if path.exists() else None
        return Path(repository.download_artifacts(artifact, str(folder)))  # type: ignore[no-untyped-call]
    except (MlflowException, OSError) as error:
        # Some stores say in many ways, and in no code, that there is nothing; whether there is, the listing says.
        absent = isinstance(error, FileNotFoundError) or getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST"
        if not absent and any(each.path == artifact for each in repository.list_artifacts()):
            raise
        return None


def connect(*, for_golden: bool = False) -> MlflowClient:
    """Return a client of the current tracking server that has answered once; its calls are made :func:`again`.

    Raises
    ------
    ParameterError
        If the server does not answer or refuses, or is an old file store; with the fix. One that the user allows takes
        no study with golden runs: its metrics consistency and consistency/golden would be a file and a folder.
    """
    import mlflow
    from mlflow.utils.uri import is_local_uri

    uri = ""
    try:
        uri = mlflow.get_tracking_uri()
        if uri.startswith("sqlite:///") and Path(uri.removeprefix("sqlite:///")).is_dir():
            # MLflow would try for hours to open it.
            folder = public_path(uri)
            raise ParameterError("MLFLOW_TRACKING_URI", folder, "is a folder", f"Name a file in it: {folder}/mlflow.db")
        with suppress(OSError):  # MLflow says better what is wrong with a folder
            _make(uri)
        client = cast("MlflowClient", Patient(again(mlflow.MlflowClient)))
        client.search_experiments(max_results=1)
        if for_golden and is_local_uri(uri):  # type: ignore[no-untyped-call]
            raise OSError("a file store")
    except L3DError:
        raise
    except Exception as error:
        raise _unreachable(public_uri(uri), error) from error
    return client


def _make(uri: str) -> None:
    """Make the tables of a new SQLite store next to it, and link it to its place: it appears whole, for one process.

    MLflow makes them in the file itself, which spoils it if two do so at once, or the process is killed.
    """
    if re.fullmatch(r"sqlite:///(?!file:|:memory:)[^?]+", uri) is None:
        return
    import sqlalchemy

    if (path := Path(str(sqlalchemy.make_url(uri).database))).exists():  # MLflow writes %20 for a blank
        return
    from mlflow.store.db.utils import _initialize_tables

    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    engine = sqlalchemy.create_engine(sqlalchemy.URL.create("sqlite", database=str(draft)))
    try:
        _initialize_tables(engine)  # type: ignore[no-untyped-call]
        os.link(draft, path)
    finally:
        engine.dispose()
        draft.unlink(missing_ok=True)


def refusal_of(error: Exception) -> L3DError | None:
    """Return the error of a server that refuses this user, its name or the size of a request; None for others."""
    import mlflow
    from mlflow.exceptions import ERROR_CODE_TO_HTTP_STATUS

    text, uri = str(error), public_uri(mlflow.get_tracking_uri())
    stated = _STATUS.search(text)
    status = int(stated[0]) if stated else ERROR_CODE_TO_HTTP_STATUS.get(getattr(error, "error_code", ""), 0)
    status = 421 if "Invalid Host header" in text else status
    allowed, fix = _REFUSALS.get(status, ("", ""))
    fix = fix.format(host=urlsplit(uri).netloc)
    if _is_of_proxy(error):
        allowed = f"a proxy refuses the request ({error_line(error)[:200]})"
        fix = "Check the address and the login."
    return ParameterError("MLFLOW_TRACKING_URI", uri, allowed, fix) if allowed else None


def _unreachable(uri: str, error: Exception) -> L3DError:
    text = error_line(error)
    if isinstance(error, FileNotFoundError) and (line := disk_line(error)):
        return L3DError(line)
    if re.match(r"[\w.-]+:\d", uri):
        allowed, fix = "is read as a folder", f"Set MLFLOW_TRACKING_URI=http://{uri}."
    elif uri.endswith("mlruns") or "file store" in text.lower() or "filesystem tracking" in text.lower():
        uri, allowed = uri or "./mlruns", "runs need a database, not a folder of files"
        fix = "Set MLFLOW_TRACKING_URI=sqlite:///mlflow.db, or move the old ./mlruns away."
    elif version := re.search(r"found version (\w+)|revision identified by '(\w+)'", text):
        import mlflow

        migrations = Path(mlflow.__file__).parent.glob(f"store/db_migrations/versions/{version[1] or version[2]}*")
        age, fix = ("an older", f"Back it up, then run: mlflow db upgrade {uri}") if any(migrations) else _NEWER
        allowed = f"this store was written by {age} MLflow than the one installed here ({mlflow.__version__})"
    elif uri.startswith("sqlite:") and re.search("already exists|duplicate column", text):
        allowed = "MLflow is making this store in another process, or was stopped while it made it"
        fix = "Try again; if it stays so and the file holds no runs, remove the file."
    elif driver := re.search(r"No module named '(\w+)'", text):
        allowed = f"this store needs the Python module {driver[1]}, which is not installed"
        fix = f"Run pip install {_DRIVERS.get(driver[1], driver[1])}, or set another address."
    elif status := _STATUS.search(text):
        allowed = f"a server answers there, but with HTTP status {status[0]}"
        fix = "Check the address, also its path, and the server's log; if it is busy, try again later."
    elif isinstance(error, Warning):
        allowed = f"MLflow warns, and your filter makes warnings errors ({text[:200]})"
        fix = f"Add the filter default::{type(error).__module__}.{type(error).__qualname__}."
    elif "not in a valid JSON format" in text:
        allowed, fix = STRANGER
    elif uri.startswith("http"):
        allowed = f"no tracking server answers there ({text[:200]})"
        fix = "Start it, or set another address."
    else:
        allowed = f"this store cannot be used ({text[:200]})"
        fix = "Mend that and try again, or set another address."
    return ParameterError("MLFLOW_TRACKING_URI", uri, allowed, fix)


def outage_line(error: BaseException) -> str:
    """Return what is to be said of an outage: a disk of this machine, or the server, whose cause MLflow names last."""
    text = error_line(error)
    status = _STATUS.search(text)
    cause = re.sub(r".*\(Caused by (.*)\)|.*##### ", r"\1", text)[:200].rstrip(".")
    answer = f"HTTP status {status[0]}, see its log" if status else cause
    return disk_line(error) or f"The tracking server does not answer: {answer}."


def error_line(error: BaseException) -> str:
    """Return an exception as one line without credentials and without the user's folder."""
    stopped = "Interrupted. The same command continues" if isinstance(error, KeyboardInterrupt) else ""
    text = str(error).partition("[SQL:")[0] or stopped or type(error).__name__
    return public_path(public_text(public_uri(" ".join(text.split()))))
