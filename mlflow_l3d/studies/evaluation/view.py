"""`view`: the reports of all studies on the tracking server, served on this machine, or written as pages to share."""

from __future__ import annotations

import os
import re
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Unpack

from markupsafe import Markup

from mlflow_l3d.errors import L3DError, ParameterError, logger
from mlflow_l3d.parameters import read_arguments, with_signature
from mlflow_l3d.report.numbers import counted, shorten
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.table import Drawn, Table
from mlflow_l3d.report.text import marked
from mlflow_l3d.studies.base import entry_point
from mlflow_l3d.studies.evaluation.finished import result_of, write_comment
from mlflow_l3d.studies.files import temporary_folder
from mlflow_l3d.studies.helpers import VIEW, ViewOptions
from mlflow_l3d.studies.shown import framed, in_notebook
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import search, whole_id
from mlflow_l3d.tracking.connection import Client, Run, connect
from mlflow_l3d.tracking.earlier import latest_investigation
from mlflow_l3d.tracking.earlier.reader import fetch_artifact, parent_run
from mlflow_l3d.tracking.pages import STUDIES
from mlflow_l3d.tracking.parent import is_stale

_HOSTS: Final = ("127.0.0.1", "localhost")


@dataclass(frozen=True)
class Viewed:
    """The result of :func:`view`.

    Attributes
    ----------
    studies
        How many studies there are.
    place
        The folder that holds them, or ``this notebook``; empty if they were served.
    text
        What a paper says, or the verdict and the files of comment and badge, if that was asked for.
    page
        The page that a notebook shows.
    """

    studies: int
    place: str = ""
    text: str = ""
    page: str = field(default="", repr=False)

    def summary(self) -> str:
        """Return the text that the command line prints."""
        return self.text or f"{counted(self.studies, 'study')}: {self.place or 'no longer served'}"

    def _repr_html_(self) -> str | None:
        return framed(self.page) if self.page else None


@with_signature(ViewOptions)
def view(parent_run_id: str = "all", **options: Unpack[ViewOptions]) -> Viewed:
    """Open the report of a study, or the list of all studies on the tracking server.

    The pages are served on this machine alone until Ctrl-C; a list with something that runs is kept up to date. A
    notebook shows the page below the cell instead.

    Parameters
    ----------
    parent_run_id
        The study; ``all`` for the list, ``latest`` for the latest investigation.
    bundle
        A folder that the reports are written to instead, with the list as ``index.html``; made if it is not there.
    port
        Of the address; if it is taken, the next free one. 0 is any.
    browser
        Whether to open a browser.
    cite
        Whether to return what a paper says of an investigation instead: a sentence, a LaTeX table and BibTeX.
    comment, badge
        Files that a comment for a pull request (Markdown) and a badge (SVG) of a study are written to instead.

    Returns
    -------
    Viewed
        How many studies there are, and their place.

    Raises
    ------
    ParameterError
        If there is no such run, or it has no report; with `cite` also if none is named, or a `bundle`.
    L3DError
        If no port is free.

    Examples
    --------
    >>> import mlflow_l3d
    >>> run = mlflow_l3d.seeds("synthetic", approach="synthetic", seeds=[4, 5, 6], executor="inline")
    >>> mlflow_l3d.view(run.run_id, bundle="reports").place
    'reports'
    """
    asked = read_arguments({"parent_run_id": parent_run_id, **options}, VIEW)
    paths = {name: asked.texts[name] for name in ("bundle", "comment", "badge")}
    for name, path in paths.items():
        if asked["cite"] and path != "none":
            raise ParameterError(name, path, "has no effect with cite, which prints a text", "Leave one out.")
    bundle, comment, badge = paths.values()
    with entry_point():
        client = connect()
        parent_run_id = latest_investigation(client) if parent_run_id == "latest" else whole_id(client, parent_run_id)
        if asked["cite"]:
            return Viewed(1, text=_cited(client, parent_run_id))
        if {comment, badge} != {"none"}:
            text = write_comment(client, parent_run_id, comment, badge)
            if bundle != "none":
                _write(client, parent_run_id, Path(bundle))
            return Viewed(1, bundle, text)
        report = "" if parent_run_id == "all" else report_of(client, parent_run_id)
        if report is None:
            raise ParameterError("parent_run_id", parent_run_id, "is not a finished study", "List: mlflow-l3d view")
        if bundle != "none":
            return _write(client, parent_run_id, Path(bundle))
        if in_notebook():
            runs = [] if report else studies_of(client)
            return Viewed(len(runs) or 1, "this notebook", page=report or list_document(runs, {}).to_html())
        return _serve(client, parent_run_id, asked["port"], opened=asked["browser"])


def _cited(client: Client, run_id: str) -> str:
    from mlflow_l3d.studies.seeds.numbers import SeedsStudy
    from mlflow_l3d.studies.seeds.report.words import citation

    if run_id == "all":
        fix = "Name it: mlflow-l3d view RUN_ID --cite."
        raise ParameterError("parent_run_id", run_id, "must be the study to cite", fix)
    result = result_of(client, run_id, "parent_run_id")
    # Files of another tool are a seeds study, too, unless their runs make groups.
    if isinstance(study := getattr(result, "study", None), SeedsStudy):
        return "\n\n".join(text for _, text in citation(study, result.about.source))
    if not hasattr(result, "cited"):
        fix = "Leave out --cite, and see its report."
        raise ParameterError("parent_run_id", run_id, "must be the run of an investigation or a seeds study", fix)
    return str(result.cited())


