"""Every design and strategy through MLflow and back, against the closed form of the synthetic approach."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from run_helpers import Place, calls_of_sessions, sqlite_place
from synthetic_truth import true_importance_corrected

from mlflow_l3d import plan, plan_sweep
from mlflow_l3d.analysis.importance import importance, radial_importance
from mlflow_l3d.analysis.importance.checks import all_checks
from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.estimators import CROSSED, NESTED
from mlflow_l3d.analysis.importance.verdicts import joint_level
from mlflow_l3d.analysis.planning import stopping
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.synthetic import score
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.studies.evaluation.run import evaluate
from mlflow_l3d.studies.investigation.report.details import early_stops
from mlflow_l3d.studies.investigation.results import Investigation
from mlflow_l3d.testing import Trouble

pytestmark = pytest.mark.slow

THREE = (
    "a_label_selection=1e9,a_sample_choice=1e9,a_model_randomness=1e9,"
    "a_data_split=2,a_data_order=0,a_model_initialisation=1"
)
"""Three factors that have an effect: data_split weak, data_order strong, model_initialisation between."""


TINY = {"approach": "synthetic", "metric": "synthetic_score", "hyperparameters": THREE}


def run(place: Place, **parameters: Any) -> Investigation:
    return place.investigate(**{"hyperparameters": THREE, "golden_runs": 6, **parameters})


FIRST = 5


@pytest.fixture
def sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look after 5, 10, ... rows: what these tests see is as good as after 20, 40, ..., and rows cost time."""
    assert stopping.FIRST_ANALYSIS == 20
    monkeypatch.setattr(stopping, "FIRST_ANALYSIS", FIRST)


def direct(result: Investigation, cell: Cell) -> float:
    return score(cell.seeds, result.request.setup.hyperparameters)


def assert_back_again(place: Place, result: Investigation) -> None:
    """Check that the tracking server alone gives the same numbers, and that the runs keep the contract."""
    again = evaluate(result.run_id, log=False).analysis
    assert again.design == result.analysis.design == result.request.plan.design.name
    assert again.metrics() == pytest.approx(result.analysis.metrics(), rel=1e-12)
    assert early_stops(again) == early_stops(result.analysis)
    assert [check.code for check in again.checks] == [check.code for check in result.analysis.checks]
    parent = place.client.get_run(result.run_id)
    assert parent.data.tags["l3d.design"] == result.request.plan.design.name
    wanted = {name.replace("+", "-"): value for name, value in result.analysis.metrics().items()}
    assert {name: parent.data.metrics[name] for name in wanted} == pytest.approx(wanted)


@pytest.mark.parametrize("design", ["crossed", "nested"])
def test_tables_hold_the_scores_of_their_cells(place: Place, design: str) -> None:
    result = run(place, design=design, factor="data_order", investigation_runs=3, mitigation_runs=4)
    cells = list(result.request.design().cells())
    table = np.full((4, 3), np.nan)
    for cell in cells:
        if cell.phase == "investigation":
            table[cell.row, cell.column] = direct(result, cell)
    golden = [direct(result, cell) for cell in cells if cell.phase == "golden"]
    expected = importance(table, golden, factor="data_order", model=NESTED if design == "nested" else CROSSED)
    record = result.analysis.importances["data_order"]
    np.testing.assert_array_equal(record.table, table)
    assert record.metrics() == pytest.approx(expected.metrics(), rel=1e-12)
    truth = true_importance_corrected(result.request.setup.hyperparameters)["data_order"]
    assert record.importance_corrected_ci_low <= truth <= record.importance_corrected_ci_high
    assert_back_again(place, result)


