"""The ablation of a finished investigation: what fewer runs and examples would have found, without new runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import refuses
from run_helpers import Place as Store
from run_helpers import sqlite_place

from mlflow_l3d import cli
from mlflow_l3d.analysis.importance import importance, radial_importance
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.designs import design_named
from mlflow_l3d.designs.crossed import CrossedDesign
from mlflow_l3d.designs.radial import RadialDesign
from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.metrics.known import scores_of
from mlflow_l3d.studies.ablation import run
from mlflow_l3d.studies.ablation.numbers import ABLATION_COLUMNS, NUMBERS, Setting, ablate_tables, part, rescored
from mlflow_l3d.studies.ablation.report import range_table
from mlflow_l3d.studies.ablation.run import ablation

pytestmark = pytest.mark.slow

RUNS = {"metric": "f1_macro", "investigation_runs": 4, "mitigation_runs": 8, "golden_runs": 12}


def scores(seed: int = 3) -> Tables:
    generator = np.random.default_rng(seed)
    tables = {"one": generator.random((8, 5)), "two": generator.random((8, 5))}
    return Tables(tables, generator.random(20))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> Store:
    return sqlite_place(migrated_store, tmp_path_factory.mktemp("ablation"))


@pytest.fixture(scope="module")
def parent(store: Store) -> Any:
    return store.investigate(**RUNS, factor="data_order,data_split")


@pytest.fixture(autouse=True)
def entered(store: Store) -> Iterator[None]:
    """Let each test work there."""
    with store.entered():
        yield


@pytest.mark.parametrize("design", ["crossed", "nested"])
def test_fewer_of_everything_by_hand(design: Any) -> None:
    """Rows, columns, golden runs and examples are drawn here once more, in plain loops, and every cell rescored."""
    whole, kind = scores(), design_named(design)
    generator = np.random.default_rng(5)
    labels = generator.integers(0, 2, 30)
    answers = {("one", row, column): generator.integers(0, 2, 30) for row in range(8) for column in range(5)}
    answers |= {(None, index, 0): generator.integers(0, 2, 30) for index in range(20)}
    parts = [
        pd.DataFrame({"cell": cell, "example": range(30), "label": labels, "prediction": given})
        for cell, given in enumerate(answers.values())
    ]

    def tables(again: pd.Series) -> Tables:
        return Tables({"one": again[:40].to_numpy().reshape(8, 5)}, again[40:].to_numpy())

    only = Tables({"one": whole.tables["one"]}, whole.golden)
    how: dict[str, Any] = {"seed": 7, "repeats": 4, "answers": pd.concat(parts, ignore_index=True), "tables": tables}
    found = ablate_tables(only, [Setting(3, 4, 9)], kind.importances, **how)
    assert list(found.columns) == ["setting", *ABLATION_COLUMNS]
    for repeat, child in enumerate(np.random.SeedSequence(7).spawn(4)):
        orders = [np.random.default_rng(each) for each in child.spawn(4)]
        rows, columns = sorted(orders[0].permutation(8)[:3]), sorted(orders[1].permutation(5)[:4])
        golden = sorted(orders[2].permutation(20)[: 20 * 12 // 40])
        few = orders[3].permutation(30) < 9

        def score(factor: str | None, row: int, column: int = 0, few: np.ndarray = few) -> float:
            return scores_of(labels[few], answers[factor, row, column][few])["f1_macro"]

        table = [[score("one", int(row), int(column)) for column in columns] for row in rows]
        record = importance(table, [score(None, int(index)) for index in golden], model=kind.model)
        lines = found[found["repeat"] == repeat].set_index("factor")
        assert [lines.loc["one", name] for name in NUMBERS] == pytest.approx(
            [getattr(record, name) for name in NUMBERS], rel=1e-12, nan_ok=True
        )
        assert lines.loc["golden_model", "score_std"] == pytest.approx(record.golden_std, rel=1e-12)
        assert lines.loc["golden_model", "score_mean"] == pytest.approx(record.golden.mean(), rel=1e-12)
        assert math.isnan(lines.loc["golden_model", "importance"])
        assert (lines["golden_runs"] == 6).all()
        assert lines["share_of_baseline"].tolist() == pytest.approx([12 / 40 * 9 / 30] * 2)


def test_fewer_examples_are_scored_over_the_classes_of_all() -> None:
    known = pd.DataFrame({"cell": [0] * 4 + [1] * 4, "example": [*range(4)] * 2, "label": [0, 1, 2, 2] * 2})
    known["prediction"] = [0, 1, 2, 2, -1, -1, -1, -1]
    assert rescored(known, F1_MACRO, size=2, rank=np.arange(4)).tolist() == pytest.approx([2 / 3, 0.0])


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16])
def test_small_whole_numbers_are_scored_like_large_ones(kind: Any) -> None:
    labels, predictions = np.arange(40) % 20, np.arange(40) % 10
    known = pd.DataFrame({"cell": 0, "example": range(40), "label": labels, "prediction": predictions})
    (expected,) = rescored(known, F1_MACRO, size=30, rank=np.arange(40))
    (found,) = rescored(known.astype({"label": kind, "prediction": kind}), F1_MACRO, size=30, rank=np.arange(40))
    assert found == pytest.approx(expected)


def test_a_part_is_the_importance_of_its_rows_and_columns() -> None:
    whole = scores()
    seeds = np.random.SeedSequence(1).spawn(4)
    small, smaller = part(whole, Setting(5, 3), seeds), part(whole, Setting(3, 3), seeds)
    rows = _rows(whole, small)
    columns = [at for at in range(5) if whole.tables["one"][rows[0], at] in small.tables["one"]]
    assert (len(rows), len(columns), len(small.golden)) == (5, 3, math.ceil(20 * 15 / 40))
    for name, table in whole.tables.items():
        np.testing.assert_array_equal(small.tables[name], table[np.ix_(rows, columns)])
    assert set(_rows(whole, smaller)) < set(rows)
    assert set(smaller.golden) < set(small.golden) < set(whole.golden)


def _rows(whole: Tables, small: Tables) -> list[int]:
    return [row for row in range(8) if set(whole.tables["one"][row]) & set(small.tables["one"].ravel())]


def test_radial_rows_keep_base_and_swaps_together() -> None:
    base = np.arange(10.0)
    whole = Tables({"one": base[:, None] + 100, "two": (base[:, None] + 200) ** 1.1}, np.empty(0), base)
    frame = ablate_tables(whole, [Setting(), Setting(rows=6)], RadialDesign.importances, seed=2)
    chosen = part(whole, Setting(rows=6), np.random.SeedSequence(2).spawn(1)[0].spawn(4))
    assert len(chosen.base) == 6
    np.testing.assert_array_equal(chosen.tables["one"][:, 0], chosen.base + 100)
    records = radial_importance(chosen.base, {name: table[:, 0] for name, table in chosen.tables.items()})
    for name, record in records.items():
        line = frame[(frame["factor"] == name) & (frame["setting"] == 1)].iloc[0]
        assert line["importance_corrected"] == record.importance_corrected
        assert line["share_of_baseline"] == pytest.approx(0.6)
    assert frame["investigation_runs"].isna().all()
    assert "6 base runs\nall examples" in range_table(frame).head


def test_pooled_cells_are_those_of_the_part() -> None:
    whole = Tables(scores().tables, np.empty(0), pooled=True)
    chosen = part(whole, Setting(rows=3), np.random.SeedSequence(0).spawn(1)[0].spawn(4))
    line = ablate_tables(whole, [Setting(rows=3)], CrossedDesign.importances, seed=0).iloc[0]
    every = np.concatenate([table.ravel() for table in chosen.tables.values()])
    assert line["golden_runs"] == 30
    assert line["score_std"] == pytest.approx(np.std(every), rel=1e-12)


def test_everything_gives_what_the_parent_says(store: Store, parent: Any) -> None:
    found = ablation(parent_run_id=parent.run_id, repeats=2)
    frame, metrics = found.to_frame(), store.client.get_run(parent.run_id).data.metrics
    full = frame[frame["setting"] == 0]
    for factor in ("data_order", "data_split"):
        own = full[full["factor"] == factor].set_index("number")["mean"]
        for name in NUMBERS:
            assert own[name] == metrics[name if name == "golden_std" else f"{name}/{factor}"]
    assert full["share_of_baseline"].eq(1).all()
    assert (full["low"] == full["high"]).all()
    settings = frame.drop_duplicates("setting")
    shapes = settings[["mitigation_runs", "investigation_runs"]].to_numpy().tolist()
    sizes = settings["test_examples"].fillna(0).tolist()
    assert shapes[:4] == [[8, 4], [4, 4], [3, 4], [8, 3]]
    assert shapes[-1] == [3, 3]
    assert sum(size > 0 for size in sizes) == 2 * len({size for size in sizes if size})
    assert found.notes == ()


def test_a_cell_may_come_in_two_parts(store: Store, parent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read = run.answers_of_parent

    def halved(*arguments: Any) -> Any:
        for at, table in read(*arguments):
            yield from ((at, table.slice(0, 7)), (at, table.slice(7)))

    monkeypatch.setattr(run, "answers_of_parent", halved)
    found = ablation(parent_run_id=parent.run_id, rows="all", columns="all", test_sizes="20", repeats=1)
    assert (found.notes, set(found.frame["test_examples"].dropna())) == ((), {20})


def test_fewer_examples_are_the_metric_of_those_examples(store: Store, parent: Any, tmp_path: Path) -> None:
    found = ablation(parent_run_id=parent.run_id, test_sizes="20,all", rows="all", columns=4, repeats=1)
    line = found.frame[(found.frame["factor"] == "data_order") & found.frame["test_examples"].eq(20)].iloc[0]
    table = pd.read_parquet(store.download(parent.run_id, "predictions.parquet", tmp_path))
    ids = np.sort(table["example_id"].unique())
    seeds = np.random.SeedSequence(0).spawn(1)[0].spawn(4)
    rank = dict(zip(ids, np.random.default_rng(seeds[3]).permutation(len(ids)), strict=True))
    expected = np.full((8, 4), math.nan)
    for place, cell in table[table["factor"] == "data_order"].groupby(["row", "column"]):
        row, column = (int(str(number)) for number in np.ravel(place).astype(int))
        few = cell.assign(rank=cell["example_id"].map(rank)).nsmallest(20, "rank")
        expected[row, column] = scores_of(few["label"], few["prediction"])["f1_macro"]
    assert line["score_mean"] == pytest.approx(expected.mean(), rel=1e-12)
    assert line["contributed_std"] == pytest.approx(expected.std(axis=1).mean(), rel=1e-12)
    assert found.frame["setting"].nunique() == 2


def test_each_setting_has_the_numbers_of_its_part(store: Store, parent: Any) -> None:
    found = ablation(rows=[4, 3], columns="all", test_sizes=30, repeats=2)
    assert found.run_id == parent.run_id
    table = found.to_frame()
    sizes = table.groupby("setting")[["mitigation_runs", "investigation_runs", "test_examples"]].first()
    assert sizes["mitigation_runs"].tolist() == [8, 4, 3, 8, 3]
    assert sizes["investigation_runs"].tolist() == [4] * 5
    assert sizes["test_examples"].fillna(0).tolist() == [0, 0, 0, 30, 30]
    assert table.loc[table["setting"] == 1, "share_of_baseline"].unique() == [0.5]
    assert list(table["factor"].unique()) == ["golden_model", "data_order", "data_split"]
    metrics = store.client.get_run(parent.run_id).data.metrics
    first = table[table["setting"] == 0].set_index("number")
    order, split = (first[first["factor"] == name]["mean"] for name in ("data_order", "data_split"))
    assert order["importance"] == metrics["importance/data_order"]
    assert order["contributed_std"] == metrics["contributed_std/data_order"]
    note = found.note()
    assert note.startswith(f"**{found.report().headline}**")
    assert f"{split['importance']:+.2f} (" in note


def test_without_predictions_of_the_metric(place: Store) -> None:
    size = {"investigation_runs": 10, "mitigation_runs": 8, "golden_runs": "auto"}
    run_id = place.investigate(metric="synthetic_score", design="radial", **size).run_id
    found = ablation(parent_run_id=run_id, repeats=2)
    assert found.frame["test_examples"].isna().all()
    assert sorted(found.frame["mitigation_runs"].unique()) == [3, 4, 8]
    assert "synthetic_score cannot be computed from predictions" in found.notes[0]
    metrics = place.client.get_run(run_id).data.metrics
    own = found.to_frame().query("setting == 0 and factor == 'data_order'").set_index("number")["mean"]
    assert {name: own[name] for name in NUMBERS} == {name: metrics[name] for name in NUMBERS}
    refuses("columns=3: must be auto", ablation, parent_run_id=run_id, columns=3)
    refuses("metric='synthetic_score'", ablation, parent_run_id=run_id, test_sizes=30)


def test_a_strangers_parent(place: Store, tmp_path: Path) -> None:
    store = place
    client, generator = store.client, np.random.default_rng(0)
    table, golden, labels = np.empty((4, 3)), np.empty(4), np.arange(40) % 2
    run_id = client.create_run("0").info.run_id
    places = [("investigation", row, column) for row in range(4) for column in range(3)]
    for phase, row, column in [*places, *(("golden", index, 0) for index in range(4))]:
        tags = {"l3d.role": "cell", "l3d.phase": phase, "mlflow.parentRunId": run_id}
        if phase == "golden":
            tags["l3d.index"] = str(row)
        else:
            tags |= {"l3d.factor": "theirs", "l3d.row": str(row), "l3d.column": str(column)}
        child = client.create_run("0", tags=tags).info.run_id
        answers = np.where(generator.random(40) < 0.8, labels, 1 - labels)
        value = scores_of(labels, answers)["accuracy"]
        client.log_metric(child, "accuracy", value)
        path = tmp_path / "predictions.parquet"
        pd.DataFrame({"example_id": np.arange(40), "label": labels, "prediction": answers}).to_parquet(path)
        client.log_artifact(child, str(path))
        client.set_terminated(child)
        if phase == "golden":
            golden[row] = value
        else:
            table[row, column] = value
    found = ablation(parent_run_id=run_id, metric="accuracy", repeats=2)
    record = importance(table, golden)
    own = found.to_frame().query("setting == 0 and factor == 'theirs'").set_index("number")["mean"]
    assert {name: own[name] for name in NUMBERS} == {name: getattr(record, name) for name in NUMBERS}
    assert found.frame["test_examples"].dropna().unique().tolist() == [20, 10]
    child = store.cells(run_id)[0].info.run_id
    client.log_metric(child, "accuracy", 0.123)
    assert "not that of the recorded predictions" in ablation(parent_run_id=run_id, metric="accuracy").notes[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rows": "9"}, "rows=9: must be from 2 to 8"),
        ({"rows": "1"}, "rows=1: must be a whole number of at least 2"),
        ({"columns": "two"}, "columns=two: must be"),
        ({"test_sizes": "100000"}, "test_sizes=100000: must be from 1 to"),
        ({"repeats": 0}, "repeats=0: must be"),
        ({"root_seed": "-1"}, "root_seed=-1: must be"),
        ({"metric": "f1_makro"}, "Did you mean 'f1_macro'"),
        ({"parent_run_id": "0" * 32}, "no such run"),
    ],
)
def test_bad_parameters(store: Store, parent: Any, options: dict[str, Any], words: str) -> None:
    refuses(words, ablation, **{"parent_run_id": parent.run_id, **options})


def test_a_baseline_has_no_ablation(place: Store) -> None:
    place.investigate(design="fixed", investigation_runs=2, golden_runs=2)
    refuses(r"design fixed.*must be an investigation of design crossed", ablation)


def test_the_attached_run(store, parent, monkeypatch, tmp_path, capsys) -> None:
    before = store.client.get_run(parent.run_id).to_dictionary()
    run_id = store.client.create_run("0").info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", run_id)
    assert cli.main(["ablation", "--parent-run-id", parent.run_id, "--repeats", "2"]) == 0
    assert "How few runs are enough?" in capsys.readouterr().out
    run = store.client.get_run(run_id)
    assert run.info.status == "FINISHED"
    tags = run.data.tags
    assert (tags["l3d.role"], tags["l3d.schema"], tags["l3d.investigation"]) == ("ablation", "1", parent.run_id)
    assert run.data.params["repeats"] == "2"
    assert [table["path"] for table in json.loads(tags["mlflow.loggedArtifacts"])] == ["ablation.json"]
    artifacts = {item.path for item in store.client.list_artifacts(run_id)}
    assert artifacts == {"ablation.json", "report.html", "result.json", "summary.svg"}
    assert "How few runs are enough?" in store.download(run_id, "report.html", tmp_path).read_text()
    content = json.loads(store.download(run_id, "ablation.json", tmp_path).read_text())
    assert {"number", "mean", "low", "high"} <= set(content["columns"])
    assert store.client.get_run(parent.run_id).to_dictionary() == before


@pytest.mark.parametrize("wrong", [["--rows", "999"], ["--repeats", "x"], ["--parent-run-id", "0" * 32]])
def test_the_attached_run_of_a_mistake(store, parent, monkeypatch, wrong) -> None:
    run_id = store.client.create_run("0").info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", run_id)
    assert cli.main(["ablation", "--parent-run-id", parent.run_id, *wrong]) == 2
    run = store.client.get_run(run_id)
    assert run.info.status == "FAILED"
    assert wrong[1] in run.data.tags["l3d.error"]
