"""What holds for the document of every study: its page is whole and safe, and its text fits the terminal."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from gate_answers import document_of, gate_answer
from hand_made_analyses import make_analysis, make_importance, nothing
from pages import Page, plain_words
from seeds_report_cases import all_studies, regression, study
from simulated_analyses import simulated, with_interim_analyses
from sweep_cases import drawn_sweep

from mlflow_l3d import report
from mlflow_l3d.analysis.comparison import compare_systems
from mlflow_l3d.analysis.comparison.system import System
from mlflow_l3d.analysis.importance.results import Check
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.approaches.hyperparameters import SearchRange
from mlflow_l3d.designs import design_named
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table
from mlflow_l3d.report.text import WIDTH, marked
from mlflow_l3d.studies.comparison.report import comparison_document
from mlflow_l3d.studies.comparison.report.words import ComparedParent
from mlflow_l3d.studies.investigation.report import investigation_document
from mlflow_l3d.studies.search.numbers import HeldOut, SearchResult
from mlflow_l3d.studies.search.report import search_report
from mlflow_l3d.studies.search.trials import FinishedTrial, trials_table
from mlflow_l3d.studies.seeds.numbers.over_tasks import over_tasks
from mlflow_l3d.studies.seeds.report import seeds_document
from mlflow_l3d.studies.seeds.report.over_tasks import over_tasks_document
from mlflow_l3d.studies.sweep.numbers import analyse_sweep
from mlflow_l3d.studies.sweep.numbers.point import SweptPoint
from mlflow_l3d.studies.sweep.report import sweep_document

pytestmark = pytest.mark.slow

ATTACK = "<script>alert('x')</script>"
CLASS = '"><img onerror=\'alert(1)\' onmouseover="alert(1)" x="&quot;'
SETTINGS = {ATTACK: ATTACK, '"><img src=x onerror=alert(1)>': '" onload="x'}


def investigation(analysis: Analysis) -> Document:
    paths = partial(design_named(analysis.design).paths, analysis.importances)
    source = Source(classes=(CLASS, ATTACK))
    return investigation_document(analysis, title=ATTACK, notes=[ATTACK], settings=SETTINGS, paths=paths, source=source)


def attacked() -> Analysis:
    analysis = with_interim_analyses(simulated("crossed", factors=(ATTACK, "b")))
    frame = analysis.examples.frame.assign(example_id=ATTACK)  # type: ignore[union-attr]
    looks = analysis.interim_analyses.assign(reason=ATTACK)  # type: ignore[union-attr]
    checks = (Check("L3D001", "warning", ATTACK, ATTACK, ATTACK),)
    examples = replace(analysis.examples, frame=frame)  # type: ignore[type-var]
    return replace(analysis, examples=examples, interim_analyses=looks, checks=checks, metric=named(ATTACK))


def comparison() -> Document:
    systems = [System(name, np.array([0.5, 0.6, 0.7, level])) for name, level in ((ATTACK, 0.8), ("b", 0.9))]
    compared = compare_systems({ATTACK: systems}, named("accuracy"))
    frames = [pd.DataFrame({"system": one.name, "score": one.scores, "pair": range(4)}) for one in systems]
    scores = pd.concat(frames, ignore_index=True).assign(task=ATTACK)
    command = Source(given={"task": ATTACK}).command(golden_runs="RUNS")
    parents = [ComparedParent(ATTACK, name, ATTACK, "0", {ATTACK: name}, command) for name in (ATTACK, "b")]
    source = Source(run_id="r1", given={"runs": ATTACK})
    return comparison_document(compared, scores, pd.DataFrame(), parents=parents, source=source, settings=SETTINGS)


def search(text: str, *, failed: bool = False) -> Document:
    trial = FinishedTrial(0, {"rate": 0.1}, {"rate": 0.1}, "k", "failed" if failed else "complete", 0.5)
    better = FinishedTrial(1, {"rate": 0.2}, {"rate": 0.2}, "l", "complete", 0.6)
    trials = {"coarse": [trial] if failed else [trial, better]}
    table = trials_table(trials, ["rate"], default={"rate": 0.1}, run_of=lambda _: text, metrics={})
    found = SearchResult(
        title=ATTACK,
        metric=named(text or "f1_macro"),
        stages={"coarse": {"rate": SearchRange(0.0, 1.0)}},
        trials=table,
        best={"rate": 0.2, "optimizer": text},
        default={"rate": 0.1},
        importances={} if failed else {"rate": 0.5},
        configurations=1,
        validation_examples=200,
        held_out=None if failed else HeldOut((0.7, 0.8), (0.6, 0.75), 0.075, 0.01, 0.14),
        run_id=text,
        notes=(text,) if text else (),
    )
    return search_report(found, source=Source(), lines=(), settings=SETTINGS)


def sweep(*, scored: bool) -> Document:
    lost = SweptPoint("lost", {"shots": 8, "prompt_format": ATTACK}, "sst2", None, ATTACK)
    points = drawn_sweep({"shots": [2, 4], "prompt_format": [ATTACK, "B"]}) if scored else []
    return sweep_document(analyse_sweep([*points, lost]), title=ATTACK)


def odd(**changes: Any) -> Document:
    """Return the document of factors with odd names; `changes` of their records."""
    names = ["$x_1$ and $", r"\frac{", "数据顺序", "a" * 300, "_hidden"] if not changes else ["a"]
    records = [replace(make_importance(name, rows=3, columns=2), **changes) for name in names]
    return investigation(make_analysis(records))


MAKERS: dict[str, Callable[[], Document]] = {
    "attacked": lambda: investigation(attacked()),
    **{
        design: partial(lambda name: investigation(simulated(name)), design)
        for design in ("crossed", "nested", "radial", "random", "fixed")
    },
    "pooled": lambda: investigation(simulated("crossed", pooled=True)),
    "odd names": odd,
    "constant scores": lambda: odd(table=np.full((4, 3), 0.5), golden=np.full(6, 0.5)),
    "no score": lambda: investigation(make_analysis([nothing("data_order")], predictions=False)),
    "no factor": lambda: investigation(make_analysis([])),
    "seeds": lambda: seeds_document(study("mrpc", model=ATTACK), title=ATTACK, notes=[ATTACK], settings=SETTINGS),
    "seeds of numbers": lambda: seeds_document(regression(), title="t"),
    "seeds over tasks": lambda: over_tasks_document(over_tasks(all_studies()), title=ATTACK),
    "seeds of one task": lambda: over_tasks_document(over_tasks([study("mrpc", model=ATTACK)]), title="t"),
    "sweep": partial(sweep, scored=True),
    "sweep without scores": partial(sweep, scored=False),
    "comparison": comparison,
    "search": partial(search, ATTACK),
    "search without scores": partial(search, "", failed=True),
    "gate": lambda: document_of(gate_answer(-0.03, other=(-0.05, 0.001)), settings=SETTINGS),
}


@pytest.fixture(scope="module", params=MAKERS)
def document(request: pytest.FixtureRequest) -> Document:
    return MAKERS[request.param]()


@pytest.fixture(scope="module")
def html(document: Document) -> str:
    return document.to_html()


def test_page_is_whole_and_safe(document: Document, html: str) -> None:
    page = Page(html)
    assert page.tags.count("script") == 2  # data and script
    assert not {"img", "link", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    links = ("src", "href", "xlink:href", "srcset", "data", "action")
    addresses = [value for _, name, value in page.attributes if name in links]
    assert all(value.startswith(("#", "data:image/png;base64,")) for value in addresses)
    cited = re.sub(r"  url += \{https://[\w./-]+\},\n", "", html)  # of BibTeX, as text
    assert not re.search(r"@import|@font-face|http|url\((?!#)", cited)
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', html)) <= set(ids)
    assert not re.search(r"\b(?:nan|inf|None)\b", page.text)
    levels = [int(tag[1]) for tag in page.tags if tag in ("h1", "h2", "h3")]
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels)), (
        "a heading of each level, for screen readers"
    )
    assert not re.search(r"<th[^>]*></th>|<td scope", html)
    assert document.to_html() == html


def test_page_shows_headline_notes_answers_steps_tables_and_settings(document: Document, html: str) -> None:
    shown = Page(html).text
    answers = [part for answer in document.answers for part in (answer.question, answer.lead)]
    steps = [part for step in document.steps for part in (step.said, step.command)]
    cells = [section.title for section in document.sections if any(section.parts)]
    first = (document.title, document.headline, *document.notes, *answers, *steps, *cells)
    for text in (*first, *document.settings, *document.settings.values()):
        assert plain_words(marked(text)) in shown


SCRIPT = (Path(report.__file__).parent / "templates" / "script.html").read_text(encoding="utf-8")
NUMBERS = {
    "parseInt(sign, 36) % 8",
    "row + 1",
    'seed < 0 ? "" : data.seeds[seed]',
    "td.textContent",
    'squares.join("")',
    'drawn.join("")',
    "link(factor.runs[at])",
    "changes(Number(button.dataset.at))",
    "changed",
    "twice",
}
"""What the script writes as it is: numbers, scores, and what it has escaped before."""


def test_script_escapes_every_text_that_it_writes() -> None:
    written = [part for line in SCRIPT.splitlines() if re.search("`<", line) for part in expressions(line)]
    assert len(written) > 10
    assert {part for part in written if not part.startswith(("text(", "twice ? `"))} <= NUMBERS


def expressions(line: str) -> Iterator[str]:
    """Yield what stands between ``${`` and its brace."""
    for start in (hit.end() for hit in re.finditer(r"\$\{", line)):
        depth, end = 1, start
        while depth:
            depth += {"{": 1, "}": -1}.get(line[end], 0)
            end += 1
        yield line[start : end - 1]


@pytest.mark.skipif(shutil.which("node") is None, reason="runs the script of a page")
def test_class_names_add_no_attribute_to_what_the_script_writes() -> None:
    escape = next(line for line in SCRIPT.splitlines() if line.startswith("  const text = "))
    changes = re.search(r"^  function changes.*?^  \}$", SCRIPT, flags=re.DOTALL | re.MULTILINE)
    data = {"classes": [CLASS, CLASS], "factors": {CLASS: {"predicted": [["01?.", "00"]]}}}
    replaced = '.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")'  # as browsers do
    element = f"({{ set textContent(words) {{ this.innerHTML = words{replaced}; }} }})"
    program = f"""
        const document = {{ createElement: () => {element} }}, data = {json.dumps(data)};
        {escape}
        {changes.group()}
        console.log(changes(0));
    """
    page = Page(subprocess.run(["node", "-e", program], capture_output=True, check=True, text=True).stdout)
    assert {name for _, name, _ in page.attributes} == {"class", "title"}
    assert [value for _, name, value in page.attributes if name == "title"] == [CLASS] * 4
    assert "img" not in page.tags


@pytest.mark.skipif(shutil.which("node") is None, reason="runs the script of a page")
def test_links_work_in_a_frame_that_denies_addresses_and_print_opens_what_is_folded() -> None:
    """MLflow shows a page in such a frame; Firefox throws at what it denies."""
    last = SCRIPT[SCRIPT.index("  // What a link names") : SCRIPT.index("})();")]
    program = f"""
        const deny = () => {{ throw Error(); }}, self = 1, top = 2, window = {{ open: deny }};
        const getSelection = () => ({{ selectAllChildren() {{}} }});
        const location = {{ get hash() {{ return ""; }}, set hash(_) {{ acts.push("hash"); deny(); }} }};
        const details = [{{}}], heard = {{}}, acts = [];
        const part = {{ tagName: "DETAILS", scrollIntoView() {{ acts.push("scroll"); }} }};
        const document = {{ getElementById: (name) => name === "factor-2" ? part : null }};
        const addEventListener = (name, then) => {{ heard[name] = then; }}, all = () => details;
        {last}
        heard.beforeprint();
        const clicked = (link) => heard.click({{ target: {{ closest: () => link }}, preventDefault() {{}} }});
        const run = {{ href: "https://mlflow", getAttribute: () => "https://mlflow" }};
        clicked({{ hash: "#factor-2", getAttribute: () => "#factor-2" }});
        clicked(run);
        console.log(details[0].open, part.open, run.textContent, ...acts);
    """
    shown = subprocess.run(["node", "-e", program], capture_output=True, check=True, text=True).stdout
    assert shown == "true true https://mlflow hash scroll\n", "scrolled first, 'back' would stay at the part"


def test_sorting_and_filtering_close_an_opened_example() -> None:
    assert 'all("tbody tr:not(.opened)", table).sort(order)' in SCRIPT
    assert 'all("[aria-expanded=true]", table).forEach(' in SCRIPT, "a second click would remove the next example"


def test_text_fits_the_terminal(document: Document) -> None:
    text = document.to_text()
    assert text.replace("数据顺序", "").isascii()
    assert max(map(len, text.splitlines())) <= WIDTH
    assert not re.search(r"\bnan\b", text)


def test_words_of_a_first_column_are_not_broken() -> None:
    """With `anywhere`, a browser makes a column as narrow as one letter before the table scrolls."""
    html = Document(title="t", headline="h", table=Table(("metric",), [("precision_macro",)])).to_html()
    (rule,) = re.findall(r"^tbody th \{(.*)\}$", html, re.MULTILINE)
    assert "overflow-wrap: break-word" in rule
