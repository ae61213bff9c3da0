"""Degenerate investigations of every design: a nan with a named check, never a crash, never a silent number."""

import math
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from checks_cases import checks_of

from mlflow_l3d.analysis.importance import importance, importance_path, radial_importance
from mlflow_l3d.analysis.importance.estimators.missing_cells import reml_components
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.designs import Planned, design_named, plannable_designs
from mlflow_l3d.designs.analyse import analyse

NUMBERS = [field.name for field in fields(Importance) if field.type == "float"]
FACTORS = ("data_order", "label_selection")


def sound(rows=6, columns=5, seed=0):
    generator = np.random.default_rng(seed)
    table = 0.7 + 0.03 * generator.standard_normal((rows, 1)) + 0.03 * generator.standard_normal((rows, columns))
    return table, 0.7 + 0.04 * generator.standard_normal(12)


def changed(table, *places):
    table = table.copy()
    for place in places:
        table[place] = np.nan
    return table


TABLE, GOLDEN = sound()
PAIRS = np.where((np.arange(5) == 0) | (np.arange(5) == 1 + np.arange(6)[:, None] % 4), TABLE, np.nan)
ROUNDED = np.where(np.arange(30) % 2, 0.3, 0.1 + 0.2)
RAGGED = changed(TABLE, (0, slice(1, None)), (1, slice(2, None)), (2, slice(3, None)), (3, slice(4, None)))
CASES = {
    # name: (table, golden, codes of which one must be there, what is nan: published, corrected, interval)
    "constant": (np.full((6, 5), 0.1), np.full(12, 0.1), {"L3D004"}, (True, True, True)),
    "constant but for rounding": (ROUNDED.reshape(6, 5), ROUNDED[:12], {"L3D004"}, (True, True, True)),
    "one class, everywhere": (np.full((6, 5), 1 / 3), np.full(12, 1 / 3), {"L3D004", "L3D005"}, (True, True, True)),
    "constant table": (np.full((6, 5), 0.6), GOLDEN, {"L3D004"}, (True, True, True)),
    "zero golden std": (TABLE, np.full(12, 0.7), {"L3D004"}, (True, False, False)),
    "no golden runs": (TABLE, np.empty(0), {"L3D003"}, (True, False, False)),
    "one golden run": (TABLE, GOLDEN[:1], {"L3D003"}, (True, False, False)),
    "golden runs nan": (TABLE, np.full(12, np.nan), {"L3D003"}, (True, False, False)),
    "nothing has a score": (np.full((6, 5), np.nan), np.full(12, np.nan), {"L3D002", "L3D003"}, (True, True, True)),
    "every score infinite": (np.full((6, 5), np.inf), np.full(12, -np.inf), {"L3D002", "L3D003"}, (True, True, True)),
    "one nan": (changed(TABLE, (2, 1)), GOLDEN, {"L3D002"}, (False, False, False)),
    "a column failed": (changed(TABLE, (slice(None), 1)), GOLDEN, {"L3D002"}, (False, False, False)),
    "a row failed": (changed(TABLE, (1, slice(None))), GOLDEN, {"L3D002"}, (False, False, False)),
    "unbalanced": (RAGGED, GOLDEN, {"L3D002", "L3D007"}, (False, False, False)),
    "one complete row": (changed(TABLE, (slice(1, None), 0)), GOLDEN, {"L3D002", "L3D007"}, (False, False, False)),
    "pairs that share a column": (PAIRS, GOLDEN, {"L3D002"}, (False, False, False)),
    "a single row": (TABLE[:1], GOLDEN, {"L3D007"}, (True, True, True)),
    "two rows": (TABLE[:2], GOLDEN, {"L3D007"}, (False, False, True)),
    "a single column": (TABLE[:, :1], GOLDEN, {"L3D007"}, (True, True, True)),
    "a single cell": (TABLE[:1, :1], GOLDEN[:1], {"L3D003", "L3D007"}, (True, True, True)),
}


def cells(design, tables, golden):
    """One row a run; of a radial design the first column of the first table is the base, the second the swap."""
    rows = []
    for factor, table in tables.items():
        for i, scores in enumerate(table):
            for j, score in enumerate(scores[:2] if design == "radial" else scores):
                if design != "radial":
                    rows.append(("investigation", factor, i, j, None, score))
                elif j:
                    rows.append(("swap", factor, i, None, None, score))
                elif factor == next(iter(tables)):
                    rows.append(("base", None, i, None, None, score))
    if design != "radial":
        rows.extend(("golden", None, None, None, i, score) for i, score in enumerate(golden))
    return pd.DataFrame(rows, columns=["phase", "factor", "row", "column", "index", "f1_macro"])


