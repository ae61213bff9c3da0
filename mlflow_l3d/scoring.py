"""From cells and predictions to an analysis and the parent's artifacts: the same for our runs and a stranger's."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from mlflow_l3d.analysis.aggregate import analyse
from mlflow_l3d.analysis.consistency import VoteCounter
from mlflow_l3d.analysis.importance import importance_path
from mlflow_l3d.analysis.results import IMPORTANCE_METRICS, Analysis, Consistency
from mlflow_l3d.ledger import names

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_AT_ONCE = 500


@dataclass(frozen=True)
class Scored:
    """An analysis, and how consistency settled.

    Attributes
    ----------
    analysis
        The records.
    consistency_steps
        Rows done -> the parent's consistency metrics at that point.
    """

    analysis: Analysis
    consistency_steps: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


def order(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells factor by factor, row by row, then the golden runs: the order in which votes are counted."""
    golden = cells["phase"].eq("golden")
    factors = {factor: rank for rank, factor in enumerate(cells["factor"].dropna().unique())}
    rank = cells["factor"].map(factors).fillna(len(factors)).astype("int64")
    keys = pd.DataFrame(
        {"golden": golden, "factor": rank, "row": cells["row"], "column": cells["column"], "index": cells["index"]}
    )
    return cells.loc[keys.sort_values(list(keys.columns), kind="stable").index].reset_index(drop=True)


def score(
    cells: pd.DataFrame,
    predictions: Iterable[pa.Table | None] | None = None,
    *,
    metric: str,
    factors: Sequence[str] | None = None,
    rows: int | None = None,
    columns: int | None = None,
    golden_runs: int | None = None,
    classes: int | None = None,
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
    factors, rows, columns, golden_runs
        The planned design; by default what `cells` holds.
    classes
        Number of classes, for the share of collapsed runs; by default what the predictions show.
    table_file
        Where to write all predictions as one Parquet table; not written where there are none.
    """
    consistencies: dict[str, Consistency] = {}
    steps: dict[int, dict[str, float]] = {}
    if predictions is not None:
        consistencies, steps, seen = _count(cells, predictions, table_file)
        classes = classes or seen
    analysis = analyse(
        cells,
        metric=metric,
        factors=factors,
        rows=rows,
        columns=columns,
        golden_runs=golden_runs,
        classes=classes,
        consistencies=consistencies,
    )
    return Scored(analysis, steps)


def _count(
    cells: pd.DataFrame, predictions: Iterable[pa.Table | None], table_file: Path | None
) -> tuple[dict[str, Consistency], dict[int, dict[str, float]], int | None]:
    """Count votes row by row; return consistencies, the path of the metrics, and the number of classes seen."""
    counters: dict[str, VoteCounter] = {}
    steps: dict[int, dict[str, float]] = {}
    classes = 0
    several = cells["factor"].dropna().nunique() > 1
    with ExitStack() as stack:
        writer = _Writer(table_file, stack)
        place: tuple[str, Any] | None = None
        for cell, table in zip(cells.itertuples(index=False), predictions, strict=True):
            if table is None:
                continue
            name, group = ("golden", "golden") if cell.phase == "golden" else (str(cell.factor), int(cell.row))  # type: ignore[arg-type]
            if place is not None and place != (name, group):
                _close(counters, place, steps, several=several)
            place = (name, group)
            counter = counters.setdefault(name, VoteCounter(None))
            labels = table["label"].to_numpy()
            counter.add(group, table["example_id"].to_numpy(), labels, table["prediction"].to_numpy())
            classes = max(classes, int(labels.max(initial=-1)) + 1)
            writer.add(cell, table)
        if place is not None:
            _close(counters, place, steps, several=several)
    return {name: counter.result(name) for name, counter in counters.items()}, steps, classes or None


def _close(
    counters: Mapping[str, VoteCounter], place: tuple[str, Any], steps: dict[int, dict[str, float]], *, several: bool
) -> None:
    """Free a finished row's votes, and note how consistency stands after it."""
    name, group = place
    counters[name].close(group)
    if name == "golden":
        return
    metrics = counters[name].result(name).metrics()
    step = steps.setdefault(int(group) + 1, {})
    step.update({f"{key}/{name}": value for key, value in metrics.items()})
    if not several:
        step.update(metrics)


class _Writer:
    """Writes tables of predictions into one Parquet file, one row group a cell, without holding them."""

    def __init__(self, path: Path | None, stack: ExitStack) -> None:
        self._path = path
        self._stack = stack
        self._writer: Any = None
        self._schema: Any = None

    def add(self, cell: Any, table: pa.Table) -> None:
        if self._path is None:
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._writer is None:
            ids = table["example_id"].type
            text = pa.dictionary(pa.int32(), pa.string())
            self._schema = pa.schema(
                [
                    *(("cell_key", text), ("phase", text), ("factor", text)),
                    *(("row", pa.int32()), ("column", pa.int32()), ("index", pa.int32())),
                    *(("example_id", ids), ("label", pa.int64()), ("prediction", pa.int64())),
                ]
            )
            self._writer = self._stack.enter_context(pq.ParquetWriter(self._path, self._schema, compression="zstd"))
        count = table.num_rows
        arrays = [
            pa.array([_plain(getattr(cell, name, None))] * count, self._schema.field(name).type)
            for name in ("cell_key", *names.COORDINATES)
        ]
        arrays += [table[name].cast(self._schema.field(name).type) for name in ("example_id", "label", "prediction")]
        self._writer.write_table(pa.table(arrays, schema=self._schema))


def _plain(value: Any) -> Any:
    return None if pd.isna(value) else value


def write_artifacts(
    folder: Path,
    scored: Scored,
    cells: pd.DataFrame,
    *,
    document: Mapping[str, Any],
    settings: Mapping[str, str],
    title: str,
    notes: Sequence[str] = (),
) -> None:
    """Write the parent's artifacts into `folder`: the tables, the report and the pictures.

    Parameters
    ----------
    folder
        An existing folder.
    scored
        What :func:`score` returned.
    cells
        One row a cell, with run ids.
    document
        What ``investigation.json`` holds.
    settings
        Name -> value, for the report.
    title, notes
        Headline of the report, and remarks.
    """
    from mlflow_l3d.report import figures, heatmap, html
    from mlflow_l3d.report.style import save_png

    analysis = scored.analysis
    paths = {factor: importance_path(record.table, record.golden) for factor, record in analysis.importances.items()}
    public = cells.drop(columns=[name for name in ("artifact_uri", "experiment_id") if name in cells])
    public.to_parquet(folder / names.CELLS, index=False)
    _write_table(folder / names.CELLS_TABLE, _for_people(public, analysis.metric))
    _write_json(folder / names.IMPORTANCE, importance_document(analysis))
    if document:
        _write_json(folder / names.INVESTIGATION, document)
    page = html.render(analysis, paths=paths, settings=settings, title=title, notes=notes)
    (folder / names.REPORT).write_text(page, encoding="utf-8")
    for factor, record in analysis.importances.items():
        stem = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in factor)
        save_png(heatmap.heatmap(record, metric=analysis.metric), folder / f"heatmap-{stem}.png")
        if len(paths[factor]) > 1:
            save_png(figures.convergence(paths[factor], factor), folder / f"convergence-{stem}.png")
    save_png(figures.golden_distribution(analysis.importances, metric=analysis.metric), folder / "golden.png")
    save_png(figures.importance_bars(analysis), folder / "importance.png")


