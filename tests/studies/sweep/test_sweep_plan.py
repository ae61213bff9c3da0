"""What a sweep will do, before it does anything: order, plan, budget."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from run_helpers import SMALL, Place

from mlflow_l3d import plan_sweep, sweep
from mlflow_l3d.studies.sweep.engine import turns

NOISE = [0, 0.1, 0.2]
SIZES: dict[str, Any] = {"investigation_runs": 2, "mitigation_runs": 3, "golden_runs": 3}
ASKED: dict[str, Any] = {**SMALL, "executor": "inline", **SIZES}
CELLS = 9


def test_the_order_is_breadth_first() -> None:
    first = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert list(turns([5, 2])) == [*first, (0, 2), (0, 3), (0, 4)]
    assert list(turns([20, 20]))[-24:] == [(0, step) for step in range(8, 20)] + [(1, step) for step in range(8, 20)]
    assert list(turns([5, 4])) == [*first, (0, 2), (0, 3), (0, 4), (1, 2), (1, 3)]
    assert list(turns([1, 3])) == [(0, 0), (1, 0), (1, 1), (1, 2)]
    assert list(turns([])) == []
    for steps in ([20, 20, 20], [7, 33, 1]):
        found = list(turns(steps))
        assert Counter(found) == Counter((point, step) for point, own in enumerate(steps) for step in range(own))
        done = [0] * len(steps)
        for point, step in found:
            assert step == done[point]  # each point's own steps in their order
            done[point] += 1
            unfinished = [own for own, every in zip(done, steps, strict=True) if own < every]
            assert not unfinished or max(done) <= max(2, 2.5 * min(unfinished))


@pytest.mark.slow
def test_a_dry_run_starts_nothing(place: Place, tmp_path: Path) -> None:
    before = place.investigate(**SIZES, hyperparameters="noise=0.1")
    plan = plan_sweep(**ASKED, over={"noise": NOISE}, budget=12)
    frame = plan.to_frame()
    assert frame["done"].tolist() == [0, CELLS, 0]
    assert frame["to_compute"].tolist() == [CELLS, 0, CELLS]
    assert np.isfinite(plan.hours)
    assert "3 points, 27 runs, 9 done, 18 to compute" in plan.summary()
    assert "the budget of 12 cells may end it earlier" in " ".join(plan.summary().split())
    wide = plan_sweep(**ASKED, num_labelled=[20, 30])
    (tmp_path / "sweep.yaml").write_text("dry_run: true")
    for asked in ({"dry_run": True}, {"file": tmp_path / "sweep.yaml"}):
        refuses(r"^dry_run=.*In Python call .* plan_sweep of mlflow_l3d", sweep, **ASKED, **asked)
    assert re.search(r"^20 +9 +0 +9 ", wide.summary(), re.MULTILINE)  # no 20.0
    assert [run.info.run_id for run in place.parents()] == [before.run_id]
    assert place.runs("tags.`l3d.role` = 'sweep'") == []


def test_too_small_a_budget_is_refused_before_anything_starts(place: Place) -> None:
    why = r"^budget=4 cells: is enough for no point\. A point is scored from two .*"
    refuses(why, sweep, **ASKED, over={"noise": NOISE}, budget=4)
    assert place.runs() == []
