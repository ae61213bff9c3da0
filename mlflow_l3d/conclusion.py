"""The end of an investigation: everything is scored once more from what is recorded, and the parent is completed."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from mlflow_l3d.interrupts import deferred_interrupts
from mlflow_l3d.ledger import names
from mlflow_l3d.ledger.parent import run_title
from mlflow_l3d.scoring import Scored, description, score, write_artifacts

if TYPE_CHECKING:
    import pyarrow as pa

    from mlflow_l3d.ledger.ledger import Ledger
    from mlflow_l3d.ledger.spool import Spool
    from mlflow_l3d.specification.investigation import Specification


def conclude(specification: Specification, ledger: Ledger) -> tuple[pd.DataFrame, Scored]:
    """Score everything once more from what is recorded, write the parent's artifacts, and end the parent."""
    with deferred_interrupts():
        run_ids = ledger.run_ids()
    frame = _cells_frame(specification, ledger.spool, run_ids)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scored = score(
            frame,
            _spooled_predictions(frame, ledger.spool),
            metric=specification.metric,
            factors=specification.factors,
            rows=specification.mitigation_runs,
            columns=specification.investigation_runs,
            golden_runs=specification.golden_runs,
            classes=len(specification.task.class_names),
            table_file=folder / names.PREDICTIONS,
        )
        notes = [
            *specification.task.notes,
            *(f"{k} has no effect: {v}" for k, v in specification.fixed_factors.items()),
        ]
        write_artifacts(
            folder,
            scored,
            frame,
            document=specification.document(),
            settings=_settings(specification),
            title=run_title(specification),
            notes=notes,
        )
        for step, metrics in sorted(scored.consistency_steps.items()):
            ledger.log_metrics(metrics, step)
        ledger.log_metrics(scored.analysis.metrics(), specification.mitigation_runs)
        ledger.wait()
        complete = scored.analysis.cells_failed == 0
        ledger.finish(folder, complete=complete, description=description(scored.analysis))
    return frame, scored


def _cells_frame(specification: Specification, spool: Spool, run_ids: Mapping[str, str]) -> pd.DataFrame:
    """Return one row a cell of the plan, table by table, then the golden runs."""
    columns: dict[str, list[Any]] = {}
    for count, cell in enumerate(specification.design().cells()):
        record = spool.record(cell.key)
        row = {
            "phase": cell.phase,
            "factor": cell.factor,
            "row": cell.row,
            "column": cell.column,
            "index": cell.index,
            "run_id": run_ids.get(cell.key),
            "cell_key": cell.key,
            "status": "FAILED" if record.error else "FINISHED",
            **({} if record.error else {k: v for k, v in record.metrics.items() if math.isfinite(v)}),
            **{f"factor.{factor}": number for factor, number in cell.configurations.items()},
            **{f"seed.{factor}": seed for factor, seed in cell.seeds.items()},
        }
        for name in row.keys() - columns.keys():
            columns[name] = [None] * count
        for name, values in columns.items():
            values.append(row.get(name))
    first = ["phase", "factor", "row", "column", "index", "run_id", "cell_key", "status"]
    rest = [name for name in columns if name not in first]
    metrics = sorted(name for name in rest if not name.startswith(("factor.", "seed.")))
    others = [name for kind in ("factor.", "seed.") for name in sorted(rest) if name.startswith(kind)]
    frame = pd.DataFrame({name: columns.pop(name) for name in (*first, *metrics, *others)})
    if specification.metric not in frame:
        frame[specification.metric] = math.nan
    frame = frame.astype({"row": "Int64", "column": "Int64", "index": "Int64"})
    rank = frame["factor"].map({factor: rank for rank, factor in enumerate(specification.factors)})
    keys = frame.assign(rank=rank.fillna(len(specification.factors)))
    keys = keys.sort_values(["rank", "row", "column", "index"], kind="stable")
    return frame.loc[keys.index].reset_index(drop=True)


def _spooled_predictions(frame: pd.DataFrame, spool: Spool) -> Iterator[pa.Table | None]:
    import pyarrow.parquet as pq

    for key, status in zip(frame["cell_key"], frame["status"], strict=True):
        path = spool.predictions(key) if status == "FINISHED" else None
        yield None if path is None else pq.read_table(path, partitioning=None)


def _settings(specification: Specification) -> dict[str, str]:
    document, task = specification.document(), specification.task
    sizes = (specification.investigation_runs, specification.mitigation_runs, specification.golden_runs)
    return {
        "task": f"{task.name} ({len(task)} examples, {len(task.class_names)} classes)",
        "approach": f"{specification.approach.name} (version {specification.approach.version})",
        "model": specification.model or "none",
        "metric": specification.metric,
        "design": f"crossed, N={sizes[0]}, M={sizes[1]}, L={sizes[2]}",
        "mitigated factors": ", ".join(document["mitigated_factors"]) or "none",
        "root seed": str(specification.root_seed),
        "hyperparameters": ", ".join(f"{name}={value}" for name, value in specification.hyperparameters.items()),
        "device": specification.device,
    }
