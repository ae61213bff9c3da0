"""`view`: the list of studies and their reports, on this machine alone or as pages to share."""

from __future__ import annotations

import os
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from html import unescape
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow import MlflowClient
from refusals import fails, refuses
from run_helpers import Place, sqlite_place

from mlflow_l3d import cli, load
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.evaluation import view as viewing
from mlflow_l3d.studies.evaluation.view import view
from mlflow_l3d.studies.helpers import PORT
from mlflow_l3d.tracking import children
from mlflow_l3d.tracking.earlier.reader import parent_run, read_investigation

pytestmark = pytest.mark.slow
Studied = tuple[Place, str, str]


@pytest.fixture(scope="module")
def studied(migrated_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Studied:
    """Give a place with a finished study, and one that is under way, which continues a third."""
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("view") / "place")
    done = place.investigate().run_id
    tags = {"l3d.role": "investigation", "mlflow.runName": "<b>under way</b>", "mlflow.note.content": "[The studies]"}
    going = place.client.create_run("0", tags=tags).info.run_id
    place.client.create_run("0", tags={**tags, "l3d.superseded_by": going})
    return place, done, going


@pytest.fixture(autouse=True)
def entered(studied: Studied) -> Iterator[None]:
    """Let each test work there."""
    with studied[0].entered():
        yield


@pytest.fixture
def killed(studied: Studied) -> Iterator[str]:
    """Give a run whose process is dead: its last heartbeat is long ago."""
    client, note = studied[0].client, "## The candidate is worse.\n\nMore."
    tags = {"l3d.role": "gate", "l3d.heartbeat": "1", "l3d.error": "No power.", "mlflow.note.content": note}
    run_id = client.create_run("0", tags=tags).info.run_id
    part = client.create_run("0", tags={"l3d.role": "golden_runs"}).info.run_id
    yield run_id
    client.delete_run(run_id)
    client.delete_run(part)


def test_bundle_holds_the_list_and_every_report(studied: Studied, tmp_path: Path) -> None:
    place, done, going = studied
    found = view(bundle=tmp_path / "pages")
    one = view(done, bundle=tmp_path / "one")
    assert (found.studies, one.studies) == (2, 1)
    assert {path.name for path in (tmp_path / "pages").iterdir()} == {"index.html", f"{done}.html"}
    index = (tmp_path / "pages" / "index.html").read_text(encoding="utf-8")
    assert f'<a href="{done}.html">' in index
    assert f"{going}.html" not in index
    assert "&lt;b&gt;under way&lt;/b&gt;" in index
    assert "Between two single runs, a difference below" in index
    assert place.download(done, "report.html", tmp_path).read_text() == (tmp_path / "one" / f"{done}.html").read_text()


@pytest.fixture
def address(studied: Studied, elsewhere: Place) -> Iterator[str]:
    place, *_ = studied
    handler = type("Pages", (viewing._Handler,), {"client": place.client})
    with elsewhere.entered(), ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def policy(address: str) -> str:
    """Return what a page may load."""
    with urllib.request.urlopen(address) as answer:
        return answer.headers["Content-Security-Policy"]


