"""Where a browser finds a run: what is said, when, and that nothing private is in it."""

import logging
import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import pytest

from mlflow_l3d.tracking.pages import STUDIES, places, told, with_links

RUN = "f" * 32


def test_a_server_is_addressed_without_its_login() -> None:
    run, studies = places("https://me:secret@host/mlflow/", "7", RUN)
    assert run == f"This run: https://host/mlflow/#/experiments/7/runs/{RUN}"
    head, filtered = studies.split("?searchFilter=")
    assert head == "All studies: https://host/mlflow/#/experiments/7/runs"
    assert re.fullmatch(r"[\w.%-]+", filtered)
    assert unquote(filtered) == STUDIES


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("sqlite:///mlflow.db", "sqlite:///mlflow.db"),
        ("sqlite:////a folder/mlflow.db", "'sqlite:////a folder/mlflow.db'"),
        ("postgresql://me:secret@host/runs", "postgresql://host/runs"),
    ],
)
def test_a_store_is_shown_by_a_server_of_ones_own(uri: str, shown: str) -> None:
    start, run, _ = places(uri, "0", RUN)
    assert start == f"To look at the runs: mlflow ui --backend-store-uri {shown}"
    assert run.endswith(f"http://127.0.0.1:5000/#/experiments/0/runs/{RUN}")


def test_it_is_said_once_and_not_of_runs_within(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "mlflow_l3d")
    with told("https://host", "1", RUN):
        assert len(caplog.messages) == 1
        with suppress(ZeroDivisionError), told("https://host", "1", "e" * 32):
            raise ZeroDivisionError
    assert caplog.messages == ["\n".join(places("https://host", "1", RUN))]
    with told("https://host", "1", RUN):
        assert len(caplog.messages) == 2


def test_a_description_links_report_and_list_relative_to_the_server(tmp_path: Path) -> None:
    (tmp_path / "sweep.html").touch()
    text = with_links("**A headline.**", "3", RUN, tmp_path)
    assert text.startswith(f"**A headline.**\n\n[The report](#/experiments/3/runs/{RUN}/artifacts/sweep.html)\n\n[")
    assert "](#/experiments/3/runs?searchFilter=" in text
    assert "'" not in text.partition("](")[2]
