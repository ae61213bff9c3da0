"""Remedies against luck as reports write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from mlflow_l3d.analysis.cure import MEASURED, SEVERAL, Prediction, Range, Remedy
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.draw import Axis, share_bar, svg, text
from mlflow_l3d.report.numbers import (
    MISSING,
    Unit,
    between,
    counted,
    listed,
    plain,
    points,
    unit_of,
    value_text,
    with_limits,
)
from mlflow_l3d.report.page import Drawing
from mlflow_l3d.report.plots import scatter
from mlflow_l3d.report.table import Drawn, Table

_MOST_NAMES: Final = 2
_PLAIN: Final = {
    "vote of ": "a vote of ",
    "mean of class scores of ": "averaging the class scores of ",
    "mean prediction of ": "averaging the predictions of ",
    "best of ": "taking the best of ",
    " runs over ": " runs differing in ",
}
"""Part of a remedy's name -> what it means."""


def factor_words(joined: str, most: int = _MOST_NAMES) -> str:
    """Return factors that are joined by a plus as people read them: of more than `most` only how many."""
    names = joined.split("+")
    return f"{len(names)} factors" if len(names) > most else listed(names)


def remedy_over(remedy: Remedy, most: int = _MOST_NAMES) -> str:
    """Return the factors in which the members of a remedy differ."""
    return factor_words("+".join(remedy.over), most) or "all factors"


def remedy_words(remedy: Remedy, also: Sequence[Remedy] = (), most: int = _MOST_NAMES) -> str:
    """Return what a remedy does, and those that are applied to its results, in a few words; at most so many factors."""
    runs = f"{counted(remedy.members, 'run')} over {remedy_over(remedy, most)}"
    words = {
        "vote": f"vote of {runs}",
        "mean": f"mean of class scores of {runs}",
        "choose": f"best of {runs}",
        "report_mean": f"reporting the mean of {counted(remedy.members, 'run')}",
        "active": "active selection",
        "fix": f"fixing {remedy_over(remedy)}, which hides luck",
        "fixed_examples": "one chosen set of training examples",
    }.get(remedy.kind, "")
    changes = [f"{name}={value_text(value)}" for name, value in remedy.changes.items()]
    return ", ".join(filter(None, [*([remedy.words] if remedy.words else [words, *changes]), *map(remedy_words, also)]))


def labels_note(remedies: Sequence[Remedy]) -> str:
    """Return which remedies need more labels, after a space; empty if none does."""
    over = dict.fromkeys(remedy_over(each, 1) for each in remedies if each.kind in SEVERAL and each.needs_labels)
    if not over:
        return ""
    return f" Runs differing in {listed([*over], 'or')} need different labels: k runs up to k times as many."


def plain_words(remedy: Remedy, most: int = _MOST_NAMES) -> str:
    """Return what a remedy does in plain words, as the subject of a sentence: its name is a value of `--remedy`."""
    words = remedy_words(remedy, most=most)
    for name, plainly in _PLAIN.items():
        words = words.replace(name, plainly)
    return words


def beginning(remedy: Remedy, most: int = _MOST_NAMES) -> str:
    """Return what a remedy does at the beginning of a sentence."""
    words = plain_words(remedy, most)
    return words[:1].upper() + words[1:]


def range_text(each: Range, unit: Unit, *, sign: bool = False, digits: int = 2) -> str:
    """Return a number of scores with its interval below it, or that it has none; the ends alone, or ``n/a``."""
    write = partial(unit.change if sign else unit.text, digits=digits)
    if not math.isfinite(each.value):
        return between(each.low, each.high, write)
    if each.low == each.high:
        return write(each.value)
    ends = between(each.low, each.high, write)
    return f"{write(each.value)}\n({'no interval' if MISSING in ends else ends})"


def less_text(each: Prediction, unit: Unit) -> str:
    """Return how much luck a remedy leaves, or may leave if less luck is undecided, and what its mean does."""
    before = f"{unit.typical(each.std_before)}{unit.behind}"
    digits = unit.digits(each.std_before)
    ratio = between(each.ratio.low, each.ratio.high, partial(points, digits=0), "{} to {} %")
    mean = f"mean {range_text(each.mean_change, unit, sign=True, digits=digits)}".replace("\n", " ")
    verb = "leaves" if each.ratio.high < 1 else "may leave"
    left = "less luck" if ratio == MISSING else f"{unit.typical(each.std.value)} of {before} ({ratio})"
    return f"{verb} {left}; {mean}"


