"""What remedies would do without training: ensembles of stored runs, the best of several, means, fixed factors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mlflow_l3d.analysis.cure import ENSEMBLES, UNKNOWN, Kind, Prediction, Range, Remedy
from mlflow_l3d.analysis.cure.ensembles import Members, can_combine, disagreement
from mlflow_l3d.analysis.cure.series import FURTHEST, Series
from mlflow_l3d.analysis.cure.spread import MEAN, Table
from mlflow_l3d.analysis.importance.shape import MANY, guessing_runs
from mlflow_l3d.analysis.intervals import FloatArray, wilson_interval
from mlflow_l3d.metrics.base import Metric

MOST_MEMBERS: Final = 10
_NO_SCORES: Final[FloatArray] = np.zeros(0)
_FEWEST_RUNS: Final = 10
_FEWEST_EXAMPLES: Final = 30
"""Golden runs, and examples that they share, of which something is predicted."""
_MOST_DISAGREEMENT: Final = 0.01
"""Share of predictions that may miss the class of the highest score, as rounded scores do."""
_SIZES: Final[dict[Kind, tuple[int, ...]]] = {
    "vote": (3, 5, 7, 9),
    "mean": (2, 3, 4, 5, 7, 10),
    "choose": (2, 3, 4, 5, 7, 10),
}
"""Members of which something is predicted. Of an even number that vote, ties leave the choice to the first ones."""


def predict(
    rows: Sequence[Members],
    *,
    over: Sequence[str],
    metric: Metric,
    classes: int | None,
    test_size: int = 0,
    golden_std: Range = UNKNOWN,
    golden: FloatArray = _NO_SCORES,
    most_members: int = MOST_MEMBERS,
) -> list[Prediction]:
    """Return what each ensemble of up to `most_members` runs, and the best of them by validation score, would do.

    Parameters
    ----------
    rows
        Rows of a table: the runs of a row differ in `over` alone.
    over
        The factors that differ within a row.
    metric, classes
        What is scored, and how many classes are distinguished.
    test_size
        Test examples that runs of different rows draw, whose luck no remedy cures; 0 if all runs share them.
    golden_std
        The spread that is reported (ddof=1), with its interval: the remaining one is this times the ratio that the
        table shows. Unknown: the table alone gives it.
    golden
        Scores of golden runs. If more of them collapse than of the table, of which no row or column does, nothing is
        predicted: the table does not show what a collapsed member does.
    most_members
        The largest ensemble.

    Returns
    -------
    list of Prediction
        First one run, as it is (``report_mean`` of 1): consistency and fragile examples before a remedy. Then at least
        one for each kind; if nothing can be predicted, one with a reason.
    """
    table = Table.of(rows, metric, classes, test_size)
    lost = len(rows) - len(table.rows)
    reason = f"{lost} of {len(rows)} rows lack runs and are left out" if lost else ""
    why, chance = "", metric.chance_level(classes)
    if len(table.rows) < 2 or table.size < 2:
        missing = f", since {lost} of {len(rows)} rows lack runs" if lost else ""
        why = f"{len(table.rows)} rows of {table.size} runs that share their examples{missing}: 2 of 2 are needed"
    elif chance is not None and (count := guessing_runs(golden, chance)):
        low, runs = table.scores <= chance, int(np.isfinite(golden).sum())
        collapsed = f"{count} of {runs} golden runs collapsed"
        rows_down, columns_down = (int((low.mean(axis=axis) > MANY).sum()) for axis in (1, 0))
        if not (rows_down or columns_down) and low.mean() < wilson_interval(count, runs)[0]:
            fix = "design=nested" if table.crossed else "more mitigation_runs"
            why = f"{collapsed}, and almost none of these: use {fix}"
        reason += ("; " if reason else "") + f"{collapsed}: intervals may be too short"
        table = replace(table, collapsed=(rows_down or len(low), columns_down or table.size))
    return list(_predictions(table, over, golden_std, most_members, why, reason))


def predict_all(
    members: Members,
    *,
    over: Sequence[str],
    metric: Metric,
    classes: int | None,
    test_size: int,
    test_is_drawn: bool = True,
    golden_std: Range = UNKNOWN,
    most_members: int = MOST_MEMBERS,
) -> list[Prediction]:
    """Return what ensembles over all factors would do, from independent runs on one reference set.

    Parameters
    ----------
    members
        Golden runs and their predictions for examples on which none of them trained.
    over
        All factors that differ between the runs.
    test_size
        Examples that the score of one result is computed from.
    test_is_drawn
        Whether each result has test examples of its own, whose luck no ensemble cures; else all results share them.
    metric, classes, golden_std, most_members
        See :func:`predict`.

    Notes
    -----
    Runs x examples, both random. The variance of scores on the given examples has a part that is theirs alone: of a
    pair of results the jackknife over examples estimates it, and the remainder is the variance of true scores. The luck
    of `test_size` examples is added. If all results share their test examples, the variance on these counts as it is.
    """
    runs, examples, why = len(members), len(members.labels), ""
    if runs < _FEWEST_RUNS or examples < _FEWEST_EXAMPLES or test_size < 1:
        why = f"{runs} runs share {examples} examples: at least {_FEWEST_RUNS} and {_FEWEST_EXAMPLES} are needed"
    table = Table([members], metric, classes, test_size=test_size, test_is_drawn=test_is_drawn)
    return list(_predictions(table, over, golden_std, most_members, why, ""))


def report_mean(golden_std: Range, *, over: Sequence[str], most_members: int = MOST_MEMBERS) -> list[Prediction]:
    """Return how much the mean score of 2 to `most_members` runs varies, if all factors are redrawn, `over`."""
    return [
        Prediction(
            remedy=Remedy("report_mean", tuple(over), k),
            basis="exact",
            std=Range(*(end / math.sqrt(k) for end in golden_std)),
            ratio=Range(*[1 / math.sqrt(k)] * 3),
            mean_change=Range(0.0, 0.0, 0.0),
            shares={"+".join(over): 1.0},
            trainings=k,
            std_before=golden_std.value,
        )
        for k in range(2, most_members + 1)
    ]


def fixed(factor: str, golden_std: Range, main_share: Range) -> Prediction:
    """Return what spread would be seen if a factor were fixed at one configuration.

    `main_share` is the share of the variance that the factor causes alone, its first Sobol index: from a crossed table.
    If only its total index is known, give that as the upper end and as the value: then interactions count as its own.
    What is nan stays unknown.
    """
    factors = np.sqrt(1 - np.clip(main_share, 0.0, 1.0)).tolist()
    std = Range(golden_std.value * factors[0], golden_std.low * factors[2], golden_std.high * factors[1])
    no_cure = "hides luck and cures none: whoever draws another configuration gets another score"
    is_known = math.isfinite(std.value)
    return Prediction(
        remedy=Remedy("fix", (factor,)),
        basis="exact" if is_known else "unknown",
        std=std,
        std_before=golden_std.value,
        reason=no_cure if is_known else "its share of the variance is not known",
    )


def pairs(predictions: Sequence[Prediction], *, most_trainings: int = 20) -> list[Prediction]:
    """Return ensembles and, of several results of each, the mean: it varies by the root of their number less."""
    combined = []
    for each in predictions:
        if each.remedy.kind not in ENSEMBLES or not math.isfinite(each.std.value):
            continue
        for results in range(2, most_trainings // each.trainings + 1):
            root = math.sqrt(results)
            combined.append(
                replace(
                    each,
                    also=(Remedy("report_mean", ("all",), results),),
                    std=Range(*(end / root for end in each.std)),
                    ratio=Range(*(end / root for end in each.ratio)),
                    consistency=UNKNOWN,
                    fragile=UNKNOWN,
                    trainings=each.trainings * results,
                    seconds=each.seconds * results,
                    reason="; ".join(filter(None, (each.reason, "a mean of scores predicts no example"))),
                )
            )
    return combined


def _predictions(
    table: Table, over: Sequence[str], golden: Range, most_members: int, why: str, reason: str
) -> Iterator[Prediction]:
    if why:
        yield Prediction(remedy=Remedy("vote", tuple(over), 3), basis="unknown", trainings=3, reason=why)
        return
    single = table.moments("vote" if can_combine("vote", table.rows[0]) else "mean", 1)
    yield Series.of("mean", [single], [1], table).prediction(Remedy("report_mean"), golden, reason)
    for kind, every in _SIZES.items():
        remedy = Remedy(kind, tuple(over), every[0])
        if why := _missing(kind, table, every[0]):
            yield Prediction(remedy=remedy, basis="unknown", trainings=every[0], reason=why)
            continue
        # The best of several has no law by which it could be extrapolated, and neither have runs that collapse.
        has_law = kind != "choose" and math.isinf(table.collapsed[0])
        most = min(most_members, table.most_exact * (FURTHEST if has_law else 1))
        members = [1, *(k for k in every if k <= most)]
        measured = [table.moments(kind, k) for k in members[1:] if k <= table.most_measured]
        series = Series.of(kind, [table.moments(kind, 1) if kind == "choose" else single, *measured], members, table)
        for k in members[1:]:
            if math.isfinite(series.parts[0][members.index(k), MEAN]):
                yield series.prediction(replace(remedy, members=k), golden, reason)


def _missing(kind: Kind, table: Table, fewest: int) -> str:
    """Return what the rows lack for a kind of remedy; empty if nothing."""
    rows = table.rows
    validation = [row.validation for row in rows]
    if kind == "choose" and any(each is None or not np.isfinite(each).all() for each in validation):
        return "no validation scores of the runs are known"
    if kind == "vote" and not can_combine("vote", rows[0]):
        return "numbers have no majority: see mean"
    if kind == "mean" and not all(can_combine("mean", row) for row in rows):
        is_class = rows[0].predictions.dtype.kind in "iu"
        return f"{'no class scores of the runs are known' if is_class else 'texts have no mean'}: see vote"
    if table.most_exact >= fewest:
        others = max(map(disagreement, rows)) if kind == "mean" else 0.0
        what = f"{100 * others:.0f} % of the predictions are not the class with the highest score: see vote"
        return what if others > _MOST_DISAGREEMENT else ""
    if table.test_size:
        return f"{table.size} independent runs are too few: {table.needed(fewest)} are needed"
    if table.crossed:
        return f"unknown, as they need investigation_runs={table.needed(fewest)}"
    return f"runs that differ in nothing else come in groups of {table.size}, and {fewest} are needed"
