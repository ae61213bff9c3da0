"""Investigations of apps by `mlflow.genai.evaluate`: who is asked, what is reused, and what the numbers are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from typing import Any

import genai_apps as apps
import genai_calls as calls
import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.entities import Feedback
from mlflow.genai.scorers import scorer
from refusals import fails, refuses
from stores import copy_store

import mlflow_l3d
from mlflow_l3d import genai
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.genai.contents import read_rows, repeated
from mlflow_l3d.tracking import evaluating, names
from mlflow_l3d.tracking.claims import Claims
from mlflow_l3d.tracking.earlier import evaluations
from mlflow_l3d.tracking.earlier.evaluations import read_judged
from mlflow_l3d.tracking.earlier.judgements import row_of
from mlflow_l3d.tracking.evaluating import App
from mlflow_l3d.tracking.opening import open_claims

pytestmark = pytest.mark.filterwarnings("ignore:The `mlflow.load_prompt` API is moved:FutureWarning")
"""MLflow hides this warning of its own in a way that is not safe in threads."""
ROWS, VERSIONS, REPEATS, JUDGES = 4, (1, 2), (0, 1), ("strict", "kind")


def loads_its_prompt(q: int) -> str:
    """Answer by the prompt that the registry has now."""
    text = mlflow.genai.load_prompt("prompts:/qa@latest").format(q=q)
    repeat = calls.count("app", asked=text)
    if q == apps.FAILS:
        raise ValueError("no answer to this question")
    return f"{text.split()[-1]} {repeat} {q}"


def styled(q: int, style: str) -> str:
    repeat = calls.count("app", asked=f"{style} {q}")
    return f"1 {repeat} {q}"


def investigated(*scorers: Any, rows: int = 2, **more: Any) -> Any:
    """Investigate an app of one style on few rows."""
    given = {"factors": {"style": ["a"]}, **more}
    return genai.investigate(styled, apps.rows(rows), scorers or [apps.length], progress=False, **given)


@pytest.fixture
def place(tracking_uri: str) -> str:
    """Work on an empty store; nobody was asked yet."""
    mlflow.set_tracking_uri(tracking_uri)
    calls.forget()
    return tracking_uri


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, migrated_store: Any) -> Iterator[tuple[str, Any, Counter[str]]]:
    """Give the store, the result and the calls of 2 prompts x 2 replicates x 2 judges x 4 rows, of which one fails."""
    folder = tmp_path_factory.mktemp("genai")
    uri = copy_store(migrated_store, folder, (folder / "mlruns" / "0").as_uri())
    mlflow.set_tracking_uri(uri)
    calls.forget()
    for version in VERSIONS:
        mlflow.genai.register_prompt("qa", f"Answer {{{{q}}}} as {version}")
    result = genai.investigate(loads_its_prompt, apps.rows(ROWS), [apps.length], factors(), progress=False)
    yield uri, result, Counter(calls.CALLS)
    mlflow.set_tracking_uri(None)


@pytest.fixture
def at_study(study: tuple[str, Any, Counter[str]]) -> tuple[Any, Counter[str]]:
    """Work on the store of the study; give its result and calls."""
    mlflow.set_tracking_uri(study[0])
    return study[1:]


def factors(**more: Any) -> dict[str, Any]:
    return {"prompt": ["prompts:/qa"], "judge": [*map(apps.judge, JUDGES)], "replicate": len(REPEATS), **more}


def cells() -> dict[str, list[Any]]:
    """Return status -> runs of cells, whoever is their parent."""
    found: dict[str, list[Any]] = {}
    for run in mlflow.search_runs(["0"], "tags.`l3d.role` = 'cell'", output_format="list"):
        found.setdefault(run.info.status, []).append(run)
    return found


@pytest.mark.slow
def test_each_is_asked_exactly_once_per_row_and_cell(at_study: tuple[Any, Counter[str]]) -> None:
    result, counts = at_study
    answers = ROWS * len(VERSIONS) * len(REPEATS)
    judged = answers - answers // ROWS  # one question fails, and nobody judges that
    assert counts == {"app": answers, "strict": judged, "kind": judged, "length": judged}
    assert (result.computed, result.reused) == (4 + 4 * 3, 0)


@pytest.mark.slow
def test_numbers_are_those_of_a_few_lines(at_study: tuple[Any, Counter[str]]) -> None:
    result, _ = at_study
    table = result.to_frame()
    truth = {
        (row_of({"q": q}), f"qa/{version}", repeat, judge): float(apps.says(judge, q, version, repeat))
        for q, version, repeat, judge in product(range(ROWS), VERSIONS, REPEATS, JUDGES)
        if q != apps.FAILS
    }
    judged = table[table["scorer"].eq("judge") & table["failed"].eq("")]
    assert judged.set_index(["row", "prompt", "repeat", "judge"])["value"].to_dict() == truth
    by_name = {one.scorer: one for one in result.scorers}
    assert by_name["judge"].components.mean == pytest.approx(np.mean(list(truth.values())))
    assert by_name["length"].components.mean == 5.0
    failed = table[table["failed"].eq("answer")]
    assert {*failed["row"]} == {row_of({"q": apps.FAILS})}
    assert failed["value"].isna().all()
    assert len(failed) == 4 * 3
    assert any("4 answers of 16 failed" in note for note in result.notes)
    assert table["answer"].nunique() == 16
    assert set(table["judgement"]) == {0}
    assert "of the mean in the unit of the scorer, now and" in result.report().to_html()  # the first screen has %


@pytest.mark.slow
def test_runs_and_traces_say_what_they_are(at_study: tuple[Any, Counter[str]]) -> None:
    result, _ = at_study
    client = mlflow.MlflowClient()
    parent = client.get_run(result.run_id)
    assert (parent.info.status, parent.data.tags[names.STATE]) == ("FINISHED", "complete")
    assert parent.data.metrics["judge/mean"] == pytest.approx(result.scorers[1].components.mean)
    assert "judge/std/answer" in parent.data.metrics
    assert any(" x " in source for source in result.scorers[1].components.frame["source"])
    # Each metric is a chart; components.json has all.
    assert not [name for name in parent.data.metrics if " x " in name]
    artifacts = {each.path for each in client.list_artifacts(result.run_id)}
    assert {names.REPORT, names.RESULT, names.JUDGEMENTS} <= artifacts
    runs = cells()["FINISHED"]
    phases = Counter(run.data.tags[names.PHASE] for run in runs)
    assert phases == {"answers": 4, "judgements": 12}
    cell_names = [f"qa/{version}, replicate {repeat}" for version, repeat in product(VERSIONS, REPEATS)]
    rated = [f"{cell}: {what}" for cell, what in product(cell_names, ("answers", *JUDGES, "length"))]
    assert sorted(run.info.run_name for run in runs) == sorted(rated)  # a cell's runs are neighbours in MLflow's list
    assert {run.data.tags["mlflow.parentRunId"] for run in runs} == {result.run_id}
    assert {run.data.tags["mlflow.runType"] for run in runs} == {"genai_evaluate"}
    answers = next(run for run in runs if run.data.params.get("prompt") == "qa/2" and "judge" not in run.data.params)
    assert '"version": "2"' in answers.data.tags["mlflow.linkedPrompts"]
    traces = mlflow.search_traces(locations=["0"], run_id=answers.info.run_id, return_type="list")
    assert {trace.info.tags[names.ROW] for trace in traces} == {row_of({"q": q}) for q in range(ROWS)}
    for trace in traces:
        tags = trace.info.tags
        assert tags[names.CELL_KEY] == answers.data.tags[names.CELL_KEY]
        assert tags[names.PARENT] == result.run_id
        assert tags[f"{names.FACTOR}.prompt"] == "qa/2"
        assert tags[names.REPEAT] == answers.data.params["replicate"]
        assert trace.data.spans[0].inputs.keys() == {"q"}


@pytest.mark.slow
def test_report_and_load_say_the_same(at_study: tuple[Any, Counter[str]]) -> None:
    result, _ = at_study
    loaded = mlflow_l3d.load(result.run_id)
    pd.testing.assert_frame_equal(loaded.to_frame(), result.to_frame(), check_dtype=False)
    assert loaded.summary() == result.summary()
    means = result.to_frame().query("failed == '' and judge == 'strict'").groupby("prompt")["value"].mean()
    first, second = (loaded.runs(prompt=f"qa/{version}") for version in VERSIONS)
    compared = genai.compare(first, second, metric="strict")
    assert compared.pairs[0].record.difference == pytest.approx(means["qa/1"] - means["qa/2"])


@pytest.mark.slow
def test_levels_are_compared_as_a_few_lines_do_and_rows_that_change_have_their_numbers(
    at_study: tuple[Any, Counter[str]],
) -> None:
    result, _ = at_study
    judged = result.to_frame().query("scorer == 'judge' and failed == ''")
    of_rows = judged.groupby(["row", "prompt", "judge"])["value"].mean().groupby(["row", "prompt"]).mean().unstack()
    gaps = of_rows["qa/1"] - of_rows["qa/2"]
    pairs = {pair.scorer: pair for pair in result.pairs}
    record = pairs["judge"].record
    assert (pairs["judge"].factor, pairs["judge"].first, len(pairs)) == ("prompt", "qa/1", 2)
    assert (record.difference, record.rows) == (pytest.approx(gaps.mean()), ROWS - 1)
    assert record.verdict == "undecided"  # so few rows say nothing, whatever they are
    said = result.summary()
    assert "Which prompt is best?" in said
    assert "undecided between qa/2 and qa/1" in said
    assert "A difference of prompt is one of these 2 prompts" in said
    *_, step = result._steps(result.scorers[1])
    assert re.match(r"One more \w+ lowers the standard error of judge most, by [\d.]+ %\. [A-Z]", step.text)
    numbers = {row_of({"q": q}): q for q in range(ROWS)}
    unstable = result.scorers[1].unstable
    assert len(unstable)
    assert unstable["number"].tolist() == unstable["row"].map(numbers).tolist()
    shown = [cells[0] for cells in result.report().sections[-1].parts[0].rows]
    assert shown == [str(number + 1) for number in unstable["number"]]


@pytest.mark.slow
def test_annotations_are_written_once_and_only_if_asked_for(at_study: tuple[Any, Counter[str]]) -> None:
    result, _ = at_study
    table = result.to_frame().query("failed == ''")
    trace_id = table["answer"].iloc[0]

    def own() -> dict[str, Any]:
        every = mlflow.get_trace(trace_id).info.assessments
        return {each.name: each.value for each in every if each.name.startswith("l3d.")}

    assert own() == {}
    assert genai.annotate(result.run_id) == 12 * 3  # of two scorers, and the agreement of two judges
    verdicts = table[table["answer"].eq(trace_id) & table["scorer"].eq("judge")]["value"]
    of_row = table[table["row"].eq(table["row"].iloc[0]) & table["scorer"].eq("judge")]["value"]
    expected = {"l3d.agreement/judge": float(verdicts.nunique() == 1), "l3d.fragile_row/judge": of_row.nunique() > 1}
    assert own() == {**expected, "l3d.fragile_row/length": False}
    assert genai.annotate(result.run_id) == 0
    runs = [run.info.run_id for run in cells()["FINISHED"] if run.data.tags[names.PHASE] == "judgements"]
    assert len(read_judged(mlflow.MlflowClient(), *runs).table) == 12 * 3
    refuses(r"is not a run of mlflow_l3d\.genai\.investigate\.", genai.annotate, runs[0])


@pytest.mark.slow
def test_the_same_call_asks_nobody(at_study: tuple[Any, Counter[str]]) -> None:
    result, _ = at_study
    calls.CALLS.clear()
    again = genai.investigate(loads_its_prompt, apps.rows(ROWS), [apps.length], factors(), progress=False)
    assert (again.computed, again.reused) == (0, result.computed)
    assert not calls.CALLS
    pd.testing.assert_frame_equal(again.to_frame(), result.to_frame())
    assert {run.data.tags["mlflow.parentRunId"] for run in cells()["FINISHED"]} == {result.run_id}


@pytest.mark.slow
def test_judges_and_repeats_are_added_to_what_is_there(place: str) -> None:
    def investigate(**more: Any) -> Any:
        calls.CALLS.clear()
        given = {"style": ["plain"], "judge": [apps.judge("strict")], **more}
        return genai.investigate(styled, apps.rows(2), [], given, progress=False)

    assert investigate().computed == 2
    assert calls.CALLS == {"app": 2, "strict": 2}
    both = [*map(apps.judge, JUDGES)]
    assert investigate(judge=both).computed == 1
    assert calls.CALLS == {"kind": 2}
    more = investigate(judge=both, replicate=2)
    assert (more.computed, more.reused) == (3, 3)
    assert calls.CALLS == {"app": 2, "strict": 2, "kind": 2}
    twice = investigate(judgement=2)
    assert (twice.computed, twice.reused) == (1, 2)
    assert calls.CALLS == {"strict": 2}
    assert twice.to_frame().groupby("judgement")["value"].apply(tuple).nunique() == 1


def stops(q: int, style: str) -> str:
    calls.count("app")
    if os.environ.get("STOP") == style and q == 1:
        raise KeyboardInterrupt
    return f"1 0 {q}"


@pytest.mark.slow
def test_reordered_rows_and_other_expectations_ask_only_those_who_see_them(place: str) -> None:
    @scorer
    def named(outputs: str) -> Feedback:
        calls.count("named")
        return Feedback(name="quality", value=True)

    @scorer
    def expected(expectations: dict[str, Any]) -> int:
        calls.count("expected")
        return int(expectations["e"])

    @scorer
    def traced(trace: Any) -> int:
        calls.count("traced")
        return sum(each.value for each in trace.info.assessments if each.name == "e" and each.expectation)

    def values(rows: list[dict[str, Any]]) -> Any:
        calls.CALLS.clear()
        given = {"style": ["plain"], "judge": [named, apps.length]}
        return genai.investigate(styled, rows, [expected, traced], given, metric="traced:lower", progress=False)

    first = values(apps.rows(2))
    assert dict.fromkeys(["app", "expected", "traced", "named", "length"], 2) == {**calls.CALLS}
    (note,) = (note for note in first.notes if note.startswith("Feedbacks of judges have different names"))
    assert "(length: judge, named: quality). To compare" in note
    assert [one.scorer for one in first.scorers][:2] == ["traced", "expected"]
    again = values(apps.rows(2)[::-1])
    assert not calls.CALLS
    pd.testing.assert_frame_equal(again.to_frame(), first.to_frame())
    rows = apps.rows(2)
    rows[1]["expectations"]["e"] = 7
    for seen in ({"expected": 2, "traced": 2}, {}):
        changed = values(rows).to_frame()
        assert seen == {**calls.CALLS}
        assert changed.groupby("scorer")["value"].apply(sorted)[["expected", "traced"]].tolist() == [[0, 7], [0, 7]]


@pytest.mark.slow
def test_after_an_interrupt_finished_cells_count_and_no_run_is_left_open(
    place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"style": ["first", "second"], "judge": [apps.judge("strict")]}
    monkeypatch.setenv("STOP", "second")
    with pytest.raises(KeyboardInterrupt):
        genai.investigate(stops, apps.rows(3), [], given, progress=False)
    assert "Interrupted with 2 of 4 cells done." in caplog.text
    (parent,) = mlflow.search_runs(["0"], "tags.`l3d.role` = 'genai'", output_format="list")
    assert parent.info.status == "KILLED"
    assert {status: len(runs) for status, runs in cells().items()} == {"FINISHED": 2, "KILLED": 1}
    monkeypatch.delenv("STOP")
    calls.CALLS.clear()
    result = genai.investigate(stops, apps.rows(3), [], given, progress=False)
    assert (result.computed, result.reused) == (2, 2)
    assert calls.CALLS == {"app": 3, "strict": 3}
    assert {run.data.tags["mlflow.parentRunId"] for run in cells()["FINISHED"]} == {result.run_id}


@pytest.mark.slow
def test_a_budget_stops_between_cells_and_the_same_call_continues(place: str) -> None:
    def investigate(**budget: Any) -> Any:
        given = {"style": ["a", "b"], "judge": [apps.judge("strict")]}
        return genai.investigate(styled, apps.rows(2), [apps.length], given, progress=False, **budget)

    refuses(r"^budget=1 cell: allows no judgement", investigate, budget=1)
    refuses(r"^budget=3 requests: allows no judgement", investigate, budget="3 requests")
    assert cells() == {}, "no answer was paid that nobody may judge"
    assert investigate(budget=2, metric="strict").missing == 4, "nobody has asked the judge that leads"
    part = investigate(budget=3)
    assert (part.computed, part.reused, part.missing) == (3, 2, 1)
    assert "left out 1 of 6 cells: the same call continues" in part.summary()
    assert {pair.scorer for pair in part.pairs} == {"length"}, "the judge has seen one style only"
    none = investigate(budget="1 requests")
    assert (none.computed, none.reused, none.missing) == (0, 5, 1)  # the last one takes two
    rest = investigate()
    assert (rest.computed, rest.reused, rest.missing) == (1, 5, 0)


@pytest.mark.slow
def test_answers_that_somebody_deleted_are_asked_for_again(place: str) -> None:
    mlflow.MlflowClient().delete_traces("0", trace_ids=[investigated().to_frame()["answer"].iloc[0]])
    calls.CALLS.clear()
    assert investigated().computed == 2
    assert calls.CALLS == {"app": 2, "length": 2}


@pytest.mark.slow
def test_an_investigation_of_the_same_app_and_data_runs_alone(place: str) -> None:
    investigated()
    key = cells()["FINISHED"][0].data.tags[names.CONTEXT_KEY]
    path = open_claims(mlflow.MlflowClient(place), "0", "genai-0")._path
    claim = f"""
