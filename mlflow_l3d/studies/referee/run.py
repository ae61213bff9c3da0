"""The entry point `referee`: it starts a session, judges a candidate, or shows the status."""

from __future__ import annotations

from typing import Unpack

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.declaration import read_arguments, with_signature
from mlflow_l3d.parameters.shared import PLACE
from mlflow_l3d.studies.referee.door import Referee
from mlflow_l3d.studies.referee.parameters import OF_JUDGE, OF_START, REFEREE, RefereeOptions
from mlflow_l3d.studies.referee.results import Judged, RefereeSession

_OPTIONS = {"start": (*OF_START, *PLACE), "judge": (*OF_JUDGE, *PLACE), "status": ("referee", *PLACE)}


@with_signature(RefereeOptions)
def referee(**parameters: Unpack[RefereeOptions]) -> RefereeSession | Judged:
    """Start a session of golden runs, judge a candidate in it, or return its status.

    Parameters
    ----------
    **parameters
        As on the command line, see :data:`mlflow_l3d.studies.referee.parameters.REFEREE`. :class:`mlflow_l3d.Referee`
        does the same for loops in Python, also with a function.

    Returns
    -------
    RefereeSession or Judged
        The session; of ``judge`` a judgement, too, whose `exit_status` is 0 (keep), 1 (reject) or 2 (undecided).

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> baseline = mlflow_l3d.investigate(
    ...     "synthetic", approach="synthetic",
    ...     investigation_runs=3, mitigation_runs=3, golden_runs=10, executor="inline",
    ... )
    >>> session = mlflow_l3d.referee(action="start", baseline=baseline.run_id, baseline_runs=10, executor="inline")
    >>> change = {"hyperparameters": {"a_label_selection": 99, "a_model_initialisation": 99}}
    >>> mlflow_l3d.referee(action="judge", candidate=change, executor="inline").judgement.verdict
    'keep'
    """
    typed = read_arguments(parameters, REFEREE)
    action, texts = typed["action"], typed.texts
    for name, value in texts.items():
        if name not in ("action", *_OPTIONS[action]) and value != REFEREE[name].default:
            raise ParameterError(name, value, f"has no effect on referee {action}", "Leave it out.")
    if action == "start":
        return Referee.start(**parameters).status()
    if action == "judge" and texts["candidate"] == "none":
        raise ParameterError("candidate", "none", "must be what to change of the champion, a run id, or scores")
    begun = Referee.resume(texts["referee"], **{name: texts[name] for name in PLACE})
    if action == "status":
        return begun.status()
    most = None if typed["most_runs"] == "auto" else typed["most_runs"]
    return begun.judged(parameters["candidate"], most_runs=most)
