"""Predictions of runs that share their examples, gathered run by run: what remedies are predicted from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.consistency.agreement.kinds import class_column
from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.analysis.cure.ensembles import Members
from mlflow_l3d.analysis.cure.luck import jackknifed
from mlflow_l3d.analysis.importance.checks.evidence import Answers
from mlflow_l3d.cells.factors import OF_NO_APPROACH
from mlflow_l3d.designs import Design
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import pseudo_values, registered
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier.predictions import has_reference

if TYPE_CHECKING:
    import pyarrow as pa

Form: TypeAlias = Literal["classes", "numbers", "texts"]
MOST_PREDICTIONS: Final = 50_000_000
"""More are not held at once: an investigation then says nothing of remedies."""
_SHARED: Final = 0.5
"""Part of the test examples of a run that runs must share."""


@dataclass(slots=True)
class RunPredictions:
    """What one run predicts; arrays that equal those of the run before are the same objects.

    Attributes
    ----------
    column
        Its column, -1 without one.
    ids, labels, predictions, test
        Shape (n,): predicted examples, and whether each is a test example of the run's own, not of a reference set.
    scores
        Shape (n, C), or None.
    validation
        Its score on validation examples; nan if there is none.
    """

    column: int
    ids: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    predictions: npt.NDArray[Any]
    test: npt.NDArray[np.bool_]
    scores: npt.NDArray[np.float32] | None = None
    validation: float = math.nan


@dataclass
class MemberRows:
    """The runs of each row of each factor's table, and independent runs.

    Attributes
    ----------
    design
        How they were laid out.
    over
        The factors in which independent runs differ: all of the approach.
    size
        How many predictions are held; none are once they are more than :data:`MOST_PREDICTIONS`.
    """

    design: type[Design]
    over: tuple[str, ...] = ()
    size: int = 0
    _runs: dict[tuple[str, int], list[RunPredictions]] = field(default_factory=dict)

    def add(self, cell: Any, run: RunPredictions | None) -> None:
        """Add a run; `cell` has its phase, factor and row. Base runs are independent, and belong to all factors."""
        if run is None:
            return
        self.size += len(run.ids) if run.scores is None else run.scores.size
        if not self.is_whole:
            self._runs.clear()
            return
        independent = cell.phase in ("golden", "base")
        place = ("", 0) if independent else (str(cell.factor), int(cell.row))
        runs = self._runs.setdefault(place, [])
        if runs and np.array_equal(runs[-1].ids, run.ids):
            run.ids, run.labels = runs[-1].ids, runs[-1].labels
        if run.predictions.dtype.kind == "i":
            run.predictions = run.predictions.astype(np.min_scalar_type(-1 - run.predictions.max(initial=0)))
        run.column = int(cell.row) if cell.phase == "base" else run.column
        runs.append(run)

    @property
    def is_whole(self) -> bool:
        """Whether all predictions are held."""
        return self.size <= MOST_PREDICTIONS

    @property
    def has_scores(self) -> bool:
        """Whether a run holds class scores."""
        return any(run.scores is not None for runs in self._runs.values() for run in runs)

    @property
    def factors(self) -> list[str]:
        """The factors of which there are rows."""
        return list(dict.fromkeys(factor for factor, _ in self._runs if factor))

    def rows(self, factor: str) -> list[Members]:
        """Return the rows of a factor's table in which two or more runs share examples enough to be compared."""
        base = {run.column: run for run in self._runs.get(("", 0), [])} if self.design.tables_are_golden else {}
        shared = self.design.model.shared_columns
        rows = (
            [*([base[row]] if row in base else []), *runs] for (name, row), runs in self._runs.items() if name == factor
        )
        return [members for runs in rows if (members := joined(runs, columns=shared)) is not None]

    def independent(self) -> Members | None:
        """Return the golden or base runs on the examples that all of them share; None if these are too few."""
        return joined(self._runs.get(("", 0), []))

    def luck_of_tests(self, metric: Metric, classes: int | None) -> float:
        """Return the variance of a score that the choice of its test examples causes; nan if runs draw none."""
        runs = self._runs.get(("", 0), [])
        if not runs or not self.draw_tests:
            return math.nan
        if metric.of_each is None:
            return self.luck_of_any_tests(metric, classes) ** 2
        each = [metric.of_each(run.labels[run.test], run.predictions[run.test]) for run in runs]
        return float(np.mean([scores.var() / len(scores) for scores in each]))

    def luck_of_any_tests(self, metric: Metric, classes: int | None) -> float:
        """Return the standard deviation of a score that a choice of as many test examples causes (jackknife)."""
        # The test examples of the first 20 runs are left out one by one: more runs take long and change little.
        runs = [run for runs in self._runs.values() for run in runs if run.test.sum() >= FEWEST_EXAMPLES][:20]
        if metric.function is None or not runs:
            return math.nan
        tested = [(run.labels[run.test], run.predictions[run.test]) for run in runs]
        if runs[0].predictions.dtype == object and "classification" in metric.kinds:
            return math.nan
        if metric.of_each is None and runs[0].predictions.dtype.kind not in "iu":
            return math.sqrt(np.mean([jackknifed(metric, classes, labels, one[None])[0, 0] for labels, one in tested]))
        each = [pseudo_values(metric, labels, predictions, classes) for labels, predictions in tested]
        return math.sqrt(np.mean([values.var() / len(values) for values in each]))

    def answers(self, classes: int | None) -> Answers | None:
        """Return what the runs predict; None if that is not classes, or is not held."""
        runs = [run for runs in self._runs.values() for run in runs if run.test.any()]
        if not runs or not classes or runs[0].predictions.dtype.kind != "i":
            return None
        counts = [
            np.bincount(each[run.test & (each >= 0)], minlength=classes)[:classes]
            for run in runs
            for each in (run.labels, run.predictions)
        ]
        tested, predicted = np.array(counts[::2]), np.array(counts[1::2])
        constant = int((predicted.max(axis=1) == [run.test.sum() for run in runs]).sum())
        return Answers(len(runs), constant, tested.mean(axis=0), predicted.mean(axis=0))

    @property
    def draw_tests(self) -> bool:
        """Whether independent runs have test examples of their own; else their luck is in no spread."""
        runs = self._runs.get(("", 0)) or [run for runs in self._runs.values() for run in runs]
        tests = {id(run.ids): run.ids[run.test] for run in runs}
        return any(not np.array_equal(each, next(iter(tests.values()))) for each in tests.values())

    @property
    def test_size(self) -> int:
        """Test examples of an independent run, the fewest."""
        golden = self._runs.get(("", 0)) or next(iter(self._runs.values()), [])
        return min((int(run.test.sum()) for run in golden), default=0)