def remedy_bars(predictions: Sequence[Prediction], metric: Metric, notes: Sequence[str] = ()) -> Table:
    """Return remedies as a first screen has them: what remains with its interval, the change of the mean, the price.

    Bars reach to twice what remains without a remedy, so that no long interval makes the others small.
    """
    unit, std = unit_of(metric), predictions[0].std_before
    digits, rows, is_cut = unit.digits(std), [], False
    axis = Drawn(svg(15, "from 0 to twice the present spread", text(0, 12, "0"), text(50, 12, "now")))
    for each in predictions:
        said = f"± {range_text(each.std, unit, digits=digits)}"
        ratio = Range(*(end / std for end in each.std))
        if math.isfinite(each.ratio.high):  # without the error of the present spread, which the remedy does not change
            said, ratio = f"± {unit.text(each.std.value, digits)}", each.ratio
            limits = between(ratio.low, ratio.high, partial(points, digits=0), "({} to {} %)")
            said = with_limits(said, limits if ratio.low < ratio.high else "").rstrip()
        share, low, high = (end / 2 for end in ratio)
        is_cut |= high > 1
        rows.append(
            {
                "remedy": plain_words(each.remedy, 1),
                f"remaining std ({unit.short})": said,
                axis: Drawn(share_bar(share, low, high, said.replace("\n", " "))),
                f"mean ({unit.short})": range_text(each.mean_change, unit, sign=True, digits=digits),
                "runs": str(each.trainings),
            }
        )
    others = any(math.isnan(each.ratio.high) and math.isfinite(each.std.high) for each in predictions)
    bracketed = "% of it, or the interval" if others else "% of it"
    note = f"Predicted from stored runs. Now {unit.typical(std)}; in brackets: {bracketed}."
    ranges = [each for prediction in predictions for each in (prediction.std, prediction.mean_change)]
    if any(0 < abs(each.value) < math.inf and math.isnan(each.low) for each in ranges):
        note += " No interval: if one of two is left out, none remains to compare it with. Use mitigation_runs=3"
        note += " (crossed: investigation_runs=3, too) and golden_runs=5, or more."
    note = " ".join([note + labels_note([each.remedy for each in predictions]), *notes])
    legend = "Dashed line: without a remedy." + (" Arrow: the interval is longer." if is_cut else "")
    return Table.of(rows, note, legend=legend, kind="bars", texts=frozenset({1}), kinds=("remedy",) * len(rows))


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
            "basis": each.basis
            + (
                f"\n({each.reason})"
                if each.reason and (each.basis == "unknown" or each.remedy.kind in MEASURED)
                else ""
            ),
        }
        for each in predictions
    ]
    note += labels_note([each.remedy for each in predictions])
    return Table.of(rows, note, texts=frozenset({8})).without_empty([*rows[0]][1:])


def remedy_front(predictions: Sequence[Prediction], std: float, metric: Metric) -> Drawing | None:
    """Return every remedy as a dot, over its trainings, and the line of those that no cheaper one beats.

    `std` remains without one. None if nothing is known of any.
    """
    remedies = [each for each in predictions if math.isfinite(each.std.value) and each.remedy.kind != "fix"]
    if not remedies:
        return None
    unit = unit_of(metric)
    remedies = sorted(remedies, key=lambda each: (each.trainings, -each.std.value))
    most = max(2, remedies[-1].trainings)
    stds = unit.scale * np.array([std, *(each.std.value for each in remedies)])
    names = ["without a remedy", *(remedy_words(each.remedy, each.also) for each in remedies)]
    html = scatter(
        np.array([0.0, *(math.log(each.trainings, most) for each in remedies)]),
        stds,
        Axis.over(stds),
        [(math.log(count, most), str(count)) for count in (1, 2, 3, 5, 10, 20, 50, 100) if count <= most],
        f"Remaining standard deviation of {len(remedies)} remedies over their trainings",
        names=[f"{name}: ± {unit.written(float(std))}" for name, std in zip(names, stds, strict=True)],
        line=np.minimum.accumulate(stds),
        hollow=[at for at, each in enumerate(remedies, 1) if each.also or each.remedy.kind == "report_mean"],
    )
    caption = (
        f"A dot: one remedy; hollow: the mean of several results. Up: remaining std ({unit.short}). Right: trainings "
        "behind one result. Line: the least that remains for the price."
    )
    return Drawing(html, caption)