import sys
from pathlib import Path
from mlflow_l3d.tracking.claims import Claims
claims = Claims(Path({str(path)!r}))
print(claims.lock({key!r}), flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", claim], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"True\n"
        fails(r"^Another process or thread investigates this app on these data: wait", investigated)
        other.communicate()
    in_a_thread = open_claims(mlflow.MlflowClient(place), "0", "genai-0")
    assert in_a_thread.lock(key)
    fails(r"^Another process or thread investigates this app", investigated)
    in_a_thread.close()
    assert investigated().reused == 2


@pytest.mark.slow
def test_what_another_process_ends_while_a_call_begins_is_not_asked_for_again(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, others = Claims.lock, [investigated]

    def lock_after_another(claims: Claims, key: str, *, alone: bool = False) -> bool:
        if others:
            others.pop()()
        return lock(claims, key, alone=alone)

    monkeypatch.setattr(Claims, "lock", lock_after_another)
    found = investigated()
    assert (found.computed, found.reused) == (0, 2)
    assert calls.CALLS == {"app": 2, "length": 2}


def answer_with(app: Callable[..., Any], prompts: dict[int, Any], version: int, **inputs: Any) -> Any:
    """Return what an app answers with a version of the prompt."""
    with evaluating._evaluating(None):
        return App(app, {}, {"prompt": prompts[version]}, {"l3d.cell_key": "x"}).traced()(**inputs)


def test_prompts_reach_an_unchanged_app_in_every_way_but_another_thread(place: str) -> None:
    prompts = {v: mlflow.genai.register_prompt("ways", f"v{v} {{{{q}}}} {{{{r}}}}") for v in VERSIONS}
    chat = mlflow.genai.register_prompt("chat", [{"role": "user", "content": "{{q}}"}])
    before = mlflow.genai.load_prompt("prompts:/ways/1")

    def loaded_before(q: str) -> Any:
        return before.format(q=q, r="")

    def filled_in_part(q: str) -> Any:
        return mlflow.genai.load_prompt("ways", version=1).format(q=q, allow_partial=True).format(r="")

    client = mlflow.MlflowClient()
    client.set_prompt_alias("ways", "prod", 1)
    by_client = (
        lambda: client.load_prompt("prompts:/ways/1"),
        lambda: client.load_prompt("ways", version=1),
        lambda: client.get_prompt_version("ways", "1"),
        lambda: client.get_prompt_version_by_alias(alias="prod", name="ways"),
        lambda: client.search_prompt_versions("ways")[0],
        lambda: mlflow.genai.load_prompt("prompts:/ways@prod", link_to_model=False),
        lambda: mlflow.load_prompt("ways"),
    )

    async def asynchronous(q: str) -> Any:
        return before.format(q=q, r="")

    for each in (loaded_before, filled_in_part, asynchronous):
        assert answer_with(each, prompts, 2, q="x") == "v2 x ", each
    for load in by_client:
        assert answer_with(lambda load=load: load().template, prompts, 2) == "v2 {{q}} {{r}}"
    unused = r"^factors=prompt=ways/2: has no effect: "
    refuses(unused, answer_with, lambda: chat.format(q="x"), prompts, 2)
    with ThreadPoolExecutor(1) as pool, pytest.raises(ParameterError, match=unused):
        answer_with(lambda q: pool.submit(loaded_before, q).result(), prompts, 2, q="x")
    assert loaded_before("x") == "v1 x "  # as before


@pytest.mark.slow
def test_a_prompt_that_is_a_parameter_is_passed_and_one_without_effect_is_an_error(place: str) -> None:
    for version in VERSIONS:
        mlflow.genai.register_prompt("qa", f"{version} 0")
    mlflow.genai.set_prompt_alias("qa", "prod", 2)

    def given(q: int, prompt: Any) -> str:
        return f"{prompt.template} {q}"

    result = genai.investigate(given, apps.rows(2), [apps.length], {"prompt": ["prompts:/qa@prod"]}, progress=False)
    assert set(result.to_frame()["prompt"]) == {"qa/2"}
    error = r"^factors=prompt=qa/1: has no effect: deaf neither has a parameter prompt nor loads this "

    def deaf(q: int) -> str:
        calls.count("deaf")
        return str(q)

    refuses(error, genai.investigate, deaf, apps.rows(9), [apps.length], {"prompt": ["prompts:/qa/1"]}, progress=False)
    assert len(cells()["FAILED"]) == 1
    assert calls.CALLS["deaf"] == 1


@pytest.mark.slow
def test_what_always_fails_is_an_error_with_its_reason(place: str) -> None:
    is_converted = mlflow.__version__ >= "3.18"  # numpy's bool then counts

    @scorer
    def numpy_verdict(outputs: str) -> Any:
        return np.array([1, 0]) if is_converted else np.bool_(True)

    def broken(q: int) -> str:
        raise RuntimeError(f"no key {q}")

    with pytest.raises(L3DError, match=r"^predict_fn: failed on all 2 rows \(.*no key \d\)\. Correct it, or the data"):
        genai.investigate(broken, apps.rows(2), [apps.length], progress=False)
    fix = "Correct the scorer" if is_converted else r"Return bool\(\.\.\.\) of it"
    fails(rf"^scorers=numpy_verdict: failed on all 2 answers \(.*\)\. {fix}", investigated, numpy_verdict)
    fails(r"^scorers=silent: returned nothing for all answers\.", investigated, silent)
    fails(r"^scorers: none gave a number, yes or no\.", investigated, in_words, rows=1)
    assert "RUNNING" not in cells()


@scorer
def silent(outputs: str) -> None:
    """Judge nothing."""


@pytest.mark.slow
def test_answers_that_a_scorer_skips_are_lost(place: str) -> None:
    def app(q: int, style: str) -> str:
        return style * (q + 1)

    @scorer
    def skips(outputs: str) -> int | None:
        return None if outputs == "bb" else len(outputs)

    result = genai.investigate(app, apps.rows(6), [skips], {"style": ["a", "b"]}, progress=False)
    assert [pair.record.obstacle for pair in result.pairs] == ["1 of 6 answers of b are lost"]


@pytest.mark.slow
def test_answers_without_a_trace_are_an_error(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    search = mlflow.search_traces
    monkeypatch.setattr(mlflow, "search_traces", lambda **given: search(**given)[1:])
    fails(r"^predict_fn: only 1 of 2 answers have a trace on the server\. Check that ", investigated)


@scorer
def in_words(outputs: str) -> str:
    return "good"


@scorer(name="hits@10")
def hits(outputs: str) -> bool:
    return True


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"data": []}, r"data=\[\]: has no rows\. Give rows such as"),
        ({"data": [{"q": 1}]}, r"data=row 0: needs \"inputs\", a dict of the arguments of predict_fn\."),
        ({"data": [{"inputs": {"q": 1}, "outputs": 1}]}, r"data=row 0: has outputs, which predict_fn is to give\."),
        ({"data": [{"inputs": {"q": {1}}}]}, r"data=row 0: holds what JSON cannot represent"),
        ({"scorers": [hits]}, r"scorers=hits@10: cannot name a metric: .*@scorer\(name=\"hits_10\"\)"),
        ({"scorers": [len]}, r"scorers=len: is not a scorer of MLflow\. Decorate it"),
        ({"scorers": []}, r"scorers=\[\]: nobody judges the answers\."),
        ({"scorers": [apps.length, apps.length]}, r"scorers=length: is named twice\. Rename one"),
        ({"factors": {"model": ["a"]}}, r"factors=model: cannot reach predict_fn.* def styled\(\.\.\., model\)"),
        ({"factors": {"q": [1]}}, r"factors=q: is also among the inputs of the data"),
        ({"factors": {"row": [1]}}, r"factors=row=row: must be the name of a parameter"),
        ({"factors": {"style": "plain"}}, r"factors=style=plain: must be a list\."),
        ({"factors": {"style": ["a", "a"]}}, r"factors=style=a: is named twice"),
        ({"factors": {"style": [1, 1.0]}}, r"factors=style=1: is named twice"),
        ({"factors": {"style": [True, 1]}}, r"factors=style=True: is named twice"),
        ({"factors": {"style": ["a"], "judge": apps.length}}, r"factors=judge=length: must be a list\."),
        ({"scorers": apps.length}, r"scorers=length: must be a list\."),
        ({"factors": {"style": []}}, r"factors=style=\[\]: has no levels"),
        ({"factors": {"style": [{}]}}, r"factors=style=dict: must be texts, numbers, or prompts"),
        ({"factors": {"style": ["a"], "replicate": 0}}, r"factors=replicate=0: must be a whole number of at least 1"),
        ({"factors": {"style": ["a"], "judgement": 2}}, r"factors=judgement=2: needs \"judge\" among the factors\."),
        ({"factors": {"style": ["a"], "judge": [apps.length] * 2}}, r"factors=judge=length: is named twice\."),
        (
            {"factors": {"prompt": ["prompts:/none/1"]}},
            r"factors=prompt=prompts:/none/1: is not in the prompt registry",
        ),
        ({"workers": 0}, r"workers=0: must be a whole number from 1"),
        ({"budget": "x"}, r"budget=x: must be none, a time"),
    ],
)
@pytest.mark.usefixtures("place")
def test_a_call_that_cannot_be_carried_out_is_one_line(given: dict[str, Any], line: str) -> None:
    calls.CALLS.clear()
    call = {"data": apps.rows(2), "scorers": [apps.length], "factors": {"style": ["a"]}, **given}
    refuses(f"^{line}", genai.investigate, styled, **call, progress=False)
    assert not calls.CALLS


