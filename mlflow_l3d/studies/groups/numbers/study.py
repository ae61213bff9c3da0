"""What groups of runs say: the mean and spread of each, which differ, and what recorded settings explain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.covariance import mean_scores
from mlflow_l3d.analysis.comparison.difference import interval, p_value, runs_to_settle, spread
from mlflow_l3d.analysis.comparison.results import BETTER, UNDECIDED
from mlflow_l3d.analysis.comparison.system import System
from mlflow_l3d.analysis.importance.luck import single_run_limit
from mlflow_l3d.analysis.importance.multiplicity import holm
from mlflow_l3d.analysis.importance.tables import known_std
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, known
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.groups.numbers.grouping import UNKNOWN, Grouping
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
    pairs
        One row per pair of groups with two runs or more, the better mean first: ``difference`` with its interval, ``p``
        and ``p_holm`` (for all pairs), ``shared`` (runs of both with the same seeds, which are paired), ``verdict``.
    settings
        What each recorded parameter explains.
    std, luck
        Standard deviation within groups, and how large a difference of two runs may be by luck; nan if the groups'
        variances differ significantly, or no group has two runs.
    seeds, fixed_seeds, ignored, left_out
        As in :class:`~mlflow_l3d.studies.groups.numbers.grouping.Grouping`; settings that were not studied.
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
    run_ids: Sequence[str], scores: FloatArray, grouping: Grouping, metric: Metric, results: pd.DataFrame
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
        One row per run: all its scores. A run with the seeds and results of another is left out.
    """
    seeds, group = grouping.seed_values, pd.Series(grouping.group)
    named = seeds.notna() & seeds.ne(UNKNOWN)
    same = pd.concat([group, seeds.reset_index(drop=True)], axis=1, ignore_index=True)
    again = same.duplicated().to_numpy() & named.all(axis=1).to_numpy() & bool(len(seeds.columns))
    repeated = again & pd.concat([same, results.reset_index(drop=True)], axis=1, ignore_index=True).duplicated()
    runs = pd.DataFrame({"run_id": run_ids, "number": group, "score": scores, "repeated": repeated, "far": False})
    runs["seeds"] = [", ".join(map(str, row)) for row in seeds.to_numpy()]
    kept = runs[~runs["repeated"]]
    parts = {int(number): part["score"].to_numpy() for number, part in kept.groupby("number")}
    for number, part in parts.items():
        worst = kept.index[kept["number"].eq(number)]
        runs.loc[worst, "far"] = _far(part, metric.sign)
    order = sorted(parts, key=lambda number: -metric.sign * parts[number].mean())
    varying = [name for name in seeds if _varies_within(seeds[name], grouping.group)]
    systems = [
        System(grouping.names[number], parts[number], _configurations(seeds.iloc[part.index][varying], number))
        for number, part in ((number, kept[kept["number"].eq(number)]) for number in order)
        if len(part) > 1
    ]
    pairs = _pairs(systems, metric)
    std, luck = _pooled([each.scores for each in systems])
    used, left_out = _studied(pd.concat([grouping.settings, seeds], axis=1).iloc[kept.index])
    names = dict(enumerate(grouping.names))
    return GroupsStudy(
        metric=metric,
        runs=runs.assign(group=runs["number"].map(names)).drop(columns="number"),
        groups=_groups([(names[number], parts[number]) for number in order], pairs, metric),
        pairs=pairs,
        settings=settings_study(kept["score"], used),
        std=std,
        luck=luck,
        seeds=grouping.seeds,
        fixed_seeds=grouping.fixed_seeds,
        ignored=grouping.ignored,
        left_out=left_out,
        shares_seeds=any(
            (pd.DataFrame({"group": group, "seed": seeds[name].to_numpy()})[named[name].to_numpy() & ~repeated])
            .duplicated()
            .any()
            for name in varying
        ),
    )


def _far(scores: FloatArray, sign: float) -> Any:
    """Return which runs are much worse than the others, by the median and its absolute deviations."""
    away = sign * (np.median(scores) - scores)
    typical = 1.4826 * float(np.median(np.abs(away)))
    return (away > _FAR * typical) & (typical > 0) & (len(scores) > 3)


