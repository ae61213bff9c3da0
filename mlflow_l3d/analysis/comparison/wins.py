"""How often one run beats another, and on which test examples one system wins whatever the luck."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.comparison.system import Pairing, System, paired, same_cells
from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES, TEN, all_drawn
from mlflow_l3d.analysis.intervals import (
    LEVEL,
    UNKNOWN,
    FloatArray,
    IntArray,
    Range,
    jackknife_variance,
    t_quantile,
    wilson_interval,
)

_OfSetting: TypeAlias = tuple[System, System, Pairing, tuple[IntArray, IntArray]]
_MOST: Final = 1000
"""Runs of each system among which a density is looked for."""


def _share(value: float, variance: float, draws: float, level: float, quantile: float | None = None) -> Range:
    """Return Wilson's interval of a share: of as many draws as would have the variance, or `draws` if it has none.

    There is no interval if the variance is not known.
    """
    if math.isnan(variance):
        return Range(value)
    if not (variance > 0 and 0 < value < 1):
        return Range(value, *wilson_interval(value * draws, draws, level=level))
    draws = value * (1 - value) / variance
    return Range(value, *wilson_interval(value * draws, draws, quantile, level=level))


def run_wins(one: System, other: System, pairing: Pairing, sign: float, of_examples: float, level: float) -> Range:
    """Return the probability that a run of one system scores better than a run of the other, drawn independently.

    Parameters
    ----------
    one, other
        The systems.
    pairing
        Runs that share configurations; none of them is compared with its own partner.
    sign
        1 if greater scores are better, else -1.
    of_examples
        Variance of the difference of means that test examples bring.
    level
        Of the interval.

    Notes
    -----
    Ties count one half: the statistic of Mann and Whitney over ``L_a L_b`` pairs; its mean over settings, if there are
    several. Its variance over runs leaves out one at a time (Sen 1960), partners together, the changes by equal seeds
    added before they are squared, with Student's quantile: with the normal one, intervals of six shared runs held the
    truth in 86 % of cases. Other test examples move all differences alike, and the probability by as much as there are
    differences around 0: the squared density there, times `of_examples`, is added.
    """
    values, gaps = [], []
    moved = [np.zeros(each.runs) for each in (one, other)]
    for first, second, partners, runs in _by_setting(one, other, pairing):
        scores = sign * first.scores, sign * second.scores
        value, changes = _independent_wins(*scores, partners)
        values.append(value)
        for at, each in enumerate(changes):
            moved[at] += np.bincount(runs[at], each, minlength=len(moved[at]))
        counts = [min(len(each), _MOST) for each in scores]
        middles = [(np.arange(count) + 0.5) / count for count in counts]
        gaps.append(np.subtract.outer(*map(np.quantile, scores, middles)).ravel())
    variance = sum(float(each @ each) for each in moved)
    variance += 2 * float(moved[0][pairing.first] @ moved[1][pairing.second])
    variance /= len(values) ** 2
    fewest = min(one.runs, other.runs)
    variance += _density(np.concatenate(gaps), fewest) ** 2 * of_examples
    degrees = min(_degrees(each.runs, each.setting) for each in (one, other))
    return _share(float(np.mean(values)), variance, fewest, level, t_quantile(degrees, level))


def _degrees(runs: int, setting: IntArray) -> int:
    """Return the degrees of freedom of so many runs, of which each setting takes one away."""
    return max(1, runs - max(1, len(np.unique(setting))))


def _by_setting(one: System, other: System, pairing: Pairing) -> Iterator[_OfSetting]:
    """Yield two systems, the runs that they share, and the runs whose luck each of their runs has, by setting."""
    if not one.by_setting:
        yield one, other, pairing, (np.arange(one.runs), np.arange(other.runs))
    for (first, runs), (second, others) in zip(one.by_setting, other.by_setting, strict=True):
        yield first, second, paired(first, second), (runs, others)


def _independent_wins(first: FloatArray, second: FloatArray, pairing: Pairing) -> tuple[float, list[FloatArray]]:
    """Return the share of pairs of runs that the first wins, partners never paired, and its change by each run.

    The squares of the changes add up to the jackknife's variance, those of partners, who leave together, summed before.
    """
    wins = [_beaten(first, second), 1 - _beaten(second, first)]
    sizes = [np.full(len(first), float(len(second))), np.full(len(second), float(len(first)))]
    with_partner = _points(first[pairing.first] - second[pairing.second])
    for side, runs in enumerate((pairing.first, pairing.second)):
        pairs = sizes[side][runs]
        wins[side][runs] = (wins[side][runs] * pairs - with_partner) / np.maximum(pairs - 1, 1)
        sizes[side][runs] -= 1
    pairs = sizes[0].sum()
    value = float(wins[0] @ sizes[0] / pairs) if pairs else math.nan
    changes = []
    for side, (runs, partners) in enumerate((pairing[:2], pairing[1::-1])):
        others = pairs - sizes[side]
        others[runs] -= sizes[1 - side][partners]
        changes.append(sizes[side] * (wins[side] - value) / np.maximum(others, 1) * math.sqrt(1 - 1 / len(others)))
    return value, changes


def pair_wins(one: System, other: System, pairing: Pairing, sign: float, of_examples: float, level: float) -> Range:
    """Return the probability that a run of one system scores better than that of the other with its configurations.

    Parameters as for :func:`run_wins`; nan if no runs are shared. The limits of Clopper and Pearson (1934) hold for as
    many draws as would have the variance, fewer if it has few degrees of freedom (Korn and Graubard 1998).
    """
    from scipy.special import betaincinv

    values, gaps, moved, count = [], [], np.zeros(one.runs), len(pairing.first)
    for first, second, partners, (runs, _) in _by_setting(one, other, pairing):
        if len(partners.first) < 2:
            return UNKNOWN
        gaps.append(sign * (first.scores[partners.first] - second.scores[partners.second]))
        wins = _points(gaps[-1])
        values.append(float(wins.mean()))
        share = (wins - values[-1]) / math.sqrt(len(wins) * (len(wins) - 1))
        moved += np.bincount(runs[partners.first], share, minlength=one.runs)
    gap = np.concatenate(gaps)
    value = float(np.mean(values))
    draws = float(count)
    variance = float(moved @ moved) / len(values) ** 2 + _density(gap, count) ** 2 * of_examples
    if variance > 0 and 0 < value < 1:
        degrees = _degrees(count, one.setting[pairing.first] if len(one.setting) else one.setting)
        fewer = (t_quantile(len(gap) - 1, level) / t_quantile(degrees, level)) ** 2
        draws = min(len(gap), value * (1 - value) / variance * fewer)
    won, tail = value * draws, (1 - level) / 2
    low = float(betaincinv(won, draws - won + 1, tail)) if value > 0 else 0.0
    return Range(value, low, float(betaincinv(won + 1, draws - won, 1 - tail)) if value < 1 else 1.0)


def _points(differences: FloatArray) -> FloatArray:
    return (1 + np.sign(differences)) / 2


def _beaten(scores: FloatArray, others: FloatArray) -> FloatArray:
    """Return for each score the share of the others that it beats, ties half."""
    ordered = np.sort(others)
    below = np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right")
    return below / (2 * len(others))


def _density(values: FloatArray, draws: int) -> float:
    """Return the density of values at 0, by normal kernels of Silverman's width for so many independent draws."""
    width = 1.06 * float(values.std()) * draws**-0.2
    if not width > 0:
        return 0.0
    return float(np.exp(-0.5 * np.square(values / width)).mean() / (width * math.sqrt(2 * math.pi)))


