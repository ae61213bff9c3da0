"""The entry point `seeds` and `evaluate` of what it leaves: runs, numbers, resuming, failures, bad input."""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow.entities import Run
from refusals import fails, refuses
from run_helpers import Place, assert_whole, copied, one_line, sqlite_place, wait_until
from seeds_entry_cases import by_choice, by_class, by_number, choice_task, class_task, number_task, right, trainings

from mlflow_l3d import cli, load
from mlflow_l3d.approaches.command.approach import Command
from mlflow_l3d.approaches.finetuning.approach import Finetuning
from mlflow_l3d.cells.factors import configuration_seed, stream_seed
from mlflow_l3d.designs.layout import PAPER_SEEDS
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.evaluation.finished import delete
from mlflow_l3d.studies.evaluation.run import evaluate
from mlflow_l3d.studies.evaluation.view import view
from mlflow_l3d.studies.investigation.evaluate import score_parent
from mlflow_l3d.studies.seeds.request import _hyperparameters, parse_seeds, specify_seeds
from mlflow_l3d.studies.seeds.results import evaluate_seeds
from mlflow_l3d.studies.seeds.run import SeedsRun, seeds

NOTHING_RANDOM = "a_data_order=1e6,a_sample_choice=1e6,a_model_initialisation=1e6,a_model_randomness=1e6"
ARTIFACTS = {"cells.parquet", "predictions.parquet", "report.html", "summary.svg"}
ARTIFACTS |= {f"{name}.json" for name in ("cells", "examples", "investigation", "result", "seeds")}


def study(**parameters: Any) -> SeedsRun:
    return seeds(**{"approach": by_class(), "task": class_task(), "seeds": 3, "executor": "inline", **parameters})


