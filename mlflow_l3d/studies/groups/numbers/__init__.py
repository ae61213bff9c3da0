"""Which runs form a group, and what groups say: pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison import FEWEST
from mlflow_l3d.analysis.comparison.difference import Spread, interval, p_value, runs_to_settle, spread
from mlflow_l3d.analysis.comparison.results import BETTER, UNDECIDED
from mlflow_l3d.analysis.comparison.system import System, mean_scores
from mlflow_l3d.analysis.importance.multiplicity import holm
from mlflow_l3d.analysis.importance.shape import single_run_limit
from mlflow_l3d.analysis.importance.tables import known_std
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, known, with_interval
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.groups.numbers.grouping import Grouping, short_names
from mlflow_l3d.studies.groups.numbers.settings import (
    JOINED,
    SettingsStudy,
    averaged,
    hidden_settings,
    seed_axes,
    settings_study,
    systems,
    varying_settings,
)
from mlflow_l3d.studies.seeds.numbers.spread import metric_spread

MOST_GROUPS: Final = 30
"""Of more groups each is compared with the best one alone."""


@dataclass(frozen=True, slots=True)
class GroupsStudy:
    """Groups of runs that differ by seeds alone. Numbers are in the unit of the metric.

    Attributes
    ----------
    metric
        The score.
    runs
        One row per run: ``run_id``, ``group`` (its name), ``seeds``, ``score`` and ``repeated`` (its group has an
        earlier run with the same seeds).
    groups
        One row per group, best mean first: ``group``, ``runs``, ``independent`` (seeds, of which the one with fewest
        values counts: runs that share it are averaged), ``mean`` and ``std`` with their 95 % intervals (nan if seeds
        are crossed; of std if runs are averaged), ``lowest``, ``highest``, ``luck`` (two of its runs lie further apart
        one time in twenty), ``verdict`` (of the best against it) and ``runs_needed`` (that settle this with 80 % if the
        difference is the one found). :func:`mlflow_l3d.studies.groups.run.with_agreement` adds columns.
    pairs
        One row per pair of groups with three independent runs or more, the better mean first: ``difference`` with its
        interval, ``p`` and ``p_holm`` (for all pairs), ``shared`` (seeds that both have, which are paired),
        ``verdict``. Empty if `hidden` parameters move the score.
    settings
        What each recorded parameter explains. One that alone forms the groups has the smallest ``p_holm`` of `pairs`.
    std, luck
        Standard deviation within groups, and how large a difference of two runs may be by luck; nan if the groups'
        variances differ significantly, or no group has two runs.
    seeds, fixed_seeds, ignored, left_out
        As in :class:`~mlflow_l3d.studies.groups.numbers.grouping.Grouping`; settings with too many values to study.
    averaged, suspects
        Seeds whose runs are averaged in each group, several are crossed; those with few values that move the score.
    hidden, along
        Ignored parameters that move the score within groups, and those that differ between groups only.
    """

    metric: Metric
    runs: pd.DataFrame
    groups: pd.DataFrame
    pairs: pd.DataFrame
    settings: SettingsStudy
    std: float
    luck: float
    seeds: tuple[str, ...]
    fixed_seeds: tuple[str, ...]
    ignored: tuple[str, ...]
    left_out: tuple[str, ...]
    averaged: tuple[str, ...]
    suspects: tuple[str, ...]
    hidden: tuple[str, ...]
    along: tuple[str, ...]

    @property
    def tied(self) -> set[str]:
        """Names of the groups with the mean of the best one."""
        is_tie = self.pairs["first"].eq(self.pairs["first"].head(1).sum()) & self.pairs["difference"].abs().lt(1e-12)
        return {*self.pairs["second"][is_tie]}

    @property
    def several(self) -> pd.DataFrame:
        """The groups with two runs or more."""
        return self.groups[self.groups["runs"] > 1]

    def metrics(self) -> dict[str, float]:
        """Return the single numbers by name."""
        counts = {"runs": len(self.runs), "groups": len(self.groups), "pairs": len(self.pairs)}
        counts |= {"pairs_different": int(self.pairs["verdict"].eq(BETTER).sum())}
        return known({"group_std": self.std, "group_luck": self.luck, **counts, **self.settings.metrics()})


def groups_study(run_ids: pd.Series, scores: FloatArray, grouping: Grouping, metric: Metric) -> GroupsStudy:
    """Return what groups of runs say.

    Parameters
    ----------
    run_ids, scores
        Shape (n,): of each run; scores are finite.
    grouping
        The groups of the same runs.
    metric
        The score.
    """
    group, numbers = pd.Series(grouping.group), range(len(scores))
    seeds = grouping.known_seeds
    runs = pd.DataFrame({"run_id": run_ids, "group": group.map(dict(enumerate(grouping.names))), "score": scores})
    runs["repeated"] = pd.concat([group, seeds], axis=1).duplicated() & bool(len(seeds.columns))
    runs["seeds"] = [", ".join(row) for row in grouping.seed_values.to_numpy()]
    axes = seed_axes(group, seeds)
    units = [averaged(runs, seeds, axis) for axis in axes or [[]]]
    is_averaged = any(len(each) < len(runs) for each in units)
    of_axes = [systems(each, seeds, axis) for each, axis in zip(units, axes or [[]], strict=True)]
    groups = [[each[name] for each in of_axes] for name in of_axes[0]]
    groups.sort(key=lambda each: -metric.sign * float(each[0].scores.mean()))
    scored = dict([*runs.groupby("group")["score"]])
    frame = _groups(groups, scored, dict([*units[0].groupby("group")]), metric)
    hidden, along = hidden_settings(runs, seeds, grouping.ignored.set_axis(numbers))
    pairs = _pairs([] if hidden else [each for each in groups if min(one.runs for one in each) >= FEWEST])
    std, luck = _pooled(frame[frame["independent"] > 1], scored, metric.span)
    # A seed with so few values that moves the score may be a setting.
    few = [axis for axis in axes if is_averaged and seeds[axis[0]].nunique() <= 4]
    suspects = [hidden_settings(runs, seeds.drop(columns=axis), seeds[axis[:1]])[0] for axis in few]
    recorded = pd.concat([grouping.settings.set_axis(numbers), seeds], axis=1).loc[units[0].index]
    if hidden or len(axes) > 1 or not frame["std"].gt(0).any():
        recorded = recorded.iloc[:, :0]  # others move the score, crossed seeds are luck in common, equal runs show none
    short = short_names(map(str, recorded))
    studied, left_out = _studied(recorded.rename(columns=short))
    settings = settings_study(units[0]["score"], studied, units[0]["group"])
    forming = [name.split(JOINED)[0] for name in varying_settings(grouping.settings)[0]]
    if len(pairs) and len(forming) == 1 and short:
        is_it = settings.frame["setting"].str.split(JOINED).str[0].eq(short[forming[0]])
        settings.frame.loc[is_it, ["p", "p_holm"]] = pairs["p_holm"].min()
    return GroupsStudy(
        metric=metric,
        runs=runs,
        groups=_against_best(frame, pairs),
        pairs=pairs,
        settings=settings,
        std=std,
        luck=luck,
        seeds=grouping.seeds,
        fixed_seeds=grouping.fixed_seeds,
        ignored=tuple(map(str, grouping.ignored)),
        left_out=left_out,
        averaged=tuple(axis[0] for axis in axes) if is_averaged else (),
        suspects=tuple(chain.from_iterable(suspects)),
        hidden=hidden,
        along=along,
    )


def _pairs(groups: Sequence[Sequence[System]]) -> pd.DataFrame:
    """Return the differences of groups, best mean first; of many groups those with the best one."""
    pairs = [*combinations(groups, 2)] if len(groups) <= MOST_GROUPS else [(groups[0], each) for each in groups[1:]]
    every = len(groups) * (len(groups) - 1) // 2
    rows = []
    for one, other in pairs:
        of_axes = [mean_scores(each) for each in zip(one, other, strict=True)]
        spreads = [_careful(spread(means, 0, 1), *means.systems) for means in of_axes]
        # Of crossed seeds each brings what its own averages vary by, on the fewest degrees of freedom.
        fewest = min(each.degrees_runs for each in spreads)
        variance = replace(spreads[0], of_runs=sum(each.of_runs for each in spreads), degrees_runs=fewest)
        difference = float(of_axes[0].means[0] - of_axes[0].means[1])
        limits, p = interval(difference, variance), p_value(difference, variance)
        shared, needed = len(of_axes[0].pairings[0, 1].first), math.nan
        if len(spreads) == 1:
            if shared < max(one[0].runs, other[0].runs):  # what pairing saves is not known well enough
                a_run = sum(each.scores.var(ddof=1) for each in (one[0], other[0]))
                variance = replace(variance, a_run=max(variance.a_run, a_run))
            needed = runs_to_settle(difference, variance, math.nan, 1 - (1 - LEVEL) / every)
        rows.append((one[0].name, other[0].name, one[0].runs, other[0].runs, shared, difference, *limits, p, needed))
    columns = ["first", "second", "runs_first", "runs_second", "shared", *with_interval("difference")]
    frame = pd.DataFrame(rows, columns=[*columns, "p", "runs_needed"]).fillna({"p": 1.0})  # of unknown variance
    # Pairs that are not compared count as compared without a finding.
    adjusted = holm([*frame["p"], *[1.0] * (every - len(frame))])[: len(frame)]
    is_found = adjusted <= 1 - LEVEL
    needed_runs = frame["runs_needed"].where(~is_found)
    return frame.assign(p_holm=adjusted, verdict=np.where(is_found, BETTER, UNDECIDED), runs_needed=needed_runs)


def _careful(variance: Spread, one: System, other: System) -> Spread:
    """Return the variance of a difference with the degrees of freedom of the smaller group if it is much smaller.

    Equal scores look like copies of one run, which varies as a run of the other group does: unknown if these are, too.

    Welch's are too many if three runs that happen to be alike meet thirty: of five groups that do not differ, with 3 to
    30 runs, one in ten simulations found a pair that does (one in six of exponential scores).
    """
    moving = [each for each in (one, other) if known_std(each.scores) > 0]
    if len(moving) < 2:
        a_run, runs = (moving[0].scores.var(ddof=1), moving[0].runs) if moving else (math.inf, 2)
        of_runs = max(variance.of_runs, a_run * (1 + 1 / runs))
        return replace(variance, of_runs=of_runs, a_run=2 * a_run, degrees_runs=runs - 1.0)
    fewer, more = sorted((one.runs, other.runs))
    return replace(variance, degrees_runs=fewer - 1.0) if more > 2 * fewer else variance


def _pooled(groups: pd.DataFrame, scored: Mapping[str, pd.Series], span: float) -> tuple[float, float]:
    """Return standard deviation and luck that groups have in common; nan if they have none, as Bartlett's test says."""
    spreads = groups["std"].to_numpy()
    degrees = groups["independent"].to_numpy() - 1.0
    moving = spreads > 0
    is_still = bool((degrees[~moving] >= FEWEST - 1).any())
    if not moving.any() or is_still or _bartlett(np.square(spreads)[moving], degrees[moving]) <= 0.01:
        return math.nan, math.nan
    std = math.sqrt(float(np.average(np.square(spreads), weights=degrees)))
    parts = [scored[name].to_numpy() for name in groups["group"]]
    rest = [(part - part.mean()) * math.sqrt(1 + 1 / each) for part, each in zip(parts, degrees, strict=True)]
    return std, single_run_limit(np.concatenate(rest), std, degrees.sum(), span=span)


