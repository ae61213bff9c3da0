"""`evaluate_groups`: what the runs of an experiment say about luck, whoever logged them."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_l3d.studies.groups.results import GroupsEvaluation


def evaluate_groups(
    source: str | Sequence[str],
    *,
    group_by: str = "auto",
    seed: str = "auto",
    metric: str = "auto",
    step: str = "last",
    tag: bool = False,
    project_run: str | None = None,
    log: bool = True,
    progress: bool | None = None,
) -> GroupsEvaluation:
    """Group runs that differ by seeds alone, and return how much of the differences between groups is luck.

    Parameters
    ----------
    source
        ``experiment:NAME`` or ``experiment:ID``; an MLflow filter, which is searched in the current experiment; or run
        ids.
    group_by
        What distinguishes groups, as in ``params.learning_rate,tags.model``; ``auto`` takes all parameters that vary,
        except seeds and names of runs, folders and times.
    seed
        Which of them are seeds, as in ``params.random_state``; ``auto`` takes those with the name of one.
    metric
        The score; ``auto`` is the metric of all finished runs that sounds most like a score on test data.
    step
        ``last``, ``best``, or the number of a step.
    tag
        Whether to write what a difference may be by luck to the runs, as tags that begin with ``l3d.``.
    project_run
        The run that `mlflow run` opened, for the result.
    log
        Whether to write the result to a run of its own.
    progress
        Whether to report progress on stderr; None reports it in a notebook and on a terminal.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.
    """
    raise NotImplementedError