def joined(runs: list[RunPredictions], *, columns: bool = False) -> Members | None:
    """Return runs on the examples that all of them share; None below two runs, or too few examples.

    If runs draw test examples of their own, those that all happen to share are few, and left out: only the reference
    set counts.
    """
    if len(runs) < 2:
        return None
    ids = {id(run.ids): run.ids for run in runs}
    common = reduce(lambda some, each: some[np.isin(some, each)], ids.values()) if len(ids) > 1 else runs[0].ids
    at = {key: pd.Index(each).get_indexer(common) for key, each in ids.items()}
    test = np.logical_and.reduce([run.test[at[id(run.ids)]] for run in runs])
    if test.sum() < _SHARED * min(run.test.sum() for run in runs):
        at = {key: places[~test] for key, places in at.items()}
        test = test[~test]
    if len(test) < FEWEST_EXAMPLES:
        return None
    predictions = np.stack([run.predictions[at[id(run.ids)]] for run in runs])
    scores = [run.scores[at[id(run.ids)]] for run in runs if run.scores is not None]
    validation = np.array([run.validation for run in runs])
    return Members(
        predictions=predictions.astype(np.int64) if predictions.dtype.kind == "i" else predictions,
        labels=runs[0].labels[at[id(runs[0].ids)]],
        scores=np.stack(scores) if len(scores) == len(runs) else None,
        validation=validation if np.isfinite(validation).all() else None,
        columns=np.array([run.column for run in runs]) if columns else None,
        test=test,
        examples=runs[0].ids[at[id(runs[0].ids)]],
    )


def drawn_factors(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return the factors whose seeds the cells of a frame have, those of no approach left out."""
    drawn = (str(name).removeprefix("seed.") for name in cells if str(name).startswith("seed."))
    return tuple(name for name in drawn if name not in OF_NO_APPROACH)


def chosen_by_other(cells: pd.DataFrame, metric: Metric) -> str:
    """Return the metric by whose validation score the best of several runs is chosen, if it is another one."""
    usual = (name for name, each in registered().items() if not (each.secondary or each.opt_in))
    first = next((name for name in usual if f"validation_{name}" in cells), metric.name)
    return "" if first == metric.name else first


def run_predictions(cell: Any, table: pa.Table, form: Form) -> RunPredictions | None:
    """Return what a run predicts from its table; None if it lacks a number.

    Parameters
    ----------
    cell
        Has its column.
    table
        Of predictions, perhaps with class scores and the reference set.
    form
        What labels and predictions are.
    """
    labels, predictions = (np.asarray(table[name].to_numpy()) for name in ("label", "prediction"))
    if form == "classes":
        labels, predictions = class_column(labels, "label"), class_column(predictions, "prediction")
    elif form == "numbers":
        labels, predictions = (np.asarray(column, dtype=np.float64) for column in (labels, predictions))
        if not (np.isfinite(labels).all() and np.isfinite(predictions).all()):
            return None
    of_classes = [name for name in table.column_names if name.startswith(names.CLASS_SCORE)]
    column = getattr(cell, "column", None)
    return RunPredictions(
        -1 if pd.isna(column) else int(column),
        table["example_id"].to_numpy(),
        labels,
        predictions,
        ~table[names.REFERENCE].to_numpy() if has_reference(table.schema) else np.ones(len(table), dtype=bool),
        np.column_stack([table[name].to_numpy() for name in of_classes]) if of_classes else None,
    )
