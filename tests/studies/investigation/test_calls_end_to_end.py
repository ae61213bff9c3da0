"""Investigations whose sessions take many cells in one call."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_helpers import calls_of_sessions, sqlite_place

from mlflow_l3d.testing import Trouble

pytestmark = pytest.mark.slow


def test_a_stopping_rule_is_not_run_over_by_large_calls(migrated_store: Path, tmp_path: Path) -> None:
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
