"""The runs that an investigation leaves: names, tags, tables, and numbers that anybody can recompute from them."""

import json
import re
from itertools import combinations
from pathlib import Path
from urllib.parse import unquote, urlparse

import mlflow
import numpy as np
import pandas as pd
import pytest
from run_helpers import Place, sqlite_place

from mlflow_l3d.cells.factors import GOLDEN_BASE, MITIGATION_BASE, configuration_seed
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.studies.investigation.results import Investigation

FACTORS = ("data_order", "data_split")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> Place:
    return sqlite_place(migrated_store, tmp_path_factory.mktemp("contract"))


@pytest.fixture(scope="module")
def one(place: Place) -> Investigation:
    return place.investigate(mitigation_runs=3, golden_runs=5, hyperparameters="noise=0.2")


@pytest.fixture(scope="module")
def two(place: Place) -> Investigation:
    return place.investigate(factor=",".join(FACTORS), root_seed=7)


@pytest.mark.slow
def test_the_parent(place: Place, one: Investigation) -> None:
    run = place.client.get_run(one.run_id)
    tags, params, metrics = run.data.tags, run.data.params, run.data.metrics
    assert run.info.status == "FINISHED"
    assert "mlflow.parentRunId" not in tags
    wanted = {"role": "investigation", "schema": "1", "factor": "data_order", "design": "crossed", "state": "complete"}
    assert {name: tags[f"l3d.{name}"] for name in wanted} == wanted
    assert set(MAIN) <= set(params)
    assert params["investigation_runs"] == "3"
    assert params["root_seed"] == "0"
    assert params["resolved.task"] == "synthetic"
    assert json.loads(params["resolved.hyperparameters"])["noise"] == 0.2
    with_interval = "importance", "importance_corrected", "golden_std", "prediction_share"
    agreement = "consistency", "correct_consistency", "fleiss_kappa"
    assert set(metrics) == {
        *(f"{name}{end}" for name in with_interval for end in ("", "_ci_low", "_ci_high")),
        "contributed_std",
        "mitigated_std",
        "moves_by_std",
        "score_mean",
        "score_std",
        *(f"{name}{group}" for name in agreement for group in ("", "/golden")),
        "robust_share",
        "fragile_share",
        "never_right_share",
        "cells_failed",
    }
    assert len(metrics) <= 40
    assert metrics == one.analysis.metrics()


@pytest.mark.slow
def test_what_is_no_metric_is_in_a_file(place: Place, one: Investigation, tmp_path: Path) -> None:
    document = json.loads(place.download(one.run_id, "importance.json", tmp_path).read_text())
    own, parts = document["factors"]["data_order"], document["factors"]["data_order"]["components"]
    kept = {
        **{name: own[name] for name in ("score_iqr", "first_order_index", "first_order_ci_low", "first_order_ci_high")},
        **{f"variance_{name}": parts[name] for name in ("main", "interaction", "mitigated", "contributed", "total")},
        **{name: document["consistency"]["data_order"][name] for name in ("accuracy_std", "accuracy_std_population")},
        "prediction_importance": own["prediction_importance"]["importance"],
    }
    found = one.to_frame(full=True).iloc[0]
    assert kept == pytest.approx({name: found[name] for name in kept})
    assert not set(kept) & {name.partition("/")[0] for name in one.analysis.metrics()}


@pytest.mark.slow
def test_a_parent_of_several_factors_has_plain_names_only_where_they_are_of_no_factor(place, two) -> None:
    metrics = place.client.get_run(two.run_id).data.metrics
    shares = {"robust_share", "fragile_share", "never_right_share"}
    assert {name for name in metrics if "/" not in name} == {"golden_std", "cells_failed", *shares}
    for factor in FACTORS:
        assert f"importance/{factor}" in metrics


def test_the_metrics_converge_over_rows(place: Place, one: Investigation) -> None:
    for name in ("importance", "contributed_std", "consistency", "golden_std"):
        history = place.client.get_metric_history(one.run_id, name)
        steps = {point.step for point in history}
        assert steps <= {1, 2, 3}
        assert {2, 3} <= steps
    for number, rows in ((2, 2), (3, 3)):
        cells = one.cells[one.cells["phase"].eq("investigation") & one.cells["row"].lt(rows)]
        table = cells["synthetic_score"].to_numpy(dtype=float).reshape(rows, 3)
        history = place.client.get_metric_history(one.run_id, "contributed_std")
        points = {point.value for point in history if point.step == number}
        assert points == {float(table.std(axis=1).mean())}


