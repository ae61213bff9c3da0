"""The entry point `search`: what it leaves in MLflow, what it hands over, and that nothing is trained twice."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from run_helpers import Place, copied, one_line, sqlite_place
from search_cases import Climb, Trace, height, luck
from search_stages import searches, trials

from mlflow_l3d import cli
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.hyperparameters import Hyperparameter
from mlflow_l3d.cells.factors import SEARCH_BASE, configuration_seed
from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.search.run import HyperparameterSearch, search

pytestmark = pytest.mark.slow

STEPS = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
WIDE = json.dumps({"x": {"low": 0.0, "high": 0.9, "coarse": STEPS}, "kind": ["a", "b"]})
SMALL: dict[str, Any] = {
    "metric": "height",
    "space": "x=0..0.9,kind=a|b",
    "fine_trials": 4,
    "held_out_runs": 3,
    "pruner": "none",
    "executor": "inline",
}
GRID = 6
"""Settings of level 1 in the space of SMALL, the given one among them."""


def find(approach: Any = None, **parameters: Any) -> HyperparameterSearch:
    return search(approach=approach or Climb(), **{**SMALL, **parameters})


def document(place: Place, run_id: str, name: str, folder: Path) -> Any:
    return json.loads(place.download(run_id, name, folder).read_text(encoding="utf-8"))


def calls(place: Place) -> int:
    """How many trainings there were."""
    return len(Trace(place.cache).lines("call"))


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> tuple[Place, HyperparameterSearch]:
    """Give a search that prunes; the tests that take it only read."""
    with sqlite_place(migrated_store, tmp_path_factory.mktemp("pruned")).entered() as place:
        return place, find(space=WIDE, fine_trials=8, pruner="auto")


@pytest.fixture
def again(pruned: tuple[Place, HyperparameterSearch], tmp_path: Path) -> Iterator[tuple[Place, HyperparameterSearch]]:
    """Let the test work in a copy of that place."""
    with copied(pruned[0], tmp_path / "copy").entered() as place:
        yield place, pruned[1]


def test_the_parent(pruned: tuple[Place, HyperparameterSearch], tmp_path: Path) -> None:
    place, result = pruned
    [parent] = searches(place)
    assert parent.info.run_id == result.run_id
    assert (parent.info.status, parent.info.run_name) == ("FINISHED", "search · synthetic · climb")
    tags, params, metrics = parent.data.tags, parent.data.params, parent.data.metrics
    assert tags["l3d.state"] == "complete"
    assert tags["l3d.search_subject"] == result.request.setup.subject.key
    assert params["approach"] == "climb"
    assert params["fine_trials"] == "8"
    assert params["resolved.coarse_trials"] == "20"
    assert params["resolved.pruner"] == "median"
    assert tags["mlflow.note.content"].startswith("**The found setting is better than the default by ")
    assert metrics["best_score"] == result.result.best_score
    assert metrics["default_score"] == result.result.default_score
    assert metrics["trials_complete"] + metrics["trials_pruned"] == 28
    assert metrics["trials_failed"] == 0
    assert "held_out_difference" in metrics
    assert 0 <= metrics["hyperparameter_importance/kind"] <= 1
    names = {item.path for item in place.client.list_artifacts(result.run_id)}
    assert {"hyperparameters.json", "search.json", "trials.json", "search.html", "summary.svg"} <= names
    assert not any(name.endswith(".png") for name in names)
    table = document(place, result.run_id, "trials.json", tmp_path)
    assert len(table["data"]) == 1 + 28, "the best of level 1 stands in both levels"


def test_the_best_score_climbs_to_the_optimum(pruned: tuple[Place, HyperparameterSearch]) -> None:
    place, result = pruned
    history = place.client.get_metric_history(result.run_id, "best_score")
    scores = [entry.value for entry in sorted(history, key=lambda entry: entry.step)]
    own = {entry.step: entry.value for entry in place.client.get_metric_history(result.run_id, "score")}
    assert scores == sorted(scores)
    assert scores[-1] == result.result.best_score == max(own.values())
    assert len({entry.step for entry in history}) == len(own) + 1
    assert result.hyperparameters["kind"] == "b"
    assert abs(float(result.hyperparameters["x"]) - 0.3) <= 0.1
    held = result.result.held_out
    gain = height(float(result.hyperparameters["x"]), "b") - height(0.9, "a")
    assert np.allclose(np.subtract(held.found, held.default), gain * (1 - 0.5**8))
    assert f"hyperparameters={result.run_id}" in " ".join(result.summary().split())


def test_the_children(pruned: tuple[Place, HyperparameterSearch]) -> None:
    place, result = pruned
    runs = trials(place)
    assert {run.data.tags["mlflow.parentRunId"] for run in runs} == {result.run_id}
    assert len(runs) == 20 + 8 + 6
    seeds = {f"seed.{name}": str(seed) for name, seed in result.request.searched_on[0].items()}
    assert seeds["seed.data_split"] == str(configuration_seed(0, "data_split", SEARCH_BASE))
    for stage, numbers in (("coarse", range(20)), ("fine", range(1, 9))):
        of_stage = [run for run in runs if run.data.tags["l3d.level"] == stage]
        assert sorted(int(run.data.tags["l3d.trial"]) for run in of_stage) == list(numbers)
        for run in of_stage:
            assert seeds.items() <= run.data.params.items()
            assert (run.data.params["approach"], run.data.params["task"]) == ("climb", "synthetic")
            assert run.data.params["epochs"] == "8"
    ends = {(run.data.tags["l3d.trial_state"], run.info.status, run.data.metrics["epochs_done"] == 8) for run in runs}
    assert ends == {("complete", "FINISHED", True), ("pruned", "KILLED", False)}
    killed = [run for run in runs if run.info.status == "KILLED"]
    assert result.result.metrics()["trials_pruned"] == len(killed) > 3
    for stage, files in (("held_out", {"predictions.parquet"}), ("fine", set())):
        [first, *_] = trials(place, stage)
        assert {item.path for item in place.client.list_artifacts(first.info.run_id)} == files
    assert 0.1 < result.result.held_out.overlap < 0.25
    best = max(trials(place, "fine"), key=lambda run: run.data.metrics["score"])
    curve = [point.value for point in place.client.get_metric_history(best.info.run_id, "curve/validation_height")]
    top = height(float(best.data.params["x"]), best.data.params["kind"])
    expected = [top * (1 - 0.5 ** (epoch + 1)) + luck(result.request.searched_on[0]) for epoch in range(8)]
    assert curve == pytest.approx(expected)


def test_the_same_search_again_trains_nothing(again: tuple[Place, HyperparameterSearch]) -> None:
    place, first = again
    before, runs = calls(place), len(trials(place))
    second = find(space=WIDE, fine_trials=8, pruner="auto")
    assert (calls(place), len(trials(place))) == (before, runs)
    assert second.run_id != first.run_id
    assert second.hyperparameters == first.hyperparameters
    assert second.result.held_out == first.result.held_out
    columns = ["level", "number", "state", "score", "run_id", "x", "kind"]
    assert second.result.trials[columns].equals(first.result.trials[columns])
    assert [run.data.tags["l3d.state"] for run in searches(place)] == ["complete", "complete"]


def test_more_held_out_runs_keep_the_trials_also_pruned_ones(again: tuple[Place, HyperparameterSearch]) -> None:
    place, first = again
    before = calls(place)
    second = find(space=WIDE, fine_trials=8, pruner="auto", held_out_runs=5)
    assert calls(place) == before + 2 * (5 - 3), "found and given setting, with two more seeds each"
    columns = ["level", "number", "state", "score", "run_id", "x", "kind"]
    assert second.result.trials[columns].equals(first.result.trials[columns])


def test_an_investigation_takes_it(again: tuple[Place, HyperparameterSearch], tmp_path: Path) -> None:
    place, result = again
    left = document(place, result.run_id, "hyperparameters.json", tmp_path)
    assert left["hyperparameters"] == dict(result.hyperparameters)
    assert left["score"] == result.result.best_score
    assert left["searched_on"] == [dict(seeds) for seeds in result.request.searched_on]
    assert (left["search_run_id"], left["approach"], left["task"]) == (result.run_id, "climb", "synthetic")
    for source in ("latest", result.run_id):
        given: dict[str, Any] = {"metric": "height", "factor": "model_initialisation", "root_seed": len(source)}
        investigation = place.investigate(approach=Climb(), hyperparameters=source, **given)
        assert place.client.get_run(investigation.run_id).data.tags["l3d.search"] == result.run_id
        written = document(place, investigation.run_id, "investigation.json", tmp_path)
        assert written["hyperparameters"] == dict(result.hyperparameters)
        origin = written["hyperparameters_from"]
        assert (origin["source"], origin["search_run_id"]) == ("search", result.run_id)
        cells = place.cells(investigation.run_id)
        assert {run.data.params["x"] for run in cells} == {str(result.hyperparameters["x"])}
        assert len(cells) == 10, "no trial is taken for a cell"


def test_seeds_decide_everything_and_workers_nothing(tmp_path: Path, migrated_store: Path) -> None:
    ways: list[dict[str, Any]] = [{}, {"executor": "processes", "workers": 2}, {"root_seed": 1}]
    results = []
    for number, way in enumerate(ways):
        with sqlite_place(migrated_store, tmp_path / str(number)).entered():
            results.append(find(coarse_trials=4, fine_sampler="random", **{"held_out_runs": 2, **way}))
    columns = ["level", "number", "score", "x", "kind"]
    tables = [each.result.trials[columns].sort_values(columns[:2], ignore_index=True) for each in results]
    assert tables[0].equals(tables[1])
    assert results[0].result.held_out == results[1].result.held_out
    assert not tables[0].equals(tables[2])
    assert results[0].request.searched_on != results[2].request.searched_on


def test_a_trial_is_the_mean_over_its_seeds_and_level_2_can_be_left_out(place: Place) -> None:
    result = find(search_seeds=3, fine_trials=0)
    on = result.request.searched_on
    assert len({str(seeds) for seeds in on}) == 3
    for row in result.result.trials.itertuples():
        expected = [height(row.x, row.kind) * (1 - 0.5**8) + luck(seeds) for seeds in on]
        assert row.score == pytest.approx(np.mean(expected))
        assert row.score_std == pytest.approx(np.std(expected, ddof=1))
    [first] = [run for run in trials(place, "coarse") if run.data.tags["l3d.trial"] == "0"]
    assert first.data.params["seed.data_split"] == ",".join(str(seeds["data_split"]) for seeds in on)
    assert calls(place) == 3 * GRID + 6
    assert [*result.result.stages] == ["coarse"]
    assert trials(place, "fine") == []
    assert len(trials(place, "held_out")) == 6


def test_what_is_given_is_the_best(place: Place) -> None:
    result = find(hyperparameters="x=0.3,kind=b", fine_trials=2)
    assert (result.hyperparameters["x"], result.hyperparameters["kind"]) == (0.3, "b")
    assert result.result.kept_default
    assert result.result.held_out is None
    assert trials(place, "held_out") == []
    assert trials(place, "coarse")[0].data.params["x"] == "0.3"
    assert "No trial beat the default: it stays." in searches(place)[0].data.tags["mlflow.note.content"]


def by_threshold(task: Any, split: Any, seeds: Any, hyperparameters: Any) -> Any:
    """Predict right in a share of the examples: 1 at x = 10, less to both sides on a log scale."""
    del seeds
    labels = task.labels[split.test]
    right = 1.0 - abs(math.log10(hyperparameters["x"]) - 1.0) / 10
    return np.where(np.arange(len(labels)) < right * len(labels), labels, 1 - labels)


def test_a_function_of_the_user(place: Place) -> None:
    declared = {"x": Hyperparameter(0.001, "where", low=1e-3, high=1e3, log=True)}
    approach = FunctionApproach(by_threshold, name="mine", version="1", factors=(), hyperparameters=declared)
    result = find(approach, task="synthetic", metric="accuracy", space="auto", fine_trials=0)
    assert result.hyperparameters == {"x": 10.0}
    assert result.result.best_score == 1.0
    assert result.result.held_out.found == (1.0, 1.0, 1.0)


def test_seeds_of_a_function_are_tried_first(place: Place) -> None:
    declared = {"x": Hyperparameter(0.5, "where", low=0.0, high=1.0)}
    given: Any = {"name": "mine", "version": "1", "factors": ["model_randomness"], "hyperparameters": declared}
    approach = FunctionApproach(by_threshold, **given)
    with pytest.raises(
        L3DError, match=r"model_randomness: 2 .* predictions: they may not .* a loss too, which shows it"
    ):
        find(approach, task="synthetic", metric="accuracy", space="auto", fine_trials=0)
    asked: Any = {"task": "synthetic", "metric": "accuracy", "space": "auto", "fine_trials": 0, "self_test": "skip"}
    assert find(approach, **asked).result.trials.shape[0]


def test_a_failing_trial_does_not_end_it_and_nothing_private_is_written(place: Place, tmp_path: Path) -> None:
    secret = tmp_path / "ann" / "private"
    secret.mkdir(parents=True)
    kinds = ["a", "b", "broken", "unprepared"]
    (secret / "space.json").write_text(json.dumps({"x": {"low": 0.5, "high": 1.0}, "kind": kinds}))
    result = find(space=str(secret / "space.json"), fine_trials=0, held_out_runs=1)
    assert result.hyperparameters == {"x": 0.5, "kind": "b", "epochs": 8}
    runs = [run for run in trials(place) if run.info.status == "FAILED"]
    assert {
        (run.data.params["kind"], run.data.tags["l3d.trial_state"], run.data.tags["l3d.error"]) for run in runs
    } == {
        ("broken", "failed", "RuntimeError: this kind is broken"),
        ("unprepared", "failed", "approach climb could not be prepared: RuntimeError: cannot be prepared"),
    }
    refused = 1
    [parent] = searches(place)
    assert result.result.metrics()["trials_failed"] == parent.data.metrics["trials_failed"] == len(runs) + refused == 7
    assert parent.data.params["space"] == "space.json"
    for run in place.runs():
        texts = [str(run.data.tags), str(run.data.params)]
        folder = tmp_path / "down" / run.info.run_id
        folder.mkdir(parents=True)
        if place.client.list_artifacts(run.info.run_id):
            place.client.download_artifacts(run.info.run_id, "", str(folder))
        texts += [path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file()]
        for text in texts:
            assert str(secret) not in text
            assert str(place.cache) not in text
            assert os.environ["HOME"] not in text.replace(os.environ["HOME"] + "/.cache", "")


def test_all_trials_fail(place: Place) -> None:
    given = {"hyperparameters": "kind=broken", "space": "x=0..0.9", "fine_trials": 0}
    with pytest.raises(L3DError, match=r"pruned or failed; the first error: RuntimeError: this kind is b") as error:
        find(**given)
    [parent] = searches(place)
    assert parent.info.status == "FAILED"
    assert parent.data.tags["l3d.error"] == str(error.value)
    assert str(error.value).endswith(". Mend that, or use pruner=none or another space.")
    assert parent.data.tags["l3d.state"] == "incomplete"
    assert {run.info.status for run in trials(place)} == {"FAILED"}
    refuses("there is no finished search", search, approach=Climb(), **{**SMALL, "hyperparameters": "latest"})


WRONG = [
    ("--hyperparameters=a_data_order=1e9,a_sample_choice=1e9", "has nothing to search for approach=synthetic"),
    ("--space=nois=0..1", "Did you mean 'noise'?"),
    ("--coarse-sampler=gird", "coarse_sampler='gird': must be one of auto, cmaes, gp, grid, "),
    ("--fine-sampler=tpee", "fine_sampler='tpee': "),
    ("--pruner=medan", "Did you mean 'median'?"),
    ("--search-seeds=0", "search_seeds=0"),
    ("--coarse-trials=1", "coarse_trials=1"),
    ("--fine-trials=-1", "fine_trials=-1"),
    ("--held-out-runs=-1", "held_out_runs=-1"),
    ("--root-seed=-1", "root_seed=-1"),
    ("--metric=f1", "must be one of accuracy, auto, average_precision"),
    ("--hyperparameters=noise=7", "hyperparameters.noise=7"),
    ("--hyperparameters=latest", "there is no finished search of synthetic on synthetic"),
    ("--workers=2", "workers=2"),
    ("--investigation-runs=3", "--investigation-runs"),
]
OF_EACH_KIND = [WRONG[0], *(case for case in WRONG if case[0].startswith("--hyper")), WRONG[-1]]
"""Mistakes that are found without a tracking server, by a look at one, and by the command line."""


@pytest.mark.parametrize(
    ("option", "says", "project_run"), [*((*case, True) for case in WRONG), *((*case, False) for case in OF_EACH_KIND)]
)
def test_what_a_user_gets_wrong(
    place: Place, capsys: pytest.CaptureFixture[str], option: str, says: str, project_run: bool
) -> None:
    run_id = place.client.create_run("0").info.run_id if project_run else ""
    if project_run:
        os.environ["MLFLOW_RUN_ID"] = run_id
    status = cli.main(["search", "--approach=synthetic", "--metric=synthetic_score", "--executor=inline", option])
    captured = capsys.readouterr()
    line = one_line(captured.err)
    assert (status, captured.out) == (2, "")
    assert says in line
    runs = place.runs()
    assert [run.info.run_id for run in runs] == [run_id] or not project_run
    assert len(runs) <= 1
    for run in runs:
        assert run.info.status == "FAILED"
        assert run.data.tags["l3d.error"] == line.removeprefix("mlflow-l3d: error: ")


def test_level_2_trains_no_setting_of_level_1_again_and_the_comparison_can_be_left_out(place: Place) -> None:
    """The grid around the best has its neighbours on level 1."""
    result = find(coarse_sampler="grid", fine_sampler="grid", fine_trials=8, held_out_runs=0)
    assert calls(place) == len(trials(place)) == GRID
    assert result.result.held_out is None
    assert trials(place, "held_out") == []
    assert "held_out_difference" not in searches(place)[0].data.metrics
