"""Remedies against luck as reports write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from mlflow_l3d.analysis.cure.remedy import SEVERAL, Prediction, Range, Remedy
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.draw import amount_bar
from mlflow_l3d.report.numbers import MISSING, Unit, between, counted, listed, plain, points, unit_of, value_text
from mlflow_l3d.report.table import Drawn, Table

_MOST_NAMES: Final = 2


def factor_words(joined: str) -> str:
    """Return factors that are joined by a plus as people read them: of many only how many."""
    names = joined.split("+")
    return f"all {len(names)} factors" if len(names) > _MOST_NAMES else listed(names)


def remedy_over(remedy: Remedy) -> str:
    """Return the factors in which the members of a remedy differ."""
    return factor_words("+".join(remedy.over)) or "all factors"


def remedy_words(remedy: Remedy, also: Sequence[Remedy] = ()) -> str:
    """Return what a remedy does, and those that are applied to its results, in a few words."""
    runs = f"{counted(remedy.members, 'run')} over {remedy_over(remedy)}"
    words = {
        "vote": f"vote of {runs}",
        "mean": f"mean of class scores of {runs}",
        "choose": f"best of {runs}",
        "report_mean": f"reporting the mean of {counted(remedy.members, 'run')}",
        "fix": f"fixing {remedy_over(remedy)}, which hides luck",
        "fixed_examples": "one chosen set of training examples",
    }.get(remedy.kind, "")
    changes = [f"{name}={value_text(value)}" for name, value in remedy.changes.items()]
    return ", ".join(filter(None, [*([remedy.words] if remedy.words else [words, *changes]), *map(remedy_words, also)]))


def with_article(remedy: Remedy) -> str:
    """Return what a remedy does within a sentence."""
    return f"{'the ' if remedy.kind == 'choose' else 'a ' * (remedy.kind in SEVERAL)}{remedy_words(remedy)}"


def beginning(remedy: Remedy) -> str:
    """Return what a remedy does at the beginning of a sentence, in bold."""
    words = with_article(remedy)
    return f"**{words[:1].upper()}{words[1:]}**"


def range_text(each: Range, unit: Unit, *, sign: bool = False) -> str:
    """Return a number of scores with its interval below it; ``n/a`` if it is not known."""
    write = unit.change if sign else unit.text
    if not math.isfinite(each.value):
        return MISSING
    ends = between(each.low, each.high, write)
    return write(each.value) if MISSING in ends or each.low == each.high else f"{write(each.value)}\n({ends})"


def remedy_bars(predictions: Sequence[Prediction], metric: Metric, note: str) -> Table:
    """Return remedies as a first screen has them: what remains as a bar, the change of the mean, and the price."""
    unit = unit_of(metric)
    top = max(end for each in predictions for end in each.std if math.isfinite(end))
    rows = []
    for each in predictions:
        words = range_text(each.std, unit)
        value, low, high = (end / top for end in each.std)
        rows.append(
            {
                "remedy": remedy_words(each.remedy).replace(" runs over ", " over "),
                "trainings": str(each.trainings),
                f"remaining std ({unit.short})": Drawn(amount_bar(value, low, high, unit.text(each.std.value)), words),
                f"mean ({unit.short})": unit.change(each.mean_change.value),
            }
        )
    return Table.of(rows, note, kind="bars")


def remedy_table(predictions: Sequence[Prediction], metric: Metric, note: str) -> Table | None:
    """Return remedies with all that is predicted of them; None if there are none."""
    if not predictions:
        return None
    unit = unit_of(metric)
    rows = [
        {
            "remedy": remedy_words(each.remedy, each.also),
            f"remaining std ({unit.short})": range_text(each.std, unit),
            f"mean ({unit.short})": range_text(each.mean_change, unit, sign=True),
            "agree (%)": points(each.consistency.value, 1),
            "fragile (%)": points(each.fragile.value, 1),
            "trainings": str(each.trainings),
            "seconds": plain(each.seconds, 0 if each.seconds >= 10 else 1),
            f"overstated ({unit.short})": unit.change(each.overstatement),
            "basis": each.basis,
        }
        for each in predictions
    ]
    return Table.of(rows, note, texts=frozenset({8})).without_empty([*rows[0]][1:])