def proven(record, checks, codes, nans):
    """Assert that the record has no infinite number, is nan where it must be, and that its checks name why."""
    values = [getattr(record, name) for name in NUMBERS]
    assert not any(math.isinf(value) for value in values)
    assert all(math.isfinite(value) for value in {**record.metrics(), **record.details()}.values())
    published, corrected, interval = nans
    assert math.isnan(record.importance) == published
    assert math.isnan(record.importance_corrected) == corrected
    assert math.isnan(record.importance_corrected_ci_low) == math.isnan(record.importance_corrected_ci_high) == interval
    about = {check.code for check in checks if check.factor in (None, record.factor)}
    assert codes <= about
    for check in checks:
        assert check.title
        assert "nan" not in check.message.split()


@pytest.mark.parametrize("design", ["crossed", "nested"])
@pytest.mark.parametrize("case", CASES)
def test_importance_and_checks(case, design):
    table, golden, codes, nans = CASES[case]
    record = importance(table, golden, factor="data_order", chance=0.5, model=design_named(design).model)
    proven(record, checks_of({"data_order": record}, golden, classes=2), codes, nans)
    assert len(importance_path(table, golden, model=design_named(design).model)) == max(len(table) - 1, 0)


@pytest.mark.parametrize(
    ("case", "design"),
    # A radial design always has base and swap.
    [
        (case, design)
        for case in CASES
        for design in plannable_designs()
        if design != "radial" or CASES[case][0].shape[1] > 1
    ],
)
def test_a_whole_analysis(case, design):
    """From a frame of cells, beside a second factor whose table is sound."""
    table, golden, codes, nans = CASES[case]
    other = sound(len(table), table.shape[1], seed=9)[0]
    frame = cells(design, {"data_order": table, "label_selection": other}, golden)
    found = analyse(frame, Planned(classes=2, design=design_named(design)), metric="f1_macro")
    assert tuple(found.importances) == FACTORS
    assert {record.design for record in found.importances.values()} == {design}
    assert all(math.isfinite(value) for value in found.metrics().values())
    if design != "radial":
        proven(found.importances["data_order"], found.checks, codes, nans)
    unexplained_numbers_are_absent(found)
    assert set(found.to_frame()["factor"]) == set(FACTORS)


def unexplained_numbers_are_absent(found):
    for factor, record in found.importances.items():
        codes = {check.code for check in found.checks if check.factor in (None, factor)}
        assert not any(math.isinf(getattr(record, name)) for name in NUMBERS)
        if math.isnan(record.importance):
            assert codes & {"L3D002", "L3D003", "L3D004", "L3D007"}
        if math.isnan(record.importance_corrected_ci_low):
            assert codes & {"L3D002", "L3D004", "L3D007"}
        if record.cells_missing:
            assert "L3D002" in codes


RADIAL = {
    # name: (base, swap of data_order, codes, what is nan)
    "constant": (np.full(8, 0.1), np.full(8, 0.1), {"L3D004"}, (True, True, True)),
    "one class": (np.full(8, 1 / 3), np.full(8, 1 / 3), {"L3D004", "L3D005"}, (True, True, True)),
    "nothing has a score": (np.full(8, np.nan), np.full(8, np.nan), {"L3D002", "L3D007"}, (True, True, True)),
    "swaps failed": (TABLE[:, 0], np.full(6, np.nan), {"L3D002", "L3D007"}, (True, True, True)),
    "one nan": (TABLE[:, 0], changed(TABLE[:, 1], 3), {"L3D002"}, (False, False, False)),
    "infinite": (np.full(8, np.inf), np.full(8, np.inf), {"L3D002", "L3D007"}, (True, True, True)),
    "a single run": (TABLE[:1, 0], TABLE[:1, 1], {"L3D007"}, (True, True, True)),
    "two runs": (TABLE[:2, 0], TABLE[:2, 1], {"L3D007"}, (False, False, True)),
    "no run": (np.empty(0), np.empty(0), {"L3D007"}, (True, True, True)),
}


@pytest.mark.parametrize("case", RADIAL)
def test_radial_importance_and_checks(case):
    base, swap, codes, nans = RADIAL[case]
    record = radial_importance(base, {"data_order": swap}, chance=0.5)["data_order"]
    proven(record, checks_of({"data_order": record}, record.golden, classes=2), codes, nans)


@pytest.mark.parametrize("case", CASES)
def test_components_of_anything(case):
    components = reml_components(CASES[case][0])
    if components is None:
        return
    values = (components.mitigated, components.contributed, components.total)
    assert all(math.isfinite(value) for value in values)
    assert components.contributed >= 0
    assert math.isnan(components.importance) == (components.total == 0)
