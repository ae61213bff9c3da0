"""The entry point `search`: what it leaves in MLflow, what it hands over, and that nothing is trained twice."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow.entities import Run
from run_helpers import Place, one_line, sqlite_place
from search_cases import Climb, Trace, height, luck

from mlflow_l3d import cli
from mlflow_l3d.approaches.callable import FunctionApproach
from mlflow_l3d.approaches.hyperparameters import Hyperparameter
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.plan.factors import SEARCH_BASE, configuration_seed
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


def find(place: Place, approach: Any = None, **parameters: Any) -> HyperparameterSearch:
    with place.entered():
        return search(approach=approach or Climb(), **{**SMALL, **parameters})


def searches(place: Place) -> list[Run]:
    return place.runs("tags.`l3d.role` = 'search'")


def trials(place: Place, stage: str = "", parent: str = "") -> list[Run]:
    condition = "tags.`l3d.role` = 'trial'"
    condition += f" and tags.`l3d.level` = '{stage}'" if stage else ""
    condition += f" and tags.`mlflow.parentRunId` = '{parent}'" if parent else ""
    return place.runs(condition)


def document(place: Place, run_id: str, name: str, folder: Path) -> Any:
    return json.loads(place.download(run_id, name, folder).read_text(encoding="utf-8"))


def calls(place: Place) -> int:
    """How many trainings there were."""
    return len(Trace(place.cache).lines("call"))


@pytest.fixture
def place(tmp_path: Path, migrated_store: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return sqlite_place(migrated_store, tmp_path / "place")


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> tuple[Place, HyperparameterSearch]:
    """Give a search that prunes; the tests that take it only read."""
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("pruned"))
    return place, find(place, space=WIDE, fine_trials=8, pruner="auto")


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
    assert "Gain on the validation examples" in tags["mlflow.note.content"]
    assert metrics["best_score"] == result.result.best_score
    assert metrics["default_score"] == result.result.default_score
    assert metrics["trials_complete"] + metrics["trials_pruned"] == 28
    assert metrics["trials_failed"] == 0
    assert "held_out_difference" in metrics
    assert 0 <= metrics["hyperparameter_importance/kind"] <= 1
    names = {item.path for item in place.client.list_artifacts(result.run_id)}
    assert {"hyperparameters.json", "search.json", "trials.json", "search.html"} <= names
    assert any(name.endswith(".png") for name in names)
    table = document(place, result.run_id, "trials.json", tmp_path)
    assert len(table["data"]) == 1 + 28, "the best of level 1 stands in both levels"


def test_the_best_score_climbs(pruned: tuple[Place, HyperparameterSearch]) -> None:
    place, result = pruned
    history = place.client.get_metric_history(result.run_id, "best_score")
    scores = [entry.value for entry in sorted(history, key=lambda entry: entry.step)]
    own = {entry.step: entry.value for entry in place.client.get_metric_history(result.run_id, "score")}
    assert scores == sorted(scores)
    assert scores[-1] == result.result.best_score == max(own.values())
    assert len({entry.step for entry in history}) == len(own) + 1


def test_the_children(pruned: tuple[Place, HyperparameterSearch]) -> None:
    place, result = pruned
    assert {run.data.tags["mlflow.parentRunId"] for run in trials(place)} == {result.run_id}
    assert len(trials(place)) == 20 + 8 + 6
    seeds = {f"seed.{name}": str(seed) for name, seed in result.request.searched_on[0].items()}
    assert seeds["seed.data_split"] == str(configuration_seed(0, "data_split", SEARCH_BASE))
    for stage, numbers in (("coarse", range(20)), ("fine", range(1, 9))):
        found = trials(place, stage)
        assert sorted(int(run.data.tags["l3d.trial"]) for run in found) == list(numbers)
        for run in found:
            assert seeds.items() <= run.data.params.items()
            assert (run.data.params["approach"], run.data.params["task"]) == ("climb", "synthetic")
            assert run.data.params["epochs"] == "8"
    best = max(trials(place, "fine"), key=lambda run: run.data.metrics["score"])
    curve = [point.value for point in place.client.get_metric_history(best.info.run_id, "curve/validation_height")]
    top = height(float(best.data.params["x"]), best.data.params["kind"])
    assert sorted(curve) == curve
    expected = [top * (1 - 0.5 ** (epoch + 1)) + luck(result.request.searched_on[0]) for epoch in range(8)]
    assert curve == pytest.approx(expected)


def test_pruned_trials_are_killed_runs(pruned: tuple[Place, HyperparameterSearch]) -> None:
    place, result = pruned
    by_state: dict[str, list[Run]] = {}
    for run in trials(place):
        by_state.setdefault(run.data.tags["l3d.trial_state"], []).append(run)
    assert set(by_state) == {"complete", "pruned"}
    assert {run.info.status for run in by_state["pruned"]} == {"KILLED"}
    assert {run.info.status for run in by_state["complete"]} == {"FINISHED"}
    assert all(run.data.metrics["epochs_done"] < 8 for run in by_state["pruned"])
    assert all(run.data.metrics["epochs_done"] == 8 for run in by_state["complete"])
    assert sum(stage.pruned for stage in result.result.stages) == len(by_state["pruned"]) > 3


def test_the_optimum_is_found(pruned: tuple[Place, HyperparameterSearch]) -> None:
    _, result = pruned
    assert result.hyperparameters["kind"] == "b"
    assert abs(float(result.hyperparameters["x"]) - 0.3) <= 0.1
    held = result.result.held_out
    gain = height(float(result.hyperparameters["x"]), "b") - height(0.9, "a")
    assert np.allclose(np.subtract(held.found, held.default), gain * (1 - 0.5**8))
    assert "-P hyperparameters=" + result.run_id in result.summary()


def test_what_it_hands_over(pruned: tuple[Place, HyperparameterSearch], tmp_path: Path) -> None:
    place, result = pruned
    left = document(place, result.run_id, "hyperparameters.json", tmp_path)
    assert left["hyperparameters"] == dict(result.hyperparameters)
    assert left["score"] == result.result.best_score
    assert left["searched_on"] == [dict(seeds) for seeds in result.request.searched_on]
    assert (left["search_run_id"], left["approach"], left["task"]) == (result.run_id, "climb", "synthetic")


def test_an_investigation_takes_it(place: Place, tmp_path: Path) -> None:
    result = find(place, held_out_runs=0)
    given: dict[str, Any] = {"approach": Climb(), "metric": "height", "factor": "model_initialisation"}
    for source in ("latest", result.run_id):
        investigation = place.investigate(hyperparameters=source, root_seed=len(source), **given)
        parent = place.client.get_run(investigation.run_id)
        assert parent.data.tags["l3d.search"] == result.run_id
        written = document(place, investigation.run_id, "investigation.json", tmp_path)
        assert written["hyperparameters"] == dict(result.hyperparameters)
        assert written["hyperparameters_from"]["source"] == "search"
        assert written["hyperparameters_from"]["search_run_id"] == result.run_id
        cells = place.cells(investigation.run_id)
        assert {run.data.params["x"] for run in cells} == {str(result.hyperparameters["x"])}
        assert len(cells) == 10, "no trial is taken for a cell"


def test_the_same_search_again_trains_nothing(place: Place) -> None:
    first = find(place)
    before, runs = calls(place), len(trials(place))
    again = find(place)
    assert calls(place) == before
    assert len(trials(place)) == runs
    assert again.run_id != first.run_id
    assert again.hyperparameters == first.hyperparameters
    assert again.result.best_score == first.result.best_score
    assert again.result.held_out == first.result.held_out
    columns = ["level", "number", "state", "score", "run_id", "x", "kind"]
    assert again.result.trials[columns].equals(first.result.trials[columns])
    assert [run.data.tags["l3d.state"] for run in searches(place)] == ["complete", "complete"]


def test_a_pruned_search_again_trains_nothing(place: Place) -> None:
    given: dict[str, Any] = {"space": WIDE, "pruner": "auto", "held_out_runs": 0}
    first = find(place, **given)
    before = calls(place)
    assert sum(stage.pruned for stage in first.result.stages) > 0
    again = find(place, **given)
    assert calls(place) == before
    assert again.hyperparameters == first.hyperparameters
    columns = ["level", "number", "state", "score", "x", "kind"]
    assert again.result.trials[columns].equals(first.result.trials[columns])


def test_seeds_decide_everything(tmp_path: Path, migrated_store: Path) -> None:
    results = [
        find(sqlite_place(migrated_store, tmp_path / str(number)), root_seed=root, coarse_trials=4, held_out_runs=2)
        for number, root in enumerate((0, 0, 1))
    ]
    columns = ["level", "number", "score", "x", "kind"]
    first, same, other = (result.result.trials[columns] for result in results)
    assert first.equals(same)
    assert results[0].result.held_out == results[1].result.held_out
    assert not first.equals(other)
    assert results[0].request.searched_on != results[2].request.searched_on


def test_workers_change_no_score(tmp_path: Path, migrated_store: Path) -> None:
    def scores(name: str, **parameters: Any) -> dict[tuple[Any, ...], float]:
        place = sqlite_place(migrated_store, tmp_path / name)
        table = find(place, fine_trials=0, held_out_runs=0, **parameters).result.trials
        assert {run.info.status for run in trials(place)} == {"FINISHED"}
        return {(row.x, row.kind): row.score for row in table.itertuples()}

    inline = scores("inline")
    assert len(inline) == GRID
    assert scores("processes", executor="processes", workers=2) == inline


def test_a_trial_is_the_mean_over_its_seeds(place: Place) -> None:
    result = find(place, search_seeds=3, fine_trials=0, held_out_runs=0)
    on = result.request.searched_on
    assert len({str(seeds) for seeds in on}) == 3
    for row in result.result.trials.itertuples():
        expected = [height(row.x, row.kind) * (1 - 0.5**8) + luck(seeds) for seeds in on]
        assert row.score == pytest.approx(np.mean(expected))
        assert row.score_std == pytest.approx(np.std(expected, ddof=1))
    [first] = [run for run in trials(place) if run.data.tags["l3d.trial"] == "0"]
    assert first.data.params["seed.data_split"] == ",".join(str(seeds["data_split"]) for seeds in on)
    assert calls(place) == 3 * GRID


def test_without_level_2(place: Place) -> None:
    result = find(place, fine_trials=0)
    assert [stage.name for stage in result.result.stages] == ["coarse"]
    assert trials(place, "fine") == []
    assert len(trials(place, "held_out")) == 6


def test_without_a_comparison(place: Place) -> None:
    result = find(place, held_out_runs=0)
    assert result.result.held_out is None
    assert trials(place, "held_out") == []
    assert "held_out_difference" not in searches(place)[0].data.metrics


def test_what_is_given_is_the_best(place: Place) -> None:
    result = find(place, hyperparameters="x=0.3,kind=b", fine_trials=2)
    assert (result.hyperparameters["x"], result.hyperparameters["kind"]) == (0.3, "b")
    assert result.result.kept_default
    assert result.result.held_out is None
    assert trials(place, "held_out") == []
    assert trials(place, "coarse")[0].data.params["x"] == "0.3"
    assert "the default stays" in searches(place)[0].data.tags["mlflow.note.content"]


def by_threshold(task: Any, split: Any, seeds: Any, hyperparameters: Any) -> Any:
    """Predict right in a share of the examples: 1 at x = 10, less to both sides on a log scale."""
    del seeds
    labels = task.labels[split.test]
    right = 1.0 - abs(math.log10(hyperparameters["x"]) - 1.0) / 10
    return np.where(np.arange(len(labels)) < right * len(labels), labels, 1 - labels)


def test_a_function_of_the_user(place: Place) -> None:
    declared = {"x": Hyperparameter(0.001, "where", low=1e-3, high=1e3, log=True)}
    approach = FunctionApproach(by_threshold, name="mine", version="1", factors=(), hyperparameters=declared)
    result = find(place, approach, task="synthetic", metric="accuracy", space="auto", fine_trials=0)
    assert result.hyperparameters == {"x": 10.0}
    assert result.result.best_score == 1.0
    assert result.result.held_out.found == (1.0, 1.0, 1.0)


def test_a_failing_trial_does_not_end_it(place: Place) -> None:
    result = find(place, space="kind=a|b|broken|unprepared", fine_trials=0, held_out_runs=0)
    assert result.hyperparameters["kind"] == "b"
    failed = [run for run in trials(place) if run.info.status == "FAILED"]
    assert {run.data.params["kind"] for run in failed} == {"broken", "unprepared"}
    assert {run.data.tags["l3d.trial_state"] for run in failed} == {"failed"}
    assert sorted(run.data.tags["l3d.error"] for run in failed) == [
        "RuntimeError: this kind is broken",
        "approach climb could not be prepared: RuntimeError: cannot be prepared",
    ]
    assert result.result.stages[0].failed == 2
    assert searches(place)[0].data.metrics["trials_failed"] == 2


def test_a_setting_that_the_approach_refuses(place: Place) -> None:
    result = find(place, space="x,kind=a|b", fine_trials=0, held_out_runs=0)
    assert result.result.stages[0].failed == 1
    assert result.hyperparameters == {"x": 0.5, "kind": "b", "epochs": 8}


def test_all_trials_fail(place: Place) -> None:
    given = {"hyperparameters": "kind=broken", "space": "x=0..0.9", "fine_trials": 0}
    with pytest.raises(L3DError, match=r"all 3 coarse trials failed; the first: RuntimeError: this kind is") as error:
        find(place, **given)
    [parent] = searches(place)
    assert parent.info.status == "FAILED"
    assert parent.data.tags["l3d.error"] == str(error.value)
    assert parent.data.tags["l3d.state"] == "incomplete"
    assert {run.info.status for run in trials(place)} == {"FAILED"}
    with place.entered(), pytest.raises(ParameterError, match="there is no finished search"):
        search(approach=Climb(), **{**SMALL, "hyperparameters": "latest"})


def test_nothing_private_is_written(place: Place, tmp_path: Path) -> None:
    secret = tmp_path / "ann" / "private"
    secret.mkdir(parents=True)
    (secret / "space.json").write_text('{"x": {"low": 0.0, "high": 0.9}, "kind": ["b", "broken"]}')
    result = find(place, space=str(secret / "space.json"), fine_trials=2)
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
    [parent] = searches(place)
    assert parent.data.params["space"] == "space.json"
    assert result.result.stages[0].failed == 3


def command(place: Place, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    with place.entered():
        status = cli.main(["search", "--approach=synthetic", "--metric=synthetic_score", "--executor=inline", *more])
    captured = capsys.readouterr()
    assert captured.out == ""
    return status, one_line(captured.err)


WRONG = [
    (["--hyperparameters=a_data_order=1e9,a_sample_choice=1e9"], "has nothing to search for approach=synthetic"),
    (["--space="], "has nothing to search for approach=synthetic"),
    (["--space=noise=0..2"], "space.noise=2"),
    (["--space=noise=0.5..0.1"], "space.noise"),
    (["--space=nois=0..1"], "Did you mean 'noise'?"),
    (["--space=duration"], "has no bounds of its own"),
    (["--space=noise=0.5"], "space.noise"),
    (["--space=missing.json"], "the file cannot be read"),
    (["--coarse-sampler=gird"], "coarse_sampler='gird': must be one of auto, cmaes, gp, grid, "),
    (["--coarse-sampler=gird"], "Did you mean 'grid'?"),
    (["--fine-sampler=tpee"], "fine_sampler='tpee': "),
    (["--pruner=medan"], "Did you mean 'median'?"),
    (["--search-seeds=0"], "search_seeds=0"),
    (["--coarse-trials=1"], "coarse_trials=1"),
    (["--fine-trials=-1"], "fine_trials=-1"),
    (["--held-out-runs=-1"], "held_out_runs=-1"),
    (["--root-seed=-1"], "root_seed=-1"),
    (["--metric=f1"], "must be one of accuracy, average_precision"),
    (["--hyperparameters=noise=7"], "hyperparameters.noise=7"),
    (["--hyperparameters=latest"], "there is no finished search of synthetic on synthetic"),
    (["--workers=2"], "workers=2"),
    (["--investigation-runs=3"], "--investigation-runs"),
]
OF_EACH_KIND = [WRONG[0], *(each for each in WRONG if each[0][0].startswith("--hyper")), WRONG[-1]]
"""Mistakes that are found without a tracking server, by a look at one, and by the command line."""


@pytest.mark.parametrize(
    ("options", "says", "project_run"), [*((*case, True) for case in WRONG), *((*case, False) for case in OF_EACH_KIND)]
)
def test_what_a_user_gets_wrong(place, capsys, monkeypatch, options, says, project_run) -> None:
    run_id = place.client.create_run("0").info.run_id if project_run else ""
    if project_run:
        monkeypatch.setenv("MLFLOW_RUN_ID", run_id)
    status, line = command(place, capsys, *options)
    assert status == 2
    assert says in line
    assert "s3cret" not in line
    runs = place.runs()
    assert {run.info.status for run in runs} <= {"FAILED"}
    assert len(runs) <= 1
    for run in runs:
        assert run.data.tags["l3d.error"] == line.removeprefix("mlflow-l3d: error: ")
        assert "s3cret" not in str(run.data.tags) + str(run.data.params)
    if project_run:
        assert [run.info.run_id for run in runs] == [run_id]


def test_level_2_trains_no_setting_of_level_1_again(place: Place) -> None:
    """The grid around the best has its neighbours on level 1."""
    find(place, coarse_sampler="grid", fine_sampler="grid", fine_trials=8, held_out_runs=0)
    assert calls(place) == len(trials(place)) == GRID
