"""The tables of the tests of a sweep."""

from __future__ import annotations

import math
from functools import partial
from typing import Final

from mlflow_l3d.report.numbers import MISSING, between, percent, probability
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.sweep.numbers.interactions import Interaction
from mlflow_l3d.studies.sweep.numbers.measured import GOLDEN_STD
from mlflow_l3d.studies.sweep.numbers.point import value_text
from mlflow_l3d.studies.sweep.numbers.trends import Trend
from mlflow_l3d.studies.sweep.report.shown import ShownSweep, per, short

_SCOPES: Final = {"one task": "one task", "these tasks": "these two tasks", "tasks": "{tasks} tasks"}
_TREND_NOTE: Final = (
    "Change of the importance (no unit), or of the golden standard deviation in per cent. Claims: whether there is a "
    "trend, by a p-value {tests} of trends and choices (Holm). Points are compared with points that are alike in all "
    "other choices."
)
_INTERACTION_NOTE: Final = (
    "Whether all values of a choice have one importance, or one golden standard deviation. Std: how much they differ, "
    "without what their errors add. Claims: whether they differ, by a p-value {tests} of trends and choices (Holm). It "
    "is about these points: whether other tasks or models would show the same is another question."
)


def trend_table(shown: ShownSweep) -> Table | None:
    """Return the slopes of all trends, claims first; None if there is none."""
    rows = [
        {
            "choice": one.choice,
            "of": _of(one.of),
            "per": per(one),
            "change": shown.change(one.of, one.slope),
            percent(shown.sweep.level): between(one.low, one.high, partial(shown.change, one.of)),
            "p, Holm": probability(one.p_holm),
            "claim": _claim(shown, one),
            "points": str(one.points),
            "over": _SCOPES.get(one.scope, "{tasks} tasks, a slope each").format(tasks=one.tasks),
        }
        for one in sorted(shown.sweep.trends, key=lambda one: not shown.claimed(one.p_holm))
    ]
    note = _TREND_NOTE.format(tests=shown.tests)
    return Table.of(rows, note, texts=frozenset({1, 2, 6, 8})) if rows else None


def interaction_table(shown: ShownSweep) -> Table | None:
    """Return the tests of all choices and factors, the surest first; None if there is none."""
    rows = []
    for one in [*shown.moved(), *(one for one in shown.sweep.interactions if not shown.claimed(one.p_holm))]:
        ends = [f"{short(value_text(value))} {shown.level(one.of, mean)}" for value, mean in one.extremes()]
        spread = partial(shown.change, one.of, sign=False)
        rows.append(
            {
                "choice": one.choice,
                "of": _of(one.of),
                **dict(zip(("lowest", "highest"), ends, strict=True)),
                "std": spread(one.test.spread),
                percent(shown.sweep.level): between(one.test.spread_low, one.test.spread_high, spread),
                "p, Holm": probability(one.p_holm),
                "claim": _claim(shown, one),
                "points": str(one.test.points),
            }
        )
    note = _INTERACTION_NOTE.format(tests=shown.tests)
    return Table.of(rows, note, texts=frozenset({1, 2, 3, 7})) if rows else None


def _claim(shown: ShownSweep, one: Trend | Interaction) -> str:
    return MISSING if math.isnan(one.p_holm) else "yes" if shown.claimed(one.p_holm) else "no"


def _of(name: str) -> str:
    return "golden std" if name == GOLDEN_STD else name
