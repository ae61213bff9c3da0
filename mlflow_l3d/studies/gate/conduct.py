"""A gate under way: both sides are trained and looked at until there is an answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.errors import L3DError
from mlflow_l3d.parameters.values import public_parameter
from mlflow_l3d.report.numbers import counted, unit_of
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import heading
from mlflow_l3d.studies.base import say
from mlflow_l3d.studies.files import LEFT_OUT, save_result, temporary_folder, write_result
from mlflow_l3d.studies.gate.golden import GoldenRuns
from mlflow_l3d.studies.gate.numbers.gate import GateAnswer, look_at, measure, view
from mlflow_l3d.studies.gate.numbers.power import Forecast
from mlflow_l3d.studies.gate.parameters import GATE
from mlflow_l3d.studies.gate.record import PROGRESS, RESUMED, append_summary, first_notes, run_notes
from mlflow_l3d.studies.gate.report import GateSource, advice_on, gate_document, gate_markdown, look_line
from mlflow_l3d.studies.gate.request import GateRequest
from mlflow_l3d.studies.gate.runs import SideRuns, check_examples, outstanding, systems_of
from mlflow_l3d.studies.request import is_typed
from mlflow_l3d.studies.shown import OnOneScreen, built_once, shows_progress
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import AuxiliaryRun, auxiliary_run
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.opening import spooled_cells
from mlflow_l3d.tracking.pages import run_page, runs_page
from mlflow_l3d.tracking.parent import log_metrics, set_tags


@dataclass(frozen=True, repr=False)
class Gate(OnOneScreen):
    """A finished gate.

    Attributes
    ----------
    run_id
        Its MLflow run.
    answer
        What it found.
    source, settings
        Where it comes from, and the given values, for its report.
    computed
        How many runs were trained now. Free workers begin those of the next look before a look is taken.
    request
        The request; None if it was loaded.
    """

    run_id: str
    answer: GateAnswer
    source: GateSource
    settings: Mapping[str, str]
    computed: int
    request: GateRequest | None = field(default=None, metadata=LEFT_OUT)

    @property
    def decision(self) -> str:
        """``better``, ``worse``, ``equivalent`` or ``undecided``."""
        return self.answer.decision

    @property
    def exit_status(self) -> int:
        """What the command line exits with."""
        return self.answer.exit_status

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per look in the units of the report; `full` returns all, with differences as fractions."""
        looks = pd.DataFrame(list(self.answer.looks))
        heads = {name: name for name in ("difference", "low", "high")}
        return looks if full else unit_of(self.answer.metric).heads(looks[["runs", "decision", *heads]], {}, heads)

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        line = f"{counted(self.computed, 'run')} trained now; MLflow run {self.run_id}; with report.html"
        return gate_document(self.answer, source=self.source, settings=self.settings, lines=[line])


class Conduct:
    """One gate under way."""

    def __init__(self, request: GateRequest, client: Client, before: Forecast, *, progress: bool | None) -> None:
        self.request, self.client, self.progress = request, client, shows_progress(progress)
        self.answer = GateAnswer(
            baseline=request.baseline.title,
            candidate=request.candidate.title,
            metric=request.metric,
            examples=request.examples,
            paired=request.paired,
            plan=request.plan,
            before=before,
        )
        self.runs: dict[str, SideRuns] = {}

    def run(self, project_run: str | None, earlier: GateAnswer | None) -> Gate:
        """Take the looks that are left, and write the result."""
        request = self.request
        with auxiliary_run(self.client, project_run, role="gate", title=request.title, parameters=request.given) as run:
            tags = {names.GATE_KEY: request.key, names.GATE_PAIR: request.pair, names.STATE: "running"}
            set_tags(self.client, run.run_id, tags)
            self._take_over(earlier)
            self._note(run)
            with ExitStack() as stack:
                self._begin(stack, run.run_id)
                while not self._is_over:
                    planned = request.plan.looks[len(self.answer.looks)]
                    self._advance(planned)
                    self._look(planned)
                    self._note(run)
                    if self._is_over:
                        self._conclude()
                trained = [side.begun for side in self.runs.values() if side.begun]
                for runs in trained:
                    runs.finish(self.answer.looks[-1].runs)
            return self._write(run, sum(runs.computed for runs in trained))

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

    def _begin(self, stack: ExitStack, gate_run: str) -> None:
        """Say with what either side may be trained; if the answer is known, with the finished runs only."""
        sides = self.request.sides
        requests = [None if self._is_over and side.request is None else self.request.wanting(side) for side in sides]
        for side, request in zip(sides, requests, strict=True):
            is_left = bool(self._is_over and request and spooled_cells(self.client, request.key))
            training = None
            if request and (is_left or not self._is_over):
                request = replace(request, gate=gate_run)
                training = GoldenRuns(request, progress=self.progress, takes_turns=all(requests))
            runs = self.runs[side.name] = SideRuns(side, self.request, self.client, training, stack)
            if is_left:  # its process was killed at its end: what it left is ended, too
                runs.missing(self.request.plan.looks[-1])

    def _advance(self, runs: int) -> None:
        """Train the missing ones of the first `runs` runs of either side."""
        for side in self.runs.values():
            if side.missing(runs) and side.training:
                for other in self.runs.values():
                    if other is not side and other.training:
                        other.training.pause()
                side.training.advance(runs)

    def _look(self, runs: int) -> None:
        """Look once, at the first `runs` runs of either side."""
        request, plan = self.request, self.request.plan
        random = request.examples == "random"
        if not self.answer.looks:
            one, other = self.runs["baseline"], self.runs["candidate"]
            check_examples(one.predictions(2), next(other.predictions(1), None), other.side.title)
        systems = systems_of(self.runs, runs, request, predictions=random)
        both = systems["candidate"], systems["baseline"]
        measured, spread = measure(*both, request.metric.sign, count_examples=random)
        counted = min(each.runs for each in systems.values())
        end = (spread.with_runs(plan.looks[-1])[0] / spread.error) ** 2
        fraction = end if random else counted / plan.looks[-1]
        look = look_at(plan, self.answer.looks, runs, counted, measured, fraction)
        open_questions = outstanding(request, systems, look, spread)
        self.answer = replace(self.answer, looks=(*self.answer.looks, look), outstanding=open_questions)
        is_first = len(self.answer.looks) == 1 and look.decision == "undecided"
        if is_first and (open_questions.equal or not math.isfinite(open_questions.runs)):
            say([advice_on(self.answer).text])
        say([look_line(self.answer, look)])

    def _conclude(self) -> None:
        """Add what the end shows: means, the answer to the other question, and what to be wary of."""
        request, last = self.request, self.answer.looks[-1]
        scores: Mapping[str, FloatArray] = {name: side.scores(last.runs) for name, side in self.runs.items()}
        other = None
        with suppress(L3DError):  # without predictions there is no other question
            both = systems_of(self.runs, last.runs, request, predictions=True)
            other = view(both["candidate"], both["baseline"], last, request.metric.sign, request.examples != "random")
        means = tuple(float(np.mean(each[np.isfinite(each)])) for each in (scores["baseline"], scores["candidate"]))
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
        """Return run and experiment of both sides, as far as they are there, by name."""
        return {name: side.parent for name, side in self.runs.items() if side.parent[0]}

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
