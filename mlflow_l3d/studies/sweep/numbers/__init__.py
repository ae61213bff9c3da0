"""What the points of a sweep say together, and all of them as one table in long form: one row per point and factor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

import pandas as pd

from mlflow_l3d.analysis.importance.multiplicity import holm
from mlflow_l3d.analysis.intervals import LEVEL, known, with_interval
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.sweep.numbers.interactions import Interaction, interaction
from mlflow_l3d.studies.sweep.numbers.point import (
    GOLDEN_STD,
    TASK,
    Choice,
    Choices,
    LeftOut,
    SweptPoint,
    blocks_of,
    choices_of,
    clusters_of,
    follows_from,
    golden_stds,
    groups,
    importances,
    is_numeric,
    value_of,
    value_text,
)
from mlflow_l3d.studies.sweep.numbers.trends import Trend, trend

IMPORTANCE: Final = (
    *with_interval("importance"),
    *with_interval("importance_corrected"),
    *("moves_by_std", "unevenness", "contributed_std", "mitigated_std"),
    *with_interval("golden_std"),
    *("score_mean", "score_std", "collapsed_share"),
    *("consistency", "correct_consistency", "prediction_importance"),
)
"""Metrics of a factor that the table has, in its order; as in docs/evidence/simulations.md."""
OF_CHOICE: Final = "choice."
"""What stands before the name of a choice in the table, as in the parameters of a parent."""


def long_table(points: Sequence[SweptPoint]) -> pd.DataFrame:
    """Return one row per point and factor, in the order of points; a point without an analysis has one row.

    Parameters
    ----------
    points
        At least one.

    Returns
    -------
    pandas.DataFrame
        ``point`` (number from 0), ``run_id``, ``task``, one column ``choice.<name>`` for each choice in which points
        differ, ``metric``, ``design``, ``factor`` (the empty text where the point has none), the numbers of
        :data:`IMPORTANCE` (fractions; nan if there is none), ``level``, ``cells_missing``, ``cells_failed`` (of the
        whole point), ``error``.
    """
    choices = {name: values for name, values in choices_of(points).items() if name != TASK}
    rows: list[dict[str, Any]] = []
    for at, point in enumerate(points):
        place = {"point": at, "run_id": point.run_id, "task": point.task}
        for name, values in choices.items():
            value = value_of(point, name)
            # A column has one type: numbers among texts become texts.
            place[OF_CHOICE + name] = value if value is None or is_numeric(values) else value_text(value)
        rows += [{**place, **each, "error": point.error} for each in _of_factors(point.analysis)]
    numbers = (*IMPORTANCE, "level", "cells_missing", "cells_failed")
    chosen = map(OF_CHOICE.__add__, choices)
    columns = ["point", "run_id", "task", *chosen, "metric", "design", "factor", *numbers, "error"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(numbers, "float64"))


def _of_factors(analysis: Analysis | None) -> list[dict[str, Any]]:
    """Return one row per factor; one without numbers if there is none."""
    if analysis is None:
        return [{"metric": "", "design": "", "factor": ""}]
    whole = {"metric": analysis.metric.name, "design": analysis.design, "cells_failed": analysis.cells_failed}
    rows = []
    for factor, record in analysis.importances.items():
        counts = {"level": record.level, "cells_missing": record.cells_missing}
        rows.append({**whole, "factor": factor, **counts, **analysis.numbers(factor)})
    return rows or [{**whole, "factor": ""}]


_NAMES: Final = ("root_seed", "investigation_runs", "mitigation_runs", "golden_runs")
"""Choices whose numbers are names, or sizes of the table and not of the system: there is no trend over them."""
_OF_TEST: Final = ("statistic", "numerator", "denominator", "p", "spread", "spread_low", "spread_high", "points")


@dataclass(frozen=True)
class Sweep:
    """Several investigations side by side.

    Attributes
    ----------
    points
        The investigations, in their order.
    choices
        Systematic choice -> its values, of those in which points differ.
    follows
        Choice -> another from which it follows. It is not tested by itself, and is one of `choices` only where it is a
        number of the system.
    factors
        Investigated factors, in the order in which they first occur.
    rows
        One row per point and factor; see :func:`mlflow_l3d.studies.sweep.numbers.long_table`.
    without_effect
        Choices under all of whose values the scores are the same: nothing is tested over them.
    trends
        One for each numeric choice and factor, and for the golden standard deviation, where points allow it.
    interactions
        One for each choice and factor, and for the golden standard deviation, likewise.
    level
        Confidence level of all intervals; a claim holds with an adjusted p-value of at most ``1 - level``.
    """

    points: tuple[SweptPoint, ...]
    choices: Mapping[str, tuple[Choice, ...]]
    factors: tuple[str, ...]
    rows: pd.DataFrame
    follows: Mapping[str, str] = field(default_factory=dict)
    without_effect: tuple[str, ...] = ()
    trends: tuple[Trend, ...] = ()
    interactions: tuple[Interaction, ...] = ()
    level: float = LEVEL

    @property
    def failed(self) -> tuple[SweptPoint, ...]:
        """The points without a score."""
        return tuple(point for point in self.points if not point.complete)

    def metrics(self) -> dict[str, float]:
        """Return the single numbers by name, those of a choice and factor as ``<name>/<choice>/<factor>``."""
        metrics = {
            "points": float(len(self.points)),
            "points_without_score": float(len(self.failed)),
            "cells_failed": float(self.rows.drop_duplicates("point")["cells_failed"].sum()),
        }
        for one in self.trends:
            names = (*with_interval("trend"), "trend_p_holm")
            numbers = dict(zip(names, (one.slope, one.low, one.high, one.p_holm), strict=True))
            metrics |= {f"{name}/{one.choice}/{one.of}": value for name, value in numbers.items()}
        for each in self.interactions:
            numbers = {"interaction_std": each.test.spread, "interaction_p_holm": each.p_holm}
            metrics |= {f"{name}/{each.choice}/{each.of}": value for name, value in numbers.items()}
        return known(metrics)

    def interactions_frame(self) -> pd.DataFrame:
        """Return one row a choice, factor and level: mean, error, and the test of the choice."""
        return pd.DataFrame(
            {
                "choice": one.choice,
                "of": one.of,
                "value": value_text(value),
                "mean": float(mean),
                "error": float(error),
                **{name: getattr(one.test, name) for name in _OF_TEST},
                "p_holm": one.p_holm,
            }
            for one in self.interactions
            for value, mean, error in zip(one.values, one.test.means, one.test.errors, strict=True)
        )


def analyse_sweep(
    points: Sequence[SweptPoint], left_out: Mapping[tuple[int, str], LeftOut] = MappingProxyType({})
) -> Sweep:
    """Return what several investigations say together.

    Parameters
    ----------
    points
        At least one.
    left_out
        (number of the point, factor) -> corrected importance without each row, and without each column
        (:func:`mlflow_l3d.studies.sweep.numbers.point.without_each`). Points of one task and root seed have the same
        configurations; with this, what they share cancels in differences.

    Raises
    ------
    ParameterError
        If there is none.
    """
    if not points:
        raise ParameterError("points", "(none)", "must be at least one investigation")
    rows, every = long_table(points), choices_of(points)
    follows = following(points, every)
    choices = {
        name: values
        for name, values in every.items()
        if name not in follows or (name not in _NAMES and is_numeric(values))
    }
    without_effect = tuple(name for name in choices if changes_nothing(points, choices, name))
    tested = {name: values for name, values in choices.items() if name not in without_effect}
    factors = tuple(str(name) for name in rows["factor"].unique() if name)
    clusters = clusters_of(points, every)
    measured = {factor: importances(points, clusters, factor, left_out) for factor in factors}
    if len({point.analysis.metric for point in points if point.analysis is not None}) == 1:
        of_all_designs = {name: values for name, values in every.items() if name != "design"}
        measured[GOLDEN_STD] = golden_stds(points, clusters_of(points, of_all_designs))
    tests: list[Trend | Interaction | None] = []
    for choice, values in tested.items():
        for of, each in measured.items():
            if choice not in _NAMES and is_numeric(values):
                tests.append(trend(points, choices, choice, of, each))
            if choice not in follows:
                tests.append(interaction(points, choices, choice, of, each))
    possible = [test for test in tests if test is not None]
    adjusted = holm([test.p_holm for test in possible]).tolist()
    possible = [replace(test, p_holm=p) for test, p in zip(possible, adjusted, strict=True)]
    trends = tuple(test for test in possible if isinstance(test, Trend))
    interactions = tuple(test for test in possible if isinstance(test, Interaction))
    return Sweep(tuple(points), choices, factors, rows, follows, without_effect, trends, interactions)


def following(points: Sequence[SweptPoint], choices: Choices) -> dict[str, str]:
    """Return choice -> another from which it follows, as hyperparameters that are set for some tasks do from the task.

    Of two that follow from each other the later one does. The task follows from nothing, and from what has another
    value at every point nothing does, the task excepted.
    """
    followed: dict[str, str] = {}
    for at, name in enumerate(choices):
        for place, other in enumerate(choices):
            if name in (other, TASK) or (other != TASK and len(choices[other]) >= len(points)):
                continue
            if follows_from(points, name, other) and (place < at or not follows_from(points, other, name)):
                followed.setdefault(name, other)
    return followed


def changes_nothing(points: Sequence[SweptPoint], choices: Choices, choice: str) -> bool:
    """Return whether points that are alike in all other choices have the same scores under all values of this one."""
    scored = [point for point in points if point.complete]
    blocks = [block for block in groups(blocks_of(scored, choices, choice)) if len(block) > 1]
    return bool(blocks) and all(len({_scores(scored[at]) for at in block}) == 1 for block in blocks)


def _scores(point: SweptPoint) -> bytes:
    assert point.analysis is not None
    records = point.analysis.importances.items()
    return b"".join(name.encode() + each.table.tobytes() + each.golden.tobytes() for name, each in records)


def without_votes(analysis: Analysis) -> Analysis:
    """Return an analysis without the votes on single examples, which a sweep of many points has no use for."""
    votes = analysis.examples
    return replace(analysis, examples=votes and replace(votes, frame=votes.frame.head(0)))
