"""How ensembles of runs would spread: moments over all choices of members, with every row and column left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.cure.ensembles import (
    Array,
    Masks,
    Members,
    choose_best,
    combine_choices,
    draw_choices,
    score_many,
)
from mlflow_l3d.analysis.intervals import FloatArray, IntArray
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.classification import UNPARSED

MEAN, TOTAL, WITHIN, CONSISTENCY, ROW_CONSISTENCY, FRAGILE, OVERSTATEMENT = range(7)
"""Places of the moments: mean score; its variance if all factors are redrawn, and if only those of the remedy are;
agreement of two results in both cases; share of examples that one of two results has right; see `Prediction`."""
MOMENTS: Final = 7
_MOST_BLOCKS: Final = 20
_SINGLE_COLUMNS: Final = 30
_COMPARED: Final = 40
"""Choices whose predictions are compared with each other; scores are those of every choice."""


@dataclass(frozen=True)
class Table:
    """Rows of a table, whose members take slots: shared columns, or in each row members of its own."""

    rows: Sequence[Members]
    metric: Metric
    classes: int | None
    crossed: bool
    slots: Sequence[IntArray]
    size: int
    places: Sequence[IntArray] | None
    examples: int

    @classmethod
    def of(cls, rows: Sequence[Members], metric: Metric, classes: int | None) -> Table:
        """Return the table of these rows; they share columns if each says which columns it has."""
        crossed = all(row.columns is not None for row in rows)
        columns = [row.columns if crossed else np.arange(len(row)) for row in rows]
        different, codes = np.unique(np.concatenate(columns), return_inverse=True)  # type: ignore[arg-type]
        slots = np.split(codes, np.cumsum([len(row) for row in rows])[:-1])
        places, examples = None, 0
        if all(row.examples is not None for row in rows):
            numbers, names = pd.factorize(np.concatenate([np.asarray(row.examples) for row in rows]))
            places = np.split(numbers, np.cumsum([len(row.labels) for row in rows])[:-1])
            examples = len(names)
        return cls(rows, metric, classes, crossed, slots, len(different), places, examples)

    @property
    def most_exact(self) -> int:
        """Members up to which the variance has an unbiased estimate, also with a column left out."""
        return (self.size - 1) // 2 if self.crossed else self.size

    def moments(self, kind: str, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the moments of results of k members: shape (7,), without each row (M, 7), without columns (B, 7).

        `kind` is ``vote``, ``mean`` or ``choose``. nan if the table is too small for a moment; the last part is empty
        if rows share no columns.
        """
        masks = draw_choices(self.size, k)
        compared = _compared(masks, k)
        scores = np.full((2, len(self.rows), len(masks)), math.nan)
        results = []
        for at, (row, slots) in enumerate(zip(self.rows, self.slots, strict=True)):
            has = np.isin(np.arange(self.size), slots)
            valid = ~(masks & ~has).any(axis=1)
            own = masks[valid][:, slots]
            predictions, scores[0, at, valid], scores[1, at, valid] = self._results(kind, row, own)
            whole = np.zeros((len(masks), len(row.labels)), dtype=predictions.dtype) if not valid.all() else predictions
            if not valid.all():
                whole[valid] = predictions
            results.append((whole[compared], valid[compared]))
        pairs = k <= self.most_exact
        agreement = 2 * k <= self.size or not self.crossed
        agreements = self._agreements(results if agreement else [])
        summary = _Summary(masks, scores, compared, agreements, self._comparisons(), self.crossed)
        every, rows = summary.of(np.ones(len(masks), dtype=np.bool_), pairs=pairs, agreement=agreement)
        blocks: list[IntArray] = []
        if self.crossed:
            count = self.size if self.size <= _SINGLE_COLUMNS else _MOST_BLOCKS
            blocks = np.array_split(np.arange(self.size), count)
        kept = [~masks[:, block].any(axis=1) for block in blocks]
        # Few pairs of large ensembles remain without a column: their agreement would vary by the choice of pairs.
        columns = [summary.of(each, pairs=pairs, agreement=k == 1)[0] for each in kept]
        return every, rows, np.reshape(columns, (len(columns), MOMENTS))

    def _results(self, kind: str, row: Members, masks: Masks) -> tuple[Array, FloatArray, FloatArray]:
        """Return what each choice predicts, (m, n), its score, and how much the validation score is above it."""
        test = slice(None) if row.test is None else row.test
        labels = row.labels[test]
        if kind != "choose":
            predictions = combine_choices(kind, row, masks, self.metric.agreement)
            scores = score_many(self.metric, labels, predictions[:, test], self.classes)
            return predictions, scores, np.full(len(masks), math.nan)
        chosen, weights = choose_best(row, masks)
        singles = score_many(self.metric, labels, row.predictions[:, test], self.classes)
        optimism = np.asarray(row.validation) - singles
        return row.predictions[chosen], weights @ singles, weights @ optimism

    def _agreements(self, results: Sequence[tuple[Array, Masks]]) -> FloatArray:
        """Return shape (4, M, p, p) of pairs of results of each row.

        The share of examples on which they agree within the row; the number of those with results of other rows; both
        again of right and wrong instead of classes.
        """
        count = len(results[0][1]) if results else 0
        sums = np.full((4, len(self.rows), count, count), math.nan)
        form = self.rows[0].predictions.dtype.kind
        if not results or form == "f" or (form not in "iu" and self.metric.agreement not in ("", "exact_match")):
            return sums
        codes = [each for each, _ in results]
        if form not in "iu":
            numbers, _ = pd.factorize(np.concatenate([each.ravel() for each in codes]))
            cuts = np.cumsum([each.size for each in codes])[:-1]
            codes = [part.reshape(each.shape) for part, each in zip(np.split(numbers, cuts), codes, strict=True)]
        codes = [np.where(valid[:, None], each, UNPARSED) for each, (_, valid) in zip(codes, results, strict=True)]
        sums[0], sums[1] = self._agree(codes)
        if form in "iu" and self.classes == 2 and min(each.min() for each in codes) >= 0:
            sums[2:] = sums[:2]  # Two answers of two classes agree if both are right, or both wrong.
        elif form in "iu":
            right = [np.where(each == row.labels, 1, 0) for each, row in zip(codes, self.rows, strict=True)]
            sums[2], sums[3] = self._agree(right)
        invalid = np.array([~valid for _, valid in results])
        sums[:, invalid] = math.nan
        sums.transpose(0, 1, 3, 2)[:, invalid] = math.nan
        return sums

    def _agree(self, codes: Sequence[IntArray]) -> tuple[FloatArray, Any]:
        count = len(codes[0])
        within = np.zeros((len(codes), count, count))
        total = np.zeros_like(within)
        for code in range(1 + max(int(each.max(initial=-1)) for each in codes)):
            votes = np.zeros((count, self.examples), dtype=np.float32)
            hits = [(each == code).astype(np.float32) for each in codes]
            for places, hit in zip(self.places or (), hits, strict=False):
                votes[:, places] += hit
            for at, hit in enumerate(hits):
                own = hit @ hit.T
                within[at] += own
                if self.places is not None:
                    total[at] += hit @ votes[:, self.places[at]].T - own
        sizes = np.array([each.shape[1] for each in codes])[:, None, None]
        return within / sizes, total

    def _comparisons(self) -> FloatArray:
        """Return how many examples each row shares with all other rows, added up."""
        held = np.bincount(np.concatenate(self.places or [np.zeros(0, dtype=np.int64)]), minlength=self.examples)
        if self.places is None:
            return np.zeros(len(self.rows))
        return np.array([float((held[places] - 1).sum()) for places in self.places])


