"""From cells and predictions to an analysis: the same for our runs and a stranger's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from mlflow_l3d.analysis.aggregate import analyse
from mlflow_l3d.analysis.importance.frames import layout_of
from mlflow_l3d.analysis.importance.score_tables import Missing
from mlflow_l3d.analysis.importance.variances import Layout
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.analysis.stability.agreement.choice import AUTO, choose, scoring_of
from mlflow_l3d.analysis.stability.agreement.kinds import class_column
from mlflow_l3d.analysis.stability.agreement.scored import comparisons_by
from mlflow_l3d.analysis.stability.stability import Stability
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tracking import names

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Planned:
    """What is known of the plan behind some cells; None where only the cells tell.

    Attributes
    ----------
    design, factors, rows, columns, golden_runs, pooled, missing, mitigated, product, classes, searched_splits
        As for :func:`mlflow_l3d.analysis.aggregate.analyse`.
    """

    design: Layout | None = None
    factors: Sequence[str] | None = None
    rows: int | None = None
    columns: int | None = None
    golden_runs: int | None = None
    pooled: bool = False
    missing: Missing = "drop"
    mitigated: bool = False
    product: bool = False
    classes: int | None = None
    searched_splits: Sequence[Mapping[str, int]] = ()

    def within(self, cells: pd.DataFrame) -> pd.DataFrame:
        """Return the cells of the plan: those that were under way when a stopping rule said stop lie beyond it."""
        inside = pd.Series(True, index=cells.index)
        rows = None if self.design in ("random", "fixed") else self.rows
        for name, count in (("row", rows), ("index", None if self.pooled else self.golden_runs)):
            if count is not None and name in cells:
                inside &= ~(pd.to_numeric(cells[name]) >= count).fillna(value=False).astype(bool)
        return cells[inside].reset_index(drop=True)


@dataclass(frozen=True)
class Scored:
    """An analysis, and how consistency settled.

    Attributes
    ----------
    analysis
        The records.
    consistency_steps
        Rows done -> the parent's consistency metrics at that point.
    agreement
        For each cell the mean agreement of its predictions with those of the runs that it is compared with; nan where
        there are none.
    """

    analysis: Analysis
    consistency_steps: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    agreement: Sequence[float] = ()


def order(cells: pd.DataFrame, factors: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the cells in the order in which votes are counted.

    Factor by factor, row by row, then the golden runs; in the radial design row by row, each base run before its swaps.

    Parameters
    ----------
    cells
        One row a cell.
    factors
        The factors in order; by default as they come.
    """
    known = list(cells["factor"].dropna().unique()) if factors is None else factors
    rank = cells["factor"].map({factor: place for place, factor in enumerate(known)})
    golden, base = cells["phase"].eq("golden"), cells["phase"].eq("base")
    keys = pd.DataFrame(
        {
            "golden": golden,
            "factor": rank.astype("float64").mask(base, -1).fillna(len(known)),
            "row": cells["row"],
            "column": cells["column"],
            "index": cells["index"],
        }
    )
    by = ["golden", "row", "factor", "index"] if base.any() else list(keys.columns)
    return cells.loc[keys.sort_values(by, kind="stable").index].reset_index(drop=True)


def score(
    cells: pd.DataFrame,
    predictions: Iterable[pa.Table | None] | None = None,
    *,
    metric: str,
    planned: Planned | None = None,
    interim_analyses: pd.DataFrame | None = None,
    agreement: str = AUTO,
    table_file: Path | None = None,
) -> Scored:
    """Compute importance and consistency.

    Parameters
    ----------
    cells
        One row a cell: ``phase``, ``factor``, ``row``, ``column``, ``index`` and the metric; in the order of
        :func:`order`.
    predictions
        A table for each row of `cells`, in its order, with ``example_id``, ``label``, ``prediction``; None where a cell
        has none. Read once, one at a time.
    metric
        The column whose spread is investigated.
    planned
        The plan; by default what `cells` holds.
    interim_analyses
        The looks of the stopping rule, if there was one.
    agreement
        How predictions are compared, see :func:`mlflow_l3d.analysis.stability.agreement.choice.choose`.
    table_file
        Where to write all predictions as one Parquet table; written where they are class numbers.
    """
    plan = planned or Planned()
    counted = None
    if predictions is not None:
        layout = plan.design or layout_of(cells)
        counted = _count(cells, predictions, layout, agreement, table_file)
    analysis = analyse(
        cells,
        metric=metric,
        design=plan.design,
        factors=plan.factors,
        rows=plan.rows,
        columns=plan.columns,
        golden_runs=plan.golden_runs,
        pooled=plan.pooled,
        missing=plan.missing,
        classes=plan.classes or (counted.stability.classes if counted else None),
        consistencies=counted.stability.consistencies() if counted else {},
        mitigated=plan.mitigated,
        product=plan.product,
        searched_splits=plan.searched_splits,
    )
    if counted is None:
        return Scored(replace(analysis, interim_analyses=interim_analyses))
    stability = counted.stability
    return Scored(
        replace(
            analysis,
            interim_analyses=interim_analyses,
            prediction_importances=stability.prediction_importances(),
            examples=stability.examples(),
            regression=stability.regression(),
            agreement=counted.choice,
        ),
        counted.steps,
        counted.agreement(),
    )


