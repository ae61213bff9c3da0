"""The strategies side by side: the layout of the paper's tables, and what lies on the tracking server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refusal
from run_helpers import Place, sqlite_place

from mlflow_l3d import cli, strategies
from mlflow_l3d.studies.investigation.run import InvestigationStudy
from mlflow_l3d.studies.strategies.run import ComparedStrategies

pytestmark = pytest.mark.slow

HYPERPARAMETERS = (
    "a_label_selection=1e9,a_sample_choice=1e9,a_model_randomness=1e9,"
    "a_data_split=9,a_data_order=0,a_model_initialisation=1"
)
SIZES: dict[str, Any] = {"investigation_runs": 3, "mitigation_runs": 2, "golden_runs": 5}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> tuple[Place, ComparedStrategies]:
    with sqlite_place(migrated_store, tmp_path_factory.mktemp("comparison")).entered() as place:
        return place, compare()


def compare(**parameters: Any) -> ComparedStrategies:
    given = {"approach": "synthetic", "metric": "synthetic_score", "executor": "inline", **SIZES}
    given |= {"hyperparameters": HYPERPARAMETERS, "factor": "data_split,data_order"}
    return strategies(**{**given, **parameters})


def test_the_table_of_the_paper(shared: tuple[Place, ComparedStrategies]) -> None:
    _, found = shared
    table = found.table()
    assert list(table.columns) == ["random", "fixed", "interactions"]
    assert list(table.index) == ["golden_model", "data_split", "data_order"]
    golden = {name: each.analysis.importances["data_order"].golden for name, each in found.investigations.items()}
    np.testing.assert_array_equal(golden["random"], golden["crossed"])  # shared by all strategies
    crossed = found.investigations["crossed"].analysis.importances
    for factor in ("data_split", "data_order"):
        assert float(table.loc[factor, "interactions"].split()[0]) == pytest.approx(
            100 * crossed[factor].contributed_std, abs=5e-4
        )
        for strategy in ("random", "fixed"):
            scores = found.investigations[strategy].analysis.importances[factor].table
            assert scores.shape == (1, 6)
            assert float(table.loc[factor, strategy].split()[0]) == pytest.approx(100 * scores.std(), abs=5e-4)
            marked = table.loc[factor, strategy].endswith("(*)")
            assert marked == (scores.std() >= 0.5 * golden["crossed"].std())
    assert float(table.loc["golden_model", "random"]) == pytest.approx(100 * golden["crossed"].std(), abs=5e-4)
    # Where every factor varies, a factor that has hardly any effect looks important: what the paper warns of.
    assert table.loc["data_split", "random"].endswith("(*)")
    assert not table.loc["data_split", "fixed"].endswith("(*)")


def test_golden_runs_and_the_first_row_are_trained_once(shared: tuple[Place, ComparedStrategies]) -> None:
    _, found = shared
    computed = {name: each.computed for name, each in found.investigations.items()}
    # 2 factors x 6 runs each; 5 golden runs once; row 0 of the crossed tables (3 columns) is that of `fixed`.
    assert computed == {"random": 17, "fixed": 12, "crossed": 12 - 2 * 3}


def test_the_run_of_the_comparison(shared: tuple[Place, ComparedStrategies]) -> None:
    place, found = shared
    run = place.client.get_run(found.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["l3d.role"] == "comparison"
    ids = [each.run_id for each in found.investigations.values()]
    assert run.data.tags["l3d.investigations"].split(",") == ids
    for run_id in ids:
        assert place.client.get_run(run_id).data.tags["l3d.comparison"] == found.run_id
        assert "mlflow.parentRunId" not in place.client.get_run(run_id).data.tags
    logged = json.loads(place.download(found.run_id, "strategies.json", place.cache).read_text())
    assert logged["columns"] == ["factor", "random", "fixed", "interactions"]
    assert logged["data"] == found.table().reset_index().to_numpy().tolist()
    assert {each["path"] for each in json.loads(run.data.tags["mlflow.loggedArtifacts"])} == {
        "strategies.json",
        "strategy_results.json",
    }
    results = {(each.strategy, each.factor): each.std for each in found.results}
    assert run.data.metrics["fixed_std/data_order"] == pytest.approx(results["fixed", "data_order"])
    page = place.download(found.run_id, "report.html", place.cache).read_text()
    assert found.report().headline in page
    assert "| data_order |" in run.data.tags["mlflow.note.content"]
    assert run.data.tags["mlflow.note.content"].startswith(f"**{found.report().headline}** ")


def test_killed_and_repeated_each_part_has_one_parent(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    training = InvestigationStudy.train

    def interrupted(self: InvestigationStudy) -> None:
        training(self)
        if self.request.design().name == "fixed":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(InvestigationStudy, "train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compare()
    [random, _] = place.parents()
    found = compare()
    assert found.investigations["random"].run_id == random.info.run_id
    assert [each.computed for each in found.investigations.values()] == [0, 0, 6]
    run_ids = [each.run_id for each in found.investigations.values()]
    whole = [run for run in place.parents() if "l3d.superseded_by" not in run.data.tags]
    assert {run.info.run_id for run in whole} == set(run_ids)
    assert {(run.info.status, run.data.tags["l3d.state"]) for run in whole} == {("FINISHED", "complete")}
    assert {run.data.tags["l3d.comparison"] for run in whole} == {found.run_id}
    assert [len(place.cells(run_id)) for run_id in run_ids] == [17, 12, 6]


def test_summary_fits_a_terminal(shared: tuple[Place, ComparedStrategies]) -> None:
    text = shared[1].summary()
    assert all(len(line) <= 100 for line in text.splitlines() if "mlflow-l3d" not in line)
    assert text.isascii()
    assert "golden model" in text


def test_joint_factors_can_be_compared(place: Place) -> None:
    found = compare(factor="data_split+data_order", investigation_runs=2, golden_runs=2)
    assert list(found.table().index) == ["golden_model", "data_split+data_order"]
    assert place.client.get_run(found.run_id).data.metrics["random_std/data_split-data_order"] > 0


@pytest.mark.parametrize(
    ("parameters", "line"),
    [
        ({"design": "nested"}, "parameter='design'"),
        ({"golden_runs": "pooled"}, "golden_runs=pooled: is not for design=random"),
        ({"factor": "data_ordr"}, "factor='data_ordr'"),
    ],
)
def test_what_is_not_allowed(place: Place, parameters: dict[str, Any], line: str) -> None:
    assert refusal(compare, **parameters).startswith(line)
    assert place.runs() == []


def test_the_run_that_mlflow_made(place, monkeypatch, capsys) -> None:
    options = [
        *("--approach", "synthetic", "--metric", "synthetic_score", "--executor", "inline"),
        *("--investigation-runs", "2", "--mitigation-runs", "2", "--golden-runs", "3"),
    ]
    good = place.client.create_run("0")
    monkeypatch.setenv("MLFLOW_RUN_ID", good.info.run_id)
    assert cli.main(["strategies", *options]) == 0
    assert good.info.run_id in capsys.readouterr().out
    assert place.client.get_run(good.info.run_id).data.tags["l3d.role"] == "comparison"
    assert place.client.get_run(good.info.run_id).info.status == "FINISHED"
    assert len(place.parents()) == 3
    bad = place.client.create_run("0")
    monkeypatch.setenv("MLFLOW_RUN_ID", bad.info.run_id)
    assert cli.main(["strategies", *options, "--factor", "nothing"]) == 2
    assert place.client.get_run(bad.info.run_id).info.status == "FAILED"
    assert len(place.parents()) == 3