def test_radial_gives_all_factors_at_once(place: Place) -> None:
    size = {"investigation_runs": 10, "mitigation_runs": 6, "golden_runs": "auto"}
    result = run(place, design="radial", factor="all", **size, root_seed=2)
    cells = list(result.request.design().cells())
    assert len(cells) == len(result.cells) == 6 * 4
    base = [direct(result, cell) for cell in cells if cell.phase == "base"]
    swaps = {
        factor: [direct(result, cell) for cell in cells if cell.phase == "swap" and cell.factor == factor]
        for factor in result.request.factors
    }
    expected = radial_importance(base, swaps, level=joint_level(0.95, len(swaps)))
    truth = true_importance_corrected(result.request.setup.hyperparameters)
    for factor, record in result.analysis.importances.items():
        assert record.metrics() == pytest.approx(expected[factor].metrics(), rel=1e-12)
        assert record.importance_corrected_ci_low <= truth[factor] <= record.importance_corrected_ci_high
    assert max(result.analysis.importances.values(), key=lambda one: one.importance_corrected).factor == "data_order"
    assert_back_again(place, result)
    phases = {}
    for child in place.cells(result.run_id):
        tags = child.data.tags
        phases.setdefault(tags["l3d.phase"], []).append(tags)
    assert {phase: len(found) for phase, found in phases.items()} == {"base": 6, "swap": 18}
    assert all("l3d.factor" not in tags and "l3d.column" not in tags and "l3d.row" in tags for tags in phases["base"])
    assert all("l3d.factor" in tags and "l3d.column" not in tags and "l3d.row" in tags for tags in phases["swap"])


@pytest.mark.parametrize("design", ["random", "fixed"])
def test_strategies(place: Place, design: str) -> None:
    result = run(place, design=design, factor="data_order", investigation_runs=4, mitigation_runs=3)
    cells = list(result.request.design().cells())
    own = [direct(result, cell) for cell in cells if cell.phase == "investigation"]
    golden = [direct(result, cell) for cell in cells if cell.phase == "golden"]
    found = result.analysis.strategies["data_order"]
    assert found.std == pytest.approx(np.std(own), rel=1e-12)
    assert found.important == (np.std(own) >= 0.5 * np.std(golden))
    metrics = result.analysis.metrics()
    assert "importance" not in metrics
    assert metrics["score_std"] == pytest.approx(np.std(own))
    assert metrics["golden_share"] == pytest.approx(np.std(own) / np.std(golden))
    assert_back_again(place, result)


def test_joint_factors(place: Place) -> None:
    result = run(place, factor="data_split+data_order,model_initialisation", investigation_runs=2, mitigation_runs=3)
    assert list(result.analysis.importances) == ["data_split+data_order", "model_initialisation"]
    for cell, value in zip(result.request.design().cells(), [None] * 1000, strict=False):
        assert value is None
        if cell.factor == "data_split+data_order":
            assert cell.configurations["data_split"] == cell.configurations["data_order"] == cell.column
    assert_back_again(place, result)
    # MLflow allows no plus in the name of a metric.
    assert "importance/data_split-data_order" in place.client.get_run(result.run_id).data.metrics


def test_mitigation_strategy(place: Place) -> None:
    # Without the order, which golden runs vary, hardly anything is left: a table that should vary as they do would not.
    weak = THREE.replace("data_split=2", "data_split=9").replace("initialisation=1", "initialisation=9")
    mitigated = {"mitigation": "one order=data_order:3", "mitigation_runs": 4, "golden_runs": 12}
    result = run(place, factor="data_split", hyperparameters=weak, root_seed=1, **mitigated)
    rows = result.cells[result.cells["phase"] == "investigation"]
    assert rows["factor.data_order"].nunique() == 1
    record = result.analysis.importances["data_split"]
    evidence = Evidence(importances={"data_split": record}, golden=record.golden)
    assert "L3D006" in {check.code for check in all_checks(evidence)}
    assert "L3D006" not in {check.code for check in result.analysis.checks}
    golden = result.cells[result.cells["phase"] == "golden"]
    assert golden["factor.data_order"].nunique() == len(golden)
    assert "Shares are of the variance under mitigation=one order=data_order:3." in result.about.notes
    assert "crossed design, mitigation=one order=data_order:3, root seed 1)" in result.cited()
    assert_back_again(place, result)


def test_pooled_golden_runs(place: Place) -> None:
    result = run(place, golden_runs="pooled", factor="data_order,data_split", mitigation_runs=3)
    assert set(result.cells["phase"]) == {"investigation"}
    records = result.analysis.importances
    pooled = np.concatenate([record.table.reshape(-1) for record in records.values()])
    for record in records.values():
        assert record.golden_std == pytest.approx(pooled.std())
        assert record.golden_pooled
    assert "L3D008" in {check.code for check in result.analysis.checks}
    assert_back_again(place, result)


