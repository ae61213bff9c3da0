"""From frames to arrays: tags as texts, gaps, places taken twice, wrong places."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from mlflow_l3d.analysis.importance.tables import factors_in, golden_scores, score_table
from mlflow_l3d.errors import ParameterError


def cells(rows=2, columns=3, golden=4, factors=("data_order", "seed")):
    records = [
        {"phase": "investigation", "factor": name, "row": i, "column": j, "index": None, "f1": 100 * f + 10 * i + j}
        for f, name in enumerate(factors)
        for i in range(rows)
        for j in range(columns)
    ]
    records += [
        {"phase": "golden", "factor": None, "row": None, "column": None, "index": k, "f1": -k} for k in range(golden)
    ]
    return pd.DataFrame(records).sample(frac=1, random_state=0, ignore_index=True)


COLUMNS = {
    "floats": lambda values: values.astype(float),
    "nullable": lambda values: values.astype("Int64"),
    "texts": lambda values: values.map(lambda value: str(int(value)), na_action="ignore").astype("string"),
    "objects": lambda values: values.map(lambda value: str(int(value)), na_action="ignore").astype(object),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_type_of_coordinate(kind):
    frame = cells()
    for name in ("row", "column", "index"):
        frame[name] = COLUMNS[kind](frame[name])
    assert_array_equal(score_table(frame, "data_order", "f1"), [[0, 1, 2], [10, 11, 12]])
    assert_array_equal(score_table(frame, "seed", "f1"), [[100, 101, 102], [110, 111, 112]])
    assert_array_equal(golden_scores(frame, "f1"), [0, -1, -2, -3])


def test_gaps_and_planned_sizes():
    frame = cells(factors=("seed",))
    frame["f1"] = frame["f1"].astype(float)
    frame.loc[(frame["row"] == 1) & (frame["column"] == 2), "f1"] = np.nan
    frame.loc[frame["index"] == 3, "f1"] = np.inf
    table = score_table(frame, "seed", "f1")
    assert table.shape == (2, 3)
    assert np.isnan(table[1, 2])
    assert score_table(frame, "seed", "f1", rows=4, columns=5).shape == (4, 5)
    assert np.isnan(score_table(frame, "seed", "f1", rows=4, columns=5)).sum() == 20 - 5
    assert_array_equal(golden_scores(frame, "f1", runs=6), [0, -1, -2, np.nan, np.nan, np.nan])


def test_unknown_phases_are_passed_over():
    frame = cells(factors=("seed",))
    other = frame.assign(phase="swap", f1=5.0)
    none = frame.assign(phase=None, f1=6.0)
    both = pd.concat([frame, other, none.astype({"phase": object})], ignore_index=True)
    assert_array_equal(score_table(both, "seed", "f1"), score_table(frame, "seed", "f1"))
    assert_array_equal(golden_scores(both, "f1"), golden_scores(frame, "f1"))


def test_factors_in_order_of_appearance():
    frame = cells(factors=("seed", "data_order", "data_split")).sort_values("f1", key=abs, ascending=False)
    assert factors_in(frame, ("investigation",)) == ["data_split", "data_order", "seed"]
    assert factors_in(frame[frame["phase"] == "golden"], ("investigation",)) == []


def test_a_factor_without_cells_has_an_empty_table():
    assert score_table(cells(), "data_split", "f1").shape == (0, 0)
    assert score_table(cells(), "data_split", "f1", rows=2, columns=3).shape == (2, 3)


def test_golden_runs_without_index_are_numbered():
    frame = cells(factors=("seed",)).drop(columns="index")
    assert sorted(golden_scores(frame, "f1").tolist()) == [-3, -2, -1, 0]
    assert golden_scores(frame[frame["phase"] == "investigation"], "f1").shape == (0,)
    frame["index"] = None
    assert len(golden_scores(frame, "f1")) == 4


def test_a_place_taken_twice_is_named():
    frame = cells(factors=("seed",))
    again = frame[(frame["row"] == 1) & (frame["column"] == 2)]
    with pytest.raises(ParameterError, match=r"row 1 column 2: must occur once in the table of seed"):
        score_table(pd.concat([frame, again]), "seed", "f1")
    with pytest.raises(ParameterError, match=r"index 2: must occur once in the golden runs"):
        golden_scores(pd.concat([frame, frame[frame["index"] == 2]]), "f1")


def test_a_failed_run_may_stand_beside_its_repetition():
    frame = cells(factors=("seed",))
    failed = frame.assign(f1=np.nan)
    both = pd.concat([failed, frame, failed], ignore_index=True)
    assert_array_equal(score_table(both, "seed", "f1"), score_table(frame, "seed", "f1"))


@pytest.mark.parametrize(
    ("column", "value", "match"),
    [
        ("row", 1.5, r"row=1.5: must be a whole number from 0 to"),
        ("row", -1, r"row=-1"),
        ("column", None, r"column=nan: must be a whole number"),
        ("column", "two", r"column='two': must be a number"),
        ("row", 123456789, r"row=123456789: must be below"),
        ("f1", "good", r"f1='good': must be a number"),
    ],
)
def test_wrong_values_are_named(column, value, match):
    frame = cells(factors=("seed",)).astype({"row": object, "column": object, "f1": object})
    frame.loc[frame.index[frame["phase"] == "investigation"][3], column] = value
    with pytest.raises(ParameterError, match=match):
        score_table(frame, "seed", "f1")


def test_a_place_outside_the_plan_is_named():
    with pytest.raises(ParameterError, match=r"column=2: must be a whole number from 0 to 1"):
        score_table(cells(), "seed", "f1", columns=2)
    with pytest.raises(ParameterError, match=r"index=3"):
        golden_scores(cells(), "f1", runs=3)


def test_a_table_too_large_is_refused():
    frame = cells(factors=("seed",))
    frame.loc[(frame["row"] == 1) & (frame["column"] == 2), ["row", "column"]] = [100_000, 100_000]
    with pytest.raises(ParameterError, match=r"row x column=100001 x 100001"):
        score_table(frame, "seed", "f1")


def test_missing_columns_are_named():
    frame = cells().assign(accuracy=0.5)
    with pytest.raises(ParameterError, match=r"metric='acuracy': must be one of accuracy, f1. Did you mean 'accuracy'"):
        score_table(frame, "seed", "acuracy")
    with pytest.raises(ParameterError, match="metric='row'"):
        golden_scores(cells(), "row")
    for name in ("phase", "factor", "row", "column"):
        with pytest.raises(ParameterError, match=f"must have a column {name}"):
            score_table(cells().drop(columns=name), "seed", "f1")
    with pytest.raises(ParameterError, match="must have a column phase"):
        golden_scores(cells().drop(columns="phase"), "f1")
