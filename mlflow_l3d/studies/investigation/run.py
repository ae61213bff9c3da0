"""The main job: specification -> plan of cells -> executor -> ledger -> analysis -> report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.studies.cells import CellStudy, CellStudyResult
from mlflow_l3d.studies.investigation.finalize import finalize
from mlflow_l3d.studies.investigation.monitor import Monitor
from mlflow_l3d.studies.investigation.specification import Specification, specify
from mlflow_l3d.studies.investigation.stopping import Stopping
from mlflow_l3d.tracking.ledger import Ledger

if TYPE_CHECKING:
    from mlflow_l3d.approaches.base import Approach
    from mlflow_l3d.plan.cells import Cell
    from mlflow_l3d.tasks.base import Task
    from mlflow_l3d.tracking.records import CellRecord


@dataclass(frozen=True, kw_only=True)
class Investigation(CellStudyResult[Specification]):
    """A finished investigation; see :class:`mlflow_l3d.studies.cells.CellStudyResult`.

    Attributes
    ----------
    analysis
        Importance, consistency and checks.
    cells
        One row a cell: coordinates, metrics, run id.
    """

    analysis: Analysis
    cells: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        """Return one row a factor, most important first."""
        return self.analysis.to_frame()

    def summary(self) -> str:
        """Return the table and the sentences that the command line prints at the end."""
        from mlflow_l3d.report.investigation.terminal import summary

        lines = [
            f"{self.computed} cells computed, {self.reused} taken from earlier runs, in {self.seconds:.0f} s",
            f"MLflow run {self.run_id}; report.html is among its artifacts",
        ]
        return summary(self.analysis, title=self.specification.title, lines=lines)


def investigate(
    *,
    approach: Approach | str | None = None,
    task: Task | str | None = None,
    progress: bool = False,
    **parameters: object,
) -> Investigation:
    """Investigate how much of a score is luck, and which kind of luck.

    Parameters
    ----------
    approach, task
        A name, or an object of your own.
    progress
        Whether to show a progress bar on stderr.
    **parameters
        As on the command line, see :data:`mlflow_l3d.parameters.table.MAIN`: ``factor``, ``model``,
        ``investigation_runs``, ``mitigation_runs``, ``root_seed``, ...

    Returns
    -------
    Investigation
        Its runs are on the current MLflow tracking server.

    Raises
    ------
    L3DError
        With one line that says what to change.
    """
    return InvestigationStudy.conduct(parameters, approach=approach, task=task, progress=progress)


class InvestigationStudy(CellStudy[Specification, Investigation]):
    """One investigation under way; rows that are incomplete when its stopping rule says stop are not scored."""

    specify = staticmethod(specify)

    def __init__(self, specification: Specification, *, progress: bool = False) -> None:
        super().__init__(specification, progress=progress)
        plan = specification.plan
        self._design = specification.design()
        self._monitor = Monitor(
            self._design,
            metric=specification.metric,
            classes=len(specification.setup.task.class_names),
            pooled=plan.golden_pooled,
            stopping=None if plan.stop == "none" else Stopping(plan, specification.factors),
        )

    @property
    def progress_title(self) -> str:
        """What stands before the progress bar."""
        return self.specification.factor_words

    @property
    def stopped(self) -> bool:
        """Whether the stopping rule says stop."""
        return self._monitor.stopped is not None

    @property
    def most_ahead(self) -> int | None:
        """Under a stopping rule, the cells of a row, or as many as are done."""
        if self.specification.plan.stop == "none":
            return None
        return max(self._design.step_size(0), self.reused + self.computed)

    def on_known(self, cell: Cell, metrics: Mapping[str, float], ledger: Ledger[CellRecord]) -> None:
        """Let the monitor know."""
        self._monitor.add(cell, metrics)
        for step, values in self._monitor.new_steps():
            ledger.log_metrics(values, step)

    def on_record(self, cell: Cell, record: CellRecord, ledger: Ledger[CellRecord]) -> None:
        """Let the monitor know."""
        self.on_known(cell, {} if record.error else record.metrics, ledger)

    def carry_out(self, ledger: Ledger[CellRecord]) -> Investigation:
        """Train, and score what is recorded."""
        specification = self.specification
        self.train(ledger)
        if specification.plan.stop != "none":
            specification = specification.truncate(self._monitor.stopped or specification.plan.mitigation_runs)
            ledger.log_params({f"resolved.{name}": value for name, value in specification.resolved_runs().items()})
        cells, scored = finalize(specification, ledger, self._monitor.interim_analyses)
        return Investigation(specification=specification, analysis=scored.analysis, cells=cells, **self.result(ledger))
