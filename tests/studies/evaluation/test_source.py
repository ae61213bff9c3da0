"""The source of `evaluate`: which results a text, a path or a list of runs names, and what is said if it names none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from mlflow import MlflowClient
from refusals import refusal
from run_helpers import Place

import mlflow_l3d
from mlflow_l3d import cli
from mlflow_l3d.studies.evaluation import run as evaluating
from mlflow_l3d.studies.evaluation.run import Kind, find_results

calls: list[tuple[str, object, dict[str, Any]]] = []


@pytest.fixture
def place(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A server, and stand-ins that write down how groups and evaluations are called."""
    calls.clear()

    def called(name: str) -> Any:
        def call(source: object, **options: Any) -> SimpleNamespace:
            calls.append((name, source, options))
            return SimpleNamespace(summary=lambda: name)

        return call

    monkeypatch.setattr(evaluating, "evaluate_groups", called("groups"))
    monkeypatch.setattr(evaluating, "evaluate_judged", called("judged"))
    return place


def run(place: Place, parent: str = "", **tags: str) -> str:
    named = {name.replace("_", "."): value for name, value in tags.items()}
    info = place.client.create_run("0", tags={**named, **({"mlflow.parentRunId": parent} if parent else {})}).info
    place.client.set_terminated(info.run_id)
    return str(info.run_id)


@pytest.mark.parametrize(
    "source",
    [
        "experiment:tuning",
        "experiment:a name, with commas",
        "params.model = 'a'",
        "params.`x` ILIKE '%a%'",
        "attributes.run_id IN ('a', 'b')",
        "tags.x is not null",
        "metrics.f1>0.5",
    ],
)
def test_an_experiment_or_a_filter_is_of_groups(place: Place, source: str) -> None:
    assert find_results(source) == (Kind.RUNS, [source])
    options = {"group_by": ["params.lr", "params.model"], "metric": "metrics.f1", "step": 3, "tag": True}
    mlflow_l3d.evaluate(source, **options, log=False)
    given = {"group_by": "params.lr,params.model", "seed": "auto", "only": "none", "metric": "f1", "step": "3"}
    assert calls == [("groups", source, {**given, "tag": True, "project_run": None, "log": False, "progress": None})]


def test_files_come_before_filters_and_a_path_is_always_files(place: Place, tmp_path: Path) -> None:
    for name in ("alpha=0.1.csv", "latest"):
        Path(name).touch()
    assert find_results("alpha=0.1.csv") == (Kind.FILES, ["alpha=0.1.csv"])
    assert find_results("./latest") == (Kind.FILES, ["./latest"])
    assert find_results(tmp_path / "nowhere") == (Kind.FILES, [str(tmp_path / "nowhere")])
    assert "nowhere: no such file or folder" in refusal(lambda: mlflow_l3d.evaluate(Path("nowhere")))


def test_runs_without_our_tags(place: Place) -> None:
    runs = [run(place) for _ in range(3)]
    evaluation = run(place, mlflow_runType="genai_evaluate")
    mlflow_l3d.evaluate(runs, seed="params.random_state")
    mlflow_l3d.evaluate(evaluation, metric="correct")
    alone = refusal(lambda: mlflow_l3d.evaluate(runs[0]))
    run(place, parent=runs[0])
    above = refusal(lambda: mlflow_l3d.evaluate(runs[0]))
    cell = run(place, parent=runs[1], l3d_role="cell")
    below = refusal(lambda: mlflow_l3d.evaluate(cell))
    mixed = refusal(lambda: mlflow_l3d.evaluate([runs[0], runs[1]]))
    assert [(name, source) for name, source, _ in calls] == [("groups", runs), ("judged", evaluation)]
    assert calls[0][2]["seed"] == "params.random_state"
    assert calls[1][2] == {"metric": "correct", "project_run": None, "log": True, "progress": None}
    assert alone.endswith("Name its experiment: mlflow-l3d evaluate experiment:Default.")
    assert above.endswith(f"Name its children: mlflow-l3d evaluate \"tags.mlflow.parentRunId = '{runs[0]}'\".")
    assert below == f"source={cell}: is a cell. Name its parent run, {runs[1]}."
    assert f"source={runs[1]}: is of another kind (a seeds study) than {runs[0]}" in mixed


def test_many_runs_are_found_in_few_requests(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, requests = [run(place) for _ in range(12)], []

    def counted(name: str) -> Any:
        method = getattr(MlflowClient, name)
        return lambda *given, **named: requests.append(name) or method(*given, **named)

    for name in ("get_run", "search_runs"):
        monkeypatch.setattr(MlflowClient, name, counted(name))
    assert find_results(runs) == (Kind.RUNS, runs)
    assert requests == ["search_runs", "search_runs"]  # the runs, and whether any cell is next to them


def test_kinds_of_parents_are_read_from_their_tags(place: Place) -> None:
    kinds = {
        Kind.INVESTIGATION: {"l3d_role": "investigation"},
        Kind.SEEDS: {"l3d_role": "investigation", "l3d_design": "seeds"},
        Kind.SWEEP: {"l3d_role": "sweep"},
    }
    for kind, tags in kinds.items():
        first, second = run(place, **tags), run(place, **tags)
        assert find_results(first) == (kind, [first])
        several = Kind.SWEEP if kind is Kind.INVESTIGATION else kind
        assert find_results(f"{first}, {second}") == (several, [first, second])
    result = run(place, l3d_role="compare")
    assert f"Use mlflow-l3d view {result}" in refusal(lambda: find_results(result))


@pytest.mark.parametrize("source", ["tuning", "no such.csv", "3fa1", "x" * 300, ""])
def test_a_source_that_names_nothing_is_answered_with_every_kind(place: Place, source: str) -> None:
    line = refusal(lambda: find_results(source))
    example = "NAME" if source in ("no such.csv", "") else source
    for part in ("32 letters", "latest", "commas", f"experiment:{example})", "params.model = 'a'", "results.csv"):
        assert part in line
    assert place.runs() == []


def test_runs_that_are_not_there(place: Place) -> None:
    deleted = run(place)
    place.client.delete_run(deleted)
    assert "is a run that was deleted. Run: mlflow runs restore" in refusal(lambda: find_results(deleted))
    assert "no such run on the tracking server. Set MLFLOW_TRACKING_URI" in refusal(lambda: find_results("0" * 32))
    line = refusal(lambda: find_results("latest"))
    assert line.startswith("source=latest: there is no investigation in this experiment. Name a run id")
    assert "must be named once" in refusal(lambda: find_results(["0" * 32] * 2))
    last, continued = (run(place, l3d_role="investigation") for _ in range(2))
    place.client.set_tag(continued, "l3d.superseded_by", last)
    assert find_results("latest") == (Kind.INVESTIGATION, [last])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["experiment:a", "--from", "csv"], "from=csv: has no effect on runs of other code. Leave it out."),
        (["runs.csv", "--step", "3"], "step=3: has no effect on files of other tools."),
        (["runs.csv", "--where", "x = 1"], "where=x = 1: has no effect on files of other tools."),
        (["runs.csv", "--tag"], "tag=true: has no effect on files of other tools."),
        (["experiment:a", "--step", "first"], "step=first: must be last, best, or a whole number"),
    ],
)
def test_an_option_without_effect_is_refused(place: Place, words: list[str], line: str, capsys) -> None:
    pd.DataFrame({"seed": [1, 2], "accuracy": [0.5, 0.6]}).to_csv("runs.csv", index=False)
    assert cli.main(["evaluate", *words]) == 2
    assert line in capsys.readouterr().err
    assert (calls, place.runs()) == ([], [])
