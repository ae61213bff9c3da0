"""Golden runs as the scores of a referee: those of an investigation and of systems that differ from it, or halves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.predictions import metric_width
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import scores_of, typed_name
from mlflow_l3d.parameters.shared import PLACE
from mlflow_l3d.report.numbers import shorten, unit_of
from mlflow_l3d.studies.base import say
from mlflow_l3d.studies.gate.golden import OF_A_PLAN, GoldenRuns
from mlflow_l3d.studies.gate.request import check_comparable, check_examples, metric_of, paired
from mlflow_l3d.studies.gate.sides import Side, changed_side, recorded_side
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.referee.source import Candidate, check_measured, measured_elsewhere
from mlflow_l3d.tracking.auxiliary import held_open
from mlflow_l3d.tracking.connection import Client

_CHANGES: Final = {*MAIN} - {*OF_A_PLAN, *PLACE, "hyperparameters", "self_test"}
_AHEAD: Final = 40  # runs of one system that are planned at once; they are trained as they are needed


class GoldenSource:
    """Scores of golden runs, by the methods that `FunctionSource` has.

    Changes of a candidate are relative to the champion, and stay changes of it if it is kept, so that they add up.

    Parameters
    ----------
    client
        The tracking server.
    baseline
        Run of the investigation that a session begins with.
    metric
        What a score is; ``auto`` is the metric of the baseline.
    shared_seeds
        Whether golden runs with equal numbers are to share their seeds.
    fresh_half
        Whether one half of the test examples judges, and the other one confirms.
    **machine
        ``device``, ``executor``, ``workers`` and others of the machine that trains.

    Attributes
    ----------
    champion
        Content of the champion that changes are relative to; None if it is the baseline.
    run_id
        Of the session.
    examples
        Test examples of a run; 0 if not known.

    Raises
    ------
    ParameterError
        If the baseline is not an investigation with golden runs, or has not the metric.
    """

    def __init__(
        self, client: Client, baseline: str, metric: str, *, shared_seeds: bool, fresh_half: bool, **machine: str
    ) -> None:
        # Each candidate would pay for trial runs; those of a changed script differ from the baseline's or do not.
        self.client, self.machine = client, {**machine, "self_test": "skip"}
        self.baseline = side = recorded_side(client, "baseline", baseline, **self.machine)
        self.metric, self.shares_seeds = metric_of(metric, side, side), shared_seeds and paired(side, side)
        predictions = next(side.predictions(client, 1), None)
        examples = side.task.get("test_size") if predictions is None else len(predictions)
        self.examples, self.has_fresh_half = int(examples or 0), fresh_half
        if fresh_half:
            self._halves = Halves(predictions, self.metric, side.task, side.root_seed)
            self.examples = -(-self.examples // 2)
        self._fresh: dict[tuple[str, int], float] = {}
        self.step = metric_width(self.metric) / self.examples if self.examples else 0.0
        self.title, self.approach = side.title, str(side.document.get("approach", {}).get("name", ""))
        self.identity: Mapping[str, Any] = {
            "baseline": side.run_id,
            "metric": typed_name(self.metric),
            "shares_seeds": self.shares_seeds,
            **({"fresh_half": True} if fresh_half else {}),
            **side.identity,
        }
        self.champion: Mapping[str, Any] | None = None
        self.run_id = ""
        self._sides: dict[str, Side] = {}
        self._measured: dict[str, Mapping[int, float]] = {}
        self._judged = ""
        self._training: dict[str, tuple[GoldenRuns, int]] = {}
        self._stack = ExitStack()

    @cached_property
    def luck_of_examples(self) -> float:
        """Standard deviation of the difference of two equally good systems that is luck of the test examples alone.

        They are taken to differ as two runs of the baseline do, which is too much if their runs are averaged: in a
        share d of n examples exactly one is right, so it is ``sqrt(d / n)``. nan if runs draw their own examples.
        """
        tables = [each for each in self.baseline.predictions(self.client, 2) if each is not None]
        if len(tables) < 2 or not self.metric.percent:
            return math.nan
        first, second = (self._halves.of(each)[0] if self.has_fresh_half else each for each in tables)
        both = first.merge(second, on="example_id")
        if len(both) < max(len(first), len(second)):
            return math.nan
        right = [both[f"prediction_{side}"] == both[f"label_{side}"] for side in ("x", "y")]
        return math.sqrt(float((right[0] != right[1]).mean()) / len(both))

    def describe(self, candidate: object) -> Candidate:
        """Return a candidate: a run id, differences from the champion, or scores that were measured elsewhere."""
        if candidate is None:
            return self._noted(Candidate(self.title, {"run": self.baseline.run_id}), self.baseline)
        if elsewhere := measured_elsewhere(candidate, shares_seeds=self.shares_seeds, fresh_half=self.has_fresh_half):
            self._measured[elsewhere.key] = elsewhere.measured or {}
            return elsewhere
        content = self.champion
        champion = self.baseline if content is None else self._side(content)
        side = changed_side(candidate, champion, self.client, **self.machine)
        # Its judgement was interrupted, or is asked again
        if content is not None and side.identity == champion.identity:
            return self.restore(content)
        check_comparable(self.baseline, side)
        if self.shares_seeds and not paired(self.baseline, side):
            allowed = f"must have root_seed={self.baseline.root_seed}, as the baseline has: runs are to share seeds"
            raise ParameterError("candidate", side.run_id or side.title, allowed, "Or start with shared_seeds=false.")
        described = Candidate(side.title, self._content(side), candidate)
        self._judged = described.key
        return self._noted(described, side)

    def restore(self, content: Mapping[str, Any]) -> Candidate:
        """Return the candidate that a session has recorded."""
        if "measured" in content:
            return Candidate(str(content["measured"]), content)
        side = self._side(content)
        return self._noted(Candidate(side.title, content), side)

    def run(self, candidate: Candidate, numbers: Sequence[int]) -> Iterator[tuple[int, float]]:
        """Yield the scores of golden runs; those that are not there are trained."""
        if "measured" in candidate.content:
            scores = self._measured.get(candidate.key, {})
            if missing := [number for number in numbers if number not in scores]:
                say([f"{candidate.title} was measured elsewhere. Judge it again with its runs {missing}, too."])
            yield from ((number, scores[number]) for number in numbers if number in scores)
            return
        side = self._sides[candidate.key]
        stored = side.scores(self.metric.name, max(numbers, default=-1) + 1)
        for number in sorted(numbers, key=lambda number: (math.isnan(stored[number]), number)):
            score, runs = float(stored[number]), None
            if math.isnan(score):
                runs = self._begun(candidate, side, number)
                runs.advance(number + 1)
                score = float(runs.scores[number])
            if self.has_fresh_half or number == 0:
                answers = runs.prediction(number) if runs else next(side.predictions(self.client, [number]))
                if number == 0:
                    first = self.baseline.predictions(self.client, [*self.baseline.cells.index[:2]])
                    check_examples(first, answers, candidate.title)
                if self.has_fresh_half and not math.isnan(score):
                    score, self._fresh[candidate.key, number] = self._halves.scores(answers, candidate.title)
            if runs:
                say([f"{shorten(candidate.title, 40)}, run {number}: {unit_of(self.metric).text(score)}"])
            yield number, score

    def fresh_half(self, candidate: Candidate, numbers: Sequence[int]) -> dict[int, float]:
        """Return the scores on the fresh half, nan of runs that failed; none of them is trained again."""
        dict(self.run(candidate, [number for number in numbers if (candidate.key, number) not in self._fresh]))
        return {number: self._fresh.get((candidate.key, number), math.nan) for number in numbers}

    @contextmanager
    def training(self) -> Iterator[None]:
        """Let workers stay in the block; at its end, what they trained is complete."""
        try:
            with ExitStack() as self._stack:
                yield
                for runs, following in self._training.values():
                    runs.finish(following)
        finally:
            self._training.clear()

    def _begun(self, candidate: Candidate, side: Side, number: int) -> GoldenRuns:
        """Return what trains a run: what trained the one before it, or new."""
        runs, following = self._training.get(candidate.key, (None, -1))
        for key, (other, _) in self._training.items():
            if key != candidate.key:
                other.pause()
        if runs is None or number != following or number >= len(runs.scores):
            if runs is not None:
                runs.finish(following)
            if side.request is None:
                allowed = f"has no run {number}, and no more can be trained here: {side.reason}"
                raise ParameterError(side.name, side.run_id, allowed, "Investigate it again.")
            key = content_key({"runs": side.request.key, "referee": self.run_id})
            request = replace(side.request, metric=self.metric, key=key, gate=self.run_id, first=number, runs=_AHEAD)
            # Only a candidate may be trained ahead by free workers: of others the runs that are missing are known.
            runs = GoldenRuns(request, takes_turns=candidate.key != self._judged)
            self._stack.enter_context(runs.opened())
            self._stack.enter_context(held_open(runs.recorder.parent.run_id))
        self._training[candidate.key] = runs, number + 1
        return runs

    def _noted(self, candidate: Candidate, side: Side) -> Candidate:
        self._sides[candidate.key] = side
        if side.request is not None or side is self.baseline:
            return candidate
        scores = check_measured(side.cells[self.metric.name].dropna().to_dict())
        return replace(candidate, measured=dict(self.run(candidate, [*scores])) if self.has_fresh_half else scores)

    def _content(self, side: Side) -> dict[str, Any]:
        """Return what a session records of a system: its differences from the baseline, whatever the champion is."""
        if side.run_id or side.request is None:
            return {"run": side.run_id}
        document, base = side.request.document(), self.baseline.document
        before, typed, whole = base["parameters"], document["parameters"], side.request.given
        changes = {name: typed[name] for name in whole if name in _CHANGES and whole[name] != before.get(name)}
        same = base["hyperparameters"] if typed["approach"] == before["approach"] else {}
        tuned = {name: value for name, value in document["hyperparameters"].items() if same.get(name) != value}
        return {**side.identity, "changes": {**changes, "hyperparameters": tuned} if tuned else changes}

    def _side(self, content: Mapping[str, Any]) -> Side:
        """Return the system that a session has recorded."""
        if (side := self._sides.get(content_key(content))) is not None:
            return side
        if elsewhere := content.get("measured") or content.get("runs"):
            allowed = "was measured elsewhere: no change of it can be trained here"
            raise ParameterError("candidate", f"champion {elsewhere}", allowed, "Name a run, or scores.")
        if "run" in content:
            return recorded_side(self.client, "champion", content["run"], **self.machine)
        side = changed_side(content["changes"], self.baseline, self.client, **self.machine)
        if side.request is None or side.request.context_key != content["context"]:
            raise L3DError("The champion's data, model or versions of libraries are not those of this machine.")
        return side


class Halves:
    """Two halves of the test examples, drawn from the root seed, within each class if there are classes.

    Parameters
    ----------
    answers
        Predictions of a run of the baseline; None if it has none.
    metric, task
        By which both are scored, and what the baseline says of its data.
    root_seed
        Of the baseline.

    Raises
    ------
    ParameterError
        If there are no predictions, or the metric is not computed from them.
    """

    def __init__(
        self, answers: pd.DataFrame | None, metric: Metric, task: Mapping[str, Any], root_seed: int | None
    ) -> None:
        if answers is None or metric.function is None:
            why = f"needs predictions that {metric.name} is computed from, and the baseline has none"
            raise ParameterError("fresh_half", "true", why, "Leave it out, or name another metric.")
        self.metric, self._task, draws = metric, task, stream(root_seed or 0, "fresh half")
        ordered = answers.sort_values("example_id", kind="stable")
        drawn = ordered.iloc[draws.permutation(len(ordered))]
        if answers["label"].dtype.kind in "iu":
            drawn = drawn.sort_values("label", kind="stable")  # every other one of each class
        self._ids, self._fresh = set(answers["example_id"]), set(drawn["example_id"].iloc[1::2])

    def of(self, answers: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the predictions of the half that judges, and of the fresh one."""
        fresh = answers["example_id"].isin(self._fresh)
        return answers[~fresh], answers[fresh]

    def scores(self, answers: pd.DataFrame | None, title: str) -> tuple[float, float]:
        """Return a run's score on the half that judges, and on the fresh one.

        Raises
        ------
        ParameterError
            If it has no predictions, or those of other examples.
        """
        if answers is None or set(answers["example_id"]) != self._ids:
            what = "no predictions" if answers is None else "predictions of other test examples"
            why = f"{title[:60]} has {what}, of which no half can be scored"
            raise ParameterError("fresh_half", "true", why, "Investigate with test_selection=fixed, or leave it out.")
        kind = str(self._task.get("kind", "classification"))
        classes = len(self._task.get("classes") or ()) or None
        only = [self.metric.name]
        every = [
            scores_of(np.array(part["label"]), np.array(part["prediction"]), kind, classes=classes, only=only)
            for part in self.of(answers)
        ]
        judged, fresh = (each.get(self.metric.name, math.nan) for each in every)
        return judged, fresh
