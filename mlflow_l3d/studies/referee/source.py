"""Scores of a function of a candidate and a seed for a referee, and candidates whose scores exist."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

import numpy as np

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.cells.factors import configuration_seed
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import is_share, named, typed_name
from mlflow_l3d.parameters.values import file_text, json_of
from mlflow_l3d.paths import public_parameter
from mlflow_l3d.privacy import HIDDEN, public_text
from mlflow_l3d.report.numbers import shorten

LONGEST: Final = 5920
"""Characters of a recorded candidate: MLflow keeps 6,000 of a parameter."""


@dataclass(frozen=True)
class Candidate:
    """A changed system.

    Attributes
    ----------
    title
        What it is, in a few words.
    content
        All that decides its scores but the seeds, as JSON types: the same content is the same candidate.
    value
        What it was described as.
    measured
        Number of a run -> score, of a candidate that was run elsewhere; None if it is run here.
    notes
        What to know of runs that exist already.
    """

    title: str
    content: Mapping[str, Any]
    value: object = None
    measured: Mapping[int, float] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (size := len(json.dumps(self.content))) > LONGEST:
            allowed = f"has {size:,} characters, and a session records {LONGEST:,} at most"
            fix = "Describe it in fewer, as by the name of a file, a revision or a filter of runs."
            raise ParameterError("candidate", shorten(self.title, 60), allowed, fix)

    @property
    def paired(self) -> bool:
        """Whether its runs share their seeds with the runs of others that have equal numbers."""
        return "runs" not in self.content

    @property
    def key(self) -> str:
        """Equal for the same candidate."""
        return content_key(self.content)


class FunctionSource:
    """Scores of a function: ``score(candidate, seed)``.

    Parameters
    ----------
    score
        Trains and evaluates one candidate with one seed; it draws all randomness from the seed. Returns the score.
    baseline
        The candidate that is there: anything of JSON types, such as a mapping of hyperparameters.
    metric
        Name of the score, as ``name`` or ``name:lower`` if less of it is better.
    root_seed
        The number that all seeds are derived from.
    version
        Change it with the function: candidates of another version are others.

    Attributes
    ----------
    title
        What the baseline is, in a few words.
    metric
        What a score is.
    step
        What one test example moves a score by; 0 if not known.
    shares_seeds
        Whether runs of equal numbers have equal seeds.
    has_fresh_half
        Whether `run` scores a half of the test examples, and `fresh_half` the other one.
    identity
        What tells the baseline and its runs from others, as JSON types.
    """

    step = 0.0
    shares_seeds = True
    has_fresh_half = False
    training = staticmethod(nullcontext)

    def __init__(
        self,
        score: Callable[[Any, int], float],
        baseline: object = None,
        *,
        metric: str = "score",
        root_seed: int = 0,
        version: str = "1",
    ) -> None:
        self.score = score
        self.baseline = baseline
        self.metric = named(metric)
        self.root_seed = root_seed
        self.title = _title(baseline)
        self.identity: Mapping[str, Any] = {
            "function": str(getattr(score, "__qualname__", type(score).__name__)),
            "version": version,
            "root_seed": root_seed,
            "metric": typed_name(self.metric),
            "baseline": baseline,
        }
        self.describe(None)

    def describe(self, candidate: object) -> Candidate:
        """Return a candidate: the value that the function is called with."""
        value = self.baseline if candidate is None else candidate
        return Candidate(_title(value), self._content(value), value)

    def restore(self, content: Mapping[str, Any]) -> Candidate:
        """Return a candidate: its content is all that the function sees."""
        return self.describe(content["candidate"])

    def run(self, candidate: Candidate, numbers: Sequence[int]) -> Iterator[tuple[int, float]]:
        """Call the function once per number.

        Raises
        ------
        ParameterError
            If it returns anything but a number.
        """
        for number in numbers:
            value = self.score(candidate.value, configuration_seed(self.root_seed, "referee", number))
            try:
                yield number, float(value)
            except (TypeError, ValueError):
                raise ParameterError("score", type(value).__name__, "must return a number") from None

    def _content(self, candidate: object) -> dict[str, Any]:
        try:
            text = json.dumps(candidate, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError):
            allowed = "must be of JSON types: finite numbers, texts, lists, mappings"
            raise ParameterError("candidate", type(candidate).__name__, allowed) from None
        _check_secrets(candidate)
        return {"candidate": json.loads(text)}


def _check_secrets(candidate: object, name: str = "") -> None:
    """Raise ParameterError if a session would record a secret, in a value of this name, an item of a list or a text."""
    if isinstance(candidate, list | tuple):
        for each in candidate:
            _check_secrets(each, name)
    elif isinstance(candidate, Mapping):
        for key, value in candidate.items():
            _check_secrets(value, str(key))
    elif isinstance(candidate, str):
        shown = public_parameter(name, candidate) if name else public_text(candidate)
        if shown == candidate or not (name or shown.count(HIDDEN) > candidate.count(HIDDEN)):
            return
        fix = "Read it from the environment in the function."
        # Behind a colon or "=", the name would hide the next word, too.
        wrong = f"cannot be part of a candidate{f' ({name})' if name else ''}: a session would record this secret"
        raise ParameterError("candidate", "a text", wrong, fix)


def _title(candidate: object) -> str:
    """Return a candidate in a few words, without secrets."""
    if isinstance(candidate, Mapping):
        parts = [f"{name}={public_parameter(str(name), str(value))}" for name, value in candidate.items()]
        return ", ".join(parts) or "no changes"
    return "the baseline" if candidate is None else str(candidate)


def check_measured(scores: Mapping[Any, Any]) -> dict[int, float]:
    """Return scores that were measured elsewhere, by the number of the run.

    Raises
    ------
    ParameterError
        If a number is not a whole one of 0 or more, or a score no number.
    """
    checked: dict[int, float] = {}
    for number, score in scores.items():
        try:
            key = int(str(number))
            value = math.nan if score is None else float(score)
        except (TypeError, ValueError, OverflowError):
            raise ParameterError("candidate", f"{number}: {score}", "must be scores by whole numbers of runs") from None
        if key in checked:
            raise ParameterError("candidate", f"{number}: {score}", f"must have one score of run {key}, and has two")
        checked[key] = value
    if not checked or min(checked) < 0:
        raise ParameterError("candidate", str(list(scores)[:3]), "must be scores of runs with numbers from 0")
    return checked


def measured_elsewhere(candidate: object, *, shares_seeds: bool, fresh_half: bool) -> Candidate | None:
    """Return a candidate whose scores were measured elsewhere; None if it is something else."""
    measured: Any = candidate
    if isinstance(candidate, str):
        text = candidate.strip()
        if not text.startswith("{") and text.endswith(".json") and "=" not in text:
            measured = json_of("candidate", text, file_text("candidate", text, text))
            if isinstance(measured, dict):
                measured = {"name": PurePath(text).stem, **measured}
        elif text.startswith("{"):
            measured = json_of("candidate", text, text)
    if not isinstance(measured, Mapping) or "scores" not in measured:
        return None
    name, scores = str(measured.get("name", "")).strip(), measured["scores"]
    if fresh_half:
        why = "has scores without predictions, and a session with fresh_half=true scores halves of the examples"
        raise ParameterError("candidate", name, why, "Name an investigation, or start a session without it.")
    if not name or not isinstance(scores, Mapping):
        allowed = 'must have a name, by which more of its scores are known later: {"name": ..., "scores": {"5": ...}}'
        raise ParameterError("candidate", "scores", allowed)
    if shares_seeds and measured.get("seeds") != "shared":
        allowed = 'must say "seeds": "shared" if its runs have the seeds of the baseline\'s runs with these numbers'
        raise ParameterError("candidate", name, allowed, "If not, start a session with shared_seeds=false.")
    return Candidate(name, {"measured": name}, None, check_measured(scores))


def check_scores(scores: Mapping[int, float], metric: Metric, recorded: Mapping[int, float]) -> None:
    """Raise ParameterError if scores are outside the bounds of a metric, or contradict recorded ones."""
    low, high = metric.range
    for number, score in scores.items():
        shown = f"score {score:.6g} of run {number}"
        if not math.isnan(score) and not low - 1e-9 <= score <= high + 1e-9:
            fix = "Divide percent by 100." if metric.percent else ""
            raise ParameterError("candidate", shown, f"{metric.name} must lie between {low:g} and {high:g}", fix)
        if repr(recorded.get(number, score)) != repr(score):
            allowed = f"contradicts the one of this run that is recorded, {recorded[number]:.6g}"
            raise ParameterError("candidate", shown, allowed, "Another system needs another name.")


def check_unit(name: str, scores: Mapping[int, float], metric: Metric, baseline: Mapping[int, float]) -> None:
    """Raise ParameterError if the scores of a share are fractions and those of the baseline per cent, or vice versa."""
    sizes = [[abs(score) for score in each.values() if not math.isnan(score)] for each in (scores, baseline)]
    if not all(sizes) or not (metric.percent or is_share(metric.name)):
        return
    largest, allowed = map(max, sizes)
    if (largest > 1.5) != (allowed > 1.5):
        wrong = f"is not in the unit of the baseline: {metric.name} is up to {largest:g}, there {allowed:g}"
        raise ParameterError("candidate", shorten(name, 60), wrong, "Log fractions in both, or per cent.")


def check_baseline(scores: FloatArray, metric: Metric, effect: float) -> None:
    """Raise L3DError if the noise of a baseline cannot be learned, or is out of proportion to the smallest effect."""
    if len(scores) < 2:
        raise L3DError(f"{len(scores)} runs of the baseline have a score, and a referee learns the noise from them.")
    if np.ptp(scores) == 0:
        same = f"All {len(scores)} runs of the baseline have {metric.name}={scores[0]:.6g}"
        raise L3DError(f"{same}: the seed has no effect. Pass the seed on, or compare single runs.")
    if abs(math.log10(effect / scores.std(ddof=1))) > 6:
        raise L3DError(
            f"smallest_effect={effect:g}: runs of the baseline vary by {scores.std(ddof=1):g}. Check its unit."
        )
