"""`evaluate_groups` on stores of runs that other code logged."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from groups_cases import add_run
from mlflow import MlflowClient
from refusals import refuses
from run_helpers import Place
from scipy import stats

import mlflow_l3d
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.evaluation.view import studies_of
from mlflow_l3d.studies.groups.run import GroupsEvaluation, evaluate_groups
from mlflow_l3d.studies.investigation.results import Investigation
from mlflow_l3d.tracking.existing import read_table

RATES = {"0.1": 0.80, "0.01": 0.70}


@pytest.fixture
def place(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr("mlflow_l3d.report.page.Document.to_html", lambda *_, **__: "<html></html>")
    return place


def evaluated(source: Any = "experiment:tuning", **options: Any) -> GroupsEvaluation:
    return evaluate_groups(source, **{"log": False, **options})


def fill(place: Place) -> dict[str, list[str]]:
    """Log two groups of three runs, whose seeds are shared; return rate -> run ids."""
    return {
        rate: [
            add_run(
                place, {"lr": rate, "seed": seed}, {"test_acc": [mean, mean + 0.1, mean + 0.01 * seed]}, name=f"r{seed}"
            )
            for seed in range(3)
        ]
        for rate, mean in RATES.items()
    }


def contents(place: Place, run_ids: list[str]) -> list[Any]:
    return [place.client.get_run(run_id).to_dictionary() for run_id in run_ids]


@pytest.mark.slow
def test_result_has_a_run_of_its_own_and_nothing_else_changes(place: Place) -> None:
    runs = [run_id for run_ids in fill(place).values() for run_id in run_ids]
    before = contents(place, runs)
    first = evaluated(log=True)
    assert contents(place, runs) == before
    again = evaluated(log=True)
    assert again.counts == first.counts == {"found": 6, "used": 6}
    pd.testing.assert_frame_equal(again.groups, first.groups)
    run = place.client.get_run(first.run_id)
    assert run.info.experiment_id == place.client.get_run(runs[0]).info.experiment_id
    assert (run.data.tags["l3d.role"], run.info.run_name, run.info.status) == ("groups", "luck in tuning", "FINISHED")
    files = {item.path for item in place.client.list_artifacts(first.run_id)}
    tables = ["groups.json", "pairs.json", "settings.json", "runs.json"]
    assert files >= {*tables, "report.html", "summary.svg", "result.json"}
    assert [each["path"] for each in json.loads(run.data.tags["mlflow.loggedArtifacts"])] == tables
    assert run.data.tags["mlflow.note.content"].startswith("**lr=0.1 is better than lr=0.01 by 10.0 points.**")
    assert run.data.tags["mlflow.note.content"].count(f"{run.info.run_id}/artifacts/report.html)") == 1
    table, verdicts = first.report().table, first.to_frame()["verdict"]
    assert [row[1] for row in (table.head, *table.rows)] == ["verdict", *verdicts]
    assert verdicts.tolist() == ["best mean", "worse than the best"]
    assert (run.data.metrics["groups"], run.data.metrics["pairs_different"]) == (2, 1)
    assert run.data.metrics["group_std"] == pytest.approx(0.01)
    assert mlflow_l3d.load(first.run_id).summary() == first.summary()
    assert {run.info.run_id for run in studies_of(place.client)} == {first.run_id, again.run_id}


def test_tags_are_written_only_if_they_are_asked_for(place: Place) -> None:
    runs = fill(place)
    before = contents(place, runs["0.1"])
    evaluated(log=True, tag=True)
    tags = place.client.get_run(runs["0.1"][0]).data.tags
    ours = {name: value for name, value in tags.items() if name.startswith("l3d.")}
    luck = "test_acc: a difference of two runs below 6.08 points may be luck"
    assert ours == {"l3d.group": "lr=0.1", "l3d.group_runs": "3", "l3d.group_std": "0.01", "l3d.luck": luck}
    for one, other in zip(before, contents(place, runs["0.1"]), strict=True):
        for name in ours:
            del other["data"]["tags"][name]
        assert one == other
    assert evaluated().counts == {"found": 6, "used": 6}
    refuses(r"^tag=true: writes to the runs, and log is false", evaluated, tag=True)


def test_runs_of_groups_whose_luck_is_not_known_get_no_tags(place: Place) -> None:
    fill(place)
    same = [add_run(place, {"lr": "0.5", "seed": 1}, {"test_acc": 0.5 + 0.01 * number}) for number in range(2)]
    result = evaluated(log=True, tag=True)
    unknown = {"lr=0.1": False, "lr=0.01": False, "lr=0.5": True}
    assert result.groups.set_index("group")["luck"].isna().to_dict() == unknown
    assert not [name for name in place.client.get_run(same[0]).data.tags if name.startswith("l3d.")]


def test_runs_that_do_not_count_are_counted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlflow_l3d.tracking.children._RUNS_A_PAGE", 5)
    fill(place)
    add_run(place, {"lr": "0.1", "seed": 3}, {"test_acc": 0.1}, status="FAILED")
    add_run(place, {"lr": "0.1", "seed": 4}, {"test_acc": 0.1}, status="KILLED")
    add_run(place, {"lr": "0.1", "seed": 5}, {"test_acc": 0.1}, status="RUNNING", name="slow one")
    add_run(place, {"lr": "0.1", "seed": 6}, {"train_acc": 0.99})
    add_run(place, {"lr": "0.1", "seed": 7}, {"test_acc": math.nan}, name="diverged")
    add_run(place, {"lr": "0.1", "seed": 8}, {"test_acc": math.inf})
    place.client.delete_run(add_run(place, {"lr": "0.1", "seed": 9}, {"test_acc": 0.1}))
    result = evaluated()
    assert result.groups["runs"].tolist() == [3, 3]
    counts = {"found": 12, "used": 6, "without a score": 1, "failed": 1, "killed": 1, "running": 1}
    counts["with nan or inf as score"] = 2
    assert result.counts == counts
    assert "Still running, and left out: slow one." in result.summary()
    assert "6 of 12 runs count; 2 with nan or inf as score, 1 " in result.summary()
    assert "2 runs ended with nan or inf, as diverged: diverged?" in said(result)


def test_children_count_and_have_the_parameters_of_their_parents(place: Place) -> None:
    for rate, mean in RATES.items():
        parent = add_run(place, {"lr": rate}, {"test_acc": mean + 0.02, "best_test_acc": 0.9})
        middle = add_run(place, {}, {}, parent=parent)
        for seed in range(3):
            add_run(place, {"seed": seed}, {"test_acc": mean + 0.01 * seed}, parent=middle)
    result = evaluated(metric="metrics.test_acc")
    assert result.groups["group"].tolist() == ["lr=0.1", "lr=0.01"]
    assert result.groups["mean"].tolist() == pytest.approx([0.81, 0.71])
    assert result.counts == {"found": 10, "used": 6, "with child runs": 4}
    children = [run.info.run_id for run in place.runs() if "seed" in run.data.params]
    assert evaluated(children, metric="test_acc").groups.equals(result.groups)  # parents are read for parameters


@pytest.mark.parametrize(("step", "means"), [("last", [0.81, 0.71]), ("best", [0.9, 0.8]), ("0", [0.8, 0.7])])
def test_steps(place: Place, step: str, means: list[float]) -> None:
    fill(place)
    assert evaluated(step=step).groups["mean"].tolist() == pytest.approx(means)


def test_a_step_that_few_runs_have_and_stores_without_a_bulk_call(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(place)
    longer = [
        add_run(place, {"lr": "0.5", "seed": seed}, {"test_acc": [0.1, 0.2, 0.3, 0.4 + seed]}) for seed in range(2)
    ]
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    result = evaluated(step="3")
    monkeypatch.delattr(SqlAlchemyStore, "get_metric_history_bulk")
    pd.testing.assert_frame_equal(evaluated(step="3").groups, result.groups)
    assert result.study.runs["run_id"].tolist() == longer
    assert result.counts["without a score"] == 6
    refuses(r"^step=middle: must be last, best, or a whole number", evaluated, step="middle")
    refuses(r"must have it at step=7, not 0\. Name another metric or step", evaluated, step="7")


def test_filters_and_run_ids(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = fill(place)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "tuning")
    assert evaluated("params.lr = '0.1'").groups["runs"].tolist() == [3]
    assert evaluated(runs["0.01"]).groups["mean"].tolist() == pytest.approx([0.71])
    experiment = place.client.get_experiment_by_name("tuning").experiment_id
    assert len(evaluated(f"experiment:{experiment}").groups) == 2


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "experiment:other",
            "source=experiment:other: this tracking server has no such experiment, or it was deleted. It has: Default",
        ),
        ("params.lr > 3 or", "source=params.lr > 3 or: must be experiment:NAME, run ids, or an MLflow filter of runs"),
        (["0" * 32], f"source={'0' * 32}: is not an active run on this tracking server. Restore it, or leave it out."),
        (
            "params.lr = '7'",
            "source=params.lr = '7': finds no runs in the experiment Default. Set MLFLOW_EXPERIMENT_NAME, or name",
        ),
    ],
)
def test_sources_that_are_not_there(place: Place, source: Any, message: str) -> None:
    fill(place)
    with pytest.raises(ParameterError) as error:
        evaluated(source)
    assert str(error.value).startswith(message)


def test_the_score_is_of_test_data_and_may_be_in_per_cent(place: Place) -> None:
    metrics = {"train_acc": 99.0, "val_acc": 81.0, "test_acc_std": 1.0, "epoch": 3.0, "test_loss": 0.1}
    for seed in range(3):
        add_run(place, {"seed": seed}, {**metrics, "test_acc": 80.0 + seed})
    result = evaluated()
    assert result.study.metric.name == "test_acc"
    assert result.groups["mean"].tolist() == pytest.approx([0.81])
    assert "The metric test_acc was chosen by its name. Others: " in result.summary()
    assert evaluated(metric="test_loss").study.metric.greater_is_better is False
    refuses(r"^metric='test_ac': must be one that finished runs have: .*'test_acc'", evaluated, metric="test_ac")
    add_run(place, {"seed": 3}, {"test_acc": 0.83})
    refuses(r"^metric=test_acc: 1 runs have a fraction, as .* and others .* per cent", evaluated)


def test_what_mlflow_logs_of_a_comparison_is_no_score(place: Place) -> None:
    compared = {f"compare/0123abcd/accuracy/{name}": value for name, value in {"p_value": 0.4, "n_paired": 90}.items()}
    for seed in range(3):
        add_run(place, {"seed": seed}, {"accuracy/mean": 0.8, **compared})
    assert evaluated().study.metric.name == "accuracy/mean"


def test_one_run_of_each_setting_says_what_to_do(place: Place) -> None:
    for rate in range(4):
        add_run(place, {"lr": rate}, {"accuracy": 0.5 + 0.1 * rate})
    summary = evaluated().summary()
    assert summary.startswith("Every group has one run: how much of their differences is luck is not known.")
    assert "Next: No parameter looks like a seed." in summary
    assert "mlflow-l3d evaluate experiment:tuning --group-by=NAME" in summary


def test_runs_of_this_package_do_not_count(done: tuple[Place, Investigation]) -> None:
    place, investigation = done
    with pytest.raises(ParameterError, match=r"^source=\(runs\): finds no finished run\. Runs of mlflow-l3d"):
        evaluated(f"experiment:{place.client.get_run(investigation.run_id).info.experiment_id}")


def predict(place: Place, folder: Path, name: str, predictions: np.ndarray, labels: np.ndarray, seed: int) -> None:
    client = place.client
    run_id = add_run(place, {"seed": seed}, {"accuracy": float((predictions == labels).mean())})
    frame = pd.DataFrame({"y_true": labels, "Prediction": predictions})
    if name.endswith(".json"):
        client.log_dict(run_id, frame.to_dict("split", index=False), name)  # as log_table does
        client.set_tag(run_id, "mlflow.loggedArtifacts", json.dumps([{"path": name, "type": "table"}]))
        return
    path = folder / name
    frame.to_parquet(path) if name.endswith(".parquet") else frame.to_csv(path, index=False)
    client.log_artifact(run_id, str(path))


@pytest.mark.parametrize("name", ["predictions.parquet", "predictions.csv", "eval_results_table.json"])
def test_predictions(place: Place, tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    labels = np.array(["cat", "dog"])[rng.integers(2, size=40)]
    answers = [np.where(rng.random(40) < 0.2, "cow", labels) for _ in range(3)]
    for seed, predictions in enumerate(answers):
        predict(place, tmp_path, name, predictions, labels, seed)
    result = evaluated()
    [row] = result.groups.to_dict("records")
    pairs = [(answers[i] == answers[j]).mean() for i, j in ((0, 1), (0, 2), (1, 2))]
    right = np.array([each == labels for each in answers])
    assert row["consistency"] == pytest.approx(np.mean(pairs))
    assert row["robust_share"] == pytest.approx(right.all(axis=0).mean())
    assert set(result.examples["example_id"]) == set(np.flatnonzero(right.any(axis=0) & ~right.all(axis=0)))
    assert "cow" not in result.examples.to_csv()  # nothing of the user's texts


def test_predictions_of_other_examples_are_not_compared(place: Place, tmp_path: Path) -> None:
    for seed in range(3):
        labels = np.random.default_rng(seed).integers(2, size=40)
        predict(place, tmp_path, "predictions.csv", labels, labels, seed)
    result = evaluated()
    assert result.groups["consistency"].isna().all()
    assert (
        "Predictions of all runs are not compared: its runs predict different examples, or in another order."
        in result.summary()
    )


def test_each_table_is_read_once(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels, read = np.arange(40) % 2, []

    def counted(client: MlflowClient, uri: str, artifact: str) -> pd.DataFrame | None:
        read.append((uri, artifact))
        return read_table(client, uri, artifact)

    monkeypatch.setattr("mlflow_l3d.studies.groups.reading.read_table", counted)
    predict(place, tmp_path, "predictions.csv", labels, labels, 0)
    for seed in range(1, 4):
        add_run(place, {"seed": seed}, {"accuracy": 0.5})
    assert "Predictions of all runs are not compared: only one of its runs has them." in said(evaluated())
    assert len(read) == len({*read}) == 3 + 4  # of predictions.parquet the first three


def test_other_files_and_missing_values_cost_their_runs_only(place: Place, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=40)
    for seed in range(5):
        predictions = np.where(rng.random(40) < 0.2, 1 - labels, labels)
        rows = slice(0, 30 if seed == 0 else 40)
        predict(place, tmp_path, "predictions.csv", predictions[rows], labels[rows], seed)
    add_run(place, {"seed": 5}, {"accuracy": 0.5})
    result = evaluated()
    assert result.groups["compared"].tolist() == [4]
    assert "Predictions of 2 runs of all runs are not compared: not of the same examples." in said(result)
    assert "compared by position" in said(result)


def said(result: GroupsEvaluation) -> str:
    """Return the whole report as text."""
    return " ".join(result.report().remarks)


@pytest.mark.parametrize(
    ("name", "typed", "best"), [("brier", "", "a"), ("my_score", ":lower", "a"), ("ece", ":higher", "b")]
)
def test_the_direction_is_said_and_may_be_typed(place: Place, name: str, typed: str, best: str) -> None:
    for model, mean in (("a", 0.1), ("b", 0.2)):
        for seed in range(3):
            add_run(place, {"model": model, "seed": seed}, {name: mean + 0.01 * seed})
    result = evaluated(metric=f"{name}{typed}", log=True)
    word, turned = ("Lower", "higher") if best == "a" else ("Higher", "lower")
    assert result.groups["group"].iloc[0] == f"model={best}"
    assert f"{word} {name} is better (else: --metric {name}:{turned})." in said(result)
    assert mlflow_l3d.load(result.run_id).summary() == result.summary()


def test_every_share_may_be_in_per_cent_but_not_in_both(place: Place) -> None:
    for seed in range(3):
        add_run(place, {"seed": seed}, {"success_rate": 80.0 + seed, "frame_rate": 120.0 + seed})
    assert evaluated(metric="success_rate").groups["mean"].tolist() == pytest.approx([0.81])
    assert evaluated(metric="frame_rate").groups["mean"].tolist() == [121]
    assert "121.0" in evaluated(metric="frame_rate").summary()
    add_run(place, {"seed": 3}, {"success_rate": 0.8})
    refuses(r"^metric=success_rate: 1 runs have a fraction", evaluated, metric="success_rate")


def test_trials_do_not_have_what_their_search_found(place: Place) -> None:
    for seed in range(4):
        parent = add_run(place, {"cv": 5, "best_C": seed % 2}, {"mean_test_score": 0.8})
        for value in (0.1, 1):
            add_run(
                place, {"C": value, "random_state": seed}, {"mean_test_score": value / 2 + 0.01 * seed}, parent=parent
            )
    result = evaluated(metric="mean_test_score")
    assert result.groups[["group", "runs"]].to_numpy().tolist() == [["C=1", 4], ["C=0.1", 4]]
    assert "4 runs with a score left out, whose child runs have one, too." in said(result)


def test_last_steps_that_differ_are_said(place: Place) -> None:
    for seed in range(4):
        add_run(place, {"seed": seed}, {"accuracy": [0.5, 0.6, 0.7, 0.7 + 0.01 * seed][: 2 if seed == 3 else 4]})
    assert "The last steps differ, from 1 to 3. One step for all: --step." in said(evaluated())
    assert "The last steps differ" not in said(evaluated(step="1"))


def test_runs_without_parameters_and_parents_in_a_circle(place: Place) -> None:
    runs = [add_run(place, {}, {"accuracy": 0.5 + 0.1 * number}) for number in range(4)]
    assert evaluated().groups[["group", "runs"]].to_numpy().tolist() == [["all runs", 4]]
    place.client.set_tag(runs[0], "mlflow.parentRunId", runs[0])
    assert evaluated().counts == {"found": 4, "used": 4}
    for one, other in ((0, 1), (1, 0)):
        place.client.set_tag(runs[one], "mlflow.parentRunId", runs[other])
    assert evaluated().counts == {"found": 4, "used": 2, "with child runs": 2}


@pytest.mark.slow
def test_equal_scores_and_the_next_step_after_tags(place: Place) -> None:
    for model in "ab":
        for seed in range(3):
            add_run(place, {"model": model, "seed": seed}, {"accuracy": 0.5})
    result = evaluated(log=True, tag=True)
    assert result.summary().startswith("All 6 runs have the same score")
    for model in "ab":
        for seed in range(3):
            add_run(place, {"model": model, "seed": seed + 5}, {"accuracy": 0.5 + 0.1 * (model == "a") + 0.001 * seed})
    assert "Write to each run" not in evaluated(log=True, tag=True).summary().split("Next:")[1].split("Seeds:")[0]


def test_a_commit_that_moves_the_score_withholds_the_verdict(place: Place) -> None:
    name = "mlflow.source.git.commit"
    for commit, mean in (("aaa", 0.7), ("bbb", 0.8)):
        for seed in range(4):
            add_run(place, {"seed": 10 * int(10 * mean) + seed}, {"accuracy": mean + 0.01 * seed}, tags={name: commit})
    summary = evaluated().summary()
    assert summary.startswith(f"The score also moves with {name}: which group is better is not decided.")
    by_commit = evaluated(group_by=f"tags.{name}")
    assert by_commit.groups["verdict"].tolist() == ["best", "better"]
    assert ", the only one tested." in by_commit.summary()


@pytest.mark.slow
def test_an_autologged_experiment(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What scikit-learn's autologging wrote, evaluated in one call; numbers by pandas and scipy alone."""
    monkeypatch.setattr("mlflow.sklearn.utils._get_classifier_artifacts", lambda *_, **__: [])  # pictures
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier

    data, labels = make_classification(300, 10, n_informative=4, flip_y=0.2, random_state=0)
    mlflow.set_experiment("autologged")
    mlflow.sklearn.autolog(log_models=False, log_datasets=False, log_post_training_metrics=True, silent=True)
    try:
        for depth in (1, 6):
            for seed in range(4):
                with mlflow.start_run():
                    forest = RandomForestClassifier(5, max_depth=depth, random_state=seed)
                    forest.fit(data[:200], labels[:200]).score(data[200:], labels[200:])
    finally:
        mlflow.sklearn.autolog(disable=True)
    result = evaluate_groups("experiment:autologged", log=False)
    runs = mlflow.search_runs(experiment_names=["autologged"])
    score = f"metrics.{result.study.metric.name}"
    assert result.study.metric.name.startswith("RandomForestClassifier_score_")  # on the data after the training
    by_depth = runs.groupby("params.max_depth")[score].agg(["mean", "std", "count"])
    for row in result.groups.to_dict("records"):
        expected = by_depth.loc[row["group"].removeprefix("max_depth=")]
        assert (row["mean"], row["std"], row["runs"]) == pytest.approx(tuple(expected))
    table = runs.pivot(index="params.random_state", columns="params.max_depth", values=score)
    assert result.study.pairs["p"].tolist() == pytest.approx([stats.ttest_rel(table["1"], table["6"]).pvalue])
    assert result.study.seeds == ("params.random_state",)