def test_the_children(place: Place, one: Investigation) -> None:
    children = place.cells(one.run_id)
    assert len(children) == 14
    seen = set()
    for run in children:
        tags, params = run.data.tags, run.data.params
        assert run.info.status == "FINISHED"
        assert run.info.end_time >= run.info.start_time
        assert (tags["l3d.role"], tags["l3d.schema"]) == ("cell", "1")
        assert re.fullmatch(r"[0-9a-f]{32}", tags["l3d.cell_key"])
        if tags["l3d.phase"] == "golden":
            assert not {"l3d.factor", "l3d.row", "l3d.column"} & set(tags)
            index = int(tags["l3d.index"])
            expected = dict.fromkeys(one.request.setup.all_factors, GOLDEN_BASE + index)
            seen.add(("golden", index))
        else:
            assert tags["l3d.phase"] == "investigation"
            assert tags["l3d.factor"] == "data_order"
            assert "l3d.index" not in tags
            row, column = int(tags["l3d.row"]), int(tags["l3d.column"])
            expected = dict.fromkeys(one.request.setup.all_factors, MITIGATION_BASE + row) | {"data_order": column}
            seen.add((row, column))
        for factor, number in expected.items():
            assert params[f"factor.{factor}"] == str(number)
            assert params[f"seed.{factor}"] == str(configuration_seed(0, factor, number))
        assert (params["task"], params["approach"], params["model"]) == ("synthetic", "synthetic", "none")
        assert params["noise"] == "0.2"
        assert set(run.data.metrics) == {
            "f1_macro",
            "accuracy",
            "matthews_corrcoef",
            "precision_macro",
            "recall_macro",
            "duration_seconds",
            "synthetic_score",
        }
    assert seen == {(row, column) for row in range(3) for column in range(3)} | {("golden", i) for i in range(5)}


