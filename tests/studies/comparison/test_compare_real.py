"""A/A on a real investigation: a head on the packaged encoder, film reviews of SST-2."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pandas as pd
import pytest
from run_helpers import sqlite_place

from mlflow_l3d import compare, investigate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("L3D_TEST_DATA" not in os.environ, reason="L3D_TEST_DATA is not set"),
]


def test_a_real_system_differs_from_itself_no_more_often_than_the_level_allows(tmp_path, migrated_store) -> None:
    table = pd.read_parquet(Path(os.environ["L3D_TEST_DATA"]) / "sst2.parquet")
    table[["text", "label"]].head(300).to_parquet(tmp_path / "sst2.parquet")
    with sqlite_place(migrated_store, tmp_path).entered():
        runs = [
            investigate(
                task=str(tmp_path / "sst2.parquet"),
                metric="accuracy",
                golden_runs=10,
                investigation_runs=2,
                mitigation_runs=2,
                num_labelled=120,
                test_size=100,
                hyperparameters={"learning_rate": rate},
                executor="inline",
            )
            for rate in (0.001, 0.01)
        ]
        found = compare(*runs, self_check=60)
    one = found.comparison.differences[0]
    assert one.shared_runs == 10
    assert 0 < one.variance_saved < 1
    assert [check.repeats for check in found.self_checks] == [60, 60, 60]
    claims = sum(check.claims for check in found.self_checks)
    assert claims / 180 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 180)