def test_nothing_starts_any_more_after_the_first_run(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor if a self-test trained the first runs before."""
    result = study(self_test="run", progress=True)
    assert result.computed == 3
    drawn = [state for state in capsys.readouterr().err.split("\r") if " 3/3 " in state and "seed/s" in state]
    assert drawn
    assert not any("starting" in state for state in drawn)


def document(place: Place, run_id: str, name: str, folder: Path) -> Any:
    return json.loads(place.download(run_id, name, folder).read_text(encoding="utf-8"))


def by_seed(cells: list[Run]) -> dict[int, Run]:
    return {int(run.data.params["seed.seed"]): run for run in cells}


def running(place: Place) -> list[Run]:
    return [run for run in place.runs() if run.info.status == "RUNNING"]


@pytest.fixture
def place(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr("mlflow_l3d.report.page.Document.to_html", lambda _: "<html></html>")
    return place


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> tuple[Place, SeedsRun]:
    """Give a study of 0, 42 and 52, with all its pages; the tests that take it change nothing."""
    with sqlite_place(migrated_store, tmp_path_factory.mktemp("whole")).entered() as place:
        return place, study(seeds="42, 52,0", metric="f1_macro")


@pytest.fixture
def done(whole: tuple[Place, SeedsRun], place: Place) -> tuple[Place, SeedsRun]:
    """Give a place of the test's own with that study."""
    return copied(whole[0], place.cache.parent), whole[1]


@pytest.mark.slow
def test_parent(whole: tuple[Place, SeedsRun], tmp_path: Path) -> None:
    place, result = whole
    assert_whole(place, result.run_id, 3)
    [parent] = place.parents()
    tags, params, metrics = parent.data.tags, parent.data.params, parent.data.metrics
    assert (tags["l3d.role"], tags["l3d.design"], tags["l3d.factor"]) == ("investigation", "seeds", "seed")
    assert parent.info.run_name == "3 seeds · toy · guess"
    assert (params["seeds"], params["resolved.seeds"]) == ("42, 52,0", "42,52,0")
    assert "agree" in tags["mlflow.note.content"]
    assert {item.path for item in place.client.list_artifacts(result.run_id)} == ARTIFACTS
    assert "GMT" not in result.summary()
    assert "3 seeds trained, 0 taken from earlier runs" in result.summary()
    assert result.run_id in result.summary()

    labels, predictions = right(class_task()), expected((42, 52, 0))
    accuracy = (predictions == labels).mean(axis=1)
    assert metrics["seed_mean/accuracy"] == pytest.approx(accuracy.mean())
    assert metrics["seed_var/accuracy"] == pytest.approx(accuracy.std())
    assert metrics["seed_std/accuracy"] == pytest.approx(accuracy.std(ddof=1))
    assert metrics["score_mean"] == metrics["seed_mean/f1_macro"]
    agreements = [(one == other).mean() for one, other in combinations(predictions, 2)]
    assert metrics["consistency"] == pytest.approx(np.mean(agreements))
    assert metrics["cells_failed"] == 0
    history = place.client.get_metric_history(result.run_id, "score")
    assert sorted(point.step for point in history) == [0, 1, 2]

    about = document(place, result.run_id, "investigation.json", tmp_path)
    assert about["governed_factors"] == ["model_initialisation", "data_order"]
    assert about["task"]["train_examples"] == 40
    assert about["task"]["evaluated_examples"] == 50
    assert about["task"]["validation_examples"] == 0
    scored = document(place, result.run_id, "seeds.json", tmp_path)
    assert scored["seeds"] == [42, 52, 0]
    assert scored["training_size"] == 40
    assert [row["accuracy"] for row in scored["scores"]] == pytest.approx(accuracy.tolist())
    assert "one text of the toy" not in place.download(result.run_id, "report.html", tmp_path).read_text()
    with place.entered():
        assert view(result.run_id, cite=True).summary().startswith("Over 3 seeds, f1_macro (%) on ")


@pytest.mark.slow
def test_page_on_runs_names_everything(whole: tuple[Place, SeedsRun]) -> None:
    place, result = whole
    page = (Path(__file__).parents[3] / "docs" / "runs.md").read_text(encoding="utf-8")
    parent = place.client.get_run(result.run_id)
    metrics = {name.partition("/")[0] for name in parent.data.metrics}
    ends = ("_ci_low", "_ci_high", "_spread", "_spread_ci_low", "_spread_ci_high")
    bare = {name for name in metrics if f"`{name}`" not in page and f"`{name}/<metric>`" not in page}
    measures = ("consistency", "correct_consistency")
    assert bare <= {f"{measure}{end}" for measure in measures for end in ends}
    artifacts = [item.path for item in place.client.list_artifacts(result.run_id)]
    assert [name for name in (*artifacts, *parent.data.tags) if f"`{name}`" not in page and "mlflow." not in name] == []


def expected(wanted: tuple[int, ...]) -> np.ndarray[Any, Any]:
    from seeds_entry_cases import guessed

    found = [guessed(class_task(), stream_seed(seed, "seed study", "model_initialisation")) for seed in wanted]
    return np.array(found)


@pytest.mark.slow
def test_children(whole: tuple[Place, SeedsRun], tmp_path: Path) -> None:
    place, result = whole
    cells = place.cells(result.run_id)
    assert {run.data.tags["l3d.phase"] for run in cells} == {"golden"}
    indices = {run.data.params["seed.seed"]: run.data.tags["l3d.index"] for run in cells}
    assert indices == {"42": "0", "52": "1", "0": "2"}
    found = by_seed(cells)
    for seed, run in found.items():
        for factor in ("model_initialisation", "data_order"):
            assert run.data.params[f"seed.{factor}"] == str(stream_seed(seed, "seed study", factor))
        assert "seed.data_split" not in run.data.params
        assert run.data.tags["mlflow.parentRunId"] == result.run_id
        assert {"accuracy", "f1_macro", "precision_macro", "recall_macro", "matthews_corrcoef"} <= {*run.data.metrics}
        table = pd.read_parquet(place.download(run.info.run_id, "predictions.parquet", tmp_path))
        np.testing.assert_array_equal(table["prediction"], expected((seed,))[0])
        np.testing.assert_array_equal(table["label"], right(class_task()))
    together = pd.read_parquet(place.download(result.run_id, "predictions.parquet", tmp_path))
    assert together["seed"].tolist() == [42] * 50 + [52] * 50 + [0] * 50
    cells_table = pd.read_parquet(place.download(result.run_id, "cells.parquet", tmp_path))
    assert cells_table["run_id"].tolist() == [found[seed].info.run_id for seed in (42, 52, 0)]


@pytest.mark.slow
def test_same_seed_is_the_same_run_and_only_new_seeds_are_trained(place: Place, tmp_path: Path) -> None:
    first = study(seeds=2, self_test="skip")
    assert (first.computed, first.reused, trainings(place.cache)) == (2, 0, 2)
    second = study(seeds="52,0,42", self_test="skip")
    assert (second.computed, second.reused, trainings(place.cache)) == (1, 2, 3)
    assert [run.data.params["seed.seed"] for run in place.cells(second.run_id)] == ["0"]
    pd.testing.assert_frame_equal(second.study.scores.loc[[42, 52]], first.study.scores, check_exact=True)
    again = evaluate_seeds(second.run_id).studies[0]
    assert again.seeds == (52, 0, 42)
    assert again.metrics() == pytest.approx(second.study.metrics())
    table = pd.read_parquet(place.download(second.run_id, "cells.parquet", tmp_path))
    assert table[["index", "seed.seed"]].to_numpy().tolist() == [[0, 52], [1, 0], [2, 42]]


@pytest.mark.slow
def test_another_machine_gets_the_same_predictions(whole: tuple[Place, SeedsRun], place: Place) -> None:
    result = study(seeds="42, 52,0", metric="f1_macro")
    assert result.computed == 3
    assert result.study.metrics() == whole[1].study.metrics()


def test_counts_and_lists() -> None:
    assert parse_seeds("10") == PAPER_SEEDS == tuple(range(42, 142, 10))
    assert parse_seeds("11")[10] == 142
    assert parse_seeds("2") == (42, 52)
    assert parse_seeds("[0, 7]") == (0, 7)
    refuses("seeds=42,: must be a whole number", parse_seeds, "42,")
    assert parse_seeds("7,0") == (7, 0)


@pytest.mark.parametrize("text", ["1", "0", "42,42", "42,", "1,x", "-1,2", "two", "1.5,2", ""])
def test_seeds_that_are_none(text: str, place: Place) -> None:
    refuses(r"^seeds=", study, seeds=text)
    assert place.runs() == []


@pytest.mark.slow
def test_regression(place: Place, tmp_path: Path) -> None:
    result = study(approach=by_number(), task=number_task())
    assert (result.study.kind, result.study.metric.name) == ("regression", "pearson")
    metrics = place.client.get_run(result.run_id).data.metrics
    assert {"seed_mean/pearson", "seed_mean/mse", "consistency_pearson", "consistency_ccc"} <= {*metrics}
    run = by_seed(place.cells())[42]
    table = pd.read_parquet(place.download(run.info.run_id, "predictions.parquet", tmp_path))
    assert (table["label"].dtype, table["prediction"].dtype) == (np.float64, np.float64)
    assert not [name for name in table if str(name).startswith("score_")]
    assert run.data.metrics["pearson"] == pytest.approx(np.corrcoef(table["label"], table["prediction"])[0, 1])
    assert run.data.metrics["mae"] == pytest.approx((table["label"] - table["prediction"]).abs().mean())
    assert evaluate_seeds(result.run_id).studies[0].metrics() == pytest.approx(result.study.metrics())
    by_error = evaluate_seeds(result.run_id, metric="mse").studies[0]
    assert by_error.own.mean == pytest.approx(result.study.spreads["mse"].mean)


@pytest.mark.slow
def test_multiple_choice(place: Place) -> None:
    result = study(approach=by_choice(), task=choice_task())
    assert (result.study.kind, result.study.metric.name) == ("multiple_choice", "accuracy")
    assert "consistency" in place.client.get_run(result.run_id).data.metrics
    again = evaluate_seeds(result.run_id).studies[0]
    assert (again.kind, again.metrics()) == ("multiple_choice", pytest.approx(result.study.metrics()))


@pytest.mark.slow
def test_part_of_train_is_held_out_and_fewer_are_trained_on(place: Place, tmp_path: Path) -> None:
    fewer = {"seeds": 2, "validation_fraction": 0.25, "num_labelled": 20, "test_size": 10, "self_test": "skip"}
    about = document(place, study(**fewer).run_id, "investigation.json", tmp_path)["task"]
    sizes = [about[f"{name}_examples"] for name in ("train", "validation", "evaluated")]
    assert sizes == [15, 5, 10]
    other = study(**fewer, root_seed=1)
    assert other.computed == 2, "another root seed draws other examples"


def break_seeds(place: Place, *broken: int) -> None:
    place.cache.mkdir(exist_ok=True)
    wrong = [stream_seed(seed, "seed study", "model_initialisation") for seed in broken]
    (place.cache / "broken").write_text("\n".join(map(str, wrong)))


@pytest.mark.slow
def test_a_seed_that_fails(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    break_seeds(place, 52)
    result = study()
    parent = place.client.get_run(result.run_id)
    assert (parent.info.status, parent.data.tags["l3d.state"]) == ("FINISHED", "incomplete")
    assert parent.data.metrics["cells_failed"] == 1
    assert result.study.seeds == (42, 62)
    assert by_seed(place.cells())[52].info.status == "FAILED"
    why = "seed 52 failed: RuntimeError: this seed is broken"
    assert why in caplog.text
    assert why in " ".join(result.summary().split())
    assert why in str(result.report().in_full)
    assert evaluate_seeds(result.run_id).studies[0].metrics() == pytest.approx(result.study.metrics())

    break_seeds(place)
    again = study()
    assert (again.computed, again.reused) == (1, 2)
    assert_whole(place, again.run_id, 3)
    assert place.client.get_run(result.run_id).data.tags["l3d.superseded_by"] == again.run_id


@pytest.mark.slow
@pytest.mark.parametrize("broken", [(42, 52, 62), (42, 62)], ids=["all", "all but one"])
def test_too_many_seeds_fail(place: Place, broken: tuple[int, ...]) -> None:
    break_seeds(place, *broken)
    fails(f"{len(broken)} of 3 seeds failed; the first said: RuntimeError: this seed", study, self_test="skip")
    [parent] = place.parents()
    assert parent.info.status == "FAILED"
    assert "seeds failed" in parent.data.tags["l3d.error"]
    assert running(place) == []


@pytest.mark.slow
def test_killed_and_started_again(place: Place) -> None:
    process = place.start(str(Path(__file__).parents[2] / "seeds_entry_cases.py"), "6")
    wait_until(lambda: len(place.spooled()) >= 2 or process.poll() is not None, "two seeds")
    assert process.poll() is None, process.communicate()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    kept = len(place.spooled())
    [old] = place.parents()
    result = study(seeds=6)
    assert (result.computed, result.reused) == (6 - kept, kept)
    assert_whole(place, result.run_id, 6)
    left = place.client.get_run(old.info.run_id)
    assert (left.info.status, left.data.tags["l3d.superseded_by"]) == ("KILLED", result.run_id)
    accuracies = (expected(PAPER_SEEDS[:6]) == right(class_task())).mean(axis=1)
    np.testing.assert_array_equal(result.study.scores["accuracy"], accuracies)


@pytest.mark.slow
def test_interrupted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow_l3d.tracking.recorder import RunRecorder

    kept = RunRecorder.add

    def interrupting(self: Any, record: Any, outcome: Any) -> Any:
        kept(self, record, outcome)
        if record.index == 1:
            raise KeyboardInterrupt
        return record

    with monkeypatch.context() as patch:
        patch.setattr(RunRecorder, "add", interrupting)
        with pytest.raises(KeyboardInterrupt):
            study()
    [parent] = place.parents()
    assert parent.info.status == "KILLED"
    assert "2 of 3 seeds done" in parent.data.tags["mlflow.note.content"]
    assert running(place) == []
    result = study()
    assert result.computed == 1
    scores = place.client.get_metric_history(result.run_id, "score")
    assert {each.step: each.value for each in scores} == dict(enumerate(result.study.scores["accuracy"]))


@pytest.mark.slow
def test_evaluating_a_study_again(done, tmp_path, capsys) -> None:
    place, result = done
    before = place.client.get_run(result.run_id).data.metrics
    table = place.download(result.run_id, "cells.json", tmp_path).read_text()
    assert cli.main(["evaluate", "latest"]) == 0
    assert "Two seeds agree on" in capsys.readouterr().out
    assert place.client.get_run(result.run_id).data.metrics == pytest.approx(before)
    (tmp_path / "again").mkdir()
    assert place.download(result.run_id, "cells.json", tmp_path / "again").read_text() == table
    assert cli.main(["evaluate", "--metric", "accuracy"]) == 0
    metrics = place.client.get_run(result.run_id).data.metrics
    assert metrics["score_mean"] == metrics["seed_mean/accuracy"]
    capsys.readouterr()
    for options, line in (
        (["--metric", "pearson"], "mlflow-l3d: error: metric='pearson': must be one that the runs have:"),
        (["--missing", "reml"], "mlflow-l3d: error: missing=reml: has no effect on a seeds study"),
        (["--where", "x"], "mlflow-l3d: error: where=x: has no effect on a seeds study"),
    ):
        assert cli.main(["evaluate", *options]) == 2
        assert one_line(capsys.readouterr().err).startswith(line)


@pytest.mark.slow
def test_several_studies(place: Place, tmp_path: Path) -> None:
    studies = [study(seeds=3, task=class_task(name, size)) for name, size in (("a", 90), ("b", 120), ("c", 60))]
    studies.append(study(approach=by_number(), task=number_task(), metric="mse"))
    wanted = ",".join(one.run_id for one in studies)
    result = evaluate(wanted)
    run = place.client.get_run(result.run_id)
    assert (run.info.status, run.data.tags["l3d.role"]) == ("FINISHED", "seeds_over_tasks")
    assert run.info.run_name == "seeds over 4 tasks"
    assert run.data.tags["l3d.investigations"] == wanted
    assert run.data.tags["mlflow.note.content"].startswith(f"**{result.report().headline}** **Where does")
    artifacts = {item.path for item in place.client.list_artifacts(result.run_id)}
    assert artifacts == {"tasks.csv", "tasks.json", "report.html", "result.json", "summary.svg"} | {
        *("seed_by_task.csv", "seed_by_task.svg")
    }
    rows = pd.read_csv(place.download(result.run_id, "tasks.csv", tmp_path))
    assert rows["task"].tolist() == ["a", "b", "c", "numbers"]
    matrix = pd.read_csv(place.download(result.run_id, "seed_by_task.csv", tmp_path), index_col="task")
    assert matrix.columns.tolist() == ["42", "52", "62"]
    for one in studies:
        own = one.study.scores[one.study.metric.name].to_numpy()
        assert matrix.loc[one.study.task].to_numpy() == pytest.approx(one.study.metric.sign * own)
    assert any(name.startswith("size_pearson/") for name in run.data.metrics)
    frame, full = load(result.run_id).to_frame(), result.to_frame(full=True)
    assert frame["unit"].tolist() == ["%", "%", "%", "units"]
    for head, name in (("mean", "metric_mean"), ("std", "std"), ("std_ci_high", "std_ci_high")):
        np.testing.assert_allclose(frame[head], full[name] * [100, 100, 100, 1])
    np.testing.assert_allclose(frame["CON (%)"], 100 * full["con"])
    assert studies[0].run_id not in result.summary()
    assert result.run_id in result.summary()
    assert all(task in result.summary() for task in ("a", "b", "c", "numbers"))
    refuses("must be named once", evaluate, [studies[0].run_id, studies[0].run_id])
    refuses("no such run", evaluate_seeds, studies[0].run_id, "unknown")
    assert len(place.runs("tags.`l3d.role` = 'seeds_over_tasks'")) == 1


@pytest.mark.slow
def test_two_studies_of_one_task(done: tuple[Place, SeedsRun]) -> None:
    place, first = done
    second = study(seeds=2)
    refuses(r"must have one study for each model\. Use compare", evaluate_seeds, first.run_id, second.run_id)
    assert running(place) == []


@pytest.mark.slow
@pytest.mark.parametrize("numbered", [True, False])
def test_a_strangers_runs(place: Place, tmp_path: Path, numbered: bool) -> None:
    client = place.client
    parent = client.create_run("0", tags={"l3d.design": "seeds"}, run_name="theirs")
    truth = right(class_task())
    for seed, predictions in zip((0, 1, 2), expected((0, 1, 2)), strict=True):
        tags = {"l3d.role": "cell", "l3d.phase": "golden"} | ({"l3d.index": str(seed)} if numbered else {})
        child = client.create_run("0", tags=tags | {"mlflow.parentRunId": parent.info.run_id}).info.run_id
        client.log_param(child, "seed.seed", seed)
        path = tmp_path / "predictions.parquet"
        frame = pd.DataFrame({"example_id": range(len(truth)), "label": truth, "prediction": predictions})
        frame.to_parquet(path)
        client.log_artifact(child, str(path))
        client.set_terminated(child)
    [found] = evaluate_seeds(parent.info.run_id).studies
    assert found.seeds == (0, 1, 2)
    assert found.task == "theirs"
    after = client.get_run(parent.info.run_id).data
    assert after.tags["l3d.role"] == "investigation"
    assert after.metrics["seed_mean/accuracy"] == pytest.approx((expected((0, 1, 2)) == truth).mean())
    assert {item.path for item in client.list_artifacts(parent.info.run_id)} >= {"cells.json", "seeds.json"}


@pytest.mark.slow
def test_an_ordinary_investigation_is_evaluated_as_before(
    done: tuple[Place, SeedsRun], capsys: pytest.CaptureFixture[str]
) -> None:
    place, seeds_run = done
    ordinary = place.investigate(investigation_runs=2, golden_runs=2)
    assert cli.main(["evaluate", "latest"]) == 0
    assert f"Evaluation of run {ordinary.run_id}" in capsys.readouterr().out
    assert evaluate(ordinary.run_id, log=False).analysis.metrics() == pytest.approx(ordinary.analysis.metrics())
    refuses("is not a seeds study", evaluate_seeds, seeds_run.run_id, ordinary.run_id)
    before = place.client.get_run(seeds_run.run_id).data.metrics
    parent = place.client.get_run(seeds_run.run_id)
    refuses("is a seeds study, not an investigation", score_parent, place.client, parent, seeds_run.study.scores)
    with pytest.raises(ParameterError, match="must have cells of at least one investigated factor"):
        cli._run("ablation", {"parent_run_id": seeds_run.run_id})
    assert place.client.get_run(seeds_run.run_id).data.metrics == before


@pytest.mark.slow
def test_delete(done: tuple[Place, SeedsRun]) -> None:
    place, result = done
    assert delete(result.run_id).runs == 4
    assert place.runs() == []
    assert study(seeds="42, 52,0", self_test="skip").computed == 3


def toy_file(folder: Path, *, split: bool = True, number: bool = False) -> Path:
    rows = [
        {"text": f"text number {at}", "label": at / 7 if number else f"class {at % 2}"}
        | ({"split": ("train", "train", "validation")[at % 3]} if split else {})
        for at in range(30)
    ]
    path = folder / "mine.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--seeds", "1"], "seeds=1: is too few: one run shows no luck. Name two or more"),
        (["--seeds", "42,42"], "seeds=42: must occur once"),
        (["--validation-fraction", "1"], "validation_fraction=1: must be a number from 0 to below 1"),
        (["--validation-fraction", "some"], "validation_fraction=some: must be"),
        (["--validation-fraction", "0.95"], "validation_fraction=0.95: would hold out"),
        (["--metric", "pearson"], "metric=pearson: is a metric of finite numbers"),
        (["--metric", "accuracyy"], "metric='accuracyy': must be"),
        (["--num-labelled", "1000"], "num_labelled=1000: must lie between 2 and the 20 train examples"),
        (["--test-size", "11"], "test_size=11: there are 10 examples"),
        (["--hyperparameters", "auto,unknown=1"], "hyperparameters='unknown': must be"),
        (["--sed", "1"], "option='--sed'"),
        (["--hyperparameters", NOTHING_RANDOM], "seeds=10: no source of randomness of synthetic has an effect"),
    ],
)  # fmt: skip
def test_bad_input(options: list[str], line: str, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path = toy_file(place.cache.parent)
    status = cli.main(["seeds", "--approach", "synthetic", "--task", str(path), "--executor", "inline", *options])
    assert status == 2
    found = one_line(capsys.readouterr().err)
    assert found.startswith(f"mlflow-l3d: error: {line}")
    assert str(path.parent) not in found
    assert place.runs() == []


def test_a_task_that_cannot_be_used(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--task", str(toy_file(place.cache.parent, number=True)), "--task-kind", "regression"]
    assert cli.main(["seeds", "--approach", "synthetic", "--executor", "inline", *given]) == 2
    line = "mlflow-l3d: error: task=mine.csv: is a regression task, and synthetic takes classification only"
    assert one_line(capsys.readouterr().err).startswith(line)
    assert place.runs() == []


@pytest.mark.slow
def test_a_task_without_parts_is_split_once(place: Place, tmp_path: Path) -> None:
    given = {"approach": "synthetic", "task": str(toy_file(tmp_path, split=False)), "num_labelled": 10, "test_size": 6}
    result = study(**given)
    first = configuration_seed(0, "data_split", 0)
    selection = configuration_seed(0, "label_selection", 0)
    assert result.request.split_seeds == {"label_selection": selection, "data_split": first}
    tables = []
    for run in place.cells():
        assert run.data.params["seed.data_split"] == str(first)
        tables.append(pd.read_parquet(place.download(run.info.run_id, "predictions.parquet", tmp_path)))
    assert len(tables) == 3
    assert all(table["example_id"].tolist() == tables[0]["example_id"].tolist() for table in tables)
    assert len({run.data.metrics["synthetic_score"] for run in place.cells()}) == 3
    about = document(place, result.run_id, "investigation.json", tmp_path)["task"]
    assert (about["train_examples"], about["validation_examples"], about["evaluated_examples"]) == (8, 2, 6)
    assert about["split"] == {"source": "drawn", "seeds": result.request.split_seeds}
    assert study(**given).computed == 0
    # Another root seed is another split, and so another study.
    other = study(**given, root_seed=1)
    assert (other.computed, other.run_id == result.run_id) == (3, False)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, ("full", 2e-4, 5)),
        ({"hyperparameters": "auto,epochs=3"}, ("full", 2e-4, 3)),
        ({"hyperparameters": "auto,learning_rate=1e-3"}, ("full", 1e-3, 5)),
        ({"hyperparameters": "auto,trainable=lora"}, ("lora", 2e-4, 5)),
        ({"hyperparameters": "auto,trainable=head"}, ("head", 3e-4, 10)),
        ({"hyperparameters": "trainable=full"}, ("full", 2e-4, 5)),
        ({"hyperparameters": "epochs=3"}, ("full", 2e-4, 3)),
        ({"hyperparameters": {"epochs": 3}}, ("full", 2e-4, 3)),
        ({"hyperparameters": '{"epochs": 3}'}, ("full", 2e-4, 3)),
        ({"hyperparameters": "default,epochs=3"}, ("head", 3e-4, 3)),
    ],
)
def test_what_auto_means_for_finetuning(given: dict[str, str], wanted: tuple[str, float, int], tmp_path: Path) -> None:
    found = specify_seeds({"task": str(toy_file(tmp_path)), "device": "cpu", **given}).setup.hyperparameters
    assert (found["trainable"], found["learning_rate"], found["epochs"]) == wanted