def test_settings_of_mlflow_are_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_PREDICT_RATE_LIMIT", "7")
    monkeypatch.delenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", raising=False)
    before, load = dict(os.environ), mlflow.MlflowClient.load_prompt
    with evaluating._evaluating(2):
        assert os.environ["MLFLOW_GENAI_EVAL_MAX_WORKERS"] == "2"
        assert os.environ["MLFLOW_GENAI_EVAL_PREDICT_RATE_LIMIT"] == "7"
        assert os.environ["MLFLOW_GENAI_EVAL_SCORER_RATE_LIMIT"] == "0"
    with evaluating._evaluating(None):
        assert os.environ["MLFLOW_GENAI_EVAL_MAX_WORKERS"] == "4"
    assert dict(os.environ) == before
    assert mlflow.MlflowClient.load_prompt is load


def test_an_evaluation_in_another_thread_waits_and_finds_mlflow_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", raising=False)
    lock, is_waiting, loads = evaluating._ONE_AT_A_TIME, threading.Event(), []
    replace = evaluating._loading

    @contextmanager
    def announced() -> Iterator[None]:
        is_waiting.set()
        with lock:
            yield

    def recorded(load: Any, loaded: Any) -> Any:
        loads.append(load)
        return replace(load, loaded)

    def workers() -> str:
        with evaluating._evaluating(None):
            return os.environ["MLFLOW_GENAI_EVAL_MAX_WORKERS"]

    load = mlflow.MlflowClient.load_prompt
    monkeypatch.setattr(evaluating, "_loading", recorded)
    with ThreadPoolExecutor(1) as pool:
        with evaluating._evaluating(2):
            monkeypatch.setattr(evaluating, "_ONE_AT_A_TIME", announced())
            other = pool.submit(workers)
            assert is_waiting.wait(60)
        assert other.result(60) == "4"
    assert loads[0] is loads[len(loads) // 2] is load
    assert mlflow.MlflowClient.load_prompt is load


def test_rows_of_equal_inputs_are_repeats_of_one_and_have_the_name_that_the_reader_gives_them() -> None:
    read = read_rows([{"inputs": {"q": 1, "a": "é"}}, {"inputs": {"a": "é", "q": 1}}])
    row = evaluations._hash(json.dumps({"q": 1, "a": "é"}, ensure_ascii=False))
    assert [repeated(read, replicate) for replicate in (0, 1)] == [[(row, "0"), (row, "1")], [(row, "2"), (row, "3")]]
