"""The artifacts and the description of a comparison."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pandas as pd

from mlflow_l3d.studies.comparison.report.words import advice_on, answers
from mlflow_l3d.studies.files import write_json, write_tables
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.pages import run_page

if TYPE_CHECKING:
    from mlflow_l3d.studies.comparison.results import ComparedRuns

DOCUMENT: Final = "comparison.json"
TABLE, RANKS, OVER_TASKS, CHECKS = "differences.json", "ranks.json", "over_tasks.json", "self_check.json"


def write_comparison(folder: Path, compared: ComparedRuns) -> list[str]:
    """Write tables, pictures and report; return the names of what MLflow shows as tables."""
    comparison, frame = compared.comparison, compared.to_frame()
    frame.to_csv(folder / "differences.csv", index=False)
    frame.to_parquet(folder / "differences.parquet", index=False)
    compared.scores.to_parquet(folder / "scores.parquet", index=False)
    parents = [parent._asdict() for parent in compared.parents]
    checks = [asdict(check) | {"rate": check.rate} for check in compared.self_checks]
    advice = [asdict(advice_on(each)) for each in comparison.differences]
    more = {"parents": parents, "metrics": compared.metrics(), "self_checks": checks, "advice": advice}
    document = {**asdict(comparison), "metric": comparison.metric.name, **more}
    write_json(folder / DOCUMENT, document, indent=2)
    compared.document().save(folder, names.REPORT)
    frames = {TABLE: frame, RANKS: comparison.ranks_frame(), OVER_TASKS: comparison.over_tasks_frame()}
    importances = None if compared.importances.empty else compared.importances
    frames |= {"importances.json": importances, CHECKS: pd.DataFrame(checks) if checks else None}
    return write_tables(folder, frames)


def note(compared: ComparedRuns) -> str:
    """Return answers and links to the parents as Markdown, for the description of the run in MLflow's UI."""
    opening = [answer.markdown(2) for answer in answers(compared.comparison)]
    links = [
        f"* {each.system}, {each.task}: [{each.run_id}]({run_page(each.experiment_id, each.run_id)})"
        for each in compared.parents
    ]
    return "\n\n".join([*opening, "\n".join(links)])[:5000]
