"""Which runs of a group are independent, and which parameters move the score although they distinguish no groups."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from mlflow_l3d.analysis.comparison.system import System
from mlflow_l3d.studies.groups.numbers.grouping import NO_VALUE, NOT_LOGGED, Grouping


def known_seeds(grouping: Grouping) -> pd.DataFrame:
    """Return the seeds of each run; a missing one is like no other."""
    seeds = grouping.seed_values.reset_index(drop=True)
    unknown = "run " + pd.Series(seeds.index, dtype=str)
    return seeds.mask(seeds.isin([NO_VALUE, NOT_LOGGED]), unknown, axis=0)


def seed_axes(group: pd.Series, seeds: pd.DataFrame) -> list[list[str]]:
    """Return the seeds by which runs are independent, the one with fewest values first.

    Parameters
    ----------
    group, seeds
        One row per run: the group and its seeds, none missing.

    Returns
    -------
    list
        Seeds that always change together are one entry. A seed with one value of another for each of its own, as the
        seeds of repeats are, is left out. Several entries are crossed.
    """
    parts = {str(name): seeds.groupby([group, seeds[name]], sort=False).ngroup() for name in seeds}
    sizes = {name: part.nunique() for name, part in parts.items()}
    axes: dict[str, list[str]] = {}
    for name in sorted(parts, key=lambda each: sizes[each]):
        nested = next((axis for axis in axes if len({*zip(parts[axis], parts[name], strict=True)}) == sizes[name]), "")
        if not nested:
            axes[name] = [name]
        elif sizes[nested] == sizes[name]:
            axes[nested].append(name)
    return [*axes.values()]


def unit_numbers(group: pd.Series, seeds: pd.DataFrame, axis: Sequence[str]) -> pd.Series:
    """Return the number of the independent run of each run: runs of a group with the same seed count once.

    Parameters
    ----------
    group, seeds
        One row per run: the group and its seeds, none missing.
    axis
        Seeds that change together; empty if every run is independent.
    """
    return seeds.groupby([group, seeds[axis[0]] if axis else seeds.index], sort=False).ngroup()


def averaged(runs: pd.DataFrame, seeds: pd.DataFrame, axis: Sequence[str]) -> pd.DataFrame:
    """Return the row of the first run of each independent run, with the mean score of all that it stands for."""
    unit = unit_numbers(runs["group"], seeds, axis)
    return runs.assign(score=runs["score"].groupby(unit).transform("mean"))[~unit.duplicated()]


def systems(units: pd.DataFrame, seeds: pd.DataFrame, axis: Sequence[str]) -> dict[str, System]:
    """Return the averaged scores of each group with their seeds."""
    return {
        str(name): System(str(name), part.to_numpy(), {seed: seeds.loc[part.index, seed].to_numpy() for seed in axis})
        for name, part in units.groupby("group", sort=False)["score"]
    }


def hidden_settings(
    runs: pd.DataFrame, seeds: pd.DataFrame, ignored: pd.DataFrame
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return parameters that were left out and move the score within groups, and those that change with the group.

    Parameters
    ----------
    runs, seeds, ignored
        One row per run: ``group`` and ``score``; seeds, none missing; the parameters.

    Notes
    -----
    The F test of groups that are divided by the parameter against groups, at 0.1 % (Bonferroni). Parameters that seeds
    decide, if seeds occur in several runs, are luck.
    """
    from scipy.special import fdtrc

    group, moving, along = runs["group"], [], []
    seed = seeds.groupby([*seeds], sort=False).ngroup() if len(seeds.columns) else pd.Series(range(len(runs)))
    for name in map(str, ignored):
        cells = ignored.groupby([group, ignored[name]], sort=False).ngroup()
        left, between = len(runs) - cells.nunique(), cells.nunique() - group.nunique()
        is_of_seed = len({*zip(seed, ignored[name], strict=True)}) == seed.nunique() < len(runs)
        if not between:
            along.append(name)
        elif left and not is_of_seed:
            rest, total = (_around(runs["score"], part) for part in (cells, group))
            ratio = (total - rest) / between / max(rest / left, 1e-12 * total) if total > 0 else 0.0
            moving += [name] * int(fdtrc(between, left, ratio) < 0.001 / len(ignored.columns))
    return tuple(moving), tuple(along)


def _around(scores: pd.Series, part: pd.Series) -> float:
    """Return the sum of squares of scores around the means of their parts."""
    return float(((scores - scores.groupby(part).transform("mean")) ** 2).sum())
