"""Stability of single predictions over a whole investigation, from cells that arrive one at a time.

How alike two predictions are: :class:`~mlflow_l3d.analysis.consistency.scored.ScoredComparison` computes CON and CCON
with any scoring function; :func:`~mlflow_l3d.analysis.consistency.choice.scoring` gives those of Zhou et al. 2025,
Table 2, by name. Libraries that one needs come with ``pip install 'mlflow-l3d[agreement]'`` and are imported where they
are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from mlflow_l3d.analysis.consistency.comparisons import ClassComparison, NumberComparison
from mlflow_l3d.analysis.consistency.examples import ExampleVotes
from mlflow_l3d.analysis.consistency.groups import Comparison, Group, Sums, consistency_of, mean_of_known
from mlflow_l3d.analysis.consistency.results import Consistency, PredictionImportance, prediction_importance
from mlflow_l3d.analysis.intervals import FloatArray, means_without
from mlflow_l3d.errors import ParameterError, check_known, unknown_name

GOLDEN: Final = "golden"
BASE: Final = "base"
Grouping: TypeAlias = Literal["rows", "levels", "tables", "pairs"]


class Stability:
    """What the single predictions of an investigation say, whoever made them.

    Cells arrive in the order of the table: factor by factor, row by row, then the golden runs; in the radial design row
    by row, the base run before its swaps. When a run of another row (or factor) arrives, the row before it is closed
    and its memory released, so the runs of a row must follow each other. Golden runs, in the radial design every run,
    stay in memory with one small integer for each prediction that is a class number.

    Parameters
    ----------
    comparable
        Which runs are compared; its factors are in the order to report.
    comparisons
        How predictions are read and compared: as class numbers by default, else see
        :func:`mlflow_l3d.analysis.consistency.scored.comparisons_by`.
    """

    def __init__(self, comparable: Comparable, *comparisons: Comparison[Any]) -> None:
        self._comparable = comparable
        self._comparisons = comparisons or (ClassComparison(),)
        self._numbers = next((one for one in self._comparisons if isinstance(one, NumberComparison)), None)
        others = (one for one in self._comparisons if one is not self._numbers)
        self._shares: Comparison[Sums] | None = next(others, None)
        self._columns: dict[Group, list[int | None]] = {}
        self._runs: list[list[tuple[Group, int]]] = []
        self._rows_of_sets: dict[Group, dict[int, int]] = {}
        self._seen: set[str] = set()

    def add(
        self,
        *,
        phase: str,
        factor: str | None,
        row: int | None,
        column: int | None,
        index: int | None,  # noqa: ARG002
        example_ids: Any,
        labels: Any,
        predictions: Any,
    ) -> None:
        """Count the predictions of one cell.

        Parameters
        ----------
        phase, factor, row, column, index
            Where the cell stands; None for what its phase does not have.
        example_ids
            n ids, whole numbers or texts.
        labels
            n true answers. None, where the comparison does without.
        predictions
            n predictions. Each of the three may be a sequence, an array, or a column of pyarrow.

        Raises
        ------
        ParameterError
            If the design has no such place, an id occurs twice, it had another label before, or a prediction is of a
            kind that is not compared.
        ValueError
            If lengths differ, or the row is closed.
        """
        groups = self._comparable.groups(phase, factor, row)
        ids = np.asarray(example_ids)
        lengths = (len(ids), len(predictions) if labels is None else len(labels), len(predictions))
        if len(set(lengths)) > 1:
            raise ValueError(f"example_ids, labels and predictions differ in number: {', '.join(map(str, lengths))}")
        finished = self._comparable.finished(groups)
        for comparison in self._comparisons:
            for group in finished:
                if group in comparison.groups:
                    comparison.groups[group].close()
            comparison.add(groups, ids, labels, predictions)
        added = []
        for group in groups:
            columns = self._columns.setdefault(group, [])
            added.append((group, len(columns)))
            if group.table == GOLDEN and row is not None:
                self._rows_of_sets.setdefault(group, {})[int(row)] = len(columns)
            columns.append(column)
        # The last group of a run in several is the set of independent runs, which it is not compared with here.
        self._runs.append(added if len(added) == 1 else added[:-1])
        # A base run alone does not belong to a factor.
        self._seen.update(group.table for group in (groups[-1:] if phase == "base" else groups))

    @property
    def classes(self) -> int | None:
        """The highest label seen, plus 1; None if there are no classes."""
        return None if self._shares is None else self._shares.classes

    def consistencies(self) -> dict[str, Consistency]:
        """Return factor or ``golden`` -> record, of those that have runs; it may be asked for at any time.

        In the radial design ``golden`` is the mean over the sets of independent runs: base, and each factor's swaps. Of
        the record, what belongs to classes (kappa, accuracy) is nan for other predictions. Nothing for numbers alone.
        """
        if self._shares is None:
            return {}
        return {name: consistency_of(self._shares.of(name), name) for name in self._tables()}

    def metrics_of(self, factor: str) -> dict[str, float]:
        """Return the metrics of a factor so far, those of :meth:`regression` included; nan ones are left out."""
        metrics = {} if self._shares is None else consistency_of(self._shares.of(factor), factor).metrics()
        return metrics | self.regression().get(factor, {})

    def regression(self) -> dict[str, dict[str, float]]:
        """Return factor or ``golden`` -> ``consistency_pearson``, ``consistency_ccc``, for numbers; else nothing.

        CON-PEAR of Zhou et al. 2025 and Lin's concordance correlation, mean over pairs of runs, then over groups. An
        answer that could not be read is not an example of its run. nan ones are left out.
        """
        return {} if self._numbers is None else {name: self._numbers.metrics(name) for name in self._tables()}

    def prediction_importances(self) -> dict[str, PredictionImportance]:
        """Return factor -> importance for single predictions.

        ``(1 - CON within rows) / (1 - CON of golden runs)``: how much disagreement this factor alone causes. Only
        in the designs, where both the factor's and the golden runs can be compared, and equal predictions agree fully.
        The interval is over rows and golden runs, in the radial design over both together; in the crossed design over
        columns too, where every row has the same ones.
        """
        runs, records = self._comparable, self.consistencies()
        if self._shares is None or runs.grouping not in ("rows", "pairs") or GOLDEN not in records:
            return {}
        golden = records.pop(GOLDEN)
        every = self._shares.groups.values()
        if math.isnan(golden.consistency) or not all(group.found.reflexive for group in every):
            return {}
        rows = sorted(set().union(*self._rows_of_sets.values()))
        importances = {}
        for factor, within in records.items():
            if math.isnan(within.consistency):
                continue
            groups = self._shares.groups.items()
            values = {group.member: one.found.consistency for group, one in groups if group.table == factor}
            of_rows = np.array([values.get(row, math.nan) for row in rows] if runs.pairs else list(values.values()))
            left_out: dict[str, tuple[Any, Any]] = {}
            if runs.pairs:
                left_out["rows with golden runs"] = means_without(of_rows), self._golden_without(rows)
            else:
                if runs.shared_columns:
                    left_out["columns"] = self._without_columns(factor), golden.consistency
                left_out["golden runs"] = within.consistency, self._found(Group(GOLDEN, GOLDEN)).without_run
            importances[factor] = prediction_importance(within, golden, of_rows, left_out)
        return importances

    def examples(self) -> ExampleVotes | None:
        """Return the examples of the golden runs (radial: of the base runs), ranked; None if no two runs saw one.

        None, too, for predictions that are not class numbers: votes are for classes.
        """
        member = BASE if self._comparable.pairs else GOLDEN
        return None if self._shares is None else self._shares.example_votes(Group(GOLDEN, member))

    def agreement_of_runs(self) -> list[float]:
        """Return, in the order of adding, the mean agreement of each run with those that it is compared with.

        nan if there are none. The value of a base run of the radial design is the mean over its swaps.
        """
        if self._shares is None:
            return [math.nan] * len(self._runs)
        return [
            mean_of_known([float(self._found(group).run_agreement[number]) for group, number in runs])
            for runs in self._runs
        ]

    def _tables(self) -> list[str]:
        return [name for name in (*self._comparable.factors, GOLDEN) if name in self._seen]

    def _found(self, group: Group) -> Sums:
        assert self._shares is not None
        return self._shares.groups[group].found

    def _without_columns(self, factor: str) -> FloatArray:
        """Return shape (N,): CON within rows without one column.

        A row that lacks the column keeps its value.
        """
        rows = {group: columns for group, columns in self._columns.items() if group.table == factor}
        every_column = {column for columns in rows.values() for column in columns if column is not None}
        without = [
            [
                self._found(group).without(columns.index(column) if column in columns else None)
                for group, columns in rows.items()
            ]
            for column in sorted(every_column)
        ]
        return np.array([mean_of_known(values) for values in without])

    def _golden_without(self, rows: Sequence[int]) -> FloatArray:
        """Return shape (M,): mean over the sets of independent runs of CON without the runs of one row."""
        sets = [(self._found(group), numbers) for group, numbers in self._rows_of_sets.items()]
        values = [[one.without(at.get(row)) for one, at in sets] for row in rows]
        return np.array([mean_of_known(each) for each in values], dtype=np.float64)


@dataclass
class Comparable:
    """Groups of the runs of one investigation, which arrive in the order of its table; all golden runs are one.

    Attributes
    ----------
    factors
        The investigated factors.
    grouping
        What else is compared. ``rows``: the runs of one row of a factor. ``levels``: the same, but these never have the
        same level, as two golden runs may. ``tables``: all runs of a factor, in which other factors may vary, too.
        ``pairs``: base run i with swap i, for each factor; as golden runs the sets of independent runs, which are all
        base runs, and all swaps of each factor.
    shared_columns
        Whether every row has the same columns.
    """

    factors: Sequence[str]
    grouping: Grouping = "rows"
    shared_columns: bool = False
    _open: list[Group] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        check_known("compares", [self.grouping], get_args(Grouping))

    @property
    def pairs(self) -> bool:
        """Whether a group is a base run and its swap, and these serve as golden runs."""
        return self.grouping == "pairs"

    def groups(self, phase: str, factor: str | None, row: int | None) -> list[Group]:
        """Return the groups that a run belongs to: that of its factor first, then that of golden runs.

        Raises
        ------
        ParameterError
            If the design has no such phase, the factor is not investigated, or the row is missing.
        """
        if phase == GOLDEN:
            return [Group(GOLDEN, GOLDEN)]
        phases = (BASE, "swap") if self.pairs else ("investigation",)
        if phase not in phases:
            raise unknown_name("phase", phase, (*phases, GOLDEN))
        if phase != BASE and factor not in self.factors:
            raise unknown_name("factor", str(factor), self.factors)
        if self.grouping == "tables":
            return [Group(str(factor), 0)]
        if row is None:
            raise ParameterError("row", row, f"must be a whole number in a run of phase {phase}")
        if phase == BASE:
            return [*(Group(name, int(row)) for name in self.factors), Group(GOLDEN, BASE)]
        # Its name, which no factor can have, distinguishes a swap set from the base set.
        return [Group(str(factor), int(row)), *([Group(GOLDEN, f"swap {factor}")] if self.pairs else [])]

    def finished(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups that are finished when a run arrives that belongs to `groups`.

        Golden runs, and the sets that stand for them, are never finished. A row of pairs is over with its last swap.
        """
        finished = [group for group in self._open if group not in groups]
        if self.pairs:
            finished = [group for group in finished if group.member != groups[0].member]
        new = [group for group in groups if group.table != GOLDEN and group not in self._open]
        self._open = [*(group for group in self._open if group not in finished), *new]
        return finished
