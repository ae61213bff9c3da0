"""Inspect: logs (``.eval`` or ``.json``), read by the package `inspect_ai` itself."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow_l3d.errors import L3DError
from mlflow_l3d.parameters.values import public_name
from mlflow_l3d.studies.importing.recorded import RecordedRun, flat, graded, read_each


def read(path: Path, _columns: Mapping[str, str], metric: str = "auto") -> list[RecordedRun | L3DError]:
    """Return the runs of one log: one for each epoch."""
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        problem = "inspect_ai is not installed, whose own reader reads its logs"
        raise L3DError(f"{problem}. Run: pip install inspect_ai") from error
    try:
        log = read_eval_log(str(path))
    except Exception as error:  # its reader raises errors of many libraries
        raise L3DError(f"{path.name}: inspect_ai cannot read it ({type(error).__name__}: {error}).") from error
    if log.status != "success":
        raise L3DError(f"{path.name}: the evaluation has not finished ({log.status}). Run inspect eval-retry.")
    epochs: dict[int, list[Any]] = defaultdict(list)
    for sample in log.samples or ():
        epochs[sample.epoch].append(sample)
    if not epochs:
        raise L3DError(f"{path.name}: holds no samples.")
    parts = []
    for epoch, samples in sorted(epochs.items()):
        settings = _settings(log) | ({"epoch": str(epoch)} if len(epochs) > 1 else {})
        parts.append((f"{path.name} (epoch {epoch})", public_name(log.eval.task), samples, settings, metric))
    return read_each(_run, parts)


def _run(source: str, task: str, samples: list[Any], settings: Mapping[str, str], metric: str) -> RecordedRun:
    """Return a run; the scorer that `metric` names, else the first one, decides which answers are right."""
    scorers = _scorers(source, samples)
    if not scorers:
        raise L3DError(f"{source}: has no scores. Run inspect score.")
    first = metric if metric in scorers else next(iter(scorers))
    if isinstance(scorers[first][0], Mapping):
        keys = " or ".join(f"--metric {name}" for name in scorers if name.startswith(f"{first}."))
        raise L3DError(f"{source}: a score of {first} is a dictionary. Choose one of its numbers, {keys}.")
    values = {name: scores for name, scores in scorers.items() if not isinstance(scores[0], Mapping)}
    numbers = {name: [_number(source, name, value) for value in scores] for name, scores in values.items()}
    usual, right = graded(numbers[first])
    # A scorer that the user names keeps its name; the first one gets the name of its mean.
    names = {name: usual if name == first != metric else name for name in (first, *numbers)}
    scores = {names[name]: math.fsum(numbers[name]) / len(samples) for name in names}
    run = RecordedRun(source=source, task=task, kind="multiple_choice", settings=settings, scores=scores)
    if right is None:
        return run
    labels = [each.target if isinstance(each.target, str) else ", ".join(each.target) for each in samples]
    scored = [each.scores[first if first in each.scores else first.partition(".")[0]].answer for each in samples]
    pairs = zip(scored, samples, strict=True)
    answers = [each.output.completion if answer is None else answer for answer, each in pairs]
    return run.answered((each.id for each in samples), labels, answers, right)


def _scorers(source: str, samples: list[Any]) -> dict[str, list[Any]]:
    """Return scorer -> value of each sample; members of a dictionary are added as ``scorer.key``."""
    scorers: dict[str, list[Any]] = {}
    for name in next((sample.scores for sample in samples if sample.scores), {}):
        for sample in samples:
            score = (sample.scores or {}).get(name)
            if score is None:
                why = f" ({' '.join(sample.error.message.split())[:100]})" if sample.error else ""
                fix = "Evaluate again with --retry-on-error."
                raise L3DError(f"{source}: sample {sample.id} has no score of {name}{why}. {fix}")
            members = score.value if isinstance(score.value, Mapping) else {}
            for key, value in ((name, score.value), *((f"{name}.{key}", value) for key, value in members.items())):
                scorers.setdefault(key, []).append(value)
    return {name: values for name, values in scorers.items() if len(values) == len(samples)}


def _number(source: str, scorer: str, value: Any) -> float:
    # Inspect's letters for correct, partially correct, incorrect and no answer.
    number = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}.get(value, value) if isinstance(value, str) else value
    if not isinstance(number, int | float):
        raise L3DError(f"{source}: a score of {scorer} is {value!r}, no number and no C, P, I or N.")
    return float(number)


def _settings(log: Any) -> dict[str, str]:
    about = log.eval
    config = log.plan.config.model_dump(exclude_none=True) | about.model_generate_config.model_dump(exclude_none=True)
    model = {"model": about.model_args.get("model_path") or about.model}
    arguments = {name: value for name, value in about.model_args.items() if name != "model_path"}
    return flat({**model, **config, **(about.task_args or {}), "model_args": arguments, "solver": about.solver})
