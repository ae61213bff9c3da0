"""Agreement of predictions of any kind over a whole investigation, from cells that arrive one at a time."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mlflow_l3d.analysis.importance.variances import DESIGNS, Layout
from mlflow_l3d.analysis.stability.agreement.base import Scoring, hashable
from mlflow_l3d.analysis.stability.agreement.choice import prediction_form, truth_form
from mlflow_l3d.analysis.stability.agreement.kinds import OneKind, as_list, is_missing
from mlflow_l3d.analysis.stability.agreement.matching import ExactMatch
from mlflow_l3d.analysis.stability.agreement.scored_group import ScoredGroup, Sums, combined
from mlflow_l3d.analysis.stability.agreement.structures import Closeness
from mlflow_l3d.analysis.stability.comparable import GOLDEN, Comparable, Group
from mlflow_l3d.analysis.stability.number_stability import NumberStability
from mlflow_l3d.analysis.stability.prediction_importance import PredictionImportance, prediction_importance
from mlflow_l3d.analysis.stability.results import Consistency
from mlflow_l3d.analysis.stability.vote_groups import Examples, mean
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.errors import ParameterError


class _Run(NamedTuple):
    """A run in one of its groups."""

    group: Group
    number: int


class AgreementOfRuns:
    """As :class:`mlflow_l3d.analysis.stability.stability.Stability`, for predictions that are not class numbers.

    They may be texts, numbers, lists (of tags, tokens, ids, arcs), mappings, or JSON texts of lists and mappings where
    the scoring function needs these. A prediction that is None or nan is an answer that could not be read: it agrees
    with nothing. Cells arrive in the same order, and the row before is closed in the same way.

    Parameters
    ----------
    design
        How the cells are laid out.
    factors
        The investigated factors, in the order to report.
    scoring
        How much two predictions agree (Zhou et al. 2025, Table 2), see
        :func:`mlflow_l3d.analysis.stability.agreement.choice.scoring_of`; None for numbers of which only
        :meth:`regression` is wanted.

    Notes
    -----
    Different predictions of an example are compared once, however many runs make them: with d of them, d (d + 1) / 2
    calls of the scoring function. Where test sets differ, a pair of runs counts by the examples it shares, as for class
    numbers.
    """

    def __init__(self, design: Layout, factors: Sequence[str], scoring: Scoring | None) -> None:
        self._comparable = Comparable(design, factors)
        self._scoring = scoring
        numbers = scoring is None or isinstance(scoring, Closeness)
        self._numbers = NumberStability(design, factors) if numbers else None
        # Other scoring functions refuse what they cannot compare.
        self._kinds = OneKind() if isinstance(scoring, ExactMatch) else None
        self._examples = Examples()
        self._raw_truths: dict[int, Hashable] = {}
        self._truths: dict[int, Hashable] = {}
        self._groups: dict[Group, ScoredGroup] = {}
        self._columns: dict[Group, list[int | None]] = {}
        self._rows_of_sets: dict[Group, dict[int, int]] = {}
        self._runs: list[list[_Run]] = []
        self._seen: set[str] = set()

    def add(
        self,
        *,
        phase: str,
        factor: str | None,
        row: int | None,
        column: int | None,
        index: int | None,
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
            n true answers; one that is None or nan is not known, and where one is not known there is no CCON. None
            where there are none at all.
        predictions
            n predictions. Each of the three may be a sequence, an array, or a column of pyarrow.

        Raises
        ------
        ParameterError
            If the layout has no such place, an id occurs twice, it had another label before, or a prediction is of a
            kind that the scoring function does not compare, or another kind than before.
        ValueError
            If lengths differ, or the row is closed.
        """
        groups = self._comparable.groups(phase, factor, row)
        ids, answers = np.asarray(example_ids), as_list(predictions)
        truths = [None] * len(answers) if labels is None else as_list(labels)
        if not ids.shape == (len(truths),) == (len(answers),):
            msg = f"example_ids, labels and predictions differ in number: {ids.shape}, {len(truths)}, {len(answers)}"
            raise ValueError(msg)
        if self._kinds is not None:
            for what, values in (("label", truths), ("prediction", answers)):
                self._kinds.check(what, values)
        if self._numbers is not None:
            read = np.array([not is_missing(answer) for answer in answers], dtype=np.bool_)
            numbers = np.array([_number(each) for each in answers if not is_missing(each)], dtype=np.float64)
            place = {"phase": phase, "factor": factor, "row": row, "column": column, "index": index}
            zeros = np.zeros(len(numbers))
            self._numbers.add(**place, example_ids=ids[read], labels=zeros, predictions=numbers)  # type: ignore[arg-type]
        if self._scoring is not None:
            self._add(groups, self._comparable.finished(phase, factor, row, groups), ids, truths, answers)
        added = []
        for group in groups:
            columns = self._columns.setdefault(group, [])
            added.append(_Run(group, len(columns)))
            columns.append(column)
            if group.table == GOLDEN and row is not None:
                self._rows_of_sets.setdefault(group, {})[int(row)] = added[-1].number
        # The last group of a run in several is the set of independent runs, which it is not compared with here.
        self._runs.append(added if len(added) == 1 else added[:-1])
        self._seen |= {group.table for group in (groups[-1:] if phase == "base" else groups)}

    @property
    def classes(self) -> int | None:
        """None: there are no classes."""
        return None

    def consistencies(self) -> dict[str, Consistency]:
        """Return factor or ``golden`` -> record, of those that have runs; it may be asked for at any time.

        Of the record, what belongs to classes (kappa, accuracy) is nan. Nothing without a scoring function.
        """
        return {name: self._record(name) for name in self._tables()} if self._scoring is not None else {}

    def metrics_of(self, factor: str) -> dict[str, float]:
        """Return the metrics of a factor so far, those of :meth:`regression` included; nan ones are left out."""
        found = self._record(factor).metrics() if self._scoring is not None else {}
        return found | self.regression().get(factor, {})

    def regression(self) -> dict[str, dict[str, float]]:
        """Return factor or ``golden`` -> ``consistency_pearson``, ``consistency_ccc``, for numbers; else nothing.

        CON-PEAR of Zhou et al. 2025 and Lin's concordance correlation, mean over pairs of runs, then over groups. An
        answer that could not be read is no example of its run. nan ones are left out.
        """
        if self._numbers is None:
            return {}
        return {name: record.metrics() for name, record in self._numbers.results().items() if name in self._seen}

    def prediction_importances(self) -> dict[str, PredictionImportance]:
        """Return factor -> importance for single predictions, as for class numbers.

        ``(1 - CON within rows) / (1 - CON of golden runs)``: how much disagreement this factor alone brings about.
        Only for a scoring function that is 1 for equal predictions.
        """
        if self._comparable.design not in DESIGNS or self._scoring is None or GOLDEN not in self._seen:
            return {}
        golden = self._record(GOLDEN)
        if math.isnan(golden.consistency) or not all(self._sums(group).reflexive for group in self._groups):
            return {}
        found = {}
        for factor in self._comparable.factors:
            within = self._record(factor)
            if math.isnan(within.consistency):
                continue
            members = {group.member: self._share(group) for group in self._groups if group.table == factor}
            if self._comparable.design == "radial":
                rows = sorted(set().union(*self._rows_of_sets.values()))
                values, without = [members.get(row, math.nan) for row in rows], self._golden_without(rows)
                found[factor] = prediction_importance(within, golden, values, golden_without_row=without)
                continue
            found[factor] = prediction_importance(
                within,
                golden,
                list(members.values()),
                without_column=self._without_column(factor) if self._comparable.design == "crossed" else None,
                without_golden=self._sums(Group(GOLDEN, GOLDEN)).per_run.without,
            )
        return found

    def examples(self) -> None:
        """Return None: votes are for classes."""

    def agreement_of_runs(self) -> list[float]:
        """Return, in the order of adding, the mean agreement of each run with those that it is compared with.

        nan where there are none. The value of a base run of the radial design is the mean over its swaps.
        """
        if self._scoring is None:
            return [math.nan] * len(self._runs)
        values = [[float(self._sums(one.group).per_run.agreement[one.number]) for one in runs] for runs in self._runs]
        return [_mean_of_known(each) for each in values]

    def _add(self, groups: list[Group], finished: list[Group], ids: Any, truths: list[Any], answers: list[Any]) -> None:
        """Hand prepared predictions to the groups."""
        scoring = self._scoring
        assert scoring is not None
        for group in finished:
            self._groups[group].close(scoring, self._truths)
        places = self._examples.find(ids)
        for place, example, truth in zip(places.tolist(), ids.tolist(), truths, strict=True):
            if not is_missing(truth):
                self._learn(scoring, place, example, truth)
        named = zip(ids.tolist(), answers, strict=True)
        forms = [prediction_form(scoring, answer, example) for example, answer in named]
        for group in groups:
            self._groups.setdefault(group, ScoredGroup()).add(places, forms)

    def _learn(self, scoring: Scoring, place: int, example: Any, truth: Any) -> None:
        """Keep the truth of an example, which must be the same in all runs."""
        raw = truth if isinstance(truth, (str, int, float)) else hashable(truth)
        if place not in self._raw_truths:
            self._truths[place] = truth_form(scoring, truth, example)
            self._raw_truths[place] = raw
        elif self._raw_truths[place] != raw:
            fix = "Give every example an id that is its own in all runs."
            raise ParameterError("label", f"two different ones of example {example}", "there must be one truth", fix)

    def _tables(self) -> list[str]:
        return [name for name in (*self._comparable.factors, GOLDEN) if name in self._seen]

    def _record(self, name: str) -> Consistency:
        assert self._scoring is not None
        own = [one for group, one in self._groups.items() if group.table == name]
        return combined(own, self._scoring, self._truths, name)

    def _sums(self, group: Group) -> Sums:
        assert self._scoring is not None
        return self._groups[group].sums(self._scoring, self._truths)

    def _share(self, group: Group) -> float:
        """Return CON of a group, nan where no two of its runs can be compared."""
        sums = self._sums(group)
        return min(1.0, sums.agreed / sums.comparisons) if sums.comparisons else math.nan

    def _without_column(self, factor: str) -> FloatArray | None:
        """Return shape (N,): CON within rows without one column; None unless all rows have the same columns."""
        rows = {group: columns for group, columns in self._columns.items() if group.table == factor}
        wanted = {column for columns in rows.values() for column in columns if column is not None}
        if any(len(columns) != len(wanted) or set(columns) != wanted for columns in rows.values()):
            return None
        without = [
            [float(self._sums(group).per_run.without[columns.index(column)]) for group, columns in rows.items()]
            for column in sorted(wanted)
        ]
        return np.array([_mean_of_known(values) for values in without])

    def _golden_without(self, rows: Sequence[int]) -> FloatArray:
        """Return shape (M,): mean over the sets of independent runs of CON without the runs of one row."""
        values = []
        for row in rows:
            left = [
                float(self._sums(group).per_run.without[numbers[row]]) if row in numbers else self._share(group)
                for group, numbers in self._rows_of_sets.items()
            ]
            values.append(_mean_of_known(left))
        return np.array(values, dtype=np.float64)


def _mean_of_known(values: Sequence[float]) -> float:
    return mean([value for value in values if not math.isnan(value)])


def _number(prediction: Any) -> float:
    """Return a finite number.

    Raises
    ------
    ParameterError
        If it is none; it shows a number, and of all else the type.
    """
    if isinstance(prediction, (int, float, np.integer, np.floating)):
        if math.isfinite(prediction):
            return float(prediction)
        raise ParameterError("prediction", float(prediction), "must be a finite number")
    raise ParameterError("prediction", type(prediction).__name__, "must be a number")
