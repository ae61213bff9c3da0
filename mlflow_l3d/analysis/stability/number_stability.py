"""Stability of predicted numbers over a whole investigation, from cells that arrive one at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.importance.variances import Layout
from mlflow_l3d.analysis.stability.comparable import Comparable, Group
from mlflow_l3d.analysis.stability.regression_agreement import regression_consistency
from mlflow_l3d.analysis.stability.regression_overlap import overlap_correlations
from mlflow_l3d.analysis.stability.run_agreement import Places
from mlflow_l3d.analysis.stability.vote_groups import Examples, mean
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.errors import ParameterError


@dataclass(frozen=True, slots=True)
class RegressionRecord:
    """Agreement of predicted numbers between runs.

    Attributes
    ----------
    group
        A factor (runs of one row, averaged over rows), or ``golden``.
    pearson
        CON-PEAR (Zhou et al. 2025): Pearson's correlation of two runs' predictions, mean over pairs, then over groups
        that have one: a group in which a run predicts one number only has none.
    ccc
        Lin's concordance correlation coefficient, likewise; a group has none where two of its runs both predict one
        number, the same one.
    runs, groups
        Runs and groups with a pair that can be compared.
    constant_runs
        How many of the runs predict one number only.
    """

    group: str
    pearson: float
    ccc: float
    runs: int
    groups: int
    constant_runs: int = 0

    def metrics(self) -> dict[str, float]:
        """Return ``consistency_pearson`` and ``consistency_ccc``; those that are nan are left out."""
        values = {"consistency_pearson": self.pearson, "consistency_ccc": self.ccc}
        return {name: value for name, value in values.items() if not math.isnan(value)}


@dataclass(slots=True)
class _Group:
    """Predictions of runs that are compared with each other, and once asked for, their agreement."""

    places: list[Places] = field(default_factory=list)
    predictions: list[FloatArray] = field(default_factory=list)
    runs: int = 0
    constant: int = 0
    closed: bool = False
    found: tuple[float, float, bool] | None = None

    def add(self, places: Places, predictions: FloatArray) -> None:
        if self.closed:
            msg = "this group is closed"
            raise ValueError(msg)
        self.places.append(places)
        self.predictions.append(predictions)
        self.runs += 1
        self.constant += int(not len(predictions) or bool(np.ptp(predictions) == 0))
        self.found = None

    def close(self) -> None:
        self.agreement()
        self.closed = True
        self.places, self.predictions = [], []

    def agreement(self) -> tuple[float, float, bool]:
        """Return CON-PEAR and the concordance, nan where undefined, and whether any pair can be compared."""
        if self.found is None:
            self.found = self._compute()
        return self.found

    def _compute(self) -> tuple[float, float, bool]:
        if self.runs < 2:
            return math.nan, math.nan, False
        first = self.places[0]
        if len(first) > 1 and all(here is first or np.array_equal(here, first) for here in self.places):
            record = regression_consistency(np.stack(self.predictions))
            return record.pearson, record.concordance, True
        known, columns = np.unique(np.concatenate(self.places), return_inverse=True)
        table = np.full((self.runs, len(known)), math.nan)
        rows = np.repeat(np.arange(self.runs), [len(here) for here in self.places])
        table[rows, columns] = np.concatenate(self.predictions)
        return overlap_correlations(table)


class NumberStability:
    """As :class:`mlflow_l3d.analysis.stability.stability.Stability`, for predictions that are numbers and not classes.

    A pair of runs is compared on the examples that both saw, two at least.

    Parameters
    ----------
    design
        How the cells are laid out.
    factors
        The investigated factors, in the order to report.
    """

    def __init__(self, design: Layout, factors: Sequence[str]) -> None:
        self._comparable = Comparable(design, factors)
        self._examples = Examples()
        self._groups: dict[Group, _Group] = {}

    def add(
        self,
        *,
        phase: str,
        factor: str | None,
        row: int | None,
        column: int | None,  # noqa: ARG002
        index: int | None,  # noqa: ARG002
        example_ids: npt.ArrayLike,
        labels: npt.ArrayLike,
        predictions: npt.ArrayLike,
    ) -> None:
        """Keep the predictions of one cell until its row is closed; order and parameters as in `Stability.add`.

        Raises
        ------
        ParameterError
            If the layout has no such place, an id occurs twice, or a prediction is not a finite number.
        ValueError
            If lengths or types are wrong, or the row is closed.
        """
        groups = self._comparable.groups(phase, factor, row)
        ids, guess = np.asarray(example_ids), _finite(predictions)
        if not ids.shape == np.shape(labels) == guess.shape:
            msg = f"example_ids, labels and predictions differ in shape: {ids.shape}, {np.shape(labels)}, {guess.shape}"
            raise ValueError(msg)
        places = self._examples.find(ids)
        for group in self._comparable.finished(phase, factor, row, groups):
            self._groups[group].close()
        for group in groups:
            self._groups.setdefault(group, _Group()).add(places, guess)

    def results(self) -> dict[str, RegressionRecord]:
        """Return factor or ``golden`` -> record, of those that have runs; it may be asked for at any time."""
        tables = dict.fromkeys(group.table for group in self._groups)
        return {name: self._record(name) for name in (*self._comparable.factors, "golden") if name in tables}

    def _record(self, name: str) -> RegressionRecord:
        own = [one for group, one in self._groups.items() if group.table == name]
        compared = [one for one in own if one.agreement()[2]]
        values = [[value for one in compared if not math.isnan(value := one.agreement()[kind])] for kind in (0, 1)]
        return RegressionRecord(
            group=name,
            pearson=mean(values[0]),
            ccc=mean(values[1]),
            runs=sum(one.runs for one in compared),
            groups=len(compared),
            constant_runs=sum(one.constant for one in compared),
        )


def _finite(predictions: npt.ArrayLike) -> FloatArray:
    given: npt.NDArray[Any] = np.asarray(predictions)
    if given.ndim != 1 or given.dtype.kind not in "iufb":
        msg = f"predictions must be one axis of numbers, got shape {given.shape} of {given.dtype}"
        raise ValueError(msg)
    # A copy, because it is kept while the caller may use its array again.
    numbers: FloatArray = given.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ParameterError("prediction", float(numbers[~np.isfinite(numbers)][0]), "must be a finite number")
    return numbers
