"""The end of an investigation: everything is scored once more from what is recorded, and the parent is completed."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from mlflow_l3d.designs.analyse import Planned
from mlflow_l3d.studies.interrupts import deferred_interrupts
from mlflow_l3d.studies.investigation.artifacts import description, write_artifacts
from mlflow_l3d.studies.investigation.scoring import Scored, score
from mlflow_l3d.tracking import names

if TYPE_CHECKING:
    import pyarrow as pa

    from mlflow_l3d.studies.investigation.specification import Specification
    from mlflow_l3d.tracking.ledger import Ledger
    from mlflow_l3d.tracking.records import CellRecord
    from mlflow_l3d.tracking.spool import Spool


def finalize(
    specification: Specification, ledger: Ledger[CellRecord], interim_analyses: pd.DataFrame | None = None
) -> tuple[pd.DataFrame, Scored]:
    """Score everything once more from what is recorded, write the parent's artifacts, and end the parent.

    Parameters
    ----------
    specification
        What was investigated; where a stopping rule ended it, cut to the rows up to then.
    ledger
        Holds the cells.
    interim_analyses
        The looks of the stopping rule.
    """
    with deferred_interrupts():
        run_ids = ledger.run_ids()
    frame = _cells_frame(specification, ledger.spool, run_ids)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scored = score(
            frame,
            _spooled_predictions(frame, ledger.spool),
            metric=specification.metric,
            planned=planned(specification),
            interim_analyses=interim_analyses,
            table_file=folder / names.PREDICTIONS,
        )
        notes = [
            *specification.setup.task.notes,
            *specification.setup.origin.notes,
            *(f"{k} has no effect: {v}" for k, v in specification.setup.fixed_factors.items()),
        ]
        write_artifacts(
            folder,
            scored,
            frame,
            document=specification.document(),
            settings=_settings(specification),
            title=specification.title,
            notes=notes,
        )
        for step, metrics in sorted(scored.consistency_steps.items()):
            ledger.log_metrics(metrics, step)
        ledger.log_metrics(scored.analysis.metrics(), specification.design().steps)
        ledger.wait()
        complete = scored.analysis.cells_failed == 0
        ledger.finish(folder, complete=complete, description=description(scored.analysis))
    return frame, scored


def _cells_frame(specification: Specification, spool: Spool[CellRecord], run_ids: Mapping[str, str]) -> pd.DataFrame:
    """Return one row a cell of the plan, in the order in which votes are counted."""
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
    return specification.plan.design.order(frame, specification.factors)


def planned(specification: Specification) -> Planned:
    """Return the plan of a specification as scoring knows it."""
    plan = specification.plan
    return Planned(
        design=plan.design,
        factors=specification.factors,
        rows=plan.mitigation_runs,
        columns=plan.investigation_runs,
        golden_runs=plan.golden_runs,
        pooled=plan.golden_pooled,
        missing=specification.missing,
        mitigated=bool(plan.mitigation),
        product=plan.joint == "product",
        classes=len(specification.setup.task.class_names),
        searched_splits=specification.searched_splits(),
    )


def _spooled_predictions(frame: pd.DataFrame, spool: Spool[CellRecord]) -> Iterator[pa.Table | None]:
    import pyarrow.parquet as pq

    for key, status in zip(frame["cell_key"], frame["status"], strict=True):
        path = spool.predictions(key) if status == "FINISHED" else None
        yield None if path is None else pq.read_table(path, partitioning=None)


def _settings(specification: Specification) -> dict[str, str]:
    task, plan = specification.setup.task, specification.plan
    settings = {
        "task": f"{task.name} ({len(task)} examples, {len(task.class_names)} classes)",
        "approach": f"{specification.setup.approach.name} (version {specification.setup.approach.version})",
        "model": specification.setup.model or "none",
        "metric": specification.metric,
        "design": plan.words(),
        "mitigated factors": ", ".join(specification.mitigated_factors) or "none",
        "mitigation strategies": ", ".join(
            f"{each.name} ({each.factor}: {', '.join(map(str, each.configurations))})" for each in plan.mitigation
        ),
        "joint factors": f"columns {plan.joint}" if any("+" in name for name in specification.factors) else "",
        "stopping rule": "" if plan.stop == "none" else plan.stop_words(),
        "root seed": str(specification.plan.root_seed),
        "hyperparameters": ", ".join(f"{name}={value}" for name, value in specification.setup.hyperparameters.items()),
        "device": specification.setup.device,
    }
    return {name: value for name, value in settings.items() if value}
