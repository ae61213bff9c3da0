"""The entry point `sweep`: many investigations as one study, trained together."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.parameters import with_signature
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.base import Study, entry_point, origin, say
from mlflow_l3d.studies.dry_run import record_plan
from mlflow_l3d.studies.files import LEFT_OUT, temporary_folder, write_json
from mlflow_l3d.studies.investigation.parameters import InvestigateOptions
from mlflow_l3d.studies.loop import State
from mlflow_l3d.studies.request import is_typed
from mlflow_l3d.studies.self_test import tested
from mlflow_l3d.studies.sweep.engine import Engine, SweepPlan, make_plan
from mlflow_l3d.studies.sweep.numbers import analyse_sweep
from mlflow_l3d.studies.sweep.numbers.point import SweptPoint
from mlflow_l3d.studies.sweep.parameters import SWEEP, SweepOptions
from mlflow_l3d.studies.sweep.point import PointStudy
from mlflow_l3d.studies.sweep.request import SweepRequest, specify_sweep
from mlflow_l3d.studies.sweep.results import SweepEvaluation, left_out, links_of, points_of, write_sweep
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import children_of
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.earlier import find_search
from mlflow_l3d.tracking.opening import open_recorder
from mlflow_l3d.tracking.recorder import RunRecorder, Work
from mlflow_l3d.tracking.records import CellRecord


@dataclass(frozen=True, kw_only=True, repr=False)
class Sweep(SweepEvaluation):
    """A finished sweep.

    Attributes
    ----------
    computed
        How many cells were trained now and have a score.
    seconds
        Wall clock.
    budget, spent
        The budget, and whether it ended the sweep before all was done.
    points_failed
        How many points failed: the exit status is 1 if any did.
    request
        The request; None if it was loaded.
    """

    computed: int
    seconds: float
    budget: str
    spent: bool
    points_failed: int = 0
    request: SweepRequest | None = field(default=None, metadata=LEFT_OUT)

    @property
    def exit_status(self) -> int:
        """1 if a point failed."""
        return int(self.points_failed > 0)

    @property
    def points(self) -> tuple[SweptPoint, ...]:
        """The investigations, in the order of the request."""
        return self.sweep.points

    def lines(self) -> list[str]:
        """Return what the terminal says of the run: what it computed, and where the report is."""
        end = f" The budget of {self.budget} is spent: the same command with a larger one continues."
        done = f"{counted(self.computed, 'run')} computed in {self.seconds:.0f} s; {' '.join(super().lines())}"
        return [done + end * self.spent]


@with_signature(InvestigateOptions, SweepOptions)
def sweep(task: Any = None, *, approach: Any = None, progress: bool | None = None, **parameters: Any) -> Sweep:
    """Investigate several points, which differ in model, task, hyperparameters or any other parameter.

    Parameters
    ----------
    approach, task
        A name, an object, or a list of names and objects.
    progress
        Whether to show progress on stderr; None shows it in a notebook and on a terminal.
    **parameters
        As on the command line (``mlflow-l3d sweep --help-all``): those of
        :func:`mlflow_l3d.studies.investigation.run.investigate`, each a value or a list of values; ``over``, a mapping
        of hyperparameter to values; ``file``; ``budget``. Also ``sets``, ``exclude`` and
        ``overrides``, as in a file; approaches and tasks in a set may be objects.

    Returns
    -------
    Sweep
        The result; its runs are on the current MLflow tracking server.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> sweep = mlflow_l3d.sweep(
    ...     "synthetic", approach="synthetic", factor="data_order", over={"a_data_order": [0, 9]},
    ...     investigation_runs=3, mitigation_runs=3, golden_runs=6, executor="inline",
    ... )
    >>> sweep.to_frame()[["a_data_order", "factor", "importance"]].round(2)
       a_data_order      factor  importance
    0           0.0  data_order        0.20
    1           9.0  data_order       -0.58
    """
    with entry_point() as project_run:
        request = specify_sweep(parameters, approach=approach, task=task, searches=find_search)
        say(request.remarks)
        plan = make_plan(request, connect())
        plan.check()
        say([plan.line()])
        return SweepStudy(request, plan, progress=progress).run(project_run.take())


@with_signature(InvestigateOptions, SweepOptions)
def plan_sweep(task: Any = None, *, approach: Any = None, **parameters: Any) -> SweepPlan:
    """Return what a sweep would do: its points, their cells and hours. No run starts.

    Parameters
    ----------
    approach, task, **parameters
        Those of :func:`sweep`.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> plan = mlflow_l3d.plan_sweep(
    ...     "synthetic", approach="synthetic", factor="data_order,data_split", design=["crossed", "radial"]
    ... )
    >>> plan.to_frame()[["design", "cells"]]
        design  cells
    0  crossed    600
    1   radial    300
    """
    with entry_point() as project_run:
        client = connect()
        request = specify_sweep(parameters, approach=approach, task=task, searches=find_search)
        say(request.remarks)
        return record_plan(client, project_run.run_id, make_plan(request, client), request.title, request.given)


class SweepStudy(Study[SweepRequest, CellRecord, Sweep]):
    """One sweep under way; `plan` says how much of each point is done."""

    _points: tuple[PointStudy, ...] = ()

    def __init__(self, request: SweepRequest, plan: SweepPlan, *, progress: bool | None = False) -> None:
        super().__init__(request, progress=progress)
        self._done = plan.parts["done"].tolist()

    def open(self, project_run: str | None) -> RunRecorder[CellRecord]:
        """Open the run on top; complete points of an earlier run of the same sweep become children of this one."""
        request = self.request
        recorder = open_recorder(Work(request.card(), CellRecord, request.key, {}, lambda: ()), project_run)
        self._points = tuple(
            PointStudy(replace(point, sweep=recorder.parent.run_id), number, recorder, done, len(request.points))
            for number, (point, done) in enumerate(zip(request.points, self._done, strict=True))
        )
        return recorder

    def how_far(self) -> str:
        """Return how many points are done."""
        return f"with {sum(point.state is State.COMPLETE for point in self._points)} of {len(self._points)} points done"

    def carry_out(self) -> Sweep:
        """Train the points together, score each, and write what they say together."""
        request, points = self.request, self._points
        self._adopt()
        self._test_seeds()
        engine = Engine(points, request.budget, progress=self.progress)
        engine.run()
        failed = [point for point in points if point.error]
        if len(failed) == len(points):
            raise L3DError(f"Every point failed; the first said: {failed[0].error}")
        ended = (point.swept() for point in points)
        swept = tuple(each if isinstance(each, SweptPoint) else next(ended) for each in request.every)
        complete = sum(point.state is State.COMPLETE for point in points)
        parent, client = self.recorder.parent, self.recorder.client
        experiments = {point.run_id: parent.experiment_id for point in swept if point.run_id}
        finished = Sweep(
            run_id=parent.run_id,
            sweep=analyse_sweep(swept, left_out(swept)),
            title=request.title,
            source=_source(request, origin(client, parent.experiment_id, parent.run_id)),
            links=links_of(str(client.tracking_uri), experiments),
            computed=sum(point.computed - point.failed for point in points),
            seconds=time.monotonic() - self._started,
            budget=str(request.budget),
            spent=engine.is_spent,
            points_failed=len(failed) + len(request.failed),
            request=request,
        )
        with temporary_folder() as folder:
            write_sweep(folder, finished)
            ends = [{"run_id": point.run_id, "error": point.error} for point in swept]
            write_json(folder / names.SWEEP_DOCUMENT, {**request.document(), "ends": ends}, indent=2)
            counts = {"points_complete": complete, "points_failed": finished.points_failed}
            counts["cells_computed"] = self._computed(finished)
            self.recorder.log_metrics({**counts, **finished.sweep.metrics()}, 0)
            self.recorder.wait()
            remarks = [
                f"{complete} of {len(swept)} points are complete.",
                "In the list of runs the filter ``tags.`l3d.role` != 'cell'`` shows sweep and points without cells.",
                *([f"The budget of {finished.budget} is spent; a larger one continues."] if finished.spent else []),
                *(f"- {point.name}: {point.error}" for point in swept if point.error),
            ]
            text = finished.report().description(*remarks, first=2)
            self.recorder.finish(folder, complete=complete == len(swept), description=text)
        return finished

    def _test_seeds(self) -> None:
        """Try the seeds of each approach with each set of hyperparameters, at the first of the points that have it."""
        tried = set()
        for point in self._points:
            setup = point.request.setup
            what = content_key({"approach": setup.approach.name, "with": {**setup.hyperparameters, **setup.numerics}})
            if what not in tried and not point.is_over:
                try:
                    point.trials = tested(point.request, progress=self.progress)
                except L3DError as error:
                    if not isinstance(error, ParameterError):
                        raise L3DError(f"At the point {point.request.name}: {error}") from error
                    raise
            tried.add(what)

    def _computed(self, finished: Sweep) -> int:
        """Return how many cells were trained for this sweep and finished, by the processes that it continues, too."""
        parent, client = self.recorder.parent, self.recorder.client
        if names.CONTINUES not in client.get_run(parent.run_id).data.tags:
            return finished.computed
        points = (point.run_id for point in self._points if point.run_id)
        runs = (run for point in points for run in children_of(client, parent.experiment_id, point))
        return len({run.data.tags.get(names.CELL_KEY) for run in runs if run.info.status == "FINISHED"})

    def _adopt(self) -> None:
        """Take the points that an earlier run of the same sweep completed as they are."""
        recorder = self.recorder
        recorder.wait()  # until they are children of this run
        client = recorder.client
        points_by_key = {point.request.key: point for point in self._points}
        for run in list(children_of(client, recorder.parent.experiment_id, recorder.parent.run_id)):
            point = points_by_key.get(run.data.tags.get(names.INVESTIGATION_KEY, ""))
            [read], _ = points_of(client, [run])
            if point is not None and read.analysis is not None:
                client.set_tag(run.info.run_id, names.SWEEP, recorder.parent.run_id)
                point.adopt(read.run_id, read.analysis)


def _source(request: SweepRequest, run: Source) -> Source:
    """Return where the result of a sweep in a run comes from; without its command if that cannot say it all."""
    setups = [point.setup for point in request.points]
    return replace(
        run,
        approach=", ".join(dict.fromkeys(setup.approach.name for setup in setups)),
        model=", ".join(dict.fromkeys(setup.model for setup in setups if setup.model)),
        given={name: value for name, value in request.public().items() if value != SWEEP[name].default},
        is_typed=request.is_typed and all(is_typed(point.given) for point in request.points),
    )