def _compared(masks: Masks, k: int) -> IntArray:
    """Return places of at most 40 choices; of groups of random partitions, so that many have no common member."""
    random, size = np.random.default_rng(k), masks.shape[1]
    if 2 * k > size or len(masks) != math.comb(size, k):
        return np.arange(min(len(masks), _COMPARED))
    place = {tuple(np.flatnonzero(mask)): at for at, mask in enumerate(masks)}
    chosen: set[int] = set()
    while len(chosen) < min(_COMPARED, len(masks)):
        groups = random.permutation(size)[: size // k * k].reshape(-1, k)
        chosen |= {place[tuple(np.sort(group).tolist())] for group in groups}
    return np.array(sorted(chosen))


@dataclass(frozen=True)
class _Summary:
    """Scores and agreements of every choice, to be averaged over some of them."""

    masks: Masks
    scores: FloatArray
    compared: IntArray
    agreements: FloatArray
    comparisons: FloatArray
    crossed: bool

    def of(self, kept: Masks, *, pairs: bool, agreement: bool) -> tuple[FloatArray, FloatArray]:
        """Return the moments over the choices that are kept, shape (7,), and without each row, (M, 7)."""
        scores, optimism = self.scores[:, :, kept]
        rows, moments = len(scores), np.full(MOMENTS, math.nan)
        left = np.full((rows, MOMENTS), math.nan)
        if not kept.any():
            return moments, left
        for place, values in ((MEAN, _means(scores)), (OVERSTATEMENT, _means(optimism))):
            moments[place], left[:, place] = _mean_without(values)
        if pairs:
            disjoint = _disjoint(self.masks[kept])
            centred = scores - np.nanmean(scores)
            squares = _half_squares(centred, disjoint, disjoint if self.crossed else np.ones_like(disjoint))
            moments[WITHIN], left[:, WITHIN] = _mean_without(np.diag(squares))
            np.fill_diagonal(squares, math.nan)
            moments[TOTAL], left[:, TOTAL] = _pair_mean_without(squares)
        if not agreement:
            return moments, left
        inner = kept[self.compared]
        apart = _disjoint(self.masks[self.compared[inner]])
        parts = self.agreements[:, :, inner][:, :, :, inner]
        within = np.where(apart, parts[[0, 2]], math.nan)
        between = np.where(apart, parts[[1, 3]], math.nan) if self.crossed else parts[[1, 3]]
        own, own_right = (_means(each.reshape(rows, -1)) for each in within)
        moments[ROW_CONSISTENCY], left[:, ROW_CONSISTENCY] = _mean_without(own)
        moments[FRAGILE], left[:, FRAGILE] = _mean_without(1 - own_right)
        if self.comparisons.sum() > 0:
            sums = np.array([_means(each.reshape(rows, -1)) for each in between])
            rest = self.comparisons.sum() - 2 * self.comparisons
            moments[[CONSISTENCY, FRAGILE]] = sums.sum(axis=1) / self.comparisons.sum()
            left[:, [CONSISTENCY, FRAGILE]] = ((sums.sum(axis=1) - 2 * sums.T) / np.where(rest > 0, rest, math.nan)[:, None])
            moments[FRAGILE], left[:, FRAGILE] = 1 - moments[FRAGILE], 1 - left[:, FRAGILE]
        return moments, left


def _disjoint(masks: Masks) -> FloatArray:
    common = masks.astype(np.float32) @ masks.T.astype(np.float32)
    return np.asarray(common == 0, dtype=np.float64)


def _half_squares(scores: FloatArray, within: FloatArray, between: FloatArray) -> FloatArray:
    """Return shape (M, M): half the mean squared difference of two results of these rows, over pairs of choices."""
    known = np.isfinite(scores).astype(np.float64)
    values = np.where(known > 0, scores, 0.0)

    def mean(pairs: FloatArray, rows: Any) -> FloatArray:
        squares = rows((values**2) @ pairs, known) + rows(known @ pairs, values**2)
        counts = rows(known @ pairs, known)
        found = squares / 2 - rows(values @ pairs, values)
        result: FloatArray = np.where(counts > 0, np.maximum(found, 0) / np.maximum(counts, 1), math.nan)
        return result

    table = mean(between, lambda one, other: one @ other.T)
    np.fill_diagonal(table, mean(within, lambda one, other: (one * other).sum(axis=1)))
    return table


def _means(values: FloatArray) -> FloatArray:
    """Return the mean of each row over what is known; nan if nothing is."""
    known = np.isfinite(values)
    counts = known.sum(axis=1)
    return np.where(counts > 0, np.where(known, values, 0).sum(axis=1) / np.maximum(counts, 1), math.nan)


def _mean_without(values: FloatArray) -> tuple[float, FloatArray]:
    """Return the mean of the known values, and that without each of them."""
    known = np.isfinite(values)
    count, total = known.sum(), np.where(known, values, 0).sum()
    if not count:
        return math.nan, np.full(len(values), math.nan)
    left = (total - np.where(known, values, 0)) / np.maximum(count - known, 1)
    return float(total / count), np.where(count - known > 0, left, math.nan)


def _pair_mean_without(values: FloatArray) -> tuple[float, FloatArray]:
    """Return the mean over known pairs, shape (M, M), and that without the pairs of each row."""
    known = np.isfinite(values)
    sums, counts = np.where(known, values, 0).sum(axis=1), known.sum(axis=1)
    if not counts.sum():
        return math.nan, np.full(len(values), math.nan)
    rest = counts.sum() - 2 * counts
    left = np.where(rest > 0, (sums.sum() - 2 * sums) / np.maximum(rest, 1), math.nan)
    return float(sums.sum() / counts.sum()), left
