"""Stability of single predictions over a whole investigation, from cells that arrive one at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.importance.variances import DESIGNS, Layout
from mlflow_l3d.analysis.stability.comparable import BASE, GOLDEN, Comparable, Group
from mlflow_l3d.analysis.stability.consistency import VoteCounter
from mlflow_l3d.analysis.stability.examples import ExampleVotes
from mlflow_l3d.analysis.stability.prediction_importance import PredictionImportance, prediction_importance
from mlflow_l3d.analysis.stability.results import Consistency
from mlflow_l3d.analysis.stability.vote_groups import Examples, mean
from mlflow_l3d.analysis.typing import FloatArray


class _Run(NamedTuple):
    """A run in one of its groups."""

    group: Group
    number: int


class Stability:
    """What the single predictions of an investigation say, whoever made them.

    Cells arrive in the order of the table: factor by factor, row by row, then the golden runs; in the radial design row
    by row, the base run before its swaps. When a run of another row (or factor) arrives, the row before it is closed
    and its memory released, so the runs of a row must follow each other. Golden runs, in the radial design every run,
    stay in memory with one small integer for each prediction.

    Parameters
    ----------
    design
        How the cells are laid out; which runs are compared is told by
        :class:`mlflow_l3d.analysis.stability.comparable.Comparable`.
    factors
        The investigated factors, in the order to report.
    """

    def __init__(self, design: Layout, factors: Sequence[str]) -> None:
        self._comparable = Comparable(design, factors)
        examples = Examples()
        self._counters = {name: VoteCounter(examples=examples) for name in (*self._comparable.factors, GOLDEN)}
        self._sizes: dict[Group, int] = {}
        self._columns: dict[Group, list[int | None]] = {}
        self._runs: list[list[_Run]] = []
        self._rows_of_sets: dict[Group, dict[int, int]] = {}
        self._seen: set[str] = set()
        self._highest = -1

    def add(
        self,
        *,
        phase: str,
        factor: str | None,
        row: int | None,
        column: int | None,
        index: int | None,  # noqa: ARG002
        example_ids: npt.ArrayLike,
        labels: npt.ArrayLike,
        predictions: npt.ArrayLike,
    ) -> None:
        """Count the predictions of one cell.

        Parameters
        ----------
        phase, factor, row, column, index
            Where the cell stands; None for what its phase does not have.
        example_ids, labels, predictions
            Shape (n,): as for :meth:`mlflow_l3d.analysis.stability.consistency.VoteCounter.add`.

        Raises
        ------
        ParameterError
            If the layout has no such place, an id occurs twice, or it had another label before.
        ValueError
            If lengths or types are wrong, or the row is closed.
        """
        groups = self._comparable.groups(phase, factor, row)
        for group in self._comparable.finished(phase, factor, row, groups):
            self._counters[group.table].close(group.member)
        truth = np.asarray(labels)
        added = []
        for group in groups:
            self._counters[group.table].add(group.member, example_ids, truth, predictions)
            number = self._sizes.get(group, 0)
            self._sizes[group] = number + 1
            self._columns.setdefault(group, []).append(column)
            added.append(_Run(group, number))
            if group.table == GOLDEN and row is not None:
                self._rows_of_sets.setdefault(group, {})[int(row)] = number
        # The last group of a run in several is the set of independent runs, which it is not compared with here.
        self._runs.append(added if len(added) == 1 else added[:-1])
        # A base run alone is no run of a factor.
        self._seen.update(group.table for group in groups if phase != "base" or group.table == GOLDEN)
        self._highest = max(self._highest, int(truth.max(initial=-1)))

    @property
    def classes(self) -> int | None:
        """The highest label seen, plus 1; None where there is none."""
        return self._highest + 1 if self._highest >= 0 else None

    def consistencies(self) -> dict[str, Consistency]:
        """Return factor or ``golden`` -> record, of those that have runs; it may be asked for at any time.

        In the radial design ``golden`` is the mean over the sets of independent runs: base, and each factor's swaps.
        """
        return {name: counter.result(name) for name, counter in self._counters.items() if name in self._seen}

    def metrics_of(self, factor: str) -> dict[str, float]:
        """Return ``consistency`` and ``correct_consistency`` of a factor so far; those that are nan are left out."""
        found = zip(("consistency", "correct_consistency"), self._counters[factor].shares(), strict=True)
        return {name: value for name, value in found if not math.isnan(value)}

    def prediction_importances(self) -> dict[str, PredictionImportance]:
        """Return factor -> importance for single predictions.

        Only in the designs, and where both the factor's and the golden runs can be compared. The interval is over rows
        and golden runs, in the radial design over both together; in the crossed design over columns too, where every
        row has the same ones.
        """
        golden = self._counters[GOLDEN].result(GOLDEN)
        if self._comparable.design not in DESIGNS or math.isnan(golden.consistency):
            return {}
        radial = self._comparable.design == "radial"
        rows = sorted(set().union(*self._rows_of_sets.values())) if radial else []
        golden_without_row = self._golden_without(rows) if radial else None
        found = {}
        for factor in self._comparable.factors:
            counter = self._counters[factor]
            within = counter.result(factor)
            if math.isnan(within.consistency):
                continue
            values = {member: one.consistency for member, one in counter.per_group().items()}
            if radial:
                row_values = [values.get(row, math.nan) for row in rows]
                found[factor] = prediction_importance(within, golden, row_values, golden_without_row=golden_without_row)
                continue
            found[factor] = prediction_importance(
                within,
                golden,
                list(values.values()),
                without_column=self._without_column(factor) if self._comparable.design == "crossed" else None,
                without_golden=self._counters[GOLDEN].per_run()[GOLDEN].without,
            )
        return found

    def examples(self) -> ExampleVotes | None:
        """Return the examples of the golden runs (radial: of the base runs), ranked; None where no two runs saw one."""
        member = BASE if self._comparable.design == "radial" else GOLDEN
        record = self._counters[GOLDEN].per_group().get(member)
        if record is None or not record.pairs_of_predictions:
            return None
        return self._counters[GOLDEN].example_votes(member)

    def agreement_of_runs(self) -> list[float]:
        """Return, in the order of adding, the mean agreement of each run with those that it is compared with.

        nan where there are none. The value of a base run of the radial design is the mean over its swaps.
        """
        agreement = {table: counter.per_run() for table, counter in self._counters.items()}
        values = [
            [float(agreement[group.table][group.member].agreement[number]) for group, number in runs]
            for runs in self._runs
        ]
        return [mean([value for value in each if not math.isnan(value)]) for each in values]

    def _without_column(self, factor: str) -> FloatArray | None:
        """Return shape (N,): CON within rows without one column; None unless all rows have the same columns."""
        rows = {group: columns for group, columns in self._columns.items() if group.table == factor}
        wanted = {column for columns in rows.values() for column in columns}
        if None in wanted or any(len(columns) != len(wanted) or set(columns) != wanted for columns in rows.values()):
            return None
        agreement = self._counters[factor].per_run()
        columns_in_order = next(iter(rows.values()))
        without: list[list[float]] = []
        for group, columns in rows.items():
            values = agreement[group.member].without
            without.append([float(values[columns.index(column)]) for column in columns_in_order])
        return np.array(
            [mean([value for value in each if not math.isnan(value)]) for each in zip(*without, strict=True)]
        )

    def _golden_without(self, rows: Sequence[int]) -> FloatArray:
        """Return shape (M,): mean over the sets of independent runs of CON without the runs of one row."""
        agreement, records = self._counters[GOLDEN].per_run(), self._counters[GOLDEN].per_group()
        values = []
        for row in rows:
            left = []
            for group, numbers in self._rows_of_sets.items():
                whole = records[group.member].consistency
                left.append(agreement[group.member].without[numbers[row]] if row in numbers else whole)
            values.append(mean([float(value) for value in left if not math.isnan(value)]))
        return np.array(values, dtype=np.float64)