@dataclass
class _Counted:
    """What the predictions of all cells say together."""

    stability: Stability
    choice: str | None = None
    present: list[bool] = field(default_factory=list)
    steps: dict[int, dict[str, float]] = field(default_factory=dict)

    def agreement(self) -> list[float]:
        """Return one value a cell, nan where it has no predictions."""
        found = iter(self.stability.agreement_of_runs())
        return [next(found) if present else math.nan for present in self.present]


def _count(
    cells: pd.DataFrame,
    predictions: Iterable[pa.Table | None],
    layout: Layout,
    agreement: str,
    table_file: Path | None,
) -> _Counted:
    """Compare predictions cell by cell, and note how consistency stood after each row of each table."""
    factors = [str(name) for name in cells["factor"].dropna().unique()]
    counted = _Counted(Stability(layout, factors))
    first = True
    with ExitStack() as stack:
        writer = _Writer(table_file, stack)
        last: Any = None
        for cell, table in zip(cells.itertuples(index=False), predictions, strict=True):
            counted.present.append(table is not None)
            if last is not None and (cell.factor, cell.row) != (last.factor, last.row):
                _note(counted, layout, last, several=len(factors) > 1)
            last = cell
            if table is None:
                continue
            if first:
                choice = choose(agreement, table["label"], table["prediction"])
                if choice is not None:
                    counted.stability = Stability(layout, factors, *comparisons_by(scoring_of(choice)))
                counted.choice = choice
            first = False
            try:
                _add(counted, cell, table, writer)
            except ParameterError as error:
                fix = f"{error.fix} It is in {_named(cell)}.".strip()
                raise ParameterError(error.name, error.value, error.allowed, fix) from error
        if last is not None:
            _note(counted, layout, last, several=len(factors) > 1)
    return counted


def _add(counted: _Counted, cell: Any, table: pa.Table, writer: _Writer) -> None:
    """Count the predictions of one cell; class numbers are written into the table of all of them, too."""
    place = {name: _plain(getattr(cell, name)) for name in ("factor", "row", "column", "index")}
    ids = table["example_id"].to_numpy()
    columns: dict[str, Any] = {what: table[what] for what in ("label", "prediction")}
    if counted.choice is None:
        columns = {what: class_column(column, what) for what, column in columns.items()}
    labels, predictions = columns["label"], columns["prediction"]
    counted.stability.add(phase=str(cell.phase), **place, example_ids=ids, labels=labels, predictions=predictions)
    if counted.choice is None:
        writer.add(cell, table["example_id"], columns)


def _named(cell: Any) -> str:
    """Return which cell it is, and which run where there is one."""
    place = [
        f"{name} {value}" for name in names.COORDINATES if (value := _plain(getattr(cell, name, None))) is not None
    ]
    run_id = _plain(getattr(cell, "run_id", None))
    return ", ".join([f"the cell of {place[0]}", *place[1:]]) + (f" (run {run_id})" if run_id else "")


def _note(counted: _Counted, layout: Layout, cell: Any, *, several: bool) -> None:
    """Note how the consistency of a factor stands after a row of its table."""
    if cell.phase != "investigation" or layout in ("random", "fixed"):
        return
    metrics = counted.stability.metrics_of(str(cell.factor))
    step = counted.steps.setdefault(int(cell.row) + 1, {})
    step.update({f"{key}/{cell.factor}": value for key, value in metrics.items()})
    if not several:
        step.update(metrics)


class _Writer:
    """Writes tables of predictions into one Parquet file, one row group a cell, without holding them."""

    def __init__(self, path: Path | None, stack: ExitStack) -> None:
        self._path = path
        self._stack = stack
        self._writer: Any = None
        self._schema: Any = None

    def add(self, cell: Any, example_ids: Any, classes: Mapping[str, Any]) -> None:
        if self._path is None:
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._writer is None:
            ids = example_ids.type
            text = pa.dictionary(pa.int32(), pa.string())
            self._schema = pa.schema(
                [
                    *(("cell_key", text), ("phase", text), ("factor", text)),
                    *(("row", pa.int32()), ("column", pa.int32()), ("index", pa.int32())),
                    *(("example_id", ids), ("label", pa.int64()), ("prediction", pa.int64())),
                ]
            )
            self._writer = self._stack.enter_context(pq.ParquetWriter(self._path, self._schema, compression="zstd"))
        count = len(example_ids)
        arrays = [
            pa.array([_plain(getattr(cell, name, None))] * count, self._schema.field(name).type)
            for name in ("cell_key", *names.COORDINATES)
        ]
        arrays.append(example_ids.cast(self._schema.field("example_id").type))
        arrays += [pa.array(classes[name], pa.int64()) for name in ("label", "prediction")]
        self._writer.write_table(pa.table(arrays, schema=self._schema))


def _plain(value: Any) -> Any:
    return None if pd.isna(value) else value


def tables(frames: Iterator[tuple[str, pd.DataFrame | None]]) -> Iterator[pa.Table | None]:
    """Turn (run id, frame) pairs into the tables that :func:`score` reads."""
    import pyarrow as pa

    for _, frame in frames:
        yield None if frame is None else pa.Table.from_pandas(frame, preserve_index=False, nthreads=1)
