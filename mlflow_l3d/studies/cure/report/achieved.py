"""What trained remedies achieved next to what was predicted, as people read it."""

from __future__ import annotations

import math
from typing import Final

from mlflow_l3d.analysis.intervals import Range
from mlflow_l3d.report.numbers import between, counted, points, unit_of, with_limits
from mlflow_l3d.report.remedies import beginning, labels_note, plain_words, range_text, remedy_words
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.cure.numbers.verified import CureAnswer, Verified

_SHOWN: Final = {"verified": "shown", "open": "not shown", "refuted": "refuted"}


def worse(answer: CureAnswer) -> str:
    """Return what a worse mean is."""
    return "lower" if answer.metric.sign > 0 else "higher"


def percent_text(share: float) -> str:
    """Return a share in %, with as many digits as tell it from 100."""
    digits = next((each for each in range(6) if round(100 * share, each) != 100), 0)
    return points(share, digits)


def achieved(each: Verified, answer: CureAnswer) -> str:
    """Return what a trained remedy shows of the spread and the mean."""
    low = min(answer.metric.sign * end for end in each.mean_change[1:])
    is_limited = answer.mean_kept(each) == "verified" and low <= 0
    limit = f" by more than {unit_of(answer.metric).size(answer.smallest_effect)}" * is_limited
    ratio = f"{percent_text(each.ratio.value)} %, {between(*each.ratio[1:], percent_text)}"
    kept = f"Mean not {worse(answer)}{limit}: {_SHOWN[answer.mean_kept(each)]}."
    spread = "; ".join(filter(None, (ratio, each.roughness)))
    return f"Less spread: {_SHOWN[each.less_spread]} ({spread}). {kept}"


def verified_table(each: Verified, answer: CureAnswer) -> Table:
    """Return what was predicted of a verified remedy, and what was achieved."""
    unit, prediction = unit_of(answer.metric), each.prediction
    ratio = with_limits(percent_text(each.ratio.value), between(*each.ratio[1:], percent_text), "({})")
    agree = each.plain_consistency, prediction.consistency.value, each.consistency
    rows = [
        ("std", range_text(each.plain, unit), range_text(prediction.std, unit), range_text(each.cured, unit)),
        ("std (%)", "100", percent_text(prediction.std.value / answer.std), ratio),
        ("change of mean", "", *(range_text(one.mean_change, unit, sign=True) for one in (prediction, each))),
        ("agree (%)", *(points(one, 1) for one in agree)),
    ]
    kept = _SHOWN[answer.mean_kept(each)]
    verdicts = f"less spread {_SHOWN[each.less_spread]}, mean not {worse(answer)} {kept}"
    title = f"{remedy_words(prediction.remedy)}: {verdicts} ({_pairs(each)})"
    return Table((unit.name, "without", "predicted", "achieved"), tuple(rows), title=title)


def _pairs(each: Verified) -> str:
    return counted(each.runs, "pair") + f", {each.failed} failed" * bool(each.failed)


def trained_table(answer: CureAnswer) -> Table:
    """Return what was predicted of each trained remedy next to what was achieved."""
    unit, first = unit_of(answer.metric), answer.verified[0]
    scale = first.plain.value / answer.std
    scaled = [Range(*(scale * end for end in each.prediction.std)) for each in answer.verified]
    rows = [
        {
            "remedy": plain_words(each.prediction.remedy, 1),
            "std (predicted)": f"{unit.text(each.cured.value)} ({range_text(std, unit).splitlines()[0]})",
            "mean (predicted)": f"{unit.change(each.mean_change.value)} "
            f"({range_text(each.prediction.mean_change, unit, sign=True).splitlines()[0]})",
            "golden runs": _pairs(each),
        }
        for each, std in zip(answer.verified, scaled, strict=True)
    ]
    runs = f"in these {first.runs} golden runs, which predictions are scaled to"
    note = f"Without a remedy {unit.typical(first.plain.value)} {runs}. A pair: golden runs without and with it."
    note += labels_note([each.prediction.remedy for each in answer.verified])
    return Table.of(rows, " ".join([note, *map(_surprise, answer.verified)]))


def _surprise(each: Verified) -> str:
    """Return whether what was achieved is as far from what was predicted as luck explains; empty if unknown."""
    over = each.over_predicted
    if not math.isfinite(over.high):
        return ""
    far = "luck alone rarely explains that: predict it again from more runs"
    held = "luck alone may explain that" if over.low <= 1 <= over.high else far
    times = f"{over.value:.2f} times ({between(*over[1:], '{:.2f}'.format)}) the predicted one"
    return f"{beginning(each.prediction.remedy, 1)}: the std that it leaves is {times}; {held}."


def verified_note(answer: CureAnswer) -> str | None:
    """Return how the tables of verified remedies are read; None if there are none."""
    if not answer.verified:
        return None
    limit = unit_of(answer.metric).size(answer.smallest_effect)
    return (
        "Golden runs with and without the remedy have the same configurations and test examples. Interval of the std "
        f"in %: jackknife over pairs. Less spread: it lies below 100 %. Mean not {worse(answer)}: by less than "
        f"{limit}. Not shown: the interval holds both. Level each interval: {100 * answer.level:.3g} %, so that of all "
        "trained remedies together it is 95 %. Times the predicted one: of the std in %, with the errors of both."
    )