TEXTS = np.array([f"text {at}" for at in range(60)])
LABELS = np.arange(60) // 20


def logged(place: Place, folder: Path, frames: list[pd.DataFrame], metric: str = "accuracy") -> GroupsEvaluation:
    """Log a run with predictions.csv for each frame, whose seed is its number or the column ``seed``, and evaluate."""
    for seed, frame in enumerate(frames):
        run_id = add_run(place, {"seed": frame.attrs.get("seed", seed)}, {metric: 0.5 + 0.01 * seed})
        frame.to_csv(folder / "predictions.csv", index=False)
        place.client.log_artifact(run_id, str(folder / "predictions.csv"))
    return evaluated()


def answers_of(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(60) < 0.3, rng.integers(3, size=60), LABELS)


def agreeing(runs: list[np.ndarray]) -> float:
    return float(np.mean([(runs[i] == runs[j]).mean() for i, j in ((0, 1), (0, 2), (1, 2))]))


@pytest.mark.parametrize("name", ["text", "name"])
def test_a_column_with_the_same_values_in_all_runs_names_the_examples(place: Place, tmp_path: Path, name: str) -> None:
    runs = [answers_of(seed) for seed in range(3)]
    frames = [pd.DataFrame({name: TEXTS, "label": LABELS, "prediction": run}) for run in runs]
    shuffled = [each.sample(frac=1, random_state=seed) for seed, each in enumerate(frames)]
    numbered = [each.sort_values("label", kind="stable").reset_index(drop=True) for each in shuffled]
    result = logged(place, tmp_path, [each.rename_axis("row").reset_index() for each in numbered])
    assert result.groups["consistency"].tolist() == pytest.approx([agreeing(runs)])
    assert f"Predictions of all runs have no ids: they are matched by {name}." in said(result)
    assert set(result.examples["example_id"]) <= {*range(60)}  # nothing of the user's texts