def test_the_task_is_the_data_of_the_parent_alone(place: Place, one: Investigation, tmp_path: Path) -> None:
    task = one.request.setup.task
    [found] = place.client.get_run(one.run_id).inputs.dataset_inputs
    about = found.dataset
    assert (about.name, about.digest, about.source_type) == ("synthetic", task.fingerprint[:36], "code")
    assert json.loads(about.source) == {"tags": {"mlflow.source.name": "synthetic"}}
    sizes = {"num_rows": len(task), "num_labelled": int(one.request.final()["num_labelled"]), "test_size": 400}
    assert json.loads(about.profile) == sizes
    assert {tag.key: tag.value for tag in found.tags} == {"mlflow.data.context": "investigation"}
    assert not [run for run in place.cells(one.run_id) if run.inputs.dataset_inputs]
    csv = tmp_path / "reviews.csv"
    csv.write_text("text,label\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(40)))
    own = specify({"task": str(csv), "approach": "synthetic", "factor": "data_order"}).data()
    assert (own.name, own.kind, own.source) == ("reviews.csv", "local", {"uri": "reviews.csv"})


@pytest.mark.slow
def test_one_level_of_nesting(place: Place, one: Investigation, two: Investigation) -> None:
    parents = {run.info.run_id for run in place.parents()}
    assert parents == {one.run_id, two.run_id}
    assert {run.data.tags["mlflow.parentRunId"] for run in place.cells()} == parents
    assert len(place.runs()) == len(parents) + len(place.cells())


def test_the_predictions_of_a_child(place: Place, one: Investigation, tmp_path: Path) -> None:
    for run in place.cells(one.run_id)[:4]:
        frame = pd.read_parquet(place.download(run.info.run_id, "predictions.parquet", tmp_path))
        assert list(frame) == ["example_id", "label", "prediction", "score_0", "score_1"]
        assert frame["example_id"].is_unique
        assert np.mean(frame["label"] == frame["prediction"]) == run.data.metrics["accuracy"]


@pytest.mark.slow
def test_the_artifacts_of_the_parent(place: Place, two: Investigation, tmp_path: Path) -> None:
    found = {item.path for item in place.client.list_artifacts(two.run_id)}
    assert found == {
        "investigation.json",
        "cells.parquet",
        "predictions.parquet",
        "cells.json",
        "importance.json",
        "report.html",
        "summary.svg",
        "examples.json",
        "result.json",
    }
    document = json.loads(place.download(two.run_id, "investigation.json", tmp_path).read_text())
    assert document["factors"] == list(FACTORS)
    assert document["design"]["root_seed"] == 7
    importances = json.loads(place.download(two.run_id, "importance.json", tmp_path).read_text())["factors"]
    assert set(importances["data_order"]["components"]) == {
        "design",
        "method",
        "rows",
        "columns",
        "contributed",
        "mitigated",
        "main",
        "interaction",
        "total",
        "total_index",
        "truncated",
        "contributed_degrees",
    }
    assert {"verdict", "verdict_doubt", "advice", "unevenness"} <= set(importances["data_order"])
    table = pd.read_parquet(place.download(two.run_id, "predictions.parquet", tmp_path))
    assert table.groupby("cell_key", observed=True).ngroups == 16
    whole = pd.read_parquet(place.download(two.run_id, "cells.parquet", tmp_path))
    shown = place.client.get_run(two.run_id).info.experiment_id
    with place.entered():
        listed = mlflow.load_table("cells.json", run_ids=[two.run_id])
    assert shown == "0"
    assert len(listed) == len(whole) == 16
    assert listed["run_id"].tolist() == whole["run_id"].tolist()
    assert listed["seed.data_order"].tolist() == whole["seed.data_order"].tolist()


@pytest.mark.slow
def test_the_table_of_cells_agrees_with_the_children(place: Place, two: Investigation, tmp_path: Path) -> None:
    table = pd.read_parquet(place.download(two.run_id, "cells.parquet", tmp_path)).set_index("run_id")
    children = place.cells(two.run_id)
    assert set(table.index) == {run.info.run_id for run in children}
    for run in children:
        row = table.loc[run.info.run_id]
        assert row["cell_key"] == run.data.tags["l3d.cell_key"]
        for name, value in run.data.params.items():
            if name.startswith(("seed.", "factor.")):
                assert int(row[name]) == int(value)
        for name, value in run.data.metrics.items():
            assert row[name] == value


@pytest.mark.slow
@pytest.mark.parametrize("factor", FACTORS)
def test_the_numbers_from_the_children_alone(place: Place, two: Investigation, factor: str, tmp_path: Path) -> None:
    """Recompute everything by the formulas of the papers with nothing of ours."""
    score = np.full((2, 3), np.nan)
    votes = np.full((2, 3), None, dtype=object)
    golden, golden_votes = [], []
    for run in place.cells(two.run_id):
        tags = run.data.tags
        frame = pd.read_parquet(place.download(run.info.run_id, "predictions.parquet", tmp_path))
        frame = frame.set_index("example_id")
        if tags["l3d.phase"] == "golden":
            golden.append(run.data.metrics["synthetic_score"])
            golden_votes.append(frame)
        elif tags["l3d.factor"] == factor:
            at = int(tags["l3d.row"]), int(tags["l3d.column"])
            score[at], votes[at] = run.data.metrics["synthetic_score"], frame
    contributed, mitigated = score.std(axis=1).mean(), score.mean(axis=1).std()
    metrics = place.client.get_run(two.run_id).data.metrics
    assert metrics[f"contributed_std/{factor}"] == pytest.approx(contributed, rel=1e-12)
    assert metrics[f"mitigated_std/{factor}"] == pytest.approx(mitigated, rel=1e-12)
    assert metrics["golden_std"] == pytest.approx(np.std(golden), rel=1e-12)
    expected = (contributed - mitigated) / np.std(golden)
    assert metrics[f"importance/{factor}"] == pytest.approx(expected, rel=1e-12)
    assert metrics[f"score_mean/{factor}"] == pytest.approx(score.mean(), rel=1e-12)
    if factor == "data_order":
        # The same test examples in every run of a row: the share of equal answers in every pair of runs.
        pairs = (pair for row in votes for pair in combinations(row, 2))
        agree = [np.mean(first["prediction"] == second["prediction"]) for first, second in pairs]
        assert metrics[f"consistency/{factor}"] == pytest.approx(np.mean(agree), rel=1e-12)


@pytest.mark.slow
def test_nothing_private_is_logged(place: Place, one: Investigation, two: Investigation, tmp_path: Path) -> None:
    private = [str(place.cache.parent), str(Path.home()) + "/", str(Path.cwd()) + "/"]
    texts = []
    for run in place.runs():
        texts += [*run.data.tags.values(), *run.data.params.values()]
        folder = Path(unquote(urlparse(run.info.artifact_uri).path))
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert files
        texts += [path.read_bytes().decode("latin-1") for path in files]
    assert not [text[:200] for text in texts if any(word in text for word in private)]
    assert not [text[:200] for text in texts if re.search(r"://[^/\s\"'<>]+@", text)]
    assert not [text[:200] for text in texts if "example 1 of c" in text]


@pytest.mark.slow
def test_the_same_through_a_real_server_with_a_password(mlflow_server, tmp_path, place, two) -> None:
    """A server that asks for none takes the password all the same; it must not be found anywhere."""
    address = mlflow_server.replace("://", "://ann:s3cret@")
    remote = Place(address, tmp_path / "cache", {"MLFLOW_EXPERIMENT_NAME": "contract"})
    result = remote.investigate(factor=",".join(FACTORS), root_seed=7)
    assert result.analysis.metrics() == two.analysis.metrics()
    experiment = result.run_id and remote.client.get_run(result.run_id).info.experiment_id
    runs = remote.client.search_runs([experiment])
    assert len(runs) == 1 + 16
    for run in runs:
        said = [run.info.artifact_uri, run.info.run_name, *run.data.tags.values(), *run.data.params.values()]
        assert not [text for text in said if "s3cret" in text or "ann:" in text]
    files = remote.client.download_artifacts(result.run_id, "", str(tmp_path))
    for path in [*Path(files).rglob("*"), *remote.cache.rglob("*")]:
        assert "s3cret" not in path.name
        assert not path.is_file() or b"s3cret" not in path.read_bytes()
    cells = pd.read_parquet(Path(files) / "cells.parquet")
    there = pd.read_parquet(place.download(two.run_id, "cells.parquet", tmp_path))
    same = [name for name in cells if name not in {"run_id", "duration_seconds"}]
    pd.testing.assert_frame_equal(cells[same], there[same])
