"""How ensembles of runs would spread: moments over all choices of members, with every row and column left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.cure.ensembles import (
    MOST_CHOICES,
    Array,
    Masks,
    Members,
    choose_best,
    combine_choices,
    draw_choices,
    score_many,
    tests_of,
)
from mlflow_l3d.analysis.cure.examples import jackknifed, luck_of_tests
from mlflow_l3d.analysis.intervals import FloatArray, IntArray, means_without
from mlflow_l3d.metrics.base import Metric

MEAN, TOTAL, WITHIN, CONSISTENCY, ROW_CONSISTENCY, FRAGILE, OVERSTATEMENT, LUCK = range(8)
"""Places of the moments: mean score; its variance if all factors are redrawn, and if only those of the remedy are;
agreement of two results in both cases; share of examples that one of two results has right; see `Prediction`; variance
that drawn test examples alone cause."""
MOMENTS: Final = 8
_COMPARED: Final = 10
"""At least so many choices, if there are, are compared with each other, at most 18; every choice has its score."""
_BLOCKS: Final = 20
_ALONE: Final = 1000
"""Choices of members of a single row: with those of a row among others, the draw of choices alone would move its
standard deviation by 4 %, and that without a block of members by more, which widens the interval."""


@dataclass(frozen=True)
class Table:
    """Rows of as many members each; several rows, or one row of independent runs on a reference set.

    Attributes
    ----------
    rows
        Member j of every row is of column j if they share columns.
    metric, classes
        What is scored, and how many classes are distinguished.
    crossed
        Whether rows share columns.
    places
        Which example of all those of the table each example of a row is; empty if rows share none.
    examples
        How many there are.
    test_size, test_is_drawn
        Of one row: examples that a result is scored on, and whether each result has its own.
    drawn
        Of several rows: test examples that each result draws, whose luck no remedy cures; 0 if all results share them.
    collapsed
        If runs collapsed, rows, and columns, of which most did, or all if none did: errors have at most so many degrees
        of freedom, and no law describes larger ensembles. Infinity if no run collapsed.
    """

    rows: Sequence[Members]
    metric: Metric
    classes: int | None
    crossed: bool = False
    places: Sequence[IntArray] = ()
    examples: int = 0
    test_size: int = 0
    test_is_drawn: bool = True
    drawn: int = 0
    collapsed: tuple[float, float] = (math.inf, math.inf)

    @classmethod
    def of(cls, rows: Sequence[Members], metric: Metric, classes: int | None, drawn: int = 0) -> Table:
        """Return the table of the rows that have the same runs: most runs in all."""
        rows = [row for row in rows if len(row) and len(row.labels)]
        crossed = all(row.columns is not None for row in rows)
        places: Sequence[IntArray] = ()
        orders = [np.arange(len(row)) if row.columns is None else np.argsort(row.columns) for row in rows]
        pairs = zip(rows, orders, strict=True)
        slots = [tuple(order if row.columns is None or not crossed else row.columns[order]) for row, order in pairs]
        counts = Counter(slots)
        whole = max(counts, key=lambda each: (counts[each] > 1, counts[each] * len(each)), default=())
        kept = [_some(row, order) for row, order, each in zip(rows, orders, slots, strict=True) if each == whole]
        names: Array = np.zeros(0)
        if kept and all(row.examples is not None for row in kept):
            numbers, names = pd.factorize(np.concatenate([np.asarray(row.examples) for row in kept]))
            places = np.split(numbers, np.cumsum([len(row.labels) for row in kept])[:-1])
        return cls(kept, metric, classes, crossed, places, len(names), drawn=drawn)

    @property
    def scores(self) -> FloatArray:
        """Shape (M, N): the score of each run."""
        some = [(row.labels[test], row.predictions[:, test]) for row in self.rows for test in [tests_of(row)]]
        return np.array([score_many(self.metric, *each, self.classes) for each in some])

    @property
    def draws_tests(self) -> bool:
        """Whether the runs of a row draw their own test examples, and share a reference set alone."""
        return bool(self.rows) and all(row.test is not None and not row.test.any() for row in self.rows)

    @property
    def size(self) -> int:
        """Members of a row."""
        return len(self.rows[0]) if self.rows else 0

    @property
    def most_exact(self) -> int:
        """Members up to which the variance has an unbiased estimate, also with some columns left out."""
        return self.size // 3 if self.test_size else (self.size - 1) // 2 if self.crossed else self.size

    @property
    def most_measured(self) -> int:
        """Members of which the mean score is measured, also without a block of members."""
        return self.size - math.ceil(self.size / _BLOCKS) if self.test_size else self.size

    def needed(self, k: int) -> int:
        """Return the members that a row must have for an unbiased estimate of the variance of results of k."""
        return 3 * k if self.test_size else 2 * k + 1 if self.crossed else k

    def moments(self, kind: str, k: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the moments of results of k members.

        Shape (8,), without each row (M, 8), without columns (B, 8), and without columns and a row (B, M, 8). `kind` is
        ``vote``, ``mean`` or ``choose``. nan if the table is too small for a moment; B is 0 if rows share no columns.
        """
        masks = draw_choices(self.size, k, _ALONE if len(self.rows) == 1 else MOST_CHOICES)
        # 1 if two choices have no common member.
        disjoint = np.asarray(masks.astype(np.float32) @ masks.T.astype(np.float32) == 0, dtype=np.float64)
        compared = _compared(masks, k)
        parts = [self._results(kind, row, masks, compared) for row in self.rows]
        scores, optimism = (np.array([part[at] for part in parts]) for at in (1, 2))
        has_pairs = k <= self.most_exact
        pairs_agree = has_pairs if self.test_size else 2 * k <= self.size or not self.crossed
        predictions = [part[0] for part in parts]
        agreements = self._agreements(predictions) if pairs_agree else np.empty((4, 0, 0, 0))
        is_shared = bool(self.test_size) and has_pairs
        luck = jackknifed(self.metric, self.classes, self.rows[0].labels, predictions[0]) if is_shared else None
        one_run, in_row, other = math.nan, math.nan, math.nan
        if self.drawn:
            apart = disjoint[np.ix_(compared, compared)]
            between = apart if self.crossed else np.ones_like(apart)
            one_run, in_row, other = luck_of_tests(self.metric, self.classes, self.rows, predictions, apart, between)

        def summary(kept: Masks, *, agree: bool) -> tuple[FloatArray, FloatArray]:
            moments = np.full(MOMENTS, math.nan)
            left = np.full((len(parts), MOMENTS), math.nan)
            if not kept.any():
                return moments, left
            for place, values in ((MEAN, scores), (OVERSTATEMENT, optimism)):
                moments[place], left[:, place] = _mean_without(values[:, kept].mean(axis=1))
            apart = disjoint[np.ix_(kept, kept)]
            centred = scores[:, kept] - moments[MEAN]
            if has_pairs and apart.any():
                half_squares = _half_squares(centred, apart)
                moments[WITHIN], left[:, WITHIN] = _mean_without(np.diag(half_squares))
            if has_pairs and (apart.any() or not self.crossed):  # crossed rows compare the same pairs of choices
                half_squares = half_squares if self.crossed else _half_squares(centred, np.ones_like(apart))
                moments[TOTAL], left[:, TOTAL] = _pair_mean_without(half_squares)
            for part in (moments, left) if self.drawn else ():
                part[..., WITHIN] = np.maximum(0.0, part[..., WITHIN] - (one_run - in_row))
                part[..., LUCK] = one_run
                if self.draws_tests:
                    part[..., LUCK] = one_run * len(self.rows[0].labels) / self.drawn
                    part[..., TOTAL] = np.maximum(0.0, part[..., TOTAL] - (one_run - other)) + part[..., LUCK]
            inner = kept[compared]
            places = compared[inner]
            apart = disjoint[np.ix_(places, places)]
            if agree and inner.any():
                self._agreement(agreements[:, :, inner][..., inner], apart, moments, left)
            if luck is not None and apart.any():
                alone = np.diag(luck)[inner].mean()
                shared = luck[np.ix_(inner, inner)][apart > 0].mean()
                moments[TOTAL] = moments[WITHIN]
                if self.test_is_drawn:
                    moments[WITHIN] = max(0.0, moments[TOTAL] - (alone - shared))
                    moments[TOTAL] = moments[WITHIN] + alone * len(self.rows[0].labels) / self.test_size
                moments[CONSISTENCY] = moments[ROW_CONSISTENCY]
                moments[ROW_CONSISTENCY] = math.nan
            return moments, left

        every, rows = summary(np.ones(len(masks), dtype=np.bool_), agree=pairs_agree)
        has_columns = self.crossed or self.test_size
        blocks = np.array_split(np.arange(self.size), min(_BLOCKS, self.size)) if has_columns else []
        # Few pairs of large ensembles remain without a column: their agreement would vary by the choice of pairs.
        agree = k == 1 or bool(self.test_size)
        kept = [np.logical_not(np.any(masks[:, block], axis=1)) for block in blocks]
        left = [summary(each, agree=agree and pairs_agree) for each in kept]
        columns, cells = (np.array([each[part] for each in left]) for part in (0, 1))
        return every, rows, columns.reshape(-1, MOMENTS), cells.reshape(-1, len(parts), MOMENTS)

    def _results(
        self, kind: str, row: Members, masks: Masks, compared: IntArray
    ) -> tuple[Array, FloatArray, FloatArray]:
        """Return what some choices predict, (p, n), each one's score, and what its validation score has beyond it."""
        test = tests_of(row)
        labels = row.labels[test]
        if kind != "choose":
            predictions = combine_choices(kind, row, masks, self.metric.agreement)
            scores = score_many(self.metric, labels, predictions[:, test], self.classes)
            return predictions[compared], scores, np.full(len(masks), math.nan)
        chosen = choose_best(self.metric.sign * np.asarray(row.validation), masks)
        singles = score_many(self.metric, labels, row.predictions[:, test], self.classes)
        return row.predictions[chosen[compared]], singles[chosen], (np.asarray(row.validation) - singles)[chosen]

    def _agreements(self, results: Sequence[Array]) -> FloatArray:
        """Return shape (4, M, p, p) of pairs of results of each row: on how many examples they agree.

        Within the row, and with other rows; both again of right and wrong instead of classes.
        """
        sums = np.full((4, len(results), *[len(results[0])] * 2), math.nan)
        if results[0].dtype.kind not in "iu":
            return sums
        sums[:2] = self._agree(results)
        if self.classes == 2 and min(each.min() for each in results) >= 0:
            sums[2:] = sums[:2]  # Two answers of two classes agree if both are right, or both wrong.
        else:
            rights = [(each == row.labels).astype(np.int64) for each, row in zip(results, self.rows, strict=True)]
            sums[2:] = self._agree(rights)
        return sums

    def _agree(self, codes: Sequence[IntArray]) -> FloatArray:
        count = len(codes[0])
        sums = np.zeros((2, len(codes), count, count))
        for code in range(1 + max(int(each.max(initial=-1)) for each in codes)):
            hits = [(each == code).astype(np.float32) for each in codes]
            votes = np.zeros((count, self.examples), dtype=np.float32)
            for places, hit in zip(self.places, hits, strict=False):
                votes[:, places] += hit
            for at, hit in enumerate(hits):
                sums[0, at] += hit @ hit.T
                if self.places:
                    sums[1, at] += hit @ votes[:, self.places[at]].T - hit @ hit.T
        return sums

    def _agreement(self, sums: FloatArray, apart: FloatArray, moments: FloatArray, left: FloatArray) -> None:
        """Write the moments of agreement, and those without each row."""
        sizes = np.array([len(row.labels) for row in self.rows])
        if apart.any():
            shares = [(part * apart).sum(axis=(1, 2)) / apart.sum() / sizes for part in (sums[0], sums[2])]
            for place, values in ((ROW_CONSISTENCY, shares[0]), (FRAGILE, 1 - shares[1])):
                moments[place], left[:, place] = _mean_without(values)
        held = np.bincount(np.concatenate(self.places or [np.zeros(0, dtype=np.int64)]), minlength=self.examples)
        shared = np.array([held[each].sum() - len(each) for each in self.places])
        weights = apart if self.crossed else np.ones_like(apart)
        if shared.sum() and weights.any():
            rest = np.where(shared.sum() > 2 * shared, shared.sum() - 2 * shared, math.nan)
            for place, part in ((CONSISTENCY, sums[1]), (FRAGILE, sums[3])):
                agreed = (part * weights).sum(axis=(1, 2)) / weights.sum()
                moments[place] = agreed.sum() / shared.sum()
                left[:, place] = (agreed.sum() - 2 * agreed) / rest
            moments[FRAGILE], left[:, FRAGILE] = 1 - moments[FRAGILE], 1 - left[:, FRAGILE]