def test_rows_in_an_order_that_a_column_contradicts_are_not_compared(place: Place, tmp_path: Path) -> None:
    """Texts that repeat name no examples, but show that rows of sorted files are in another order."""
    texts = np.where(np.arange(60) % 20, TEXTS, "again")
    frames = [pd.DataFrame({"text": texts, "label": LABELS, "prediction": answers_of(seed)}) for seed in range(3)]
    shuffled = [
        each.sample(frac=1, random_state=seed).sort_values("label", kind="stable") for seed, each in enumerate(frames)
    ]
    result = logged(place, tmp_path, shuffled)
    assert result.groups["consistency"].isna().all()
    assert "its runs predict different examples, or in another order" in said(result)
    assert "by position, as their other columns agree" not in said(result)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({}, "have no ids: they are compared by position, which nothing confirms."),
        ({"id": np.arange(60) // 2}, "have ids that repeat: they are compared by position, which nothing confirms."),
        (
            {"id": np.arange(60) % 3},
            "have ids that repeat: they are compared by position, as their other columns agree.",
        ),
    ],
)
def test_a_position_that_nothing_confirms(place: Place, tmp_path: Path, columns: Any, words: str) -> None:
    frames = [pd.DataFrame({**columns, "label": LABELS, "prediction": answers_of(seed)}) for seed in range(3)]
    assert f"Predictions of all runs {words}" in said(logged(place, tmp_path, frames))


