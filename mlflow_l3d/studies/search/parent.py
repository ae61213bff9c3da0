"""What the parent of a search and its children are made of, and where its journal lies."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlflow_l3d.paths import cache_folder
from mlflow_l3d.tracking.records import TrialRecord, public_error, without_private_paths

if TYPE_CHECKING:
    from mlflow_l3d.analysis.search import SearchResult
    from mlflow_l3d.plan.cells import Outcome
    from mlflow_l3d.studies.search.cells import TrialCell
    from mlflow_l3d.studies.search.ledger import SearchLedger
    from mlflow_l3d.studies.search.specification import SearchSpecification


def shared_params(specification: SearchSpecification) -> dict[str, str]:
    """Return the parameters that every trial has."""
    setup = specification.setup
    return {"task": setup.task.name, "approach": setup.approach.name, "model": setup.model or "none"}


def journal_folder(ledger: SearchLedger) -> Path:
    """Return where the journal of this search lies: one folder a search, experiment and tracking server."""
    return cache_folder() / "searches" / ledger.spool.folder.name


def forget_journal(specification: SearchSpecification, ledger: SearchLedger) -> None:
    """Remove the journal of a finished search; the server holds it all."""
    if specification.storage == "auto":
        shutil.rmtree(journal_folder(ledger), ignore_errors=True)


def trial_record(
    level: str,
    number: int,
    name: str,
    state: str,
    cell: TrialCell,
    outcome: Outcome,
    seeds: Sequence[Mapping[str, int]],
) -> TrialRecord:
    """Return the record of a trial, or of a run of the comparison; `seeds` are those of its configurations."""
    return TrialRecord(
        level=level,
        number=number,
        state=state,
        hyperparameters=dict(cell.hyperparameters),
        seeds={factor: ",".join(str(own[factor]) for own in seeds) for factor in seeds[0]},
        key=cell.key,
        name=name,
        end_time=int(time.time() * 1000),
        metrics={**outcome.metrics, "duration_seconds": float(outcome.duration_seconds)},
        curves={curve: [float(value) for value in values] for curve, values in outcome.curves.items()},
        error=public_error(outcome.error),
        traceback=None if outcome.traceback is None else without_private_paths(outcome.traceback),
    )


def search_metrics(result: SearchResult) -> dict[str, float]:
    """Return the metrics of the parent; those that are not known are left out."""
    values = {
        "best_score": result.best_score,
        "default_score": result.default_score,
        "trials_complete": float(sum(level.complete for level in result.levels)),
        "trials_pruned": float(sum(level.pruned for level in result.levels)),
        "trials_failed": float(sum(level.failed for level in result.levels)),
        **{f"hyperparameter_importance/{name}": share for name, share in result.importances.items()},
    }
    if result.held_out is not None:
        values |= {
            "held_out_difference": result.held_out.difference,
            "held_out_ci_low": result.held_out.ci_low,
            "held_out_ci_high": result.held_out.ci_high,
        }
    return {name: value for name, value in values.items() if not math.isnan(value)}


def search_description(result: SearchResult) -> str:
    """Return the answers as Markdown, for the description of the run in MLflow's UI."""
    from mlflow_l3d.report.search.words import search_answers

    return "\n\n".join(
        f"**{answer.question}**: {answer.short}. {' '.join(answer.sentences)}" for answer in search_answers(result)
    )
