"""What groups of existing runs say: the result that a run holds."""

from __future__ import annotations

from dataclasses import dataclass

from mlflow_l3d.studies.shown import OnOneScreen


@dataclass(frozen=True, repr=False)
class GroupsEvaluation(OnOneScreen):
    """The groups of existing runs that were evaluated.

    Attributes
    ----------
    run_id
        The run with the result; the empty text if nothing was logged.
    """

    run_id: str
