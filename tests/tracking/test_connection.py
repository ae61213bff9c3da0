"""Addresses that lead nowhere, or to a server that refuses: one line each, quickly, and no password in it."""

import errno
import os
import re
import shutil
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from unittest.mock import Mock

import mlflow
import pytest
import requests
import sqlalchemy
from answering_server import serve
from mlflow.environment_variables import MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT
from mlflow.exceptions import MlflowException, RestException
from warm_start import WarmStart

import mlflow_l3d
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.paths import public_path
from mlflow_l3d.tracking import connection
from mlflow_l3d.tracking.children import found
from mlflow_l3d.tracking.connection import (
    again,
    connect,
    error_line,
    is_outage,
    outage_line,
    own_settings,
    public_uri,
)
from mlflow_l3d.tracking.parent import attach, current_experiment_id


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PAUSES", (0.01, 0.01))


def refusal(uri: str | None) -> str:
    mlflow.set_tracking_uri(uri)
    with own_settings(), pytest.raises(ParameterError) as caught:
        connect()
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("MLFLOW_TRACKING_URI")
    return text


@pytest.fixture
def answering(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the address of a server that answers everything with one status, or with one text, or both."""
    status, body = request.param if isinstance(request.param, tuple) else (request.param, "no")
    if isinstance(status, str):
        status, body = 200, status
    with serve(lambda *_: (status, body.encode())) as address:
        yield address


@pytest.mark.parametrize(
    ("answering", "says"),
    [
        (401, "the login fails"),
        (302, "a server answers there, but with HTTP status 302. Check"),
        (403, "denies this user access"),
        (404, "a server answers there, but with HTTP status 404. Check the address"),
        (429, "a server answers there, but with HTTP status 429. Check"),
        (503, "a server answers there, but with HTTP status 503. Check"),
        (200, "is not an MLflow tracking server, or a page to log in is in between. Check the address"),
        ((403, "Invalid Host header"), "Start it with --allowed-hosts 127.0.0.1:"),
        ((401, '{"message": "Unauthorized"}'), "a proxy refuses the request (INTERNAL_ERROR: Unauthorized). Check"),
        ((401, '{"error_code": "CUSTOMER_UNAUTHORIZED"}'), "MLFLOW_TRACKING_TOKEN."),
    ],
    indirect=["answering"],
)
def test_a_server_that_refuses(answering: str, says: str) -> None:
    text = refusal(f"http://ann:s3cret@{answering}")
    assert says in text
    assert answering in text
    assert "s3cret" not in text
    assert "ann" not in text


def test_an_experiment_that_nobody_may_create(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Mock(get_experiment_by_name=Mock(return_value=None))
    client.create_experiment.side_effect = MlflowException("quota of experiments reached")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    with pytest.raises(MlflowException, match="quota of experiments reached"):
        current_experiment_id(client)
    client.create_experiment.side_effect = RestException({"error_code": "BAD_REQUEST", "message": "value too long"})
    with pytest.raises(
        ParameterError, match=r"^MLFLOW_EXPERIMENT_NAME=mine: .* \(BAD_REQUEST: value too long\)\. Name"
    ):
        current_experiment_id(client)


@pytest.mark.parametrize(
    ("scheme", "package"), [("mysql", "mysqlclient"), ("mssql", "pyodbc"), ("postgresql+psycopg2", "psycopg2-binary")]
)
def test_a_driver_that_is_not_installed(scheme: str, package: str) -> None:
    text = refusal(f"{scheme}://ann:s3cret@127.0.0.1:1/db")
    assert re.search(rf"needs the Python module \w+, which is not installed\. Run pip install {package}, or", text)
    assert "s3cret" not in text


@pytest.mark.parametrize("answering", ["{}"], indirect=True)
def test_a_server_of_something_else(answering: str) -> None:
    mlflow.set_tracking_uri(f"http://{answering}")
    client = connect()
    with pytest.raises(ParameterError, match=r"^MLFLOW_TRACKING_URI=http://127.* is not an MLflow tracking server"):
        current_experiment_id(client)


def test_a_user_who_may_only_read() -> None:
    def write() -> None:
        raise RestException({"error_code": "PERMISSION_DENIED", "message": "Permission denied"})

    mlflow.set_tracking_uri("http://ann:s3cret@127.0.0.1:1")
    with pytest.raises(ParameterError, match=r"^MLFLOW_TRACKING_URI=http://127.0.0.1:1: .* Ask for permission"):
        again(write)
    assert found(lambda _: again(write), "run") is None


@pytest.mark.parametrize(
    ("status", "fix"), [("401 Client Error", "MLFLOW_TRACKING_PASSWORD"), ("413 Client Error", "client_max_body_size")]
)
def test_a_refused_artifact(status: str, fix: str) -> None:
    with pytest.raises(ParameterError, match=f"^MLFLOW_TRACKING_URI=.*{fix}"):
        again(Mock(side_effect=requests.HTTPError(f"{status}: <html>", response=Mock(status_code=int(status[:3])))))


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("ResponseError('too many 500 error responses')", "HTTP status 500, see its log."),
        ("E('refused')", "E('refused')."),
    ],
)
def test_the_cause_of_an_outage_behind_a_long_address(cause: str, said: str) -> None:
    error = MlflowException(f"API request to http://{'h' * 250} failed (Caused by {cause})")
    assert outage_line(error) == f"The tracking server does not answer: {said}"


def test_no_run_has_a_name_that_postgresql_refuses() -> None:
    attach(client := Mock(), None, "long" * 99, {}, "0")
    assert len(client.create_run.call_args.kwargs["run_name"]) == 250


def test_nobody_at_the_address() -> None:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = refusal(f"http://ann:{'s3cret' * 60}@127.0.0.1:{port}")
    assert "no tracking server answers there" in text
    assert "s3cret" not in text


@pytest.mark.slow
def test_an_old_folder_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlruns" / "0").mkdir(parents=True)
    (tmp_path / "mlruns" / "0" / "meta.yaml").write_text("experiment_id: '0'\nname: Default\n")
    for uri in (str(tmp_path / "mlruns"), None):
        assert "sqlite:///mlflow.db" in refusal(uri)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(tmp_path / "files")
    assert connect().search_experiments()
    with pytest.raises(ParameterError, match="runs need a database"):
        mlflow_l3d.investigate(approach="synthetic", factor="data_order", progress=False)
    assert mlflow_l3d.seeds(approach="synthetic", seeds=2, progress=False).run_id  # its metrics fit into files


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("127.0.0.1:5804", "Set MLFLOW_TRACKING_URI=http://127.0.0.1:5804."),
        ("sqlite:///FOLDER", "is a folder"),
        ("sqlite:///FOLDER/", "is a folder"),
        ("nonsense://x", ""),
        ("postgresql+nodriver://ann:s3cret@h/db", ""),
    ],
)
def test_an_address_that_is_none(uri: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = refusal(uri.replace("FOLDER", str(tmp_path)))
    assert said in line
    assert "s3cret" not in line
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_was_not_finished(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "half.db")) as tables, tables:
        tables.execute("CREATE TABLE _alembic_tmp_experiments (experiment_id INTEGER)")
    assert "stopped while it made it. Try again" in refusal(f"sqlite:///{tmp_path / 'half.db'}")


@pytest.mark.parametrize(("revision", "age"), [("ffffffffffff", "newer"), ("451aebb31d03", "older")])
def test_a_store_of_another_mlflow(tmp_path: Path, migrated_store: Path, revision: str, age: str) -> None:
    shutil.copyfile(migrated_store, tmp_path / "other.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as tables, tables:
        tables.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    line = refusal(f"sqlite:///{tmp_path / 'other.db'}")
    assert f"written by {'an' if age == 'older' else 'a'} {age} MLflow than the one installed here (3." in line
    assert ("pip install --upgrade mlflow" if age == "newer" else "Back it up, then run: mlflow db upgrade") in line


@pytest.mark.parametrize("name", ["new", "with%20blank"])
def test_a_new_sqlite_file_is_there_whole_or_not_at_all(name, tmp_path, migrated_store, monkeypatch) -> None:
    uri = f"sqlite:///{tmp_path}/{name}/mlflow.db"
    folder, drafts = Path(str(sqlalchemy.make_url(uri).database)).parent, []

    def make(engine: sqlalchemy.Engine) -> None:
        drafts.append(Path(str(engine.url.database)))
        drafts[-1].write_bytes(migrated_store.read_bytes()[: None if len(drafts) > 1 else 4096])
        if len(drafts) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("mlflow.store.db.utils._initialize_tables", make)
    mlflow.set_tracking_uri(uri)
    with pytest.raises(KeyboardInterrupt):
        connect()
    assert not (folder / "mlflow.db").exists()
    connect()
    assert [path.name for path in folder.iterdir()] == ["mlflow.db"]


@pytest.mark.slow
def test_two_commands_on_a_new_sqlite_file(tmp_path: Path, migrated_store: Path) -> None:
    """One migrates as MLflow does, for seconds, and finds the file of the other, which copies one, at its place."""
    quick = "import shutil\nfrom mlflow.store.db import utils\n"
    quick += f"utils._initialize_tables = lambda made: shutil.copyfile({str(migrated_store)!r}, made.url.database)\n"
    own, both = {**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/new.db"}, []
    for number, begin in enumerate(("", quick)):
        script = tmp_path / f"script{number}.py"
        script.write_text(f"{begin}from mlflow_l3d.tracking.connection import connect\nconnect()\n")
        both.append(WarmStart([str(script)], tmp_path, own))
    assert [process.communicate(timeout=120)[1] * process.returncode for process in both] == ["", ""]


def test_a_call_is_tried_again_while_there_is_an_outage_and_somebody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PAUSES", (0.0,) * 3)

    def tries(*failures: Exception) -> int:
        left = list(failures)

        def call() -> int:
            if left:
                raise left.pop(0)
            return 1

        with suppress(MlflowException, ValueError):
            again(call)
        return len(failures) - len(left)

    away, refused = MlflowException("error code 503 != 200"), MlflowException("Failed to establish a new connection")
    assert tries(away, away, away) == 3
    assert tries(*[away] * 9) == 4
    assert tries(away, ValueError("ours"), away) == 2
    assert tries(refused, refused) == 1
    assert tries(*[MlflowException("Detected out-of-date database schema (found version f4a9b2c7d1e6, ...")] * 2) == 1


def test_a_warning_that_the_user_makes_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow, "MlflowClient", Mock(side_effect=DeprecationWarning("old")))
    line = refusal("http://h")
    assert line.endswith("makes warnings errors (old). Add the filter default::builtins.DeprecationWarning.")


def test_the_folder_of_an_sqlite_file_is_made(tmp_path: Path, migrated_store: Path) -> None:
    (tmp_path / "new").symlink_to(migrated_store.parent)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'new' / 'mlflow.db'}")
    connect()


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://ann:secret@host:5000/x", "http://host:5000/x"),
        ("http://ann:se@cret@host/x", "http://host/x"),
        ("https://host/x", "https://host/x"),
        ("see http://host/x and write to a@b", "see http://host/x and write to a@b"),
        ("git+https://token@host/r and http://u@h", "git+https://host/r and http://h"),
        ("sqlite:////some/x.db", "sqlite:////some/x.db"),
    ],
)
def test_users_are_left_out_of_addresses(uri: str, shown: str) -> None:
    assert public_uri(uri) == shown


@pytest.mark.slow
def test_a_working_folder_that_was_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    here.rmdir()
    with pytest.raises(L3DError, match=r"^The working folder was removed"):
        connect()


def test_the_home_folder_and_statements_are_left_out() -> None:
    home = Path.home()
    assert public_path(f"no {home}/data.csv") == "no ~/data.csv"
    assert public_path(f"{home}extra/data.csv") == f"{home}extra/data.csv"
    assert error_line(OSError(f"a\n  b {home}")) == "a b ~"
    text = "(sqlite3.OperationalError) database or disk is full\n[SQL: INSERT INTO runs ...]\n[parameters: ('a',)]"
    assert error_line(MlflowException(text)) == "(sqlite3.OperationalError) database or disk is full"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionError(), True),
        (requests.ReadTimeout(), True),
        (MlflowException("API request to http://h failed with exception refused"), True),
        (MlflowException("API request failed with error code 503 != 200"), True),
        (MlflowException("API request failed with error code 413 != 200"), False),
        (RestException({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no run"}), False),
        (RestException({"error_code": "TEMPORARILY_UNAVAILABLE", "message": "database is locked"}), True),
        (requests.HTTPError(response=Mock(status_code=503)), True),
        (requests.HTTPError(response=Mock(status_code=403)), False),
        (MlflowException("failures while downloading: ##### File a #####\n403 Client Error: Forbidden for url"), False),
        (MlflowException("failed with error code 302 != 200"), False),
        (MlflowException("failed with error code 521 != 200"), True),
        (RestException({"message": "Unauthorized"}), False),
        (L3DError("the disk is full"), False),
        (ValueError("a mistake of ours"), False),
        (OSError(errno.ENOSPC, "full"), True),
        (OSError(errno.EROFS, "read-only"), False),
    ],
)
def test_what_may_succeed_later(error: Exception, expected: bool) -> None:
    assert is_outage(error) is expected


def test_mlflow_prints_no_address_for_each_of_a_thousand_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT.name, raising=False)
    with own_settings():
        assert MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT.get() is True
    assert MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT.name not in os.environ