def test_metric_of_classes_for_a_regression(place: Place) -> None:
    with pytest.raises(ParameterError, match="metric=f1_macro: is a metric of class numbers, and numbers"):
        study(approach=by_number(), task=number_task(), metric="f1_macro")


@pytest.mark.slow
def test_command_line(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = toy_file(tmp_path)
    given = ["--approach", "synthetic", "--task", str(path), "--executor", "inline", "--seeds", "0,1"]
    assert cli.main(["seeds", *given]) == 0
    assert "2 seeds | mine.csv | synthetic" in capsys.readouterr().out
    [parent] = place.parents()
    assert parent.data.params["task"] == "mine.csv"
    everything = json.dumps([[run.data.params, run.data.tags] for run in (parent, *place.cells())])
    everything += place.download(parent.info.run_id, "investigation.json", tmp_path).read_text()
    assert str(tmp_path) not in everything
    assert str(Path.home()) not in everything


def test_run_of_mlflow_that_is_refused_is_failed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    project_run = place.client.create_run("0").info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", project_run)
    assert cli.main(["seeds", "--approach", "synthetic", "--seeds", "1"]) == 2
    run = place.client.get_run(project_run)
    assert run.info.status == "FAILED"
    assert "seeds=1: is too few" in run.data.tags["l3d.error"]


@pytest.mark.slow
def test_runs_of_mlflow_become_the_parent_and_the_comparison(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    project_run = [place.client.create_run("0").info.run_id for _ in range(2)]
    monkeypatch.setenv("MLFLOW_RUN_ID", project_run[0])
    first = study(seeds=2, self_test="skip")
    assert first.run_id == project_run[0]
    second = study(seeds=2, task=class_task("other", 60))
    monkeypatch.setenv("MLFLOW_RUN_ID", project_run[1])
    assert cli.main(["evaluate", f"{first.run_id}, {second.run_id}"]) == 0
    compared = place.client.get_run(project_run[1])
    assert (compared.info.status, compared.data.tags["l3d.role"]) == ("FINISHED", "seeds_over_tasks")
    assert compared.data.tags["l3d.investigations"] == f"{first.run_id},{second.run_id}"


def test_what_auto_means_for_other_models_and_approaches() -> None:
    from mlflow_l3d.approaches.synthetic import Synthetic

    assert _hyperparameters("auto", Finetuning(), "roberta-base") == "trainable=full"
    assert _hyperparameters("auto,epochs=2", Finetuning(), "roberta-base") == "trainable=full,epochs=2"
    assert _hyperparameters("paper", Finetuning(), "auto") == "paper"
    assert _hyperparameters("auto", Synthetic(), "auto") == "default"
    assert _hyperparameters("auto,noise=0.1", Synthetic(), "auto") == "noise=0.1"


def test_paper_means_what_the_study_published_for_the_model_and_the_task() -> None:
    from mlflow_l3d.tasks.identity import make_task

    texts, labels = ([f"text {number}" for number in range(40)],), np.arange(40) % 2
    task = make_task("cb", texts, labels, ("no", "yes"), parts=np.arange(40) // 4 % 2)
    found = specify_seeds({"hyperparameters": "paper,epochs=2"}, approach=Finetuning(), task=task)
    published = Finetuning().published_seeds(Finetuning.default_model, "cb", {})
    assert published["epochs"] == 7
    given = {**published, "epochs": 2}
    assert {name: found.setup.hyperparameters[name] for name in given} == given
    assert found.setup.origin.source == "paper"


def test_scores_of_two_units_end_the_study(place: Place, tmp_path: Path) -> None:
    """A script that prints per cent without a sign: 0.9 is 90 % or 0.9 %, and 1.2 shows that nobody knows."""
    script = tmp_path / "train.py"
    script.write_text("import sys\nprint('accuracy:', [0.9, 0.7, 1.2, 0.8][int(sys.argv[1])])\n", encoding="utf-8")
    approach = Command([sys.executable, str(script), "{seed}"])
    with pytest.raises(L3DError, match=r"^seed 2: .* wrote accuracy 1\.2, and .* Write all as fractions"):
        seeds(approach=approach, seeds=[0, 1, 2, 3], executor="inline", self_test="skip")


def test_a_command_without_seed_is_said_to_get_other_numbers(place: Place) -> None:
    code = "import sys; print('accuracy:', int(sys.argv[1]) % 97 / 100)"
    both = "{seed}", "{model_initialisation}"
    for factors, is_said in ((both[:1], False), (both[1:], True), (both, True)):
        approach = Command([sys.executable, "-c", code, *factors])
        found = seeds(approach=approach, seeds=3, executor="inline", self_test="skip").summary()
        assert ("Numbers for model_initialisation are drawn from the seeds." in found) is is_said
