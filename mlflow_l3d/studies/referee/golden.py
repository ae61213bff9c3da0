"""Golden runs as the scores of a referee: those of an investigation, and of systems that differ from it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice, repeat
from pathlib import PurePath
from typing import Any, Final

import numpy as np

from mlflow_l3d.analysis.comparison.leave_out import metric_width
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import named
from mlflow_l3d.parameters.shared import PLACE
from mlflow_l3d.parameters.values import file_text, json_of
from mlflow_l3d.report.numbers import shorten, unit_of
from mlflow_l3d.studies.base import say
from mlflow_l3d.studies.gate.golden import OF_A_PLAN, GoldenRuns
from mlflow_l3d.studies.gate.request import metric_of
from mlflow_l3d.studies.gate.sides import Side, changed_side, check_comparable, paired, recorded_side
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.referee.source import Candidate, check_measured
from mlflow_l3d.tracking.connection import Client

_LONGEST: Final = 5900
"""Characters of a recorded candidate."""
_CHANGES: Final = {*MAIN} - {*OF_A_PLAN, *PLACE, "hyperparameters", "self_test"}
_AHEAD: Final = 40
"""Runs of one system that are planned at once; they are trained as they are needed."""


class GoldenSource:
    """Scores of golden runs; see :class:`mlflow_l3d.studies.referee.source.Source`.

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
        self, client: Client, baseline: Side, metric: Metric, *, shares_seeds: bool, machine: Mapping[str, str]
    ) -> None:
        self.client, self.baseline, self.metric, self.machine = client, baseline, metric, dict(machine)
        self.shares_seeds = shares_seeds
        predictions = next(baseline.predictions(client, 1), None)
        examples = (baseline.task or {}).get("test_size") if predictions is None else len(predictions)
        self.examples = int(examples or 0)
        self.step = metric_width(metric) / self.examples if self.examples else 0.0
        self.title, self.approach = baseline.title, str(baseline.document.get("approach", {}).get("name", ""))
        self.identity: Mapping[str, Any] = {
            "baseline": baseline.run_id,
            "metric": metric.name,
            "shares_seeds": shares_seeds,
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
        cls, client: Client, baseline: str, machine: Mapping[str, str], *, metric: str, shared_seeds: bool
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
        return cls(client, side, metric_of(metric, side, side), shares_seeds=shares, machine=machine)

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
        shares = bool(identity["shares_seeds"])
        return cls(client, side, named(identity["metric"]), shares_seeds=shares, machine=machine)

    @cached_property
    def luck_of_examples(self) -> float:
        """Standard deviation of the difference of two equally good systems that is luck of the test examples alone.

        They are taken to differ as two runs of the baseline do, which is too much if their runs are averaged: in a
        share d of n examples exactly one is right, so it is ``sqrt(d / n)``. nan if runs draw their own examples.
        """
        first, second = islice(chain(self.baseline.predictions(self.client, 2), repeat(None)), 2)
        if first is None or second is None or not self.metric.percent:
            return math.nan
        both = first.merge(second, on="example_id")
        if len(both) < max(len(first), len(second)):
            return math.nan
        right = [both[f"prediction_{side}"] == both[f"label_{side}"] for side in ("x", "y")]
        return math.sqrt(float((right[0] != right[1]).mean()) / len(both))

    def describe(self, candidate: object) -> Candidate:
        """Return a candidate: a run id, differences from the champion, or scores that were measured elsewhere."""
        if candidate is None:
            return self._noted(Candidate(self.title, {"run": self.baseline.run_id}), self.baseline)
        if (measured := _measured(candidate)) is not None:
            return self._described_elsewhere(measured)
        content = self.champion()
        champion = self.baseline if content is None else self._side(content)
        machine = {**self.machine, "self_test": "skip"}
        side = _complete(changed_side(candidate, champion, self.client, **machine))
        if (
            content is not None and side.identity == champion.identity
        ):  # its judgement was interrupted, or is asked again
            return self.restore(content)
        check_comparable(self.baseline, side)
        if self.shares_seeds and not paired(self.baseline, side):
            allowed = f"must have root_seed={self.baseline.root_seed}, as the baseline has: runs are to share seeds"
            raise ParameterError("candidate", side.run_id or side.title, allowed, "Or start with shared_seeds=false.")
        described = Candidate(side.title, self._content(side), candidate)
        if len(text := json.dumps(described.content)) > _LONGEST:
            allowed = f"has changes of {len(text):,} characters, and a session records {_LONGEST:,} at most"
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
                yield number, float(scores[number])
        for number in wanted:
            if not np.isfinite(scores[number]):
                runs = self._begun(candidate, side, number)
                runs.advance(number + 1)
                score = float(runs.scores[number])
                say([f"{shorten(candidate.title, 40)}, run {number}: {unit_of(self.metric).text(score)}"])
                yield number, score

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
        return replace(candidate, measured=check_measured(side.cells[self.metric.name].dropna().to_dict()))

    def _content(self, side: Side) -> dict[str, Any]:
        """Return what a session records of a system: its differences from the baseline, whatever the champion is."""
        if side.run_id or side.request is None:
            return {"run": side.run_id}
        document, base = side.request.document(), self.baseline.document
        before, typed = base["parameters"], document["parameters"]
        changes = {name: value for name, value in typed.items() if name in _CHANGES and value != before.get(name)}
        same = base["hyperparameters"] if typed["approach"] == before["approach"] else {}
        tuned = {name: value for name, value in document["hyperparameters"].items() if same.get(name) != value}
        return {**side.identity, "changes": {**changes, "hyperparameters": tuned} if tuned else changes}

    def _side(self, content: Mapping[str, Any]) -> Side:
        """Return the system that a session has recorded."""
        if (side := self._sides.get(content_key(content))) is not None:
            return side
        machine = {**self.machine, "self_test": "skip"}
        if "measured" in content:
            allowed = "was measured elsewhere: no change of it can be trained here"
            raise ParameterError("candidate", f"champion {content['measured']}", allowed, "Name a run, or scores.")
        if "run" in content:
            return recorded_side(self.client, "champion", content["run"], **machine)
        side = changed_side(content["changes"], self.baseline, self.client, **machine)
        if side.request is None or side.request.context_key != content["context"]:
            raise L3DError("The champion's data, model or versions of libraries are not those of this machine.")
        return _complete(side)

    def _described_elsewhere(self, measured: Mapping[str, Any]) -> Candidate:
        """Return a candidate whose scores were measured elsewhere."""
        name, scores = str(measured.get("name", "")).strip(), measured["scores"]
        if not name or not isinstance(scores, Mapping):
            allowed = (
                'must have a name, by which more of its scores are known later: {"name": ..., "scores": {"5": ...}}'
            )
            raise ParameterError("candidate", "scores", allowed)
        if self.shares_seeds and measured.get("seeds") != "shared":
            allowed = 'must say "seeds": "shared" if its runs have the seeds of the baseline\'s runs with these numbers'
            raise ParameterError("candidate", name, allowed, "If not, start a session with shared_seeds=false.")
        described = Candidate(name, {"measured": name}, None, check_measured(scores))
        self._measured[described.key] = described.measured or {}
        return described

    def _measured_elsewhere(self, candidate: Candidate, numbers: Sequence[int]) -> Iterator[tuple[int, float]]:
        scores = self._measured.get(candidate.key, {})
        if missing := [number for number in numbers if number not in scores]:
            needed = f"The champion {candidate.title} was measured elsewhere, and its runs {missing} are needed"
            say([f"{needed}. Judge it again with these scores, too."])
        yield from ((number, scores[number]) for number in numbers if number in scores)


def _measured(candidate: object) -> Mapping[str, Any] | None:
    """Return scores that were measured elsewhere, as they were given; None if a candidate is something else."""
    content: Any = candidate
    if isinstance(candidate, str):
        text = candidate.strip()
        if not text.startswith("{") and text.endswith(".json") and "=" not in text:
            content = json_of("candidate", text, file_text("candidate", text, text))
            if isinstance(content, dict):
                content = {"name": PurePath(text).stem, **content}
        elif text.startswith("{"):
            content = json_of("candidate", text, text)
    return content if isinstance(content, Mapping) and "scores" in content else None


def _complete(side: Side) -> Side:
    """Return a side that says how it is made, so that others can differ from it."""
    if side.run_id or side.request is None:
        return side
    return replace(side, document={**side.request.document(), "parameters": dict(side.request.given)})
