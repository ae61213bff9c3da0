"""`evaluate`: finds out what kind of study a parent run is of, and scores it."""

from __future__ import annotations

from mlflow_l3d.studies.base import entry_point
from mlflow_l3d.studies.investigation.evaluate import Evaluation
from mlflow_l3d.studies.investigation.evaluate import evaluate as evaluate_investigation
from mlflow_l3d.studies.seeds.evaluate import SeedsEvaluation, check_options, evaluate_seeds, is_seeds_study


def evaluate(
    parent_run_id: str = "latest",
    *,
    where: str = "none",
    metric: str = "auto",
    design: str = "auto",
    missing: str = "auto",
    agreement: str = "auto",
    log: bool = True,
) -> Evaluation | SeedsEvaluation:
    """Score a parent run again from its children, and write metrics and artifacts to it.

    Parameters
    ----------
    parent_run_id
        A parent run, ours or a stranger's; ``latest`` is the current experiment's latest investigation. Several studies
        of seeds, separated by commas, are compared over tasks in a run of its own.
    where, metric, design, missing, agreement
        As for :func:`mlflow_l3d.studies.investigation.evaluate.evaluate`; a study of seeds has `metric` only.
    log
        Whether to write metrics and artifacts.

    Raises
    ------
    L3DError
        With one line that says what is missing.
    """
    with entry_point() as project_run:
        if is_seeds_study(parent_run_id):
            check_options({"where": where, "design": design, "missing": missing, "agreement": agreement})
            return evaluate_seeds(parent_run_id, metric=metric, project_run=project_run.run_id, log=log)
        return evaluate_investigation(
            parent_run_id, where=where, metric=metric, design=design, missing=missing, agreement=agreement, log=log
        )
