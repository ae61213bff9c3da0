"""The evaluator as MLflow calls it: the same numbers as the investigation, for our runs and for a stranger's."""

import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from run_helpers import Place, copied, sqlite_place

from mlflow_l3d.errors import L3DError
from mlflow_l3d.plugin.dataset import L3DRunsSource
from mlflow_l3d.plugin.evaluator import L3DEvaluator
from mlflow_l3d.studies.evaluation.run import evaluate
from mlflow_l3d.studies.investigation.evaluate import metric_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def evaluators() -> None:
    with warnings.catch_warnings():
        # What MLflow says about itself when these are imported for the first time.
        warnings.simplefilter("ignore")
        import mlflow.models.evaluation.default_evaluator
        import mlflow.models.evaluation.evaluator_registry  # noqa: F401


@pytest.fixture
def place(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.chdir(tmp_path)
    with place.entered():
        yield place


def evaluated(parent: str, **config: Any) -> Any:
    data, ours = mlflow.data.from_l3d_runs(parent), {"model_type": "l3d", "evaluators": "l3d"}
    with mlflow.start_run(run_id=parent):
        return mlflow.models.evaluate(data=data, evaluator_config=config, **ours)


Foreign = tuple[str, np.ndarray, np.ndarray, list[list[np.ndarray]]]


@pytest.fixture(scope="module")
def strangers_place(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> tuple[Place, Foreign]:
    made = sqlite_place(migrated_store, tmp_path_factory.mktemp("stranger"))
    with made.entered():
        return made, foreign_investigation(tmp_path_factory.mktemp("predictions"))


@pytest.fixture
def stranger(tmp_path, monkeypatch, strangers_place) -> Iterator[tuple[Place, Foreign]]:
    """Give a copy of a store with a stranger's runs, and what is in them."""
    monkeypatch.chdir(tmp_path)
    place, logged = strangers_place
    own = copied(place, tmp_path)
    with own.entered():
        yield own, logged


def foreign_investigation(folder: Path) -> Foreign:
    """Log a table of 3 x 4 cells and 5 golden runs as foreign code would, with MLflow's fluent functions."""
    draws = np.random.default_rng(5)
    table, golden = draws.uniform(0.4, 0.9, (3, 4)), draws.uniform(0.4, 0.9, 5)
    labels = draws.integers(0, 2, 20)
    predictions = [[draws.integers(0, 2, 20) for _ in range(4)] for _ in range(3)]

    def log(tags: dict[str, str], score: float, answers: np.ndarray | None) -> None:
        with mlflow.start_run(nested=True):
            mlflow.set_tags({"l3d.role": "cell", **tags})
            mlflow.log_metric("f1_macro", score)
            if answers is not None:
                frame = pd.DataFrame({"example_id": [f"e{i}" for i in range(20)], "label": labels})
                frame.assign(prediction=answers).to_parquet(folder / "predictions.parquet")
                mlflow.log_artifact(str(folder / "predictions.parquet"))

    with mlflow.start_run(run_name="somebody else's") as parent:
        for row in range(3):
            for column in range(4):
                place = {"l3d.factor": "weather", "l3d.row": str(row), "l3d.column": str(column)}
                log({"l3d.phase": "investigation", **place}, table[row, column], predictions[row][column])
        for index in range(5):
            log({"l3d.phase": "golden", "l3d.index": str(index)}, golden[index], None)
        with mlflow.start_run(nested=True):
            mlflow.log_metric("f1_macro", 0.0)
    return parent.info.run_id, table, golden, predictions


def test_our_own_investigation(place, caplog, capfd) -> None:
    done = place.investigate(factor="data_order,data_split", investigation_runs=3, mitigation_runs=3)
    mlflow.set_tracking_uri(place.uri)
    before = place.client.get_run(done.run_id)
    caplog.clear()
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, "mlflow_l3d"):
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Starting with pandas version 4.0 all arguments", DeprecationWarning)
        result = evaluated(done.run_id)  # by the metric of the parent
    assert caplog.records == []
    assert "Downloading" not in capfd.readouterr().err
    assert result.metrics == pytest.approx(done.analysis.metrics(), rel=1e-12, abs=0)
    after = place.client.get_run(done.run_id)
    assert after.data.metrics == pytest.approx(before.data.metrics, rel=1e-12, abs=0)
    assert after.info.status == "FINISHED"
    assert after.data.tags["l3d.state"] == "complete"
    assert after.data.params == before.data.params
    names = {item.path for item in place.client.list_artifacts(done.run_id)}
    assert {"investigation.json", "cells.parquet", "predictions.parquet", "report.html"} <= names
    assert {"cells.parquet", "importance.json", "report.html"} <= set(result.artifacts) <= names
    assert result.artifacts["report.html"].content.startswith("<!DOCTYPE html>")
    assert len(result.artifacts["cells.parquet"].content) == len(done.cells)


def test_the_lineage_is_recorded(place: Place) -> None:
    done = place.investigate()
    mlflow.set_tracking_uri(place.uri)
    evaluated(done.run_id, metric="synthetic_score")
    inputs = place.client.get_run(done.run_id).inputs.dataset_inputs
    assert [each.dataset.name for each in inputs if each.dataset.source_type == "code"] == ["synthetic"]
    [found] = [each for each in inputs if each.dataset.source_type == "l3d_runs"]
    assert json.loads(found.dataset.source) == {"parent_run_id": done.run_id}
    assert str(place.cache.parent) not in str(found.dataset.to_dictionary())
    source = mlflow.data.get_source(found)
    assert isinstance(source, L3DRunsSource)
    assert len(source.load()) == 10


def test_a_strangers_runs(stranger: tuple[Place, Foreign]) -> None:
    place, (parent, table, golden, predictions) = stranger
    metrics = evaluated(parent).metrics
    contributed, mitigated = table.std(axis=1).mean(), table.mean(axis=1).std()
    assert metrics["contributed_std"] == pytest.approx(contributed, rel=1e-12)
    assert metrics["importance"] == pytest.approx((contributed - mitigated) / golden.std(), rel=1e-12)
    pairs = [np.mean(a == b) for row in predictions for i, a in enumerate(row) for b in row[i + 1 :]]
    assert metrics["consistency"] == pytest.approx(np.mean(pairs), rel=1e-12)
    assert metrics["cells_failed"] == 0
    run = place.client.get_run(parent)
    assert run.data.metrics["importance"] == metrics["importance"]
    assert (run.data.tags["l3d.role"], run.data.tags["l3d.factor"]) == ("investigation", "weather")
    assert run.info.run_name == "somebody else's"
    assert "report.html" in {item.path for item in place.client.list_artifacts(parent)}


def test_a_strangers_runs_by_a_filter(stranger: tuple[Place, Foreign]) -> None:
    place, (parent, *_) = stranger
    with mlflow.start_run(run_name="a place for the result") as other:
        pass
    with pytest.raises(L3DError, match="has no child runs"):
        evaluate(other.info.run_id)
    found = evaluate(other.info.run_id, where="tags.`l3d.role` = 'cell'")
    assert found.analysis.metrics() == evaluate(parent, log=False).analysis.metrics()
    assert place.client.get_run(other.info.run_id).data.metrics["cells_failed"] == 0
    assert "importance" not in place.client.get_run(parent).data.metrics
    with pytest.raises(L3DError, match="where=not a filter: must be an MLflow filter"):
        evaluate(other.info.run_id, where="not a filter")


@pytest.mark.parametrize("model_type", ["classifier", "regressor", "", "question-answering", "L3D"])
def test_other_model_types_are_not_ours(model_type: str) -> None:
    assert not L3DEvaluator.can_evaluate(model_type=model_type, evaluator_config={})
    assert L3DEvaluator.can_evaluate(model_type="l3d", evaluator_config={})


def test_the_default_evaluators_still_work(place: Place) -> None:
    frame = pd.DataFrame({"prediction": [0.0, 1.0, 2.0, 4.0], "target": [0.0, 1.0, 2.0, 3.0]})
    with mlflow.start_run():
        columns = {"targets": "target", "predictions": "prediction"}
        result = mlflow.models.evaluate(data=frame, model_type="regressor", evaluator_config={}, **columns)
    assert result.metrics["max_error"] == 1.0
    assert "importance" not in result.metrics


@pytest.mark.parametrize("metric", ["f1_makro", "row"])
def test_a_metric_that_the_cells_do_not_have(stranger: tuple[Place, Foreign], metric: str) -> None:
    _, (parent, *_) = stranger
    with pytest.raises(L3DError, match=f"metric='{metric}'"):
        evaluated(parent, metric=metric)


def test_without_a_metric_it_is_the_one_that_the_cells_have(stranger: tuple[Place, Foreign]) -> None:
    place, (run_id, *_) = stranger
    parent, cells = place.client.get_run(run_id), pd.DataFrame({"run_id": ["a"], "duration_seconds": [1.0]})
    assert metric_of(parent, "auto", cells.assign(loss=2.0, accuracy=0.5)).name == "accuracy"
    assert metric_of(parent, "auto", cells.assign(reward=2.0)).name == "reward"
    assert metric_of(parent, "auto", cells.assign(accuracy=0.5, f1_macro=0.5)).name == "f1_macro"
    assert metric_of(parent, "loss", cells.assign(accuracy=0.5)).name == "loss"
    with pytest.raises(L3DError, match=r"metric=auto: the cells have several, loss, reward\. Name one"):
        metric_of(parent, "auto", cells.assign(loss=2.0, reward=0.5))


def test_a_run_that_is_not_there(place: Place) -> None:
    with pytest.raises(L3DError, match="no such run"):
        mlflow.data.from_l3d_runs("0" * 32)
