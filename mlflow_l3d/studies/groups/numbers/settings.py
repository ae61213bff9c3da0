"""Which settings of runs that nobody laid out move their score, recorded or hidden, and which runs are independent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.comparison.system import System
from mlflow_l3d.analysis.importance.multiplicity import holm
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, IntArray

JOINED: Final = " = "
"""Between the names of settings that always change together."""
Levels = dict[str, npt.NDArray[np.intp]]
"""Name of a setting -> level of each run, numbers from 0."""
_Effect = tuple[int, float, float]
_Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettingsStudy:
    """What the recorded settings say about the score.

    Attributes
    ----------
    frame
        One row per setting that varies, largest first: ``setting`` (several that always change together are one),
        ``levels``, ``std`` (of its random effect, in units of the score) and ``share`` (of all variance), the F
        test of no effect in addition to all other settings (``degrees``, ``p``, ``p_holm``: nan if the other settings
        leave it nothing), and the levels with the lowest and the highest mean score (``lowest``, ``lowest_mean``,
        ``highest``, ``highest_mean``).
    residual_std
        Standard deviation of what no setting explains; nan if there are as many effects as runs.
    per_run
        Settings with another level in every run: what they move is in the residual.
    constant
        Settings that all runs share.
    cannot_tell
        What these runs cannot separate, in sentences.
    """

    frame: pd.DataFrame
    residual_std: float
    per_run: tuple[str, ...]
    constant: tuple[str, ...]
    cannot_tell: tuple[str, ...]

    @property
    def found(self) -> tuple[str, ...]:
        """Settings that move the score: tested, adjusted for their number (Holm), at 95 %."""
        return tuple(self.frame.loc[self.frame["p_holm"] <= 1 - LEVEL, "setting"])

    def metrics(self) -> dict[str, float]:
        """Return the single numbers by name, for the parent run: ``setting_std/<setting>`` and its further numbers."""
        rows = self.frame.to_dict("records")
        numbers = ("std", "share", "p_holm")
        return {f"setting_{name}/{row['setting']}": float(row[name]) for row in rows for name in numbers}


def varying_settings(settings: pd.DataFrame) -> tuple[Levels, tuple[str, ...]]:
    """Return name -> level of each run, of the settings that vary, and the names of those that do not.

    Settings that always change together are one, under the names of all. Missing values are a level.
    """
    found: dict[bytes, tuple[list[str], npt.NDArray[np.intp]]] = {}
    constant = []
    for name in map(str, settings):
        levels = pd.factorize(settings[name].astype(object), use_na_sentinel=False)[0]
        if levels.max(initial=0) == 0:
            constant.append(name)
        else:
            found.setdefault(levels.tobytes(), ([], levels))[0].append(name)
    return {JOINED.join(names): levels for names, levels in found.values()}, tuple(constant)


def settings_study(scores: npt.ArrayLike, settings: pd.DataFrame, group: npt.ArrayLike | None = None) -> SettingsStudy:
    """Return which settings move the score.

    Parameters
    ----------
    scores
        Shape (n,), nan if a run has none; such runs are left out.
    settings
        n rows, one column per setting.
    group
        Shape (n,): runs that vary by luck alike; None: all of them.

    Notes
    -----
    The model is linear with a random effect for each setting, no interactions. Its variances are estimated by fitting
    constants (Henderson 1953, method 3): with SS what a setting explains in addition to all others, on d degrees of
    freedom, ``E[SS] = trace(Z' M Z) s2 + d s2_residual``, where Z are its levels and M takes away what the others
    explain. On a complete grid that is the analysis of variance. Estimates below zero are 0. Whether there is any
    effect says the F test of SS against its expectation by luck, exact for normal residuals of one variance. A group
    has the variance of its own residuals, with Box's degrees of freedom (Brunner et al. 1997): of few runs that vary
    more, the common one is too small. For two groups that is Welch's test.
    """
    values = np.asarray(scores, dtype=np.float64)
    present = np.isfinite(values)
    groups = pd.factorize(np.zeros(len(values)) if group is None else np.asarray(group))[0][present]
    values, settings = values[present], settings[present]
    varying, constant = varying_settings(settings)
    per_run = tuple(name for name, levels in varying.items() if levels.max() + 1 == len(values))
    tested = {name: levels for name, levels in varying.items() if name not in per_run}
    parts, residual = _variances(values - values.mean(), tested, groups) if len(values) else ({}, math.nan)
    total = sum(variance for _, _, variance in parts.values() if variance > 0) + residual
    rows = []
    for name, levels in tested.items():
        degrees, p, variance = parts[name]
        means = np.bincount(levels, values) / np.bincount(levels)
        of_first = settings[name.split(JOINED)[0]]  # of several that change together
        row = [name, len(means), math.sqrt(variance), variance / total if total > 0 else math.nan, degrees, p]
        ends = [(str(of_first[levels == level].iloc[0]), means[level]) for level in (means.argmin(), means.argmax())]
        rows.append([*row, *ends[0], *ends[1]])
    columns = ["setting", "levels", "std", "share", "degrees", "p", "lowest", "lowest_mean", "highest", "highest_mean"]
    frame = pd.DataFrame(rows, columns=columns).sort_values("std", ascending=False, ignore_index=True)
    frame["p_holm"] = holm(frame["p"].to_numpy(dtype=np.float64))
    sentences = tuple(_cannot_tell(varying, {name: part[0] for name, part in parts.items()}, residual))
    return SettingsStudy(frame, math.sqrt(residual), per_run, constant, sentences)


def _variances(scores: FloatArray, settings: Levels, group: IntArray) -> tuple[dict[str, _Effect], float]:
    """Return degrees of freedom, p-value and variance of each setting, given all others, and the residual variance."""
    from scipy.special import fdtrc

    effects = {name: np.eye(levels.max() + 1)[levels] for name, levels in settings.items()}
    every = _basis(list(effects.values()), len(scores))
    left = len(scores) - every.shape[1]
    rest = scores - every @ (every.T @ scores)
    free = 1 - np.square(every).sum(axis=1)
    # What is left may be rounding alone: then the settings explain everything.
    least = 1e-24 * float(scores @ scores)
    residual = max(float(rest @ rest), least) / left if left else math.nan
    # A group with a degree of freedom and unequal scores has a variance of its own, the others that of all.
    is_own = (np.bincount(group, free) > 0.99) & (np.bincount(group, rest**2) > least)
    part = np.where(is_own[group], group + 1, 0)
    freedom = np.maximum(np.bincount(part, free), 1e-9)
    luck = np.bincount(part, rest**2) / freedom
    luck[0] = residual
    freedom[0] = left
    found = {}
    for name, effect in effects.items():
        others = _basis([each for other, each in effects.items() if other != name], len(scores))
        degrees, p, variance = every.shape[1] - others.shape[1], math.nan, math.nan
        if degrees and left:
            unique = effect - others @ (others.T @ effect)
            axes = np.linalg.svd(unique, full_matrices=False)[0][:, :degrees]
            of_groups = np.bincount(part, np.square(axes).sum(axis=1) * luck[part])
            expected = float(of_groups.sum())
            explained = float(np.square(axes.T @ scores).sum())
            if expected > 0:
                numerator = expected**2 / np.square((axes.T * luck[part]) @ axes).sum()
                denominator = expected**2 / (of_groups**2 / freedom).sum()
                p = float(fdtrc(numerator, denominator, explained / expected))
            variance = max(0.0, (explained - expected) / float(np.square(unique).sum()))
        found[name] = degrees, p, variance
    return found, residual


def _basis(effects: Sequence[FloatArray], runs: int) -> FloatArray:
    """Return an orthonormal basis of what a mean and these effects can explain, shape (n, rank)."""
    left, sizes, _ = np.linalg.svd(np.hstack([np.ones((runs, 1)), *effects]), full_matrices=False)
    return left[:, sizes > sizes[0] * 1e-9]


def _cannot_tell(varying: Levels, degrees: Mapping[str, int], residual: float) -> Iterator[str]:
    """Yield what these runs cannot separate; `degrees` has the settings that are tested."""
    for name in [name for name in varying if JOINED in name]:
        yield f"{name.replace(JOINED, ', ')} always change together: which of them matters is not known."
    per_run = [name.split(JOINED)[0] for name in varying if name not in degrees]
    if per_run and degrees:
        yield f"{', '.join(per_run)}: every run has a value of its own, so what it moves is in the rest."
    for name in [name for name, own in degrees.items() if own == 0]:
        others = [other for other in degrees if other != name and _decides(varying[other], varying[name])]
        by = f"{' and '.join(others)} decides it" if others else "the other settings decide it"
        yield f"{name}: {by}, so it has no test of its own."
    if degrees and math.isnan(residual):
        yield "There are as many effects as runs: luck cannot be separated from the settings. Repeat some runs."


def _decides(finer: npt.NDArray[np.intp], coarser: npt.NDArray[np.intp]) -> bool:
    """Return whether every level of `finer` stands at one level of `coarser`."""
    return bool(np.unique(np.stack([finer, coarser]), axis=1).shape[1] == finer.max() + 1)


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
    """Return the row of the first run of each independent run: mean and variance of all it stands for, and how many."""
    unit = unit_numbers(runs["group"], seeds, axis)
    alike = runs["score"].groupby(unit)
    moments = {"score": alike.transform("mean"), "variance": alike.transform("var"), "size": alike.transform("size")}
    return runs.assign(**moments)[~unit.duplicated()]


def systems(units: pd.DataFrame, seeds: pd.DataFrame, axis: Sequence[str]) -> dict[str, System]:
    """Return the averaged scores of each group with their seeds."""
    return {
        str(name): System(str(name), part.to_numpy(), {seed: seeds.loc[part.index, seed].to_numpy() for seed in axis})
        for name, part in units.groupby("group", sort=False)["score"]
    }


def hidden_settings(runs: pd.DataFrame, seeds: pd.DataFrame, ignored: pd.DataFrame) -> tuple[_Names, _Names]:
    """Return parameters that were left out and move the score within groups, and those that change with the group.

    Parameters
    ----------
    runs, seeds, ignored
        One row per run: ``group`` and ``score``; seeds, none missing; the parameters.

    Notes
    -----
    The F test of each group that the parameter divides, all together by Fisher's method, as groups may vary
    differently; at 0.1 % (Bonferroni). Parameters that seeds decide, if seeds occur in several runs, are luck.
    """
    from scipy.special import chdtrc, fdtrc

    group, moving, along = runs["group"], [], []
    seed = seeds.groupby([*seeds], sort=False).ngroup() if len(seeds.columns) else pd.Series(range(len(runs)))
    for name in map(str, ignored):
        cells = ignored.groupby([group, ignored[name]], sort=False).ngroup()
        total, rest = (_around(runs["score"], part, group) for part in (group, cells))
        parts = cells.groupby(group).agg(["nunique", "size"])
        between = parts["nunique"] - 1
        left = parts["size"] - parts["nunique"]
        is_of_seed = len({*zip(seed, ignored[name], strict=True)}) == seed.nunique() < len(runs)
        if not between.any():
            along.append(name)
        elif not is_of_seed:
            divided = (between > 0) & (left > 0) & (total > 0)
            ratio: pd.Series = ((total - rest) / between / np.maximum(rest / left, 1e-12 * total))[divided]
            p = np.maximum(fdtrc(between[divided], left[divided], ratio), 1e-300)
            if chdtrc(2 * len(p), -2 * np.log(p).sum()) < 0.001 / len(ignored.columns):
                moving.append(name)
    return tuple(moving), tuple(along)


def _around(scores: pd.Series, part: pd.Series, group: pd.Series) -> pd.Series:
    """Return for each group the sum of squares of scores around the means of their parts."""
    return ((scores - scores.groupby(part).transform("mean")) ** 2).groupby(group).sum()
