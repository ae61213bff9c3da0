"""Identical requests to a model behind an endpoint: what is asked again, under which key, and what changes."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from endpoint_server import Server
from finetuning_helpers import handmade_task
from icl_helpers import APPROACH, cell, complete
from scipy.stats import binom

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.icl.endpoint.store import requests_per_example
from mlflow_l3d.cells.factors import REPLICATE
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.metrics.known import named
from mlflow_l3d.studies.base import warn_of_unread
from mlflow_l3d.studies.evaluation.run import evaluate
from mlflow_l3d.studies.planning.run import plan
from mlflow_l3d.studies.seeds.numbers.compared import answer_changes
from mlflow_l3d.studies.seeds.run import SeedsRun, plan_replicate, replicate

NEEDED = pytest.mark.skipif(find_spec("openai") is None, reason="openai is not installed")
pytestmark = [NEEDED, pytest.mark.usefixtures("certificates")]
ROWS, REPEATS = 6, 7


class Changing(Server):
    """A server that answers by `choose`, and remembers which answers each prompt got."""

    def __init__(self, choose: Any) -> None:
        self.choose, self.given, self.pairs = choose, defaultdict(list), None
        super().__init__(gives="nothing", chat=False)

    def answer(self, body: Any, *, chat: bool) -> Any:
        reply = super().answer(body, chat=chat)
        if "Answer with yes" not in body["prompt"]:
            if self.pairs is not None:
                with suppress(threading.BrokenBarrierError):  # one that was sent again leaves another without a partner
                    self.pairs.wait(10)
            answers = self.given[body["prompt"]]
            with self.lock:
                answers.append(self.choose(body["prompt"], len(answers)))
            reply["choices"][0]["text"] = f" {answers[-1]}"
        return reply


@pytest.fixture
def changing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tracking_uri: str, tmp_path: Path) -> Any:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.setenv("L3D_CACHE", str(tmp_path / "cache"))
    server = Changing(request.param)
    yield server
    server.stop()


def parameters(server: Server, **given: Any) -> dict[str, Any]:
    words = {"base_url": server.url, "decision": "generate", "verbaliser": "negative;positive", "shots": 1, **given}
    sizes = {"repeats": REPEATS, "test_size": ROWS, "num_labelled": 20}
    return {"model": "openai:tiny", "executor": "inline", "hyperparameters": words, **sizes}


def repeated(server: Server, **given: Any) -> SeedsRun:
    return replicate(handmade_task(40), **parameters(server, **given))


def by_prompt(prompt: str, number: int) -> str:
    """Two thirds of the prompts get another answer now and then, of some it is no class."""
    kind = len(prompt) % 3
    return "positive" if number % 3 or not kind else "maybe" if kind == 1 else "negative"


@pytest.mark.slow
@pytest.mark.parametrize("changing", [by_prompt], indirect=True)
def test_rows_are_counted_as_the_server_answered_them(changing):
    planned = plan_replicate(handmade_task(40), **parameters(changing))
    assert f"{ROWS * REPEATS} requests to openai:tiny ({REPEATS} runs x {ROWS} texts)." in planned.summary()
    assert "Nothing was trained" not in planned.summary()
    assert not changing.given
    run = repeated(changing)
    assert [len(answers) for answers in changing.given.values()] == [REPEATS] * ROWS
    changed = sum(len({*answers}) > 1 for answers in changing.given.values())
    assert (run.study.changes.rows, run.study.changes.repeats, run.study.changes.changed) == (ROWS, REPEATS, changed)
    assert 0 < changed < ROWS
    shown = " ".join(run.summary().split())
    assert f"{REPEATS} identical requests to openai:tiny gave different answers for" in shown
    assert "mlflow-l3d replicate" not in shown  # it is this command
    unread = sum(len({*answers}) > 1 and len({*answers} - {"maybe"}) == 1 for answers in changing.given.values())
    assert run.study.changes.unread == unread > 0
    assert f"{changed - unread} change the answer, {unread} are sometimes unreadable." in run.report().headline
    again = repeated(changing)
    assert (again.computed, sum(map(len, changing.given.values()))) == (0, ROWS * REPEATS)
    (scored,) = evaluate(run.run_id).studies
    assert scored.changes == run.study.changes


def one_in_seven() -> Any:
    requests = count(1)
    return lambda *_: "negative" if next(requests) % REPEATS == 0 else "positive"


@pytest.mark.slow
@pytest.mark.parametrize("changing", [None], indirect=True)
def test_a_server_that_answers_otherwise_under_load(changing):
    changing.choose = lambda *_: "positive"
    alone = repeated(changing, concurrency=1)
    assert (alone.study.changes.rows, alone.study.changes.repeats, alone.study.changes.changed) == (ROWS, REPEATS, 0)
    words = f"{REPEATS} identical requests to openai:tiny gave the same answer for each of"
    assert words in " ".join(alone.summary().split())
    assert changing.most == 1
    # Every request waits for a second one; one of seven is answered otherwise, fewer than a row has.
    changing.choose, changing.pairs = one_in_seven(), threading.Barrier(2)
    changing.given.clear()
    busy = repeated(changing, concurrency=2)
    assert (busy.computed, busy.reused, changing.most) == (REPEATS, 0, 2)
    assert busy.study.changes.changed == sum(len({*answers}) > 1 for answers in changing.given.values()) > 0


def keys(server: Server, cache: Path, cells: list[Any], **given: Any) -> list[int]:
    """Return how many requests each cell sends."""
    settings = {"base_url": server.url, "shots": 1, "decision": "generate", "verbaliser": "negative;positive", **given}
    task = handmade_task(40, num_labelled=20, test_size=ROWS)
    job = Job(APPROACH, task, complete(**settings), "openai:tiny", "cpu", cache)
    return [outcome.metrics["requests_sent"] for outcome in InlineExecutor(job=job).run(cells)]


def test_what_is_asked_again(server, tmp_path):
    first, second = cell(0), replace(cell(0), key="another")
    assert keys(server, tmp_path, [first]) == [ROWS]
    assert keys(server, tmp_path, [second]) == [0]
    assert keys(server, tmp_path, [first, second], answers="fresh") == [ROWS, ROWS]
    assert keys(server, tmp_path, [first, second], answers="fresh") == [0, 0]
    again = [replace(one, factor=REPLICATE, key=f"{one.key} again") for one in (first, second)]
    assert keys(server, tmp_path, again) == [ROWS, ROWS]
    assert keys(server, tmp_path, again) == [0, 0]


@pytest.mark.parametrize(("gives", "requests"), [("prompt", 2), ("first", 1), ("nothing", 1)])
def test_requests_are_counted_as_they_are_sent(server, tmp_path, monkeypatch, gives, requests):
    monkeypatch.setenv("L3D_CACHE", str(tmp_path))
    server.gives, given = gives, {"chat": "none", "decision": "score", "calibration": "none"}
    numerics = APPROACH.dependencies(complete(base_url=server.url, **given), "openai:tiny")
    assert requests_per_example(numerics, 2) == requests
    assert keys(server, tmp_path, [cell(0)], **given) == [ROWS * requests]
    assert requests_per_example({}, 2) == 0


def test_a_plan_of_an_investigation_says_how_many_requests_it_sends(server, tmp_path, monkeypatch, tracking_uri):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.setenv("L3D_CACHE", str(tmp_path))
    asked = {name: value for name, value in parameters(server).items() if name != "repeats"}
    planned = plan(handmade_task(40), approach="icl", factor="sample_choice", pilot="none", **asked)
    line = f"{planned.cells * ROWS:,} requests to openai:tiny ({planned.cells} runs x {ROWS} texts)."
    assert planned.report().headline == line
    priced = {**asked, "hyperparameters": {**asked["hyperparameters"], "price_input": 1.0, "price_output": 0.0}}
    again = plan(handmade_task(40), approach="icl", factor="sample_choice", pilot="none", **priced)
    money = float(again.requests.partition("about ")[2].split()[0])
    assert 1e-5 < money / (planned.cells * ROWS) < 1e-3


def test_concurrency_decides_fresh_answers_only():
    def identity(**given: Any) -> Any:
        return APPROACH.identity(resolve_hyperparameters(APPROACH, given))

    assert identity() == identity(concurrency=2) == identity(answers="stored")
    assert len({str(identity(answers="fresh", concurrency=number)) for number in (2, 8)} | {str(identity())}) == 3
    with pytest.raises(ParameterError, match="answers=fresh: asks an endpoint again, and model=smollm2"):
        APPROACH.dependencies(resolve_hyperparameters(APPROACH, {"answers": "fresh"}), "smollm2-135m-instruct")
    with pytest.raises(ParameterError, match="model=auto: must be behind an endpoint, as openai:NAME"):
        replicate("synthetic")


def test_answers_that_change_and_scores_that_do_not():
    answers = {1: ["Paris", "paris.", "Paris"], 2: ["Rome", "Rome", "Rome"], 3: ["Oslo", "Bergen", "Oslo"]}
    labels = {1: "Paris", 2: "Rome", 3: '["Oslo", "Christiania"]'}
    rows = [
        {"seed": seed, "example_id": row, "label": labels[row], "prediction": answer}
        for row, each in answers.items()
        for seed, answer in enumerate(each)
    ]
    frame = pd.DataFrame(rows)
    loose = answer_changes(frame, "generation", named("squad_exact"))
    assert (loose.repeats, loose.rows, loose.changed, loose.score_changed) == (3, 3, 2, 1)
    strict = answer_changes(frame, "generation", named("bleu"))
    assert (strict.score_changed, strict.scored_by) == (2, "exact_match")
    low, high = loose.interval
    assert binom.sf(1, 3, low) == pytest.approx(0.025)
    assert binom.cdf(2, 3, high) == pytest.approx(0.025)
    assert loose.metrics()["changed_share"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(("share", "lines"), [(0.4, ["40 % of the first cell's answers cannot be read"]), (0.2, [])])
def test_answers_that_cannot_be_read_are_said_at_once(share, lines, caplog):
    warn_of_unread({"unparsed_share": share})
    assert [line.partition(" and ")[0] for line in caplog.messages] == lines


@pytest.mark.slow
@pytest.mark.parametrize("changing", [lambda *_: "maybe"], indirect=True)
def test_that_is_said_once_in_a_study(changing, caplog):
    repeated(changing)
    assert sum("100 % of the first cell's answers" in line for line in caplog.messages) == 1