def test_an_empty_answer_is_wrong_and_agrees_with_nothing(place: Place, tmp_path: Path) -> None:
    frames = [pd.DataFrame({"id": range(60), "label": LABELS, "prediction": LABELS.astype(object)}) for _ in range(3)]
    frames[1].loc[:9, "prediction"] = np.nan
    frames[2].loc[:9, "prediction"] = np.nan
    [row] = logged(place, tmp_path, frames).groups.to_dict("records")
    assert (row["compared"], row["consistency"], row["robust_share"]) == (3, pytest.approx(50 / 60), 50 / 60)


def test_none_may_be_a_class(place: Place, tmp_path: Path) -> None:
    labels = np.array(["None", "NA", "pos"])[LABELS]
    frames = [pd.DataFrame({"id": range(60), "label": labels, "prediction": labels}) for _ in range(3)]
    assert logged(place, tmp_path, frames).groups["robust_share"].tolist() == [1]


def test_runs_with_the_same_seed_and_predictions(place: Place, tmp_path: Path) -> None:
    frames = [pd.DataFrame({"id": range(60), "label": LABELS, "prediction": answers_of(seed)}) for seed in range(6)]
    for at, frame in enumerate(frames):
        frame.attrs["seed"] = at // 2
    result = logged(place, tmp_path, frames)
    assert result.groups["compared"].tolist() == [3]
    assert "with the same seed are averaged and count as one; of their predictions, those of the oldest." in said(
        result
    )
    assert result.groups["consistency"].tolist() == pytest.approx([agreeing([answers_of(seed) for seed in (0, 2, 4)])])