def _varies_within(values: pd.Series, group: Any) -> bool:
    return bool((values.groupby(group).nunique(dropna=False) > 1).any())


def _configurations(seeds: pd.DataFrame, group: int) -> dict[str, Any]:
    """Return the seeds of the runs of a group; an unknown one is like no other."""
    own = pd.Series([f"{group}:{place}" for place in seeds.index], seeds.index)
    return {
        str(name): seeds[name].where(seeds[name].notna() & seeds[name].ne(UNKNOWN), own).to_numpy() for name in seeds
    }


def _pairs(systems: Sequence[System], metric: Metric) -> pd.DataFrame:
    """Return the differences of groups, best mean first; of many groups those with the best one."""
    pairs = [*combinations(systems, 2)] if len(systems) <= MOST_GROUPS else [(systems[0], each) for each in systems[1:]]
    every = len(systems) * (len(systems) - 1) // 2
    rows = []
    for one, other in pairs:
        means = mean_scores([one, other])
        variance, difference = spread(means, 0, 1), float(means.means[0] - means.means[1])
        low, high = interval(difference, variance)
        needed = runs_to_settle(difference, variance, math.nan, 1 - (1 - LEVEL) / every)
        shared, p = len(means.pairings[0, 1].first), p_value(difference, variance)
        rows.append((one.name, other.name, one.runs, other.runs, shared, difference, low, high, p, needed))
    columns = "first second runs_first runs_second shared difference difference_ci_low difference_ci_high p runs_needed"
    frame = pd.DataFrame(rows, columns=columns.split())
    # Pairs that are not compared count as compared without a finding.
    adjusted = holm([*frame["p"], *[1.0] * (every - len(frame))])[: len(frame)]
    found = adjusted <= 1 - LEVEL
    settled = frame["runs_needed"].where(~found)
    return frame.assign(p_holm=adjusted, verdict=np.where(found, BETTER, UNDECIDED), runs_needed=settled)


def _pooled(parts: Sequence[FloatArray]) -> tuple[float, float]:
    """Return the standard deviation that groups have in common, and what two runs may differ by; nan if they have none."""
    from scipy.stats import bartlett

    spreads = [known_std(part, ddof=1) for part in parts]
    moving = [part for part, std in zip(parts, spreads, strict=True) if std]
    still = any(len(part) > 2 and not std for part, std in zip(parts, spreads, strict=True))
    if not parts or (moving and still) or (len(moving) > 1 and bartlett(*moving).pvalue <= _DIFFERENT):
        return math.nan, math.nan
    degrees = [len(part) - 1 for part in parts]
    std = math.sqrt(float(np.average(np.square(spreads), weights=degrees)))
    rest = [(part - part.mean()) * math.sqrt(len(part) / (len(part) - 1)) for part in parts]
    return std, single_run_limit(np.concatenate(rest), std)


def _groups(parts: Sequence[tuple[str, FloatArray]], pairs: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    best = pairs["first"].iloc[0] if len(pairs) else ""
    against = pairs[pairs["first"].eq(best)].set_index("second")
    numbers = ("runs", "mean", "mean_ci_low", "mean_ci_high", "std", "std_ci_low", "std_ci_high", "lowest", "highest")
    rows = []
    for name, scores in parts:
        one = metric_spread(scores, metric)
        row = {"group": name, **{number: getattr(one, number) for number in numbers}}
        row["luck"] = single_run_limit(scores) if len(scores) > 1 else math.nan
        row |= {"verdict": "", "runs_needed": math.nan}
        if name == best:
            row |= {"verdict": "best", "runs_needed": against["runs_needed"].min()}
        elif name in against.index:
            row |= against.loc[name, ["verdict", "runs_needed"]].to_dict()
        rows.append(row)
    return pd.DataFrame(rows)


def _studied(settings: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the settings that can be studied in a moment, those with fewest values first, and the names of the rest."""
    levels = settings.nunique(dropna=False).sort_values(kind="stable")
    total = np.where(levels < len(settings), levels, 0).cumsum()
    fits = np.arange(1, len(levels) + 1) * len(settings) * np.square(total, dtype=np.float64) <= _WORK
    return settings[levels.index[fits]], tuple(levels.index[~fits])