def _some(row: Members, members: IntArray) -> Members:
    """Return some members of a row, in this order."""
    scores, validation = (None if part is None else part[members] for part in (row.scores, row.validation))
    return replace(row, predictions=row.predictions[members], scores=scores, validation=validation, columns=None)


def _compared(masks: Masks, k: int) -> IntArray:
    """Return places of a few choices; of groups of random partitions, so that many have no common member."""
    random, size = np.random.default_rng(k), masks.shape[1]
    if 2 * k > size or math.comb(size, k) > MOST_CHOICES:
        return np.arange(min(len(masks), _COMPARED))
    place = {tuple(np.flatnonzero(mask).tolist()): at for at, mask in enumerate(masks)}
    chosen: set[int] = set()
    while len(chosen) < min(_COMPARED, len(masks)):
        groups = random.permutation(size)[: size // k * k].reshape(-1, k)
        chosen |= {place[tuple(np.sort(group).tolist())] for group in groups}
    return np.array(sorted(chosen))


def _half_squares(scores: FloatArray, pairs: FloatArray) -> FloatArray:
    """Return shape (M, M): half the mean squared difference of two results of these rows, over pairs of choices."""
    squares = np.square(scores) @ pairs.sum(axis=1)
    products = scores @ pairs @ scores.T
    return np.asarray(np.maximum(0.0, ((squares[:, None] + squares) / 2 - products) / pairs.sum()))


def _mean_without(values: FloatArray) -> tuple[float, FloatArray]:
    """Return the mean, and that without each value; nan if there is no other."""
    return float(values.mean()), means_without(values)


def _pair_mean_without(values: FloatArray) -> tuple[float, FloatArray]:
    """Return the mean over pairs of different rows, shape (M, M), and that without the pairs of each row."""
    rows = len(values)
    sums = values.sum(axis=1) - np.diag(values)
    rest = (rows - 1) * (rows - 2)
    left = (sums.sum() - 2 * sums) / rest if rest else np.full(rows, math.nan)
    return float(sums.sum() / (rows * (rows - 1))) if rows > 1 else math.nan, left