def description(analysis: Analysis) -> str:
    """Return the headline of the report as Markdown, for the description of the run in MLflow's UI."""
    from mlflow_l3d.report.words import answers

    return "\n\n".join(f"**{answer.question}** {answer.short}. {answer.sentences[0]}" for answer in answers(analysis))


def importance_document(analysis: Analysis) -> dict[str, Any]:
    """Return the analysis as JSON types; undefined numbers are null."""
    return {
        "schema": 1,
        "metric": analysis.metric,
        "factors": {
            factor: {
                **{name: _finite(getattr(record, name)) for name in IMPORTANCE_METRICS},
                "rows_used": record.rows_used,
                "cells_missing": record.cells_missing,
                "golden_missing": record.golden_missing,
                "table": [[_finite(value) for value in row] for row in record.table.tolist()],
            }
            for factor, record in analysis.importances.items()
        },
        "golden": next(
            ([_finite(value) for value in record.golden.tolist()] for record in analysis.importances.values()), []
        ),
        "consistency": {
            name: {key: _finite(value) for key, value in asdict(record).items()}
            for name, record in analysis.consistencies.items()
        },
        "checks": [asdict(check) for check in analysis.checks],
        "cells_failed": analysis.cells_failed,
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _for_people(cells: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Put the score beside the coordinates: the UI shows the first few columns."""
    first = ["phase", "factor", "row", "column", metric, "index"]
    return cells[[*first, *(name for name in cells if name not in first)]]


def _write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame in the form of MLflow's ``log_table``, a few rows at a time: as text it is many times as large."""
    with path.open("w", encoding="utf-8") as file:
        file.write(f'{{"columns": {json.dumps(list(frame.columns))}, "data": [')
        for start in range(0, len(frame), _ROWS_AT_ONCE):
            part = frame.iloc[start : start + _ROWS_AT_ONCE]
            rows = part.astype(object).where(part.notna(), None).to_numpy().tolist()
            file.write((", " if start else "") + json.dumps(rows, allow_nan=False)[1:-1])
        file.write("]}")


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=None, allow_nan=False), encoding="utf-8")


def tables(frames: Iterator[tuple[str, pd.DataFrame | None]]) -> Iterator[pa.Table | None]:
    """Turn (run id, frame) pairs into the tables that :func:`score` reads."""
    import pyarrow as pa

    for _, frame in frames:
        yield None if frame is None else pa.Table.from_pandas(frame, preserve_index=False)
