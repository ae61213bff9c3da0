"""A whole investigation from its frame of cells."""

import math

import numpy as np
import pandas as pd
import pytest
from analysis_oracle import VoteCounter
from drawn_tables import drawn

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.designs import Planned
from mlflow_l3d.designs.analyse import analyse
from mlflow_l3d.errors import ParameterError


def investigation(rows=12, columns=5, golden=60, seed=0):
    """Two factors with S_T = 0.8 and 0.2 and their shared golden runs."""
    generator = np.random.default_rng(seed)
    shares = {"seed": 0.8, "data_order": 0.2}
    tables = {name: 0.8 + 0.02 * drawn(generator, (rows, columns), (1 - own, own)) for name, own in shares.items()}
    scores = 0.8 + 0.02 * generator.standard_normal(golden)
    records = [
        {"phase": "investigation", "factor": name, "row": i, "column": j, "f1_macro": table[i, j]}
        for name, table in tables.items()
        for (i, j) in np.ndindex(table.shape)
    ]
    records += [{"phase": "golden", "index": k, "f1_macro": score} for k, score in enumerate(scores)]
    return pd.DataFrame(records), tables, scores


def test_every_factor_is_analysed_with_the_shared_golden_runs():
    frame, tables, golden = investigation()
    found = analyse(frame, Planned(classes=2), metric="f1_macro")
    assert list(found.importances) == ["seed", "data_order"]
    for name, table in tables.items():
        expected = importance(table, golden, factor=name, chance=0.5, level=0.975)
        assert found.importances[name].metrics() == expected.metrics()
        assert found.importances[name].factor == name
    assert found.importances["seed"].importance > 0 > found.importances["data_order"].importance
    assert (found.metric.name, found.cells_failed) == ("f1_macro", 0)
    assert {check.code for check in found.checks} <= {"L3D001"}
    assert found.metrics()["importance/seed"] == found.importances["seed"].importance
    assert found.to_frame()["factor"].tolist() == ["seed", "data_order"]


def test_the_order_of_cells_does_not_change_a_bit():
    frame, _, _ = investigation()
    shuffled = frame.sample(frac=1, random_state=1)
    names = ["data_order", "seed"]
    found = analyse(shuffled, Planned(factors=names), metric="f1_macro")
    assert list(found.importances) == names
    assert found.metrics() == analyse(frame, Planned(factors=names), metric="f1_macro").metrics()


def test_failed_cells_are_counted_against_the_plan():
    frame, _, _ = investigation(rows=12)
    lost = frame.drop(frame.index[[3, 70]])
    lost.loc[frame.index[-1], "f1_macro"] = np.nan
    found = analyse(lost, Planned(rows=13, columns=5, golden_runs=62), metric="f1_macro")
    assert found.importances["seed"].cells_missing == 5 + 1
    assert found.importances["data_order"].cells_missing == 5 + 1
    assert found.importances["seed"].golden_missing == 2 + 1
    assert found.cells_failed == 6 + 6 + 3
    assert found.metrics()["cells_failed"] == 15.0
    codes = [(check.code, check.factor) for check in found.checks]
    assert ("L3D002", "seed") in codes
    assert ("L3D002", "data_order") in codes
    assert ("L3D003", None) in codes


def test_a_planned_factor_without_cells():
    frame, _, _ = investigation()
    found = analyse(frame, Planned(factors=["data_split"], rows=12, columns=5), metric="f1_macro")
    assert math.isnan(found.importances["data_split"].importance)
    assert found.cells_failed == 60
    unplanned = analyse(frame, Planned(factors=["data_split"]), metric="f1_macro")
    assert unplanned.importances["data_split"].table.shape == (0, 0)
    assert [check.code for check in unplanned.checks] == ["L3D007"]


def test_collapse_is_judged_only_where_chance_is_one_in_classes():
    frame, _, _ = investigation()
    frame = frame.assign(accuracy=frame["f1_macro"] - 0.5, matthews_corrcoef=frame["f1_macro"] - 0.5)
    assert analyse(frame, Planned(classes=2), metric="accuracy").importances["seed"].collapsed_share == 1.0
    correlated = analyse(frame, Planned(classes=2), metric="matthews_corrcoef")
    assert math.isnan(correlated.importances["seed"].collapsed_share)
    assert math.isnan(analyse(frame, metric="accuracy").importances["seed"].collapsed_share)


@pytest.mark.parametrize(("metric", "most"), [("f1_macro", 0.5), ("matthews_corrcoef", 1.0)])
def test_the_interval_of_the_golden_std_ends_at_half_the_range_of_the_metric(metric, most):
    frame, _, _ = investigation(golden=5)
    frame.loc[frame["phase"] == "golden", "f1_macro"] = [0.0, 1.0, 0.0, 1.0, 0.0]
    found = analyse(frame.assign(matthews_corrcoef=2 * frame["f1_macro"] - 1), metric=metric)
    assert found.importances["seed"].golden_std_ci_high == most


def test_consistencies_are_passed_through():
    frame, _, _ = investigation()
    counter = VoteCounter()
    ids, labels = list(range(10)), [0, 1] * 5
    counter.add(0, ids, labels, labels)
    counter.add(0, ids, labels, [0] * 10)
    found = analyse(frame, Planned(factors=["seed"]), metric="f1_macro", consistencies={"seed": counter.result("seed")})
    assert found.metrics()["consistency"] == 0.5
    assert found.metrics()["correct_consistency"] == 0.5


def test_an_empty_frame():
    found = analyse(investigation()[0].iloc[:0], metric="f1_macro")
    assert (found.importances, found.cells_failed) == ({}, 0)
    assert [check.code for check in found.checks] == ["L3D003"]


@pytest.mark.parametrize("rows", [1, 2])
def test_the_first_rows_of_a_running_investigation(rows):
    frame, _, _ = investigation()
    begun = frame[(frame["row"] < rows) | (frame["index"] < 5 * rows)]
    found = analyse(begun, Planned(rows=rows, columns=5, golden_runs=5 * rows), metric="f1_macro")
    assert found.cells_failed == 0
    assert math.isfinite(found.importances["seed"].importance) == (rows == 2)


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_a_level_is_between_0_and_1(level):
    with pytest.raises(ParameterError, match=f"level={level}"):
        analyse(investigation()[0], metric="f1_macro", level=level)