@dataclass(frozen=True, slots=True)
class ExampleWins:
    """Which system is right on the test examples whatever the luck, by what any ten runs of each would show.

    Attributes
    ----------
    first, second
        Share of examples that all ten runs of this system have right, and not all ten of the other: it never fails
        there, the other does.
    first_always, second_always
        Share that all ten runs of this system have right and all ten of the other wrong.
    examples
        Test examples that ten runs of both saw; the shares are over these, and nan below ten.
    """

    first: Range = UNKNOWN
    second: Range = UNKNOWN
    first_always: float = math.nan
    second_always: float = math.nan
    examples: int = 0


def example_wins(one: System, other: System, pairing: Pairing, level: float = LEVEL) -> ExampleWins:
    """Return on which share of test examples either system wins whatever the luck.

    Parameters
    ----------
    one, other
        The systems.
    pairing
        Runs that share configurations. If there are any, the ten runs are ten shared configurations, the same of
        both; else ten of each, drawn independently.
    level
        Of the intervals.

    Notes
    -----
    Averages over all choices of ten runs (rarefaction, as ``robust_share_10``), so that they do not depend on how many
    runs there are. Errors from leaving out a run at a time, and from the spread over examples. With ten runs of an
    example there is no interval: that of the examples alone held the truth in 67 % of cases (1,000 examples).
    """
    if not len(one.right) or not len(other.right):
        return ExampleWins()
    if len(pairing.first):
        first, second = same_cells(one, other, pairing)
        place = np.zeros(one.runs, dtype=np.int64)
        place[pairing.first] = np.arange(len(pairing.first))
        state = 2 * one.right[first] + other.right[second]
        parts = [_Part.of(place[one.run[first]], one.unit[first], state, 4, one.units)]
    else:
        parts = [_Part.of(each.run, each.unit, each.right.astype(np.int64), 2, each.units) for each in (one, other)]
    enough = np.all([part.counts.sum(axis=0) >= TEN for part in parts], axis=0)
    count = int(enough.sum())
    if count < FEWEST_EXAMPLES:
        return ExampleWins(examples=count)
    values = _chances([part.counts[:, enough] for part in parts])
    variances = values.var(axis=1) / max(count - 1, 1) + _of_runs(parts, enough, values)
    means = values.mean(axis=1).tolist()
    won, lost = (_share(means[at], float(variances[at]), count, level) for at in (0, 1))
    return ExampleWins(won, lost, means[2], means[3], count)


