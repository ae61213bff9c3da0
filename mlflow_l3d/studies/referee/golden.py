"""Golden runs as the scores of a referee: those of an investigation, and of systems that differ from it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice, repeat
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.leave_out import metric_width
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import named, typed_name
from mlflow_l3d.parameters.shared import PLACE
from mlflow_l3d.report.numbers import shorten, unit_of
from mlflow_l3d.studies.base import say
from mlflow_l3d.studies.gate.golden import OF_A_PLAN, GoldenRuns
from mlflow_l3d.studies.gate.request import metric_of
from mlflow_l3d.studies.gate.runs import check_examples
from mlflow_l3d.studies.gate.sides import Side, changed_side, check_comparable, paired, recorded_side
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.referee.halves import Halves, luck_of_examples
from mlflow_l3d.studies.referee.source import LONGEST, Candidate, check_measured, described_elsewhere, measured_of
from mlflow_l3d.tracking.connection import Client

_CHANGES: Final = {*MAIN} - {*OF_A_PLAN, *PLACE, "hyperparameters", "self_test"}
_AHEAD: Final = 40  # runs of one system that are planned at once; they are trained as they are needed


class GoldenSource:
    """Scores of golden runs, by the methods that `FunctionSource` has.

    Changes of a candidate are relative to the champion. Whatever is named by them stays a change of the champion, so
    that kept changes add up.

    Parameters
    ----------
    client
        The tracking server.
    baseline
        The investigation that a session begins with.
    metric
        What a score is.
    shares_seeds
        Whether golden runs with equal numbers are to share their seeds.
    machine
        ``device``, ``executor``, ``workers`` and others of the machine that trains.

    Attributes
    ----------
    champion
        Returns the content of the champion that changes are relative to; None if it is the baseline.
    run_id
        Of the session.
    examples
        Test examples of a run; 0 if not known.
    """

    def __init__(
        self,
        client: Client,
        baseline: Side,
        metric: Metric,
        *,
        shares_seeds: bool,
        machine: Mapping[str, str],
        fresh_half: bool = False,
    ) -> None:
        self.client, self.baseline, self.metric = client, baseline, metric
        self.machine = {**machine, "self_test": "skip"}
        self.shares_seeds = shares_seeds
        predictions = next(baseline.predictions(client, 1), None)
        examples = (baseline.task or {}).get("test_size") if predictions is None else len(predictions)
        self.examples, self.has_fresh_half = int(examples or 0), fresh_half
        if fresh_half:
            self._halves = Halves(predictions, metric, baseline.task, baseline.root_seed)
            self.examples = -(-self.examples // 2)
        self._fresh: dict[tuple[str, int], float] = {}
        self.step = metric_width(metric) / self.examples if self.examples else 0.0
        self.title, self.approach = baseline.title, str(baseline.document.get("approach", {}).get("name", ""))
        self.identity: Mapping[str, Any] = {
            "baseline": baseline.run_id,
            "metric": typed_name(metric),
            "shares_seeds": shares_seeds,
            **({"fresh_half": True} if fresh_half else {}),
            **baseline.identity,
        }
        self.champion: Callable[[], Mapping[str, Any] | None] = lambda: None
        self.run_id = ""
        self._sides: dict[str, Side] = {}
        self._measured: dict[str, Mapping[int, float]] = {}
        self._judged = ""
        self._training: dict[str, tuple[GoldenRuns, int]] = {}
        self._stack = ExitStack()

    @classmethod
    def of(
        cls,
        client: Client,
        baseline: str,
        machine: Mapping[str, str],
        metric: str,
        *,
        shared_seeds: bool,
        fresh_half: bool,
    ) -> GoldenSource:
        """Return the source of a new session.

        Raises
        ------
        ParameterError
            If the baseline is not an investigation with golden runs, or has not the metric.
        """
        # Each candidate would pay for trial runs; those of a changed script differ from the baseline's or do not.
        side = recorded_side(client, "baseline", baseline, **machine, self_test="skip")
        shares = shared_seeds and paired(side, side)
        chosen = metric_of(metric, side, side)
        return cls(client, side, chosen, shares_seeds=shares, machine=machine, fresh_half=fresh_half)

    @classmethod
    def again(cls, client: Client, identity: Mapping[str, Any], machine: Mapping[str, str]) -> GoldenSource:
        """Return the source of a session that was begun.

        Raises
        ------
        ParameterError
            If its runs are not golden runs.
        """
        if "baseline" not in identity or "function" in identity:
            fix = "Use mlflow_l3d.Referee in Python, with the same function."
            raise ParameterError("referee", "", "must be a session of golden runs, and is one of a function", fix)
        side = recorded_side(client, "baseline", identity["baseline"], **machine, self_test="skip")
        more: dict[str, Any] = {"machine": machine, "fresh_half": "fresh_half" in identity}
        return cls(client, side, named(identity["metric"]), shares_seeds=bool(identity["shares_seeds"]), **more)

    @cached_property
    def luck_of_examples(self) -> float:
        """Standard deviation of the difference of two equally good systems that is luck of the test examples alone.

        They are taken to differ as two runs of the baseline do, which is too much if their runs are averaged: in a
        share d of n examples exactly one is right, so it is ``sqrt(d / n)``. nan if runs draw their own examples.
        """
        first, second = islice(chain(self.baseline.predictions(self.client, 2), repeat(None)), 2)
        if first is None or second is None or not self.metric.percent:
            return math.nan
        one, other = (self._halves.of(each)[0] if self.has_fresh_half else each for each in (first, second))
        return luck_of_examples(one, other)

    def describe(self, candidate: object) -> Candidate:
        """Return a candidate: a run id, differences from the champion, or scores that were measured elsewhere."""
        if candidate is None:
            return self._noted(Candidate(self.title, {"run": self.baseline.run_id}), self.baseline)
        if (measured := measured_of(candidate)) is not None:
            elsewhere = described_elsewhere(measured, shares_seeds=self.shares_seeds, fresh_half=self.has_fresh_half)
            self._measured[elsewhere.key] = elsewhere.measured or {}
            return elsewhere
        content = self.champion()
        champion = self.baseline if content is None else self._side(content)
        side = _complete(changed_side(candidate, champion, self.client, **self.machine))
        # Its judgement was interrupted, or is asked again
        if content is not None and side.identity == champion.identity:
            return self.restore(content)
        check_comparable(self.baseline, side)
        if self.shares_seeds and not paired(self.baseline, side):
            allowed = f"must have root_seed={self.baseline.root_seed}, as the baseline has: runs are to share seeds"
            raise ParameterError("candidate", side.run_id or side.title, allowed, "Or start with shared_seeds=false.")
        described = Candidate(side.title, self._content(side), candidate)
        if len(text := json.dumps(described.content)) > LONGEST:
            allowed = f"has changes of {len(text):,} characters, and a session records {LONGEST:,} at most"
            raise ParameterError("candidate", side.title[:60], allowed, "Name a file or a revision instead.")
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
            yield from self._measured_elsewhere(candidate, numbers)
            return
        side, wanted = self._sides[candidate.key], sorted(numbers)
        scores = side.scores(self.metric.name, max(wanted, default=-1) + 1)
        for number in wanted:
            if np.isfinite(scores[number]):
                answers = next(side.predictions(self.client, [number])) if self.has_fresh_half or number == 0 else None
                yield number, self._of_half(candidate, number, float(scores[number]), answers)
        for number in wanted:
            if not np.isfinite(scores[number]):
                runs = self._begun(candidate, side, number)
                runs.advance(number + 1)
                answers = runs.prediction(number) if self.has_fresh_half or number == 0 else None
                score = self._of_half(candidate, number, float(runs.scores[number]), answers)
                say([f"{shorten(candidate.title, 40)}, run {number}: {unit_of(self.metric).text(score)}"])
                yield number, score

    def fresh_half(self, candidate: Candidate, numbers: Sequence[int]) -> dict[int, float]:
        """Return the scores on the fresh half, nan of runs that failed; none of them is trained again."""
        dict(self.run(candidate, [number for number in numbers if (candidate.key, number) not in self._fresh]))
        return {number: self._fresh.get((candidate.key, number), math.nan) for number in numbers}

    def _of_half(self, candidate: Candidate, number: int, score: float, answers: pd.DataFrame | None) -> float:
        """Return a run's score, or that of the half that judges; the fresh half's is kept."""
        if number == 0:
            check_examples(self.baseline.first_predictions(self.client), answers, candidate.title)
        if not self.has_fresh_half or math.isnan(score):
            return score
        judged, self._fresh[candidate.key, number] = self._halves.scores(answers, candidate.title)
        return judged

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
        self._training[candidate.key] = runs, number + 1
        return runs

    def _noted(self, candidate: Candidate, side: Side) -> Candidate:
        self._sides[candidate.key] = side
        if side.request is not None or side.cells is None or side is self.baseline:
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
        return _complete(side)

    def _measured_elsewhere(self, candidate: Candidate, numbers: Sequence[int]) -> Iterator[tuple[int, float]]:
        scores = self._measured.get(candidate.key, {})
        if missing := [number for number in numbers if number not in scores]:
            needed = f"The champion {candidate.title} was measured elsewhere, and its runs {missing} are needed"
            say([f"{needed}. Judge it again with these scores, too."])
        yield from ((number, scores[number]) for number in numbers if number in scores)


def _complete(side: Side) -> Side:
    """Return a side that says how it is made, so that others can differ from it."""
    if side.run_id or side.request is None:
        return side
    return replace(side, document={**side.request.document(), "parameters": dict(side.request.given)})
