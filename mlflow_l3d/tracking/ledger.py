"""One investigation on one tracking server: what is done, what is new, and a parent in a true state at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mlflow_l3d.tracking.recorder import Opened, Recorder, open_recorder
from mlflow_l3d.tracking.records import CellRecord
from mlflow_l3d.tracking.recovery import Recovered, recover

if TYPE_CHECKING:
    from mlflow_l3d.plan.cells import Cell, Outcome
    from mlflow_l3d.tracking.parent import Card
    from mlflow_l3d.tracking.recovery import CellWork


class Ledger(Recorder[CellRecord]):
    """Open with :meth:`open`; then `record` every outcome, and end with `finish`, `interrupt` or `fail`.

    Attributes
    ----------
    recovered
        What was done before.
    """

    def __init__(self, opened: Opened[CellRecord], specification: CellWork) -> None:
        super().__init__(opened, specification.context_key, _shared_params(specification))
        self.recovered = Recovered()

    @classmethod
    def open(cls, specification: CellWork, card: Card, project_run: str | None = None) -> Ledger:
        """Connect, take the lock of this investigation, open the parent, and find what is already done.

        Parameters
        ----------
        specification
            What is investigated.
        card
            What the parent says of itself.
        project_run
            The run that `mlflow run` made for us; None for a new one.

        Raises
        ------
        ParameterError
            If the tracking server does not answer or refuses.
        L3DError
            If another process of this machine is at the same investigation.
        """

        def find(ledger: Ledger, opened: Opened[CellRecord]) -> list[str]:
            ledger.recovered = recover(opened, specification)
            return ledger.recovered.to_upload

        return open_recorder(card, CellRecord, project_run, lambda opened: cls(opened, specification), find)

    def record(self, cell: Cell, outcome: Outcome) -> CellRecord:
        """Keep one outcome: into the spool at once, to the server by and by."""
        return self.add(CellRecord.of(cell, outcome, end_time=int(time.time() * 1000)), outcome)


def _shared_params(specification: CellWork) -> dict[str, str]:
    return {
        "task": specification.setup.task.name,
        "approach": specification.setup.approach.name,
        "model": specification.setup.model or "none",
        **{name: str(value) for name, value in specification.setup.hyperparameters.items()},
    }
