"""Unbiased variances of random effects from sums of squares, whatever is missing.

The model of one judgement is ``mu + row + judge + further factors + their interactions + what is nested in a row``:
interactions with the row, answers and the rest. Judges, further factors and their interactions are fitted by least
squares within rows, so it does not matter which rows a judge rated. The rest follows Henderson's method 1 ("Estimation
of variance and covariance components", Biometrics 9, 1953): sums of squares of level means are set equal to what the
model expects. If nothing is missing, that is the analysis of variance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from mlflow_l3d.analysis.importance.variances import skewed_degrees
from mlflow_l3d.analysis.intervals import FloatArray, IntArray
from mlflow_l3d.analysis.judged.table import level_codes, rows_apart

GROUPS: Final = 250
"""Rows are left out one at a time up to this number, else in so many groups; fewer if there are many judges."""
FEWEST_GROUPS: Final = 30
FEWEST_ROWS: Final = 3
"""Rows that must show two sources of luck apart."""
JOINED: Final = " + "
"""Stands between the names of sources that the data cannot separate."""
Effect: TypeAlias = tuple[str, ...]
"""A factor, or several: their interaction."""


@dataclass(frozen=True)
class Moments:
    """Variances of K effects nested in rows (rows first, single judgements last) and of F that cross them, pairs last.

    Attributes
    ----------
    variances
        Shape (K + F,): nested effects, then crossed ones; a small one may be below 0 by chance.
    noise
        Shape (K + F, K + F): what other effects add to the mean square that an effect is estimated from, for a unit
        of their variances: the mean square is ``variances + noise @ variances``.
    degrees
        Shape (F,): degrees of freedom of the mean squares of crossed effects, fewer if levels are skewed.
    without
        Shape (groups, K + F): the variances without a group of rows.
    weights
        Shape (K + F,): what a unit of each variance adds to that of the mean.
    row_means
        Shape (rows,): mean of each row, as if all judges had rated all its answers.
    """

    variances: FloatArray
    noise: FloatArray
    degrees: FloatArray
    without: FloatArray
    weights: FloatArray
    row_means: FloatArray

    def parts(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return mean squares and the noise in them, shape (K + F,), and both without each group of rows."""
        noise, noises = self.noise @ self.variances, self.without @ self.noise.T
        return self.variances + noise, noise, self.without + noises, noises


def pair_counts(coarse: IntArray, fine: IntArray) -> tuple[IntArray, IntArray]:
    """Return the first level and the count of each pair of levels that occur together."""
    width = int(fine.max()) + 1
    keys, counts = np.unique(coarse * width + fine, return_counts=True)
    return keys // width, counts


class Effects(NamedTuple):
    """Effects of a model of n judgements, each as its level in every judgement, numbered from 0.

    Attributes
    ----------
    nested
        Begins with rows, ends with single judgements, and no two of it are the same partition; each level of it lies in
        one row.
    crossed
        Judges and further factors.
    pairs
        Those of them whose interaction counts, too: each level of one occurs with each of the other.
    """

    nested: Mapping[str, IntArray]
    crossed: Mapping[str, IntArray]
    pairs: Sequence[Effect] = ()


def nested_effects(row: IntArray, answer: IntArray, crossed: Mapping[str, IntArray]) -> dict[str, IntArray]:
    """Return the effects nested in rows, coarse first; those that the data cannot separate under one name."""
    candidates = {"row": row, **{f"row x {name}": level_codes(row, code) for name, code in crossed.items()}}
    candidates["answer"] = answer
    if "judge" in crossed and (both := level_codes(answer, crossed["judge"])).max() + 1 < len(row):
        candidates["answer x judge"] = both
    candidates["judgement"] = np.arange(len(row))
    effects: dict[str, IntArray] = {}
    for name, code in candidates.items():
        same = [other for other in effects if rows_apart(row, effects[other], code) < FEWEST_ROWS]
        effects = {other: levels for other, levels in effects.items() if other not in same}
        effects[JOINED.join([*same, name])] = code
    return dict(sorted(effects.items(), key=lambda each: int(each[1].max(initial=0))))