def test_missing_cells_by_reml(place: Place) -> None:
    failing = {"hyperparameters": f"{THREE},fail_every=9", "investigation_runs": 3, "mitigation_runs": 5}
    result = run(place, factor="data_order", missing="reml", **failing)
    record = result.analysis.importances["data_order"]
    assert record.cells_missing > 0
    assert record.components.method == "reml"
    message = next(check.message for check in result.analysis.checks if check.code == "L3D002")
    assert "restricted maximum likelihood" in message
    dropped = evaluate(result.run_id, missing="anova", log=False).analysis.importances["data_order"]
    assert dropped.components.method == "anova"
    assert dropped.importance == record.importance  # the published score comes from complete rows in any case
    assert_back_again(place, result)


@pytest.mark.usefixtures("sooner")
def test_stop_by_interval(place: Place) -> None:
    plan = {"design": "nested", "factor": "data_order", "investigation_runs": 2, "golden_runs": 160}
    result = run(place, stop="interval", half_width=0.85, mitigation_runs="auto", **plan)
    interim_analyses = result.analysis.interim_analyses
    assert interim_analyses["decision"].tolist() == ["continue"] * (len(interim_analyses) - 1) + ["stop"]
    rows = int(interim_analyses["rows"].iloc[-1])
    assert rows == FIRST * 2 ** (len(interim_analyses) - 1) < 320
    assert len(interim_analyses) > 1
    share = f"with their share of the golden runs: {rows // 2} of 160."
    ended = f"It ended after {rows} of at most 320 rows (stop=interval), {share}"
    assert ended in " ".join(result.summary().split())
    record, last = result.analysis.importances["data_order"], interim_analyses.iloc[-1]
    assert record.table.shape == (rows, 2)
    shown = (record.importance_corrected_ci_low, record.importance_corrected_ci_high)
    assert shown == pytest.approx((last["low"], last["high"]), rel=1e-9)  # what the last look saw
    assert record.level == 1 - last["alpha"]
    parent = place.client.get_run(result.run_id)
    assert parent.data.params["mitigation_runs"] == "auto"
    assert parent.data.params["resolved.mitigation_runs"] == str(rows)
    assert parent.data.tags["l3d.state"] == "complete"
    logged = json.loads(place.download(result.run_id, "looks.json", place.cache).read_text())
    frame = pd.DataFrame(logged["data"], columns=logged["columns"])
    assert frame["decision"].tolist() == interim_analyses["decision"].tolist()
    assert_back_again(place, result)


def test_stop_by_epsilon(place: Place) -> None:
    sizes = {"investigation_runs": 3, "golden_runs": "auto", "mitigation_runs": "auto"}
    result = run(place, factor="data_order,data_split", stop="epsilon", epsilon=2.0, **sizes)
    interim_analyses = result.analysis.interim_analyses
    last = interim_analyses.groupby("factor", sort=False).tail(1)
    assert set(last["decision"]) == {"stop"}
    rows = int(last["rows"].max())
    assert rows == len(result.analysis.importances["data_order"].table) < 320
    # The rule is about percentage points: two points, not two hundred.
    assert (last["change"] < 2.0).all()
    assert (interim_analyses["change"].dropna() > 0.02).any()
    assert_back_again(place, result)


def test_epsilon_is_in_the_unit_of_the_metric(place: Place) -> None:
    def loss(task: Any, split: Any, seeds: Any, hyperparameters: Any) -> dict[str, float]:
        return {"loss": 5000 + 1000 * sum(stream(seed, name).normal() for name, seed in seeds.items())}

    factors = ["data_order", "model_randomness"]
    approach = FunctionApproach(loss, name="loss", version="1", factors=factors, metrics=["loss"])
    sizes = {"investigation_runs": 3, "golden_runs": 9, "mitigation_runs": 30}
    result = place.investigate(
        approach=approach, metric="auto", factor="data_order", stop="epsilon", epsilon=200, **sizes
    )
    last, table = result.analysis.interim_analyses.iloc[-1], result.analysis.importances["data_order"].table
    assert last["decision"] == "stop"
    stds = [(rows.std(axis=1).mean(), rows.mean(axis=1).std()) for rows in (table[:-1], table)]
    assert last["change"] == pytest.approx(np.abs(np.diff(stds, axis=0)).max())


