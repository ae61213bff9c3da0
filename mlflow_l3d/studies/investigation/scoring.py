"""From cells and predictions to an analysis, for our runs and runs of other code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from mlflow_l3d.analysis.consistency import Stability
from mlflow_l3d.analysis.consistency.choice import AUTO, REGRESSION, choose, class_column, scoring_of
from mlflow_l3d.analysis.consistency.scored import comparisons_by
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import Design, Planned
from mlflow_l3d.designs.analyse import analyse
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import score as score_of
from mlflow_l3d.studies.investigation.remedies import MemberRows, chosen_by_other, drawn_factors, foresee
from mlflow_l3d.studies.investigation.request import InvestigationRequest
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier.predictions import Form, has_reference, run_predictions, test_rows, warn_of_missing

if TYPE_CHECKING:
    import pyarrow as pa

_SAME: Final = 1e-6
"""Scores that differ by less are equal."""
_TEXTS: Final = ("cell_key", "phase", "factor")


@dataclass(frozen=True)
class Scored:
    """An analysis, and consistency after each row.

    Attributes
    ----------
    analysis
        The analysis.
    consistency_steps
        Number of finished rows -> consistency metrics of the parent run after them.
    agreement
        For each cell the mean agreement of its predictions with the runs that it is compared with; nan without
        predictions.
    """

    analysis: Analysis
    consistency_steps: Mapping[int, Mapping[str, float]]
    agreement: Sequence[float]


def score(
    cells: pd.DataFrame,
    predictions: Iterable[pa.Table | None],
    *,
    metric: Metric,
    planned: Planned,
    interim_analyses: pd.DataFrame | None = None,
    agreement: str = AUTO,
    table_file: Path | None = None,
) -> Scored:
    """Compute importance and consistency.

    Parameters
    ----------
    cells
        One row per cell: ``phase``, ``factor``, ``row``, ``column``, ``index`` and the metric; as
        :meth:`mlflow_l3d.designs.Planned.select` returns them.
    predictions
        A table for each row of `cells`, in its order, with ``example_id``, ``label``, ``prediction`` and, if there is
        a reference set, ``reference``; None for a cell without predictions. Read once, one at a time.
    metric
        The metric whose spread is investigated, a column of `cells`.
    planned
        The plan.
    interim_analyses
        The interim analyses of the stopping rule, if there was one.
    agreement
        How predictions are compared, see :func:`mlflow_l3d.analysis.consistency.choice.choose`; the metric
        decides for texts.
    table_file
        File for all predictions as one Parquet table; written if they are class numbers.
    """
    with closing(_Writer(table_file)) as writer:
        present: dict[str, bool] = {}
        counted = _Counted(planned.design_of(cells), cells, metric, agreement, writer)
        for cell, table, value in zip(cells.itertuples(index=False), predictions, cells[metric.name], strict=True):
            if table is not None and getattr(cell, "cell_key", None):
                check_stored(cell, table, metric, planned.classes or 0)
            counted.add(cell, table)
            if math.isfinite(value):
                present[_named(cell)] = table is not None
        counted.close_row()
    warn_of_missing(present)
    stability, members = counted.stability, counted.members
    classes = planned.classes or stability.classes
    planned = replace(planned, classes=classes, answers=members.answers(classes))
    analysis = replace(
        analyse(cells, planned, metric=metric, consistencies=stability.consistencies()),
        interim_analyses=interim_analyses,
        prediction_importances=stability.prediction_importances(),
        examples=stability.examples(),
        regression=stability.regression(),
        agreement=counted.choice,
    )
    # Votes of texts, which are neither classes nor numbers, take long: `cure` counts them.
    voters = members if counted.choice in (None, REGRESSION) else MemberRows(members.design, members.over)
    analysis = replace(
        analysis,
        remedies=foresee(voters, analysis, classes or 0),
        test_examples=members.test_size,
        luck_of_tests=members.luck_of_any_tests(metric, classes),
        tests_drawn=members.draw_tests,
    )
    logged = analysis.metrics()  # without agreement that is withheld: after no row is it logged, either
    steps = {row: {name: values[name] for name in values if name in logged} for row, values in counted.steps.items()}
    return Scored(analysis, steps, counted.agreement_of_cells())


def plan_of(request: InvestigationRequest) -> Planned:
    """Return the plan of a request as scoring knows it."""
    plan = request.plan
    return Planned(
        design=plan.design,
        factors=request.factors,
        rows=plan.mitigation_runs,
        columns=plan.investigation_runs,
        golden_runs=plan.golden_runs,
        pooled=plan.golden_pooled,
        missing=request.missing,
        mitigated=bool(plan.mitigation),
        product=plan.joint == "product",
        sequential=plan.stop == "interval",
        distinct_rows=request.design().distinct_rows,
        classes=len(request.setup.task.class_names),
        class_names=request.setup.task.class_names,
        label_column=request.setup.task.label_column,
        deterministic=request.setup.deterministic,
        searched_splits=request.searched_splits(),
    )


def check_stored(cell: Any, table: pa.Table, metric: Metric, classes: int) -> None:
    """Raise L3DError if the stored score of one of our cells is not that of its predictions."""
    answers, stored = test_rows(table), getattr(cell, metric.name, math.nan)
    labels, predictions = (answers[name].to_numpy() for name in ("label", "prediction"))
    if metric.function is None or labels.dtype == object or not len(labels) or not math.isfinite(stored):
        return
    # An approach may leave classes out of its macro averages, and old cells have those that occur.
    counts = (classes or None, None, *range(2, classes)) if metric.scores_classes else (None,)
    found = (score_of(metric, labels, predictions, each) for each in counts)
    first = next(found)
    if math.isfinite(first) and not any(math.isclose(each, stored, abs_tol=_SAME) for each in chain([first], found)):
        differ = f"has {metric.name} {stored:g}, and its predictions {first:g}: one of them was changed"
        raise L3DError(f"Run {cell.run_id} {differ}. Delete it: the same command trains it again.")


class _Counted:
    """The consistency of all cells, and its state after each row of each table."""

    def __init__(
        self, design: type[Design], cells: pd.DataFrame, metric: Metric, agreement: str, writer: _Writer
    ) -> None:
        self._factors = [str(name) for name in cells["factor"].dropna().unique()]
        self.stability = Stability(design.comparable(self._factors))
        self.members = MemberRows(design, drawn_factors(cells))
        self.choice: str | None = None
        self.steps: dict[int, dict[str, float]] = {}
        self._design = design
        self._agreement = (agreement, metric.agreement)
        self._writer = writer
        self._present: list[bool] = []
        self._validation = "" if chosen_by_other(cells, metric) else f"validation_{metric.name}"
        self._last: Any = None

    def add(self, cell: Any, table: pa.Table | None) -> None:
        """Compare the predictions of one cell; if they are class numbers, also write them into the common table."""
        if self._last is not None and (cell.factor, cell.row) != (self._last.factor, self._last.row):
            self.close_row()
        self._last = cell
        if table is not None and not any(self._present):
            requested, usual = self._agreement
            self.choice = choose(requested, table["label"], table["prediction"], usual)
            if self.choice is not None:
                comparisons = comparisons_by(scoring_of(self.choice))
                self.stability = Stability(self._design.comparable(self._factors), *comparisons)
        self._present.append(table is not None)
        if table is None:
            return
        try:
            self._compare(cell, table)
        except ParameterError as error:
            fix = f"{error.fix} It is in {_named(cell)}.".strip()
            raise ParameterError(error.name, error.value, error.allowed, fix) from error

    def _compare(self, cell: Any, table: pa.Table) -> None:
        place = {name: _plain(getattr(cell, name)) for name in ("factor", "row", "column", "index")}
        ids, labels, predictions = table["example_id"], table["label"], table["prediction"]
        if self.choice is None:
            labels = class_column(labels, "label")
            predictions = class_column(predictions, "prediction")
        columns = {"example_ids": ids.to_numpy(), "labels": labels, "predictions": predictions}
        self.stability.add(phase=str(cell.phase), **place, **columns)
        form: Form = "classes" if self.choice is None else "numbers" if self.choice == REGRESSION else "texts"
        self.members.add(cell, run_predictions(cell, table, form, self._validation))
        if self.choice is None:
            marks = {names.REFERENCE: table[names.REFERENCE]} if has_reference(table.schema) else {}
            self._writer.add(cell, {"example_id": ids, "label": labels, "prediction": predictions, **marks})

    def close_row(self) -> None:
        """Record the consistency of a factor after the row of the last cell."""
        last = self._last
        if last is None or last.phase != "investigation" or self._design.baseline:
            return
        group = "" if len(self._factors) == 1 else f"/{last.factor}"
        metrics = self.stability.metrics_of(str(last.factor))
        self.steps.setdefault(int(last.row) + 1, {}).update({f"{key}{group}": value for key, value in metrics.items()})

    def agreement_of_cells(self) -> list[float]:
        """Return one value per cell, nan for a cell without predictions."""
        agreement = iter(self.stability.agreement_of_runs())
        return [next(agreement) if present else math.nan for present in self._present]


def _named(cell: Any) -> str:
    """Return the place of a cell and, if it has one, its run, as text."""
    place = [
        f"{name} {value}" for name in names.COORDINATES if (value := _plain(getattr(cell, name, None))) is not None
    ]
    run_id = _plain(getattr(cell, "run_id", None))
    return ", ".join([f"the cell of {place[0]}", *place[1:]]) + (f" (run {run_id})" if run_id else "")


class _Writer:
    """Writes tables of predictions into one Parquet file, some cells per row group, without holding them all."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._writer: Any = None
        self._schema: pa.Schema | None = None
        self._tables: list[pa.Table] = []
        self._rows = 0

    def add(self, cell: Any, predictions: Mapping[str, Any]) -> None:
        if self._path is None:
            return
        import pyarrow as pa

        size, place = len(predictions["label"]), {}
        for name in ("cell_key", *names.COORDINATES):
            kind = pa.string() if name in _TEXTS else pa.int32()
            place[name] = pa.repeat(pa.scalar(_plain(getattr(cell, name, None)), kind), size)
        table = pa.table({**place, **predictions})
        self._schema = table.schema if self._schema is None else self._schema
        self._tables.append(table.cast(self._schema))
        self._rows += size
        if self._rows >= 1 << 16:
            self._write()

    def _write(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.concat_tables(self._tables)
        for name in _TEXTS:
            table = table.set_column(table.column_names.index(name), name, table[name].dictionary_encode())
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema, compression="zstd")
        self._writer.write_table(table)
        self._tables, self._rows = [], 0

    def close(self) -> None:
        if self._tables:
            self._write()
        if self._writer is not None:
            self._writer.close()


def _plain(value: Any) -> Any:
    return None if pd.isna(value) else value