def get(address: str, **headers: str) -> tuple[int, str, str]:
    """Return status, page, and after how many seconds the page asks again."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
            return answer.status, answer.read().decode(), answer.headers.get("Refresh", "")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, "", ""


def test_pages_are_served_to_this_machine_and_kept_up_to_date(studied: Studied, address: str) -> None:
    _, done, going = studied
    status, page, refresh = get(address)
    assert (status, refresh) == (200, "10")
    assert "2 studies, 1 of them running" in page
    assert "[The studies]" not in page
    assert f'href="/{done}"' in page
    assert f'href="/{going}"' in page
    assert all(f">{each}</td>" in page for each in (done, going))
    assert re.search(r">20\d\d-\d\d-\d\d \d\d:\d\d</td>", page)
    assert get(address + done)[::2] == (200, "")
    assert policy(address + done).startswith("default-src 'none'; ")
    status, page, refresh = get(address + going)
    assert "has no report yet" in page
    assert (status, refresh) == (200, "10")
    assert get(address + "a" * 32)[0] == get(address + "../secret")[0] == 404
    assert get(address + done[:12])[0] == 404  # not that the study has no report
    assert get(address, Host="stranger.example")[0] == 403


def test_nobody_waits_for_a_study_that_was_killed(studied: Studied, killed: str, address: str) -> None:
    place, _, going = studied
    page, report, refresh = get(address)[1], *get(address + killed)[1:]
    assert "3 studies, 1 of them running" in page  # runs that a gate trained are not among them
    assert ">The candidate is worse.<" in page
    assert ">killed<" in page
    assert "The study ended without a report." in report
    assert "No power." in report
    assert refresh == ""
    place.client.set_terminated(going)
    place.client.set_tag(going, "l3d.state", "incomplete")
    try:
        assert ">incomplete<" in get(address)[1]
        assert get(address)[2] == ""  # nothing is under way
    finally:
        place.client.set_tag(going, "l3d.state", "running")
        place.client.update_run(going, "RUNNING")


def test_the_beginning_of_an_id_is_enough_if_one_study_has_it(studied: Studied, tmp_path: Path) -> None:
    place, done, _ = studied
    assert view(done[:12], bundle=tmp_path / "pages").studies == 1
    assert (tmp_path / "pages" / f"{done}.html").is_file()
    refuses(r"parent_run_id=abc: no such run .* Give its whole id", view, "abc", bundle=tmp_path / "pages")
    assert load(done[:12]).run_id == load(done).run_id
    assert read_investigation(done[:12], place.client).parent.info.run_id == done


def test_the_beginning_of_two_ids_lists_them(monkeypatch: pytest.MonkeyPatch) -> None:
    run_ids = [f"{end:032x}" for end in (1, 2)]
    runs = [SimpleNamespace(info=SimpleNamespace(run_id=run_id)) for run_id in run_ids]
    monkeypatch.setattr(children, "search", lambda *_: runs)
    with pytest.raises(ParameterError, match=rf"baseline=0000: studies begin so: {', '.join(run_ids)}\. Give more"):
        parent_run(MlflowClient(), "0000", "baseline")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"port": 70000}, "port=70000: must be a whole number from 0 to 65535"),
        ({"port": -1}, "port=-1: must be"),
        ({"cite": True}, "parent_run_id=all: must be the study to cite. Name it: mlflow-l3d view RUN_ID"),
        ({"cite": True, "bundle": "pages"}, "bundle=pages: has no effect with cite"),
        ({"cite": True, "parent_run_id": "a" * 32}, "parent_run_id=aaaa"),
    ],
)
def test_mistakes_are_one_line(studied: Studied, options: dict[str, Any], line: str) -> None:
    with pytest.raises(ParameterError) as caught:
        view(**options)
    assert str(caught.value).startswith(line)


def test_the_last_port_has_no_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def taken(place: tuple[str, int], _: object) -> None:
        tried.append(place[1])
        raise OSError

    monkeypatch.setattr(viewing, "ThreadingHTTPServer", taken)
    for port in (65_530, PORT):
        fails(f"port={port}: none of the next 20 ports is free", viewing._listening, port, viewing._Handler)
    assert tried[:7] == [*range(65_530, 65_536), PORT]
    assert not {5060, 5061} & {*tried}  # browsers open neither


def test_no_address_is_given_when_it_is_no_longer_served(
    studied: Studied, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", interrupted)
    assert view(port=0, browser=False).summary() == "2 studies: no longer served"
    assert f"\nCtrl-C ends it, or: kill {os.getpid()}. " in caplog.messages[-1]


def test_a_notebook_shows_the_page_and_is_not_blocked(studied: Studied, monkeypatch: pytest.MonkeyPatch) -> None:
    _, done, _ = studied
    monkeypatch.setattr(viewing, "in_notebook", lambda: True)
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", lambda _: pytest.fail("it blocks"))
    one, every, written = view(done), view(), view(done, cite=True)
    assert unescape(str(one._repr_html_())).count(str(viewing.report_of(viewing.connect(), done))) == 1
    assert (one.summary(), every.summary()) == ("1 study: this notebook", "2 studies: this notebook")
    assert "<h1>2 studies" in unescape(str(every._repr_html_()))
    assert written._repr_html_() is None


def test_a_study_without_a_report_and_an_unknown_run_are_refused(studied: Studied) -> None:
    _, _, going = studied
    refuses(r"is not a finished study\. List: mlflow-l3d view", view, going)
    refuses("no such run", view, "a" * 32)


def test_an_empty_server_says_how_to_begin(tmp_path: Path, migrated_store: Path) -> None:
    place = sqlite_place(migrated_store, tmp_path / "place")
    with place.entered():
        assert view(bundle=tmp_path / "pages").summary().startswith("0 studies: ")
    assert "mlflow-l3d investigate" in (tmp_path / "pages" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("verb", "name"), [("view", "parent_run_id"), ("evaluate", "source"), ("delete", "parent_run_id")]
)
def test_a_run_may_stand_behind_the_verb(verb: str, name: str) -> None:
    assert cli._parse([verb, "abc"])[name] == "abc"
    refuses("is named twice", cli._parse, [verb, "abc", f"--{name.replace('_', '-')}", "def"])


def test_the_next_port_is_taken_if_one_is_not_free() -> None:
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), viewing._Handler) as first,
        viewing._listening(first.server_port, viewing._Handler) as second,
    ):
        assert first.server_port < second.server_port <= first.server_port + 20


def test_client_is_that_of_the_server(studied: Studied) -> None:
    place, done, going = studied
    assert [run.info.run_id for run in viewing.studies_of(MlflowClient(place.uri))] == [going, done]


def test_a_paper_gets_its_sentence(studied: Studied) -> None:
    _, done, _ = studied
    text = view(done, cite=True).summary()
    assert text.startswith("Over ")
    assert r"\begin{tabular}" in text
    assert "@inproceedings{pecher2024sensitivity" in text
