"""Remedies against luck as reports write them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlflow_l3d.analysis.cure.remedy import Prediction, Range, Remedy
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import MISSING, Unit, between, counted, listed, plain, points, unit_of
from mlflow_l3d.report.table import Table

_MOST_NAMES = 2


def remedy_words(remedy: Remedy) -> str:
    """Return what a remedy does, in a few words."""
    over = f"{len(remedy.over)} factors" if len(remedy.over) > _MOST_NAMES else listed(remedy.over or ("nothing",))
    runs, differ = counted(remedy.members, "run"), f" that differ in {over}" if remedy.over else ""
    changes = ", ".join(f"{name}={value}" for name, value in remedy.changes.items())
    return {
        "vote": f"vote of {runs}{differ}",
        "mean": f"mean prediction of {runs}{differ}",
        "choose": f"best of {runs}{differ}, by validation",
        "report_mean": f"report the mean score of {runs}",
        "fix": f"{over} fixed, which hides luck",
        "fixed_examples": "one fixed set of training examples",
    }.get(remedy.kind, changes)


def remaining(prediction: Prediction, unit: Unit) -> str:
    """Return the standard deviation that remains, as a first screen has it."""
    return f"± {unit.text(prediction.std.value, unit.digits(prediction.std.value))}"


def range_text(each: Range, unit: Unit, *, sign: bool = False) -> str:
    """Return a number of scores with its interval below it; ``n/a`` if it is not known."""
    write = unit.change if sign else unit.text
    if not math.isfinite(each.value):
        return MISSING
    ends = between(each.low, each.high, write)
    return write(each.value) if ends == MISSING else f"{write(each.value)}\n({ends})"


def remedy_table(predictions: Sequence[Prediction], metric: Metric, note: str = "") -> Table:
    """Return remedies with what is predicted of them."""
    unit = unit_of(metric)
    rows = [
        {
            "remedy": remedy_words(each.remedy),
            f"remaining std ({unit.short})": range_text(each.std, unit),
            f"change of mean ({unit.short})": range_text(each.mean_change, unit, sign=True),
            "runs agree (%)": points(each.consistency.value, 1),
            "fragile (%)": points(each.fragile.value, 1),
            "trainings": str(each.trainings),
            "seconds": plain(each.seconds, 0 if each.seconds >= 10 else 1),
            "basis": each.basis,
        }
        for each in predictions
    ]
    table = Table.of(rows, note, texts=frozenset({7}))
    return table.without_empty([*rows[0]][1:])