@pytest.mark.usefixtures("sooner")
def test_cells_beyond_the_stop_are_kept_and_not_counted(place: Place) -> None:
    parameters = {"design": "nested", "factor": "data_order", "investigation_runs": 2, "golden_runs": "auto"}
    ahead = {"executor": "processes", "workers": 1}
    stopped = run(place, stop="interval", half_width=0.93, mitigation_runs="auto", **ahead, **parameters)
    rows = stopped.request.plan.mitigation_runs
    assert rows == FIRST
    own = place.cells(stopped.run_id)
    beyond = [run for run in own if int(run.data.tags.get("l3d.row", -1)) >= rows]
    assert len(own) == len(stopped.cells) + len(beyond) + sum(
        int(run.data.tags.get("l3d.index", -1)) >= stopped.request.plan.golden_runs for run in own
    )
    alone = run(place, mitigation_runs=rows, **parameters)
    # The same rows without a rule: nothing is computed again, and the numbers are the same but for what looking costs.
    assert alone.computed == 0
    fixed, sequential = alone.analysis.metrics(), stopped.analysis.metrics()
    for name in [name for name in fixed if "_ci_" in name]:
        one, other = fixed.pop(name), sequential.pop(name)
        assert other <= one if "low" in name else other >= one
    assert fixed == pytest.approx(sequential, rel=1e-12)
    assert_back_again(place, stopped)


def test_a_stopping_rule_is_not_run_over_by_large_calls(migrated_store, tmp_path) -> None:
    place = sqlite_place(migrated_store, tmp_path / "place")
    plan = {"investigation_runs": 4, "mitigation_runs": 60, "golden_runs": 60, "stop": "epsilon", "epsilon": 50.0}
    with_calls = place.investigate(approach=Trouble(at_once=1000), **plan)
    sizes = [len(call) for call in calls_of_sessions(place.cache)]
    # A row has five cells, and one was taken to see whether there are any.
    assert sizes[0] == 6
    assert all(size <= 1 + max(5, sum(sizes[:number])) for number, size in enumerate(sizes))
    alone = sqlite_place(migrated_store, tmp_path / "alone")
    one_by_one = alone.investigate(approach=Trouble(), **plan)
    assert with_calls.analysis.metrics() == one_by_one.analysis.metrics()
    assert one_by_one.computed <= with_calls.computed <= 2 * one_by_one.computed
    assert with_calls.computed < 300


def test_design_auto_continues_what_an_earlier_command_began(place: Place) -> None:
    """The command of an earlier version, whose default was crossed, and one of its report that asks for more rows."""
    common = {"factor": "data_split,data_order", "investigation_runs": 10, "golden_runs": "auto", "mitigation_runs": 2}
    before = run(place, **common, design="crossed")
    again = run(place, **common)
    assert (again.computed, again.reused, again.analysis.metrics()) == (0, 60, before.analysis.metrics())
    more = run(place, **{**common, "mitigation_runs": 3})
    assert (more.analysis.design, more.reused, more.computed) == ("crossed", 60, 30)
    assert f"design=crossed, to continue run {again.run_id}" in more.summary()
    backwards = {**common, "factor": "data_order,data_split", "metric": "f1_macro"}  # neither is part of a cell
    assert run(place, **backwards).computed == 0
    other = run(place, **common, root_seed=1)
    assert (other.analysis.design, other.computed) == ("radial", 6)
    params = place.client.get_run(other.run_id).data.params
    assert (params["design"], params["resolved.design"]) == ("auto", "radial")
    assert "--design radial" in other.request.source(other.run_id).command()
    assert run(place, **common, root_seed=1).computed == 0
    assert plan(**TINY, **common).request.plan.design.name == "crossed"
    points = plan_sweep(**TINY, **common, root_seed=[0, 1]).request.points
    # One design for all points, that of the one that was begun as crossed.
    assert {point.plan.design.name for point in points} == {"crossed"}
