"""Parents against each other: what is paired, what lies on the tracking server, and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from refusals import refuses
from run_helpers import Place, sqlite_place

from mlflow_l3d import cli, compare, evaluate, investigate, plan_gate, seeds
from mlflow_l3d.analysis.comparison.power import power
from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.comparison.parents import Parent, read_parents, system_names
from mlflow_l3d.studies.comparison.results import ComparedRuns
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier.reader import read_investigation

pytestmark = pytest.mark.slow

SYSTEM: dict[str, Any] = {"approach": "synthetic", "task": "synthetic", "metric": "accuracy", "executor": "inline"}
COMMON: dict[str, Any] = {**SYSTEM, "investigation_runs": 2, "mitigation_runs": 2, "golden_runs": 8}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> Place:
    return sqlite_place(migrated_store, tmp_path_factory.mktemp("compare"))


@pytest.fixture(autouse=True)
def entered(place: Place) -> Iterator[None]:
    """Let each test work there."""
    with place.entered():
        yield


@pytest.fixture(scope="module")
def parents(place: Place) -> list[str]:
    """Two systems with the same seeds, and the first one with other seeds."""
    settings = ({}, {"hyperparameters": "a_data_order=3"}, {"root_seed": 1})
    with place.entered():
        return [investigate(**COMMON, **each).run_id for each in settings]


@pytest.fixture(scope="module")
def compared(place: Place, parents: list[str]) -> ComparedRuns:
    with place.entered():
        return compare(*parents[:2], self_check=40)


def artifact(place: Place, run_id: str, name: str, tmp_path: Path) -> Path:
    return Path(place.client.download_artifacts(run_id, name, str(tmp_path)))


def test_runs_and_examples_are_paired(place: Place, parents: list[str], compared: ComparedRuns) -> None:
    one = compared.comparison.differences[0]
    assert (one.first, one.second) == ("a_data_order=0.0", "a_data_order=3.0")
    assert (one.runs, one.shared_runs) == ((8, 8), 8)
    assert set(one.shared_factors) == {
        *("data_order", "data_split", "label_selection"),
        *("model_initialisation", "model_randomness", "sample_choice"),
    }
    assert one.other_factors == ()
    assert one.spread.examples == one.shared_examples > 400
    assert one.spread.saved > one.spread.saved_by_runs > 0.3
    golden = [
        place.client.search_runs(["0"], f"tags.`mlflow.parentRunId` = '{parent}' and tags.`l3d.phase` = 'golden'")
        for parent in parents[:2]
    ]
    means = [np.mean([run.data.metrics["accuracy"] for run in runs]) for runs in golden]
    # The second parent shares no cell with the first: another hyperparameter is another key.
    assert one.means == pytest.approx(means)


def test_other_seeds_share_test_examples_alone(place: Place, parents: list[str]) -> None:
    one = compare([parents[0], parents[2]]).comparison.differences[0]
    assert (one.first, one.second) == ("root_seed=0", "root_seed=1")
    assert (one.shared_runs, one.shared_factors) == (0, ())
    assert one.spread.saved_by_runs == 0
    assert one.shared_examples > 0
    assert np.isnan(one.pair_wins.value)


def test_the_run_holds_everything(place: Place, parents: list[str], compared: ComparedRuns, tmp_path: Path) -> None:
    run = place.client.get_run(compared.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags[names.ROLE] == "compare"
    assert run.data.tags[names.INVESTIGATIONS] == ",".join(parents[:2])
    for parent in parents[:2]:
        assert f"(#/experiments/0/runs/{parent})" in run.data.tags[names.NOTE]
    assert f"[The report](#/experiments/0/runs/{compared.run_id}/artifacts/report.html)" in run.data.tags[names.NOTE]
    logged = {names.metric_name(name): value for name, value in compared.metrics().items()}
    assert run.data.metrics == pytest.approx(logged)
    wanted = {"difference", "difference_ci_low", "difference_ci_high", "difference_p", "probability_better"}
    wanted |= {"probability_run_better", "variance_saved", "runs_needed_80", "runs_needed_95"}
    assert wanted <= set(run.data.metrics)
    found = {each.path for each in place.client.list_artifacts(compared.run_id)}
    assert found == {
        *("comparison.json", "differences.csv", "differences.json", "report.html"),
        *("ranks.json", "scores.parquet", "self_check.json", "importances.json", "result.json", "summary.svg"),
    }
    frame = pd.read_csv(artifact(place, compared.run_id, "differences.csv", tmp_path))
    pd.testing.assert_frame_equal(frame, compared.to_frame(full=True), check_dtype=False)
    document = json.loads(artifact(place, compared.run_id, "comparison.json", tmp_path).read_text())
    assert [each["run_id"] for each in document["parents"]] == parents[:2]
    assert document["differences"][0]["difference"] == compared.comparison.differences[0].difference
    scores = pd.read_parquet(artifact(place, compared.run_id, "scores.parquet", tmp_path))
    assert scores.groupby("pair").size().eq(2).all()
    assert all(set(each) == {"task", "system", "run_id", "experiment_id"} for each in document["parents"])
    headline = compared.report().headline
    assert headline in artifact(place, compared.run_id, "report.html", tmp_path).read_text()
    assert run.data.tags[names.NOTE].startswith(f"**{headline}** ")
    first, second = "a_data_order=0.0", "a_data_order=3.0"
    checked = [(first, 40), (second, 40), (f"{first}-{second}", 40)]
    assert [(check.what, check.repeats) for check in compared.self_checks] == checked


def test_the_report_names_what_differs_and_the_commands_of_both(
    place: Place, parents: list[str], compared: ComparedRuns
) -> None:
    first, second = compared.parents
    assert (first.choices, second.choices) == ({"a_data_order": "0.0"}, {"a_data_order": "3.0"})
    assert compared.report().notes[0] == "They differ in a_data_order (0.0 and 3.0)."
    sizes = "--executor inline --investigation-runs 2 --mitigation-runs 2 --golden-runs RUNS"
    assert sorted(second.command.split()) == sorted(
        f"mlflow-l3d investigate synthetic --approach synthetic --metric accuracy {sizes} "
        "--hyperparameters a_data_order=3".split()
    )
    (step,) = compare(parents[:2], smallest_effect=50).report().steps
    assert f"mlflow-l3d compare --runs {','.join(parents[:2])} " in step.command
    assert f"run {parents[0]}" in compared.report().settings["a_data_order=0.0 (synthetic)"]


def test_which_luck_decides_the_difference(place: Place, parents: list[str], compared: ComparedRuns) -> None:
    tables = []
    for parent in parents[:2]:
        cells = read_investigation(parent, place.client).cells
        own = cells[cells["phase"] == "investigation"]
        tables.append(own.pivot_table(index="row", columns="column", values="accuracy").to_numpy(dtype=float))
    row = compared.importances.set_index("factor").loc["data_order"]
    difference = tables[0] - tables[1]
    assert row["contributed_std"] == pytest.approx(difference.std(axis=1).mean())
    assert row["mitigated_std"] == pytest.approx(difference.mean(axis=1).std())
    assert compared.metrics()["difference_importance/data_order"] == row["importance"]
    assert compare(parents[0], parents[2]).importances.empty


def test_the_command_line_says_the_same(place: Place, parents: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "--runs", ",".join(parents), "--smallest-effect", "1"]) == 0
    text = capsys.readouterr().out
    assert "3 systems" in text.splitlines()[0]
    assert "They differ in" in text
    lines = text.splitlines()
    assert len(lines) <= 25
    assert max(len(line) for line in lines if "mlflow-l3d" not in line) <= 100  # a command stays whole


def test_specifications_are_run_and_then_compared(place: Place, parents: list[str]) -> None:
    found = compare([{**COMMON}, {**COMMON, "hyperparameters": {"a_data_order": 5.0}}])
    assert [each.system for each in found.parents] == ["a_data_order=0.0", "a_data_order=5.0"]
    assert found.comparison.differences[0].shared_runs == 8
    assert place.client.get_run(found.parents[1].run_id).data.tags[names.ROLE] == "investigation"


def test_base_runs_and_studies_of_seeds_are_compared_too(place: Place, parents: list[str], tmp_path: Path) -> None:
    settings = ("default", "a_data_order=3")
    radial = {**SYSTEM, "design": "radial", "mitigation_runs": 3}
    found = compare(*[investigate(**radial, hyperparameters=each) for each in settings])
    assert "--mitigation-runs RUNS" in found.parents[0].command
    assert found.comparison.differences[0].runs == (3, 3)
    assert found.importances["factor"].tolist() == ["data_order"]
    found = compare(*[seeds(**SYSTEM, seeds=3, hyperparameters=each).run_id for each in settings])
    assert found.comparison.differences[0].shared_factors == ("seed",)
    side = found.parents[0]
    first, other = (each.run_id for each in found.parents)
    evaluate(first)  # which writes its table of cells again
    assert compare(first, other).metrics() == found.metrics()
    document = json.loads(artifact(place, first, "investigation.json", tmp_path).read_text(encoding="utf-8"))
    document["task"]["classes"].append("rare")  # without a test example, as if chosen classes were two of three
    unchanged = evaluate(first, metric="f1_macro").studies[0].own.mean
    place.client.log_dict(first, document, "investigation.json")
    assert evaluate(first, metric="f1_macro").studies[0].own.mean == unchanged
    del document["greater_is_better"]  # as of version 0.1.0, which left such a class out
    place.client.log_dict(first, document, "investigation.json")
    [one] = compare(first, other, metric="f1_macro").comparison.differences
    first_mean, other_mean = (evaluate(each, metric="f1_macro").studies[0].own.mean for each in (first, other))
    assert one.means == pytest.approx((first_mean, other_mean))
    assert first_mean == pytest.approx(unchanged * 2 / 3)  # two of three classes
    assert side.command.startswith("mlflow-l3d seeds ")
    assert "--seeds RUNS" in side.command
    # Its cells are those of the first parent.
    pooled = investigate(**{**COMMON, "golden_runs": "pooled"}).run_id
    refuses(f"runs={pooled}: has no golden runs", compare, pooled, parents[1])


def test_systems_over_tasks(place: Place, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    ids = []
    for task in ("one", "two"):
        labels = np.tile(["no", "yes"], 60)
        texts = [f"{task} {word} {number}" for number, word in enumerate(generator.permutation(labels))]
        pd.DataFrame({"text": texts, "label": labels}).to_csv(tmp_path / f"{task}.csv", index=False)
        for order in (0, 3):
            given = {**COMMON, "golden_runs": 5, "hyperparameters": f"a_data_order={order}"}
            ids.append(investigate(**{**given, "task": str(tmp_path / f"{task}.csv")}).run_id)
    found = compare(",".join(ids))
    refuses(r"are of different tasks \(one.csv(: .+)?; two.csv(: .+)?\)\.", compare, ids[:3])
    assert found.comparison.tasks == ("one.csv", "two.csv")
    assert found.comparison.over_tasks[0].found.tasks == 2
    assert {"difference", "difference/one.csv", "difference/two.csv", "difference_task_std"} <= set(found.metrics())
    assert "over_tasks.json" in {each.path for each in place.client.list_artifacts(found.run_id)}
    assert "over 2 tasks" in found.report().headline


def test_the_evaluator_of_mlflow(place: Place, parents: list[str], compared: ComparedRuns) -> None:
    with mlflow.start_run() as run:
        found = mlflow.models.evaluate(data=mlflow.data.from_l3d_runs(parents[:2]), model_type="l3d", evaluators="l3d")
    with (
        mlflow.start_run(run_id=parents[0]),
        pytest.raises(L3DError, match="is the run for the result and one of the compared runs"),
    ):
        mlflow.models.evaluate(data=mlflow.data.from_l3d_runs(parents[:2]), model_type="l3d", evaluators="l3d")
    own = {name: value for name, value in compared.metrics().items() if not name.startswith("false_claims")}
    assert found.metrics == pytest.approx(own)
    assert place.client.get_run(run.info.run_id).data.tags[names.ROLE] == "compare"


def test_the_beginning_of_an_id_names_a_run(place: Place, parents: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlflow_l3d.studies.gate.run.power", partial(power, draws=200))
    assert [each.run_id for each in read_parents(place.client, [each[:12] for each in parents])] == parents
    refuses("must be named once", read_parents, place.client, [parents[0], parents[0][:12]])
    assert plan_gate(baseline=parents[0][:12], candidate=parents[1][:12], smallest_effect=1).summary()
    assert evaluate(parents[0][:12], log=False).run_id in ("", parents[0])


def test_bad_input_in_one_line(place: Place, parents: list[str], compared: ComparedRuns) -> None:
    first, second, _ = parents
    client = place.client
    child = client.search_runs(["0"], f"tags.`mlflow.parentRunId` = '{first}'", max_results=1)[0].info.run_id
    running = client.create_run("0", tags={names.ROLE: "investigation"}).info.run_id
    continued = client.create_run("0", tags={names.ROLE: "investigation", names.SUPERSEDED_BY: first}).info.run_id
    other = investigate(**{**COMMON, "metric": "synthetic_score"}).run_id
    cases = {
        first: r"runs=\w+: must be two or more parent runs, separated by commas\.",
        f"{first},{first}": rf"runs={first}: must be named once",
        f"{other},latest": rf"runs={other}: must be named once",
        f"{first},nothing": r"runs=nothing: no such run on the tracking server\.",
        f"{first},{child}": rf"runs={child}: is a cell\. Name its parent run, {first}\.",
        f"{first},{compared.run_id}": rf"runs={compared.run_id}: is not an investigation \(l3d.role=compare\)\.",
        f"{first},{running}": rf"runs={running}: has not finished \(running\)\. Run its command again",
        f"{first},{continued}": rf"runs={continued}: was continued by another parent run\. Name {first}\.",
        f"{first},{other}": r"have different metrics \(accuracy, synthetic_score\)\. Name one that all have",
        "[{": r"runs=\[\{: must be run ids separated by commas, or a list of objects in JSON",
    }
    for runs, line in cases.items():
        refuses(line, compare, runs)
    refuses("must be a list of run ids", compare, 3)
    refuses("runs=3: must hold run ids, investigations, or objects", compare, [first, 3])
    refuses(r"metric='reward': must be one that the cells have: accuracy", compare, first, second, metric="reward")
    refuses("level=2: must be a number above 0 and below 1", compare, first, second, level=2)
    refuses("smallest_effect=much: must be none or a number above 0", compare, first, second, smallest_effect="much")


def test_a_metric_that_predictions_do_not_give_counts_no_examples(place: Place, parents: list[str]) -> None:
    found = compare(parents[0], parents[1], metric="synthetic_score")
    assert found.comparison.differences[0].spread.examples == 0
    assert "runs report synthetic_score as a number; name a metric of their predictions to" in found.comparison.notes[0]


def test_a_real_system_differs_from_itself_no_more_often_than_the_level_allows(tmp_path, migrated_store, data_folder):
    """Two learning rates of a head on the packaged encoder, on film reviews of SST-2."""
    table = pd.read_parquet(data_folder / "sst2.parquet")
    table[["text", "label"]].head(300).to_parquet(tmp_path / "sst2.parquet")
    sizes = {"golden_runs": 10, "investigation_runs": 2, "mitigation_runs": 2, "num_labelled": 80, "test_size": 50}
    given = {"task": str(tmp_path / "sst2.parquet"), "metric": "accuracy", "executor": "inline", **sizes}
    with sqlite_place(migrated_store, tmp_path).entered():
        runs = [investigate(**given, hyperparameters={"learning_rate": rate}) for rate in (0.001, 0.01)]
        found = compare(*runs, self_check=60)
    one = found.comparison.differences[0]
    assert one.shared_runs == 10
    assert 0 < one.spread.saved < 1
    assert [check.repeats for check in found.self_checks] == [60, 60, 60]
    claims = sum(check.claims for check in found.self_checks)
    assert claims / 180 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 180)


@pytest.mark.parametrize(
    ("commands", "named"),
    [
        (
            ("python train.py --seed {seed} --epochs 20 --out={output}", "python train.py --seed {seed}"),
            ["epochs=20", "epochs=default"],
        ),
        (("python train.py --fast -b 8", "python train.py -b 4"), ["fast=yes", "fast=default"]),
        (("python old.py {seed}", "python new.py {seed}"), ["script=python old.py", "script=python new.py"]),
        (("python train.py {seed}",) * 2, ["aaaaaaaa", "bbbbbbbb"]),
    ],
)
def test_commands_are_named_by_the_options_in_which_they_differ(commands: tuple[str, str], named: list[str]) -> None:
    runs = [
        SimpleNamespace(
            info=SimpleNamespace(run_id=letter * 32, run_name="train.py"),
            data=SimpleNamespace(params={"command": command}, tags={}),
        )
        for letter, command in zip("ab", commands, strict=True)
    ]
    assert system_names([Parent(run, {"task": {"name": "train.py"}}) for run in runs], ["", ""]) == named


def test_a_hyperparameter_that_an_earlier_version_lacks_has_its_default() -> None:
    about = {"task": {"name": "a"}, "approach": {"name": "synthetic"}}
    runs = [
        SimpleNamespace(info=SimpleNamespace(run_id=letter * 32), data=SimpleNamespace(params={}, tags={}))
        for letter in "abc"
    ]
    known: list[dict[str, float]] = [{}, {"noise": 0.0}, {"noise": 0.1}]
    parents = [Parent(run, {**about, "hyperparameters": each}) for run, each in zip(runs, known, strict=True)]
    assert system_names(parents, ["", "", ""]) == ["noise=0.0 aaaaaaaa", "noise=0.0 bbbbbbbb", "noise=0.1"]
