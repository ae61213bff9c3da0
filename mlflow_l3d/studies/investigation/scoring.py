"""From cells and predictions to an analysis: the same for our runs and a stranger's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.analysis.stability.agreement.choice import AUTO, choose, scoring_of
from mlflow_l3d.analysis.stability.agreement.kinds import class_column
from mlflow_l3d.analysis.stability.agreement.scored import comparisons_by
from mlflow_l3d.analysis.stability.stability import Stability
from mlflow_l3d.designs import Design
from mlflow_l3d.designs.analyse import Planned, analyse
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tracking import names

if TYPE_CHECKING:
    import pyarrow as pa


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
        One row a cell: ``phase``, ``factor``, ``row``, ``column``, ``index`` and the metric; as
        :meth:`mlflow_l3d.designs.analyse.Planned.select` returns them.
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
        counted = _count(cells, predictions, plan.design_of(cells), agreement, table_file)
    if counted is not None and not plan.classes:
        plan = replace(plan, classes=counted.stability.classes)
    consistencies = counted.stability.consistencies() if counted else {}
    analysis = analyse(cells, plan, metric=metric, consistencies=consistencies)
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
    design: type[Design],
    agreement: str,
    table_file: Path | None,
) -> _Counted:
    """Compare predictions cell by cell, and note how consistency stood after each row of each table."""
    factors = [str(name) for name in cells["factor"].dropna().unique()]
    counted = _Counted(Stability(design.comparable(factors)))
    first = True
    with ExitStack() as stack:
        writer = _Writer(table_file, stack)
        last: Any = None
        for cell, table in zip(cells.itertuples(index=False), predictions, strict=True):
            counted.present.append(table is not None)
            if last is not None and (cell.factor, cell.row) != (last.factor, last.row):
                _note(counted, design, last, several=len(factors) > 1)
            last = cell
            if table is None:
                continue
            if first:
                choice = choose(agreement, table["label"], table["prediction"])
                if choice is not None:
                    counted.stability = Stability(design.comparable(factors), *comparisons_by(scoring_of(choice)))
                counted.choice = choice
            first = False
            try:
                _add(counted, cell, table, writer)
            except ParameterError as error:
                fix = f"{error.fix} It is in {_named(cell)}.".strip()
                raise ParameterError(error.name, error.value, error.allowed, fix) from error
        if last is not None:
            _note(counted, design, last, several=len(factors) > 1)
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


def _note(counted: _Counted, design: type[Design], cell: Any, *, several: bool) -> None:
    """Note how the consistency of a factor stands after a row of its table."""
    if cell.phase != "investigation" or design.baseline:
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