class _Part(NamedTuple):
    """Cells of runs that are left out together: how often each state occurs on each example, shape (states, units).

    States are 2 x first is right + second is right, or whether the only system is right.
    """

    run: IntArray
    unit: IntArray
    state: IntArray
    counts: IntArray

    @classmethod
    def of(cls, run: IntArray, unit: IntArray, state: IntArray, states: int, units: int) -> _Part:
        """Count the states."""
        counts = np.bincount(unit * states + state, minlength=units * states).reshape(units, states)
        return cls(run, unit, state, counts.T)


def _of_runs(parts: Sequence[_Part], enough: npt.NDArray[np.bool_], values: FloatArray) -> FloatArray:
    """Return the variance of each share from leaving out one run at a time; nan if that leaves fewer than ten."""
    variances = np.zeros(len(values))
    if any((part.counts[:, enough].sum(axis=0) <= TEN).any() for part in parts):
        return np.full(len(values), math.nan)
    for number, part in enumerate(parts):
        moved = np.zeros((len(part.counts), len(values), len(enough)))
        for state in range(len(part.counts)):
            counts = [each.counts[:, enough] for each in parts]
            counts[number][state] -= 1
            moved[state][:, enough] = _chances(counts) - values
        for share in range(len(values)):
            of_run = np.bincount(part.run, moved[part.state, share, part.unit]) / values.shape[1]
            variances[share] += jackknife_variance(of_run)
    return variances


def _chances(counts: Sequence[IntArray]) -> FloatArray:
    """Return the chances of the four wins on each example, shape (4, examples)."""
    if len(counts) == 1:
        wrong, only_second, only_first, both = counts[0]
        total = wrong + only_second + only_first + both
        right = [all_drawn(each + both, total) - all_drawn(both, total) for each in (only_first, only_second)]
        return np.array([*right, all_drawn(only_first, total), all_drawn(only_second, total)])
    right = [all_drawn(each[1], each.sum(axis=0)) for each in counts]
    wrong = [all_drawn(each[0], each.sum(axis=0)) for each in counts]
    return np.array([right[0] * (1 - right[1]), right[1] * (1 - right[0]), right[0] * wrong[1], right[1] * wrong[0]])