def estimate_moments(values: FloatArray, effects: Effects) -> Moments:
    """Return the variances of all effects on the values of judgements, shape (n,)."""
    nested, crossed, pairs = effects
    codes = list(nested.values())
    row, rows, count = codes[0], int(codes[0].max()) + 1, len(codes)
    sizes = np.bincount(row)
    sizes_of = {name: int(code.max()) + 1 for name, code in crossed.items()}
    crossing: list[Effect] = [*((name,) for name in crossed), *pairs]
    blocks = [each for each in crossing if each in pairs or not any(each[0] in pair for pair in pairs)]
    contrasts, degrees, added_by = _contrasts(sizes_of, crossing, blocks)
    of_crossing = {each: level_codes(*(crossed[name] for name in each)) for each in crossing}
    dummies = [np.eye(int(of_crossing[each].max()) + 1)[of_crossing[each]] for each in blocks]
    design = np.hstack([values[:, None], *dummies])
    width = design.shape[1]
    groups = min(GROUPS, rows, max(FEWEST_GROUPS, 20 * GROUPS // width))
    group = np.arange(rows) * groups // rows

    # Products of the sums of each level over its size, added over the levels in each group of rows: (groups, K, p, p).
    products = np.zeros((groups, count, width, width))
    expected = np.zeros((groups, count, count))
    shares = np.zeros((rows, count))
    refines = np.zeros((count, count), dtype=bool)
    of_levels = []
    for k, code in enumerate(codes):
        levels = np.bincount(code)
        of_level = np.zeros(len(levels), dtype=np.int64)
        of_level[code] = group[row]
        of_levels.append(_sums(design, code) / levels[:, None])
        products[:, k] = _products(of_levels[k] * np.sqrt(levels)[:, None], of_level, groups)
        for j, other in enumerate(codes):
            level, counts = pair_counts(code, other)
            squares = np.bincount(level, np.square(counts, dtype=np.float64)) / levels
            expected[:, k, j] = np.bincount(of_level, squares, minlength=groups)
            refines[k, j] = j != k and len(level) == int(other.max()) + 1
            if k == 0:
                shares[:, j] = squares / sizes
    means = of_levels[0]
    of_means = _products(np.hstack([means, np.ones((rows, 1))]), group, groups)
    shares_in_group = _sums(shares, group)

    def fit(within: FloatArray) -> tuple[FloatArray, FloatArray]:
        inverse = np.asarray(np.linalg.pinv(within[..., -1, 1:, 1:], rcond=1e-9, hermitian=True), dtype=np.float64)
        effects = np.einsum("...ij,...j->...i", inverse, within[..., -1, 1:, 0])
        return inverse, np.concatenate([np.ones((*effects.shape[:-1], 1)), -effects], axis=-1)

    within = products - products[:, :1]
    whole = within.sum(axis=0)
    inverse, contrast = fit(whole)
    solver = (design[:, 1:] - means[row, 1:]) @ inverse  # (n, p - 1): least squares
    off_centre = means[:, 1:] - means[:, 1:].mean(axis=0)
    added = [_sums(solver, code) for code in codes]
    fitted = [level[code, 1:] - means[row, 1:] for level, code in zip(of_levels, codes, strict=True)]
    corrections, row_corrections = np.zeros((count, count)), np.zeros(count)
    for j, (code, moved) in enumerate(zip(codes, added, strict=True)):
        spread, each = moved.T @ moved, moved[code]
        row_corrections[j] = (spread * (off_centre.T @ off_centre)).sum()
        row_corrections[j] -= 2 * (off_centre * _sums(each, row) / sizes[:, None]).sum()
        for k in range(count):
            corrections[k, j] = (spread * whole[k, 1:, 1:]).sum() - 2 * np.vdot(each, fitted[k])

    def solve(within: FloatArray, expected: FloatArray, of_means: FloatArray, shares: FloatArray) -> FloatArray:
        _, contrast = fit(within)
        squares = np.einsum("...i,...kij,...j->...k", contrast, within, contrast)[..., 1:]
        system = (expected - expected[..., :1, :] + corrections)[..., 1:, 1:]
        nested = np.linalg.solve(system, squares[..., None])[..., 0]
        size, totals = of_means[..., -1, -1], of_means[..., :-1, -1]
        about = of_means[..., :-1, :-1] - totals[..., :, None] * totals[..., None, :] / size[..., None, None]
        between = np.einsum("...i,...ij,...j->...", contrast, about, contrast) / (size - 1)
        noise = shares / size[..., None] + row_corrections / (size[..., None] - 1)
        of_rows = (between - (noise[..., 1:] * nested).sum(axis=-1)) / noise[..., 0]
        variances = np.concatenate([of_rows[..., None], nested], axis=-1)
        return np.concatenate([variances, of_crossed(-contrast[..., 1:], variances)], axis=-1)

    noises = [[np.square(moved @ each.T).sum() for moved in added] for each in contrasts]
    crossed_noise = np.array(noises).reshape(len(contrasts), count) / degrees[:, None]
    unmixed = np.linalg.inv(np.eye(len(contrasts)) + added_by)

    def of_crossed(levels: FloatArray, variances: FloatArray) -> FloatArray:
        # The last one only gives the shape if there is no crossed effect.
        squares = [*(np.square(levels @ each.T).sum(axis=-1) for each in contrasts), variances[..., 0]]
        less_noise = np.stack(squares, axis=-1)[..., :-1] / degrees - variances @ crossed_noise.T
        return less_noise @ unmixed.T

    sums = [each.sum(axis=0) for each in (expected, of_means, shares_in_group)]
    parts = (within, expected, of_means, shares_in_group)
    weight = 1 / (sizes[row] * rows) - solver @ means[:, 1:].mean(axis=0)
    return Moments(
        variances=solve(whole, *sums),
        noise=np.block([[refines * sums[0] / len(values), np.zeros((count, len(degrees)))], [crossed_noise, added_by]]),
        degrees=np.array(
            [skewed_degrees(each @ contrast[1:], of) for each, of in zip(contrasts, degrees, strict=True)]
        ),
        without=solve(*(each.sum(axis=0) - each for each in parts)),
        weights=np.array([np.square(np.bincount(code, weight)).sum() for code in (*codes, *of_crossing.values())]),
        row_means=means @ contrast,
    )


def _contrasts(
    sizes: Mapping[str, int], effects: Sequence[Effect], fitted: Sequence[Effect]
) -> tuple[list[FloatArray], FloatArray, FloatArray]:
    """Return what mean squares of effects that cross rows are made of.

    Returns
    -------
    tuple
        Of each effect the matrix from fitted levels to its deviations, and the degrees of freedom of these; of each
        effect (rows) what a unit of the variance of each other one (columns) adds to its mean square.
    """

    def count(names: Iterable[str]) -> int:
        return math.prod(sizes[name] for name in names)

    def deviations(effect: Effect, block: Effect) -> FloatArray:
        if not {*effect} <= {*block}:
            return np.zeros((count(effect), count(block)))
        means = {name: np.full((1, sizes[name]), 1 / sizes[name]) for name in block}
        return reduce(np.kron, [np.eye(sizes[name]) - means[name] if name in effect else means[name] for name in block])

    added = [[({*effect} < {*other}) / count({*other} - {*effect}) for other in effects] for effect in effects]
    degrees = [math.prod(sizes[name] - 1.0 for name in each) for each in effects]
    contrasts = [np.hstack([deviations(effect, block) for block in fitted]) for effect in effects]
    return contrasts, np.array(degrees), np.array(added).reshape(len(effects), len(effects))


def _sums(columns: FloatArray, code: IntArray) -> FloatArray:
    """Return the sums of each column over the lines of each level, shape (levels, columns)."""
    order = np.argsort(code, kind="stable")
    return np.add.reduceat(columns[order], np.flatnonzero(np.diff(code[order], prepend=-1)), axis=0)


def _products(lines: FloatArray, group: IntArray, groups: int) -> FloatArray:
    """Return ``lines.T @ lines`` of the lines in each group."""
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group, minlength=groups)
    places = np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)
    padded = np.zeros((groups, int(counts.max()), lines.shape[1]))
    padded[group[order], places] = lines[order]
    return padded.transpose(0, 2, 1) @ padded
