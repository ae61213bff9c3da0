"""A gate under way: both sides are trained, and looked at as systems, until there is an answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.difference import examples_to_settle, runs_to_settle
from mlflow_l3d.analysis.comparison.power import Forecast
from mlflow_l3d.analysis.comparison.predictions import join_predictions, systems
from mlflow_l3d.analysis.comparison.system import System
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.paths import public_parameter
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.report.source import heading
from mlflow_l3d.studies.base import say
from mlflow_l3d.studies.files import save_result, temporary_folder, write_result
from mlflow_l3d.studies.gate.golden import GoldenRuns
from mlflow_l3d.studies.gate.numbers import GateAnswer, Outstanding, look_at, measure, view
from mlflow_l3d.studies.gate.parameters import GATE
from mlflow_l3d.studies.gate.record import PROGRESS, RESUMED, Gate, append_summary, first_notes, run_notes
from mlflow_l3d.studies.gate.report import GateSource, advice_on, gate_markdown, look_line
from mlflow_l3d.studies.gate.request import GateRequest, check_examples
from mlflow_l3d.studies.gate.sides import Side
from mlflow_l3d.studies.request import is_typed
from mlflow_l3d.studies.shown import shows_progress
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import AuxiliaryRun, auxiliary_run
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.opening import spooled_cells
from mlflow_l3d.tracking.pages import run_page, runs_page
from mlflow_l3d.tracking.parent import log_metrics, set_tags


class Conduct:
    """One gate under way."""

    def __init__(self, request: GateRequest, client: Client, before: Forecast, *, progress: bool | None) -> None:
        self.request = request
        self.client = client
        self.progress = shows_progress(progress)
        self.answer = GateAnswer(
            baseline=request.baseline.title,
            candidate=request.candidate.title,
            metric=request.metric,
            examples=request.examples,
            paired=request.paired,
            plan=request.plan,
            before=before,
        )
        self.training: dict[str, GoldenRuns] = {}  # what trains more runs of a side
        self.begun: dict[str, GoldenRuns] = {}  # those of them that are open, and know all runs of their side
        self._stack = ExitStack()

    def run(self, project_run: str | None, earlier: GateAnswer | None) -> Gate:
        """Take the looks that are left, and write the result."""
        request = self.request
        with auxiliary_run(self.client, project_run, role="gate", title=request.title, parameters=request.given) as run:
            tags = {names.GATE_KEY: request.key, names.GATE_PAIR: request.pair, names.STATE: "running"}
            set_tags(self.client, run.run_id, tags)
            self._take_over(earlier)
            self._note(run)
            with self._stack:
                self._begin(run.run_id)
                while not self._is_over:
                    planned = request.plan.looks[len(self.answer.looks)]
                    self._advance(planned)
                    self._look(planned)
                    self._note(run)
                    if self._is_over:
                        self._conclude()
                for runs in self.begun.values():
                    runs.finish(self.answer.looks[-1].runs)
            return self._write(run, sum(runs.computed for runs in self.begun.values()))

    @property
    def _is_over(self) -> bool:
        """Whether there is an answer, or no look is left."""
        answer = self.answer
        return answer.decision != "undecided" or len(answer.looks) == len(answer.plan.looks)

    def _take_over(self, earlier: GateAnswer | None) -> None:
        """Begin with what an earlier run of the same gate found."""
        notes: Iterable[str] = first_notes(self.request, self.client)
        if earlier is not None:
            taken = {name: getattr(earlier, name) for name in ("looks", "means", "other", "outstanding")}
            self.answer = replace(self.answer, **taken)
            if self._is_over:
                notes = (note for note in earlier.notes if not note.startswith(RESUMED))
            notes = f"{RESUMED} took {counted(len(earlier.looks), 'look')}; what was spent stays spent.", *notes
        self.answer = replace(self.answer, notes=tuple(notes))

    def _begin(self, gate_run: str) -> None:
        """Say with what either side may be trained; if the answer is known, with the finished runs only."""
        sides = self.request.sides
        requests = [None if self._is_over and side.request is None else self.request.wanting(side) for side in sides]
        for side, request in zip(sides, requests, strict=True):
            is_left = bool(self._is_over and request and spooled_cells(self.client, request.key))
            if request and (is_left or not self._is_over):
                request = replace(request, gate=gate_run)
                self.training[side.name] = GoldenRuns(request, progress=self.progress, takes_turns=all(requests))
            if is_left:  # its process was killed at its end: what it left is ended, too
                self._is_missing(side, self.request.plan.looks[-1])

    def _is_missing(self, side: Side, runs: int) -> bool:
        """Return whether some of the first `runs` are still to be trained, and find those of earlier commands first."""
        name = side.name
        is_planned = name in self.training and name not in self.begun
        if is_planned and not np.isfinite(self._scores(side, runs)).all():
            self._stack.enter_context(self.training[name].opened())
            self.begun[name] = self.training[name]
        return name in self.begun and self.begun[name].missing_runs(runs) > 0

    def _scores(self, side: Side, runs: int) -> FloatArray:
        """Return the scores of the first `runs` of a side, nan if there is none; shape (runs,)."""
        begun = self.begun.get(side.name)
        return begun.scores[:runs] if begun else side.scores(self.request.metric.name, runs)

    def _predictions(self, side: Side, runs: int) -> Iterator[pd.DataFrame | None]:
        """Yield the predictions of the first `runs` of a side."""
        begun = self.begun.get(side.name)
        return begun.predictions(runs) if begun else side.predictions(self.client, runs)

    def _systems(self, runs: int, *, predictions: bool) -> tuple[System, System]:
        """Return candidate and baseline by their first `runs`."""
        sides = self.request.sides
        scores = {side.name: self._scores(side, runs) for side in sides}
        tables = {side.name: self._predictions(side, runs) for side in sides} if predictions else None
        both = systems_of(self.request, scores, tables)
        return both["candidate"], both["baseline"]

    def _advance(self, runs: int) -> None:
        """Train the missing ones of the first `runs` runs of either side."""
        for side in self.request.sides:
            if self._is_missing(side, runs):
                for name, training in self.training.items():
                    if name != side.name:
                        training.pause()
                self.training[side.name].advance(runs)

    def _look(self, runs: int) -> None:
        """Look once, at the first `runs` runs of either side."""
        request, plan = self.request, self.request.plan
        random = request.examples == "random"
        if not self.answer.looks:
            of_baseline = self._predictions(request.baseline, 2)
            first = self._predictions(request.candidate, 1)
            check_examples(of_baseline, next(first, None), request.candidate.title)
        candidate, baseline = self._systems(runs, predictions=random)
        measured, spread = measure(candidate, baseline, request.metric.sign, count_examples=random)
        counted = min(candidate.runs, baseline.runs)
        end = (spread.with_runs(plan.looks[-1])[0] / spread.error) ** 2
        fraction = end if random else counted / plan.looks[-1]
        look = look_at(plan, self.answer.looks, runs, counted, measured, fraction)
        if not random:
            spread = replace(spread, of_examples=0.0, examples_raw=0.0)
        needed = look.difference, spread, plan.smallest_effect, 1 - plan.alpha
        equal = request.paired and np.array_equal(baseline.scores, candidate.scores)
        open_questions = Outstanding(equal, runs_to_settle(*needed), examples_to_settle(*needed))
        self.answer = replace(self.answer, looks=(*self.answer.looks, look), outstanding=open_questions)
        is_first = len(self.answer.looks) == 1 and look.decision == "undecided"
        if is_first and (open_questions.equal or not math.isfinite(open_questions.runs)):
            say([advice_on(self.answer).text])
        say([look_line(self.answer, look)])

    def _conclude(self) -> None:
        """Add what the end shows: means, the answer to the other question, and what to be wary of."""
        request, last = self.request, self.answer.looks[-1]
        scores = {side.name: self._scores(side, last.runs) for side in request.sides}
        other = None
        with suppress(L3DError):  # without predictions there is no other question
            both = self._systems(last.runs, predictions=True)
            other = view(*both, last, request.metric.sign, request.examples != "random")
        means = tuple(float(np.mean(each[np.isfinite(each)])) for each in scores.values())
        self.answer = replace(
            self.answer,
            means=means,  # type: ignore[arg-type]
            other=other,
            notes=(*self.answer.notes, *run_notes(request, scores)),
        )

    def _note(self, run: AuxiliaryRun) -> None:
        """Record the progress, before anything that may fail."""
        with temporary_folder() as folder:
            write_result(folder, self._result(run.run_id), PROGRESS)
            self.client.log_artifacts(run.run_id, str(folder))
        if self.answer.looks:
            log_metrics(self.client, run.run_id, self.answer.metrics())

    def _parents(self) -> dict[str, tuple[str, str]]:
        """Return the runs of both sides with their experiments, as far as they are there, by name."""
        parents: dict[str, tuple[str, str]] = {}
        for side in self.request.sides:
            if side.run_id:
                parents[side.name] = side.run_id, side.experiment_id
            elif begun := self.begun.get(side.name):
                parents[side.name] = begun.recorder.parent.run_id, begun.recorder.parent.experiment_id
        return parents

    def _result(self, run_id: str, computed: int = 0) -> Gate:
        """Return the result so far."""
        parameters, baseline = self.request.given, self.request.baseline
        public = {name: public_parameter(name, value) for name, value in parameters.items()}
        typed = {name: public[name] for name, value in parameters.items() if value != GATE[name].default}
        source = GateSource(
            task=str(baseline.task.get("name", "")),
            approach=str(baseline.document.get("approach", {}).get("name", "")),
            run_id=run_id,
            address=runs_page(self.client, str(self.client.get_run(run_id).info.experiment_id)),
            given=typed | {"baseline": baseline.run_id},
            date=heading(run_id)["date"][:10],
            candidate_run=self._parents().get("candidate", ("", ""))[0],
            changes=self.request.candidate.changes,
            is_typed=is_typed(baseline.document.get("parameters", {})),
        )
        settings = {name: public[name] for name, value in parameters.items() if value != "auto"}
        return Gate(run_id, self.answer, source, settings, computed, self.request)

    def _write(self, run: AuxiliaryRun, computed: int) -> Gate:
        parents, gate = self._parents(), self._result(run.run_id, computed)
        save_result(run.folder, gate)
        summary = gate_markdown(self.answer, run_id=run.run_id)
        (run.folder / "gate.md").write_text(summary, encoding="utf-8")
        links = [f"* {name}: [{run_id}]({run_page(at, run_id)})" for name, (run_id, at) in parents.items()]
        tags = {
            names.DECISION: self.answer.decision,
            names.INVESTIGATIONS: ",".join(run_id for run_id, _ in parents.values()),
            names.STATE: "complete",
            names.NOTE: "\n".join([summary[:5000], "", *links]),
        }
        run.finish(metrics={}, tags=tags)
        append_summary(summary)
        return gate


def systems_of(
    request: GateRequest, scores: Mapping[str, FloatArray], tables: Mapping[str, Iterable[pd.DataFrame | None]] | None
) -> dict[str, System]:
    """Return sides as systems that can be compared, by name.

    Parameters
    ----------
    request
        The gate.
    scores
        Of the runs of each side, nan if one has none; shape (runs,).
    tables
        Their predictions, if the luck of test examples is to be known.

    Raises
    ------
    L3DError
        If a side has fewer than two runs with a score, or predictions are wanted and a run has none.
    """
    scored, numbers, predictions = [], [], []
    for name, of_side in scores.items():
        places = np.flatnonzero(np.isfinite(of_side))
        if len(places) < 2:
            raise L3DError(f"{name}: {len(places)} of {len(of_side)} golden runs have a score; two are needed.")
        scored.append(of_side[places])
        numbers.append(places)
        if tables is not None:
            frames = list(tables[name])
            parts = ((place, frames[number]) for place, number in enumerate(places) if frames[number] is not None)
            predictions.append(join_predictions(parts, len(places)))
    configurations = [{"run": each} if request.paired else {} for each in numbers]
    classes = len(request.baseline.task.get("classes", ())) or None
    examples = request.test_examples
    read, why = systems([*scores], scored, configurations, predictions, request.metric, classes, examples)
    if tables is not None and why:
        raise ParameterError("examples", "random", f"the luck of test examples is not known: {why}")
    return dict(zip(scores, read, strict=True))