def studies_of(client: Client) -> list[Run]:
    """Return the parents of all studies that no other run continues, newest first."""
    others = (None, "golden_runs", "baseline", "candidate")  # of other code, and of a gate or a referee
    runs = [run for run in search(client, None, STUDIES) if run.data.tags.get(names.ROLE) not in others]
    runs = [run for run in runs if not {names.SUPERSEDED_BY, names.SWEEP} & set(run.data.tags)]
    return sorted(runs, key=lambda run: -run.info.start_time)


def report_of(client: Client, run_id: str) -> str | None:
    """Return the report of a study as HTML; None if it has none yet; raise a ParameterError if it does not exist."""
    parent_run(client, run_id)
    with temporary_folder() as folder:
        for name in (names.REPORT, names.SWEEP_REPORT, names.SEARCH_REPORT):
            if (path := fetch_artifact(client, run_id, name, folder)) is not None:
                return path.read_text(encoding="utf-8")
    return None


def is_going(run: Run) -> bool:
    """Return whether a study is at work: the run of a killed process is running, too, but its heart stands still."""
    return bool(run.info.status == "RUNNING" and not (names.HEARTBEAT in run.data.tags and is_stale(run)))


def _state(run: Run) -> str:
    """Return the state of a study in a word: one that ended without some of its scores is incomplete."""
    status = str(run.info.status).lower()
    if status == "running":
        return status if is_going(run) else "killed"
    return "incomplete" if status == "finished" and run.data.tags.get(names.STATE) == "incomplete" else status


def list_document(runs: list[Run], links: Mapping[str, str]) -> Document:
    """Return the list of studies; those that have a link can be opened."""
    rows = []
    for run in runs:
        run_id, name = str(run.info.run_id), str(run.info.run_name)
        link = Drawn(Markup('<a href="{}">{}</a>').format(links.get(run_id), name), name)
        begun = datetime.fromtimestamp(run.info.start_time / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        row = {"study": link if run_id in links else name, "answer": _answer(run), "state": _state(run)}
        rows.append({**row, "begun (UTC)": begun, "run": run_id})
    table = Table.of(rows, texts=frozenset({1, 2, 3, 4})) if rows else None
    going = sum(map(is_going, runs))
    headline = counted(len(runs), "study") + (f", {going} of them running" if going else "")
    notes = [] if rows else ["There is no study yet. Begin with: mlflow-l3d investigate"]
    return Document(title="Studies", headline=headline, table=table, notes=notes)


def _answer(run: Run) -> str:
    """Return what the description of a run begins with: its headline; empty if it holds links alone."""
    first = str(run.data.tags.get(names.NOTE, "")).split("\n", 1)[0].removeprefix("## ").partition("[The ")[0]
    return shorten(marked(first.split("** ", 1)[0].removeprefix("**")), 160)


def _write(client: Client, run_id: str, folder: Path) -> Viewed:
    """Write reports, and their list, to a folder."""
    runs = studies_of(client) if run_id == "all" else [parent_run(client, run_id)]
    folder.mkdir(parents=True, exist_ok=True)
    links = {}
    for run in runs:
        one = str(run.info.run_id)
        if (report := report_of(client, one)) is not None:
            links[one] = f"{one}.html"
            (folder / links[one]).write_text(report, encoding="utf-8")
    (folder / "index.html").write_text(list_document(runs, links).to_html(), encoding="utf-8")
    return Viewed(len(runs), str(folder))


def _serve(client: Client, run_id: str, port: int, *, opened: bool) -> Viewed:
    server = _listening(port, type("_Pages", (_Handler,), {"client": client}))
    address = f"http://{_HOSTS[0]}:{server.server_port}/"
    logger.warning("%s\nCtrl-C ends it, or: kill %d. To write pages instead: --bundle FOLDER", address, os.getpid())
    if opened:
        webbrowser.open(address if run_id == "all" else f"{address}{run_id}")
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()
    return Viewed(len(studies_of(client)))


def _listening(port: int, handler: Any) -> ThreadingHTTPServer:
    """Return a server at the first port that is free."""
    for each in range(port, min(port + 20, 65_536)):
        with suppress(OSError):
            return ThreadingHTTPServer((_HOSTS[0], each), handler)
    raise L3DError(f"port={port}: none of the next 20 ports is free. Name another one.")


def _message(headline: str, *notes: str) -> str:
    return Document(title=headline, headline=headline, notes=notes).to_html()


class _Handler(BaseHTTPRequestHandler):
    """Answers with the list at ``/``, and with a report at ``/RUN_ID``."""

    client: Client

    def do_GET(self) -> None:
        """Answer a browser of this machine; any other page may not read what is served here."""
        if self.headers.get("Host", "").partition(":")[0] not in _HOSTS:
            self.send_error(403)
            return
        try:
            status, page, changes = self._page(self.path.partition("?")[0].strip("/"))
        except L3DError as error:
            status, page, changes = 404, _message("Not found", str(error)), False
        content = page.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        # Pages hold all that they show, and ask for nothing.
        policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
        self.send_header("Content-Security-Policy", policy)
        if changes:
            self.send_header("Refresh", "10")
        self.end_headers()
        self.wfile.write(content)

    def _page(self, place: str) -> tuple[int, str, bool]:
        """Return status and page, and whether it will change while somebody looks at it."""
        if not place:
            runs = studies_of(self.client)
            links = {str(run.info.run_id): f"/{run.info.run_id}" for run in runs}
            return 200, list_document(runs, links).to_html(), any(map(is_going, runs))
        if not re.fullmatch(r"[0-9a-f]{32}", place):
            return 404, _message("There is no such page."), False
        if (report := report_of(self.client, place)) is not None:
            return 200, report, False
        run = parent_run(self.client, place)
        going, why = is_going(run), run.data.tags.get(names.ERROR, "")
        headline = "The study has no report yet." if going else "The study ended without a report."
        return 200, _message(headline, f"Run {place}. {why}"), going

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
