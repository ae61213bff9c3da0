"""What groups of runs say: the mean and spread of each, which differ, and what recorded settings explain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.comparison.compare import FEWEST
from mlflow_l3d.analysis.comparison.covariance import mean_scores
from mlflow_l3d.analysis.comparison.difference import Spread, interval, p_value, runs_to_settle, spread
from mlflow_l3d.analysis.comparison.results import BETTER, UNDECIDED
from mlflow_l3d.analysis.comparison.system import System
from mlflow_l3d.analysis.importance.luck import single_run_limit
from mlflow_l3d.analysis.importance.multiplicity import holm
from mlflow_l3d.analysis.importance.tables import known_std
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, known, with_interval
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.groups.numbers.grouping import NO_VALUE, NOT_LOGGED, Grouping, short_name
from mlflow_l3d.studies.seeds.numbers.settings import SettingsStudy, settings_study
from mlflow_l3d.studies.seeds.numbers.spread import metric_spread

MOST_GROUPS: Final = 30
"""Of more groups each is compared with the best one alone."""
_DIFFERENT: Final = 0.01
"""Groups whose variances differ so significantly (Bartlett's test) have no standard deviation in common."""
_FAR: Final = 8.0
"""Robust standard deviations from the median of its group at which a run looks collapsed."""
_WORK: Final = 1e10
"""Operations that the study of settings may take: those with most values are left out beyond it."""
_NUMBERS: Final = ("runs", *with_interval("mean"), *with_interval("std"), "lowest", "highest")
_WHO: Final = ("first", "second", "runs_first", "runs_second", "shared")
_PAIR: Final = [*_WHO, *with_interval("difference"), "p", "runs_needed"]


@dataclass(frozen=True, slots=True)
class GroupsStudy:
    """Groups of runs that differ by seeds alone. Numbers are in the unit of the metric.

    Attributes
    ----------
    metric
        The score.
    runs
        One row per run: ``run_id``, ``group`` (its name), ``seeds``, ``score``, ``repeated`` (its group has a run with
        the same seeds and results: it is left out) and ``far`` (much worse than the rest of its group).
    groups
        One row per group, best mean first: ``group``, ``runs``, ``mean`` and ``std`` with their 95 % intervals,
        ``lowest``, ``highest``, ``luck`` (two of its runs lie further apart one time in twenty), ``verdict`` (of the
        best against it) and ``runs_needed`` (that settle this with 80 % if the difference is the one found).
        :mod:`mlflow_l3d.studies.groups.predictions` adds columns.
    pairs
        One row per pair of groups with three runs or more, the better mean first: ``difference`` with its interval,
        ``p`` and ``p_holm`` (for all pairs), ``shared`` (runs with the same seeds, which are paired), ``verdict``.
    settings
        What each recorded parameter explains.
    std, luck
        Standard deviation within groups, and how large a difference of two runs may be by luck; nan if the groups'
        variances differ significantly, or no group has two runs.
    seeds, fixed_seeds, ignored, left_out
        As in :class:`~mlflow_l3d.studies.groups.numbers.grouping.Grouping`; settings with too many values to study.
    shares_seeds
        Whether runs of one group share a seed and differ: then they are not independent.
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
    shares_seeds: bool

    @property
    def several(self) -> pd.DataFrame:
        """The groups with two runs or more."""
        return self.groups[self.groups["runs"] > 1]

    def metrics(self) -> dict[str, float]:
        """Return the single numbers by name."""
        numbers = {"group_std": self.std, "group_luck": self.luck}
        counts = {"runs": len(self.runs), "groups": len(self.groups), "pairs": len(self.pairs)}
        counts |= {"pairs_different": int(self.pairs["verdict"].eq(BETTER).sum())}
        return known({**numbers, **counts, **self.settings.metrics()})


def groups_study(
    run_ids: pd.Series, scores: FloatArray, grouping: Grouping, metric: Metric, results: pd.DataFrame
) -> GroupsStudy:
    """Return what groups of runs say.

    Parameters
    ----------
    run_ids, scores
        Shape (n,): of each run; scores are finite.
    grouping
        The groups of the same runs.
    metric
        The score.
    results
        One row per run: all its scores. A run with the seeds and results of another in its group is left out.
    """
    group, numbers = pd.Series(grouping.group), range(len(scores))
    seeds = grouping.seed_values.set_axis(numbers)
    seeds = seeds.mask(seeds.isin([NO_VALUE, NOT_LOGGED]))
    same = pd.concat([group, seeds], axis=1)
    repeated = _again(pd.concat([same, results.set_axis(numbers)], axis=1), seeds)
    labels = group.map(dict(enumerate(grouping.names)))
    runs = pd.DataFrame({"run_id": run_ids, "group": labels, "score": scores, "repeated": repeated})
    runs["seeds"] = [", ".join(row) for row in grouping.seed_values.to_numpy()]
    kept = runs[~repeated]
    runs["far"] = _far(kept, metric.sign).reindex(runs.index, fill_value=False)
    varying = [str(name) for name in seeds if seeds[name].groupby(group).nunique().gt(1).any()]
    unknown = pd.Series([f"run {number}" for number in numbers])  # like no other
    configurations = {name: seeds[name].fillna(unknown).to_numpy() for name in varying}
    systems = [
        System(str(name), part.to_numpy(), {seed: each[part.index.to_numpy()] for seed, each in configurations.items()})
        for name, part in kept.groupby("group", sort=False)["score"]
    ]
    systems.sort(key=lambda each: -metric.sign * float(each.scores.mean()))
    pairs = _pairs([each for each in systems if each.runs >= FEWEST])
    std, luck = _pooled([each.scores for each in systems if each.runs > 1])
    recorded = pd.concat([grouping.settings.set_axis(numbers), seeds], axis=1).loc[kept.index]
    studied, left_out = _studied(recorded.rename(columns=short_name))
    return GroupsStudy(
        metric=metric,
        runs=runs,
        groups=_groups(systems, pairs, metric),
        pairs=pairs,
        settings=settings_study(kept["score"], studied),
        std=std,
        luck=luck,
        seeds=grouping.seeds,
        fixed_seeds=grouping.fixed_seeds,
        ignored=grouping.ignored,
        left_out=left_out,
        shares_seeds=any(_again(same.loc[kept.index, [0, name]], seeds[[name]]).any() for name in varying),
    )


def _again(runs: pd.DataFrame, seeds: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which runs are like an earlier one; not if a seed is unknown."""
    is_known = seeds.loc[runs.index].notna().all(axis=1) & bool(len(seeds.columns))
    again: npt.NDArray[np.bool_] = (runs.duplicated() & is_known).to_numpy()
    return again


def _far(runs: pd.DataFrame, sign: float) -> pd.Series:
    """Return which runs are much worse than the rest of their group, by its median and absolute deviations."""
    of_group = runs.groupby("group")["score"]
    away = sign * (of_group.transform("median") - runs["score"])
    typical = 1.4826 * away.abs().groupby(runs["group"]).transform("median")
    return (away > _FAR * typical) & (typical > 0) & (of_group.transform("size") > FEWEST)


def _pairs(systems: Sequence[System]) -> pd.DataFrame:
    """Return the differences of groups, best mean first; of many groups those with the best one."""
    pairs = [*combinations(systems, 2)] if len(systems) <= MOST_GROUPS else [(systems[0], each) for each in systems[1:]]
    every = len(systems) * (len(systems) - 1) // 2
    rows = []
    for one, other in pairs:
        means = mean_scores([one, other])
        variance, difference = (
            _careful(spread(means, 0, 1), one.runs, other.runs),
            float(means.means[0] - means.means[1]),
        )
        limits, p = interval(difference, variance), p_value(difference, variance)
        needed = runs_to_settle(difference, variance, math.nan, 1 - (1 - LEVEL) / every)
        shared = len(means.pairings[0, 1].first)
        rows.append((one.name, other.name, one.runs, other.runs, shared, difference, *limits, p, needed))
    frame = pd.DataFrame(rows, columns=_PAIR)
    # Pairs that are not compared count as compared without a finding.
    adjusted = holm([*frame["p"], *[1.0] * (every - len(frame))])[: len(frame)]
    is_found = adjusted <= 1 - LEVEL
    needed_runs = frame["runs_needed"].where(~is_found)
    return frame.assign(p_holm=adjusted, verdict=np.where(is_found, BETTER, UNDECIDED), runs_needed=needed_runs)


def _careful(variance: Spread, *runs: int) -> Spread:
    """Return the variance of a difference with the degrees of freedom of the smaller group if it is much smaller.

    Welch's are too many if three runs that happen to be alike meet thirty: of five groups that do not differ, with 3 to
    30 runs, one in ten simulations found a pair that does (one in six of exponential scores).
    """
    is_uneven = max(runs) > 2 * min(runs)
    return replace(variance, degrees_runs=min(runs) - 1.0) if is_uneven else variance


def _pooled(parts: Sequence[FloatArray]) -> tuple[float, float]:
    """Return standard deviation and luck that groups have in common; nan if they have none."""
    spreads = [known_std(part, ddof=1) for part in parts]
    degrees = np.array([len(part) - 1 for part in parts], dtype=np.float64)
    moving = np.array(spreads) > 0
    is_still = bool((degrees[~moving] >= FEWEST - 1).any())
    if not parts or (moving.any() and is_still) or _bartlett(np.square(spreads)[moving], degrees[moving]) <= _DIFFERENT:
        return math.nan, math.nan
    std = math.sqrt(float(np.average(np.square(spreads), weights=degrees)))
    rest = [(part - part.mean()) * math.sqrt(len(part) / (len(part) - 1)) for part in parts]
    return std, single_run_limit(np.concatenate(rest), std)


def _bartlett(variances: FloatArray, degrees: FloatArray) -> float:
    """Return the p-value of Bartlett's test of equal variances; 1 for a single one."""
    from scipy.special import chdtrc

    if len(variances) < 2:
        return 1.0
    pooled = np.average(variances, weights=degrees)
    statistic = degrees.sum() * np.log(pooled) - degrees @ np.log(variances)
    correction = 1 + ((1 / degrees).sum() - 1 / degrees.sum()) / (3 * (len(degrees) - 1))
    return float(chdtrc(len(degrees) - 1, statistic / correction))


def _groups(systems: Sequence[System], pairs: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    best = pairs["first"].iloc[0] if len(pairs) else ""
    against = pairs[pairs["first"].eq(best)].set_index("second")
    rows = []
    for each in systems:
        one = metric_spread(each.scores, metric)
        row = {"group": each.name, **{number: getattr(one, number) for number in _NUMBERS}}
        row["luck"] = single_run_limit(each.scores) if each.runs > 1 else math.nan
        row |= {"verdict": "", "runs_needed": FEWEST if each.runs < FEWEST else math.nan}
        if each.name == best:
            row |= {"verdict": "best", "runs_needed": against["runs_needed"].iloc[0]}
        elif each.name in against.index:
            row |= {name: against.loc[each.name, name] for name in ("verdict", "runs_needed")}
        rows.append(row)
    return pd.DataFrame(rows)


def _studied(settings: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the settings that can be studied in a moment, those with fewest values first, and names of the rest."""
    levels = settings.nunique(dropna=False).sort_values(kind="stable")
    total = np.where(levels < len(settings), levels, 0).cumsum()
    fits = np.arange(1, len(levels) + 1) * len(settings) * np.square(total, dtype=np.float64) <= _WORK
    return settings[levels.index[fits]], tuple(levels.index[~fits])