def _bartlett(variances: FloatArray, degrees: FloatArray) -> float:
    """Return the p-value of Bartlett's test of equal variances; 1 for a single one."""
    from scipy.special import chdtrc

    if len(variances) < 2:
        return 1.0
    statistic = degrees.sum() * np.log(np.average(variances, weights=degrees)) - degrees @ np.log(variances)
    correction = 1 + ((1 / degrees).sum() - 1 / degrees.sum()) / (3 * (len(degrees) - 1))
    return float(chdtrc(len(degrees) - 1, statistic / correction))


def _groups(
    groups: Sequence[Sequence[System]],
    scored: Mapping[str, pd.Series],
    averages_of: Mapping[str, pd.DataFrame],
    metric: Metric,
) -> pd.DataFrame:
    """Return one row per group: of crossed seeds only the first has a spread, and none an interval of the mean."""
    rows = []
    for each in groups:
        scores, averages = scored[each[0].name].to_numpy(), each[0].scores
        independent, runs = min(one.runs for one in each), len(scores)
        one = vars(metric_spread(scores, metric))
        of_means = vars(metric_spread(averages, metric))
        row = {"group": each[0].name, "independent": independent, "runs": runs, "mean": of_means["mean"]}
        row |= {end: math.nan if each[1:] else of_means[end] for end in with_interval("mean")[1:]}
        # That of averages, and the part of that of runs with one seed which averages lack.
        units = averages_of[each[0].name]
        squares = float((units["variance"] * (units["size"] - 1)).sum())
        within = squares / max(1, runs - len(units)) * (1 - (1 / units["size"]).mean())
        row["std"] = math.hypot(known_std(averages, ddof=1), math.sqrt(within)) if independent > 1 else math.nan
        row |= {end: math.nan if independent < runs else one[end] for end in with_interval("std")[1:]}
        row |= {"lowest": one["lowest"], "highest": one["highest"], "luck": math.nan}
        if row["std"] > 0:
            row["luck"] = single_run_limit(scores, row["std"], independent - 1, span=metric.span)
        rows.append(row)
    return pd.DataFrame(rows)


def _against_best(groups: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the groups with the verdict of the best against each, and the runs that settle it."""
    few = pd.Series(float(FEWEST), groups.index).where(groups["independent"] < FEWEST)
    if pairs.empty:
        return groups.assign(verdict="", runs_needed=few)
    best = pairs["first"].iloc[0]
    against = pairs[pairs["first"].eq(best)].set_index("second")[["verdict", "runs_needed"]]
    against.loc[best] = ["best", against["runs_needed"].iloc[0]]
    groups = groups.merge(against, left_on="group", right_index=True, how="left").fillna({"verdict": ""})
    return groups.assign(runs_needed=groups["runs_needed"].fillna(few))


def _studied(settings: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the settings that can be studied in a moment, those with fewest values first, and names of the rest."""
    levels = settings.nunique(dropna=False).sort_values(kind="stable")
    total = np.where(levels < len(settings), levels, 0).cumsum()
    fits = np.arange(1, len(levels) + 1) * len(settings) * np.square(total, dtype=np.float64) <= 1e10  # operations
    return settings[levels.index[fits]], tuple(levels.index[~fits])
