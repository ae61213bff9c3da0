"""Tables as the papers print them, and what importance the printed standard deviations allow."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pandas as pd
import pytest

from mlflow_l3d.analysis.importance import importance

FOLDER = os.environ.get("L3D_TEST_REFERENCE")
needs_tables = pytest.mark.skipif(FOLDER is None, reason="L3D_TEST_REFERENCE names no folder of published tables")


def read(name: str) -> pd.DataFrame:
    return pd.read_csv(Path(FOLDER or "") / f"{name}.csv", dtype=str, keep_default_na=False)


def printed(text: str) -> tuple[float, float]:
    """Return the ends of the numbers that round to what is printed."""
    half = 0.5 * 10.0 ** -len(text.partition(".")[2])
    return float(text) - half, float(text) + half


def from_stds(contributed: float, mitigated: float, golden: float) -> float:
    """Return the importance of a table that has exactly these standard deviations."""
    rows = [[middle - contributed, middle + contributed] for middle in (-mitigated, mitigated)]
    found = importance(rows, [-golden, golden])
    assert (found.contributed_std, found.mitigated_std) == pytest.approx((contributed, mitigated))
    return found.importance


def fits(row, golden: str) -> bool:
    """Return whether standard deviations that round to those of the row have an importance that rounds to its own."""
    corners = itertools.product(*map(printed, (row.contributed_std, row.mitigated_std, golden)))
    ordered = sorted(corners, key=lambda stds: (stds[0] - stds[1]) / stds[2])
    low, high = printed(row.importance)
    return from_stds(*ordered[0]) <= high and from_stds(*ordered[-1]) >= low