def test_predictions_that_are_numbers(place: Place, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = 1e-9 * rng.normal(size=60)
    runs = [labels + 1e-10 * rng.normal(size=60) for _ in range(4)]
    frames = [pd.DataFrame({"label": labels, "prediction": run}).sample(frac=1) for run in runs]
    result = logged(place, tmp_path, frames, "rmse")
    apart = np.mean([np.abs(runs[i] - runs[j]).mean() for i in range(4) for j in range(i)])
    assert result.groups["absolute_difference"].tolist() == pytest.approx([apart])
    assert f"{apart:.2g} (" in result.summary()
    assert "hold no predictions" not in said(result)


def test_runs_with_one_answer_for_every_example_collapsed(place: Place, tmp_path: Path) -> None:
    answers = [answers_of(0), answers_of(1), np.zeros(60, dtype=int)]
    frames = [pd.DataFrame({"id": range(60), "label": LABELS, "prediction": each}) for each in answers]
    assert "1 run of all runs with one answer for every example: collapsed (L3D005)." in said(
        logged(place, tmp_path, frames)
    )


@pytest.mark.parametrize("groups", [1, 3])
def test_a_run_that_lies_far_from_the_others_is_named(place: Place, groups: int) -> None:
    rng = np.random.default_rng(0)
    for model in range(groups):
        for seed in range(12 // groups):
            far = add_run(place, {"model": model, "seed": seed}, {"accuracy": 0.8 + 0.01 * rng.normal()})
    assert "L3D013" not in said(evaluated())
    place.client.log_metric(far, "accuracy", 0.1 if groups == 1 else 0.76)
    score = "10.00" if groups == 1 else "76.00"
    words = f"Long tails (L3D013): run {far} of {'all runs' if groups == 1 else 'model=2'} scores {score}."
    assert words in evaluated().summary().replace("\n    ", " ")
