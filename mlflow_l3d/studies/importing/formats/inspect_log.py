"""Inspect: logs (``.eval`` or ``.json``), read by the package `inspect_ai` itself."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlflow_l3d.errors import L3DError
from mlflow_l3d.parameters.values import public_name
from mlflow_l3d.studies.importing.recorded import RecordedRun, flat, settled, texts

_VALUES: Final = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's words for correct, partially correct, incorrect and no answer."""


def read(path: Path, columns: Mapping[str, str]) -> list[RecordedRun]:
    """Return the runs of one log: one for each epoch."""
    del columns
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise L3DError(
            "inspect_ai is not installed, whose own reader reads its logs. Run: pip install inspect_ai"
        ) from error
    try:
        log = read_eval_log(str(path))
    except Exception as error:  # its reader raises what its parts raise
        raise L3DError(f"{path.name}: inspect_ai cannot read it ({type(error).__name__}: {error}).") from error
    if log.status != "success":
        raise L3DError(f"{path.name}: the evaluation has not finished ({log.status}). Run inspect eval-retry.")
    epochs: dict[int, list[Any]] = defaultdict(list)
    for sample in log.samples or ():
        epochs[sample.epoch].append(sample)
    if not epochs:
        raise L3DError(f"{path.name}: holds no samples.")
    several = len(epochs) > 1
    return [
        _run(path.name, log.eval, samples, {**_settings(log), **({"epoch": str(epoch)} if several else {})})
        for epoch, samples in sorted(epochs.items())
    ]


def _run(source: str, about: Any, samples: list[Any], settings: Mapping[str, str]) -> RecordedRun:
    scorers = list(samples[0].scores or {})
    if not scorers:
        raise L3DError(f"{source}: has no scores. Run inspect score.")
    values = {name: [_number(source, sample, name) for sample in samples] for name in scorers}
    first = values[scorers[0]]
    labels = texts([each.target if isinstance(each.target, str) else ", ".join(each.target) for each in samples])
    answers = texts([_answer(each, scorers[0]) for each in samples])
    scores = {"accuracy" if name == scorers[0] else name: math.fsum(own) / len(own) for name, own in values.items()}
    return RecordedRun(
        source=source,
        task=public_name(about.task),
        kind="multiple_choice",
        settings=settings,
        scores=scores,
        ids=np.array([str(each.id) for each in samples]),
        labels=labels,
        predictions=settled(answers, labels, [value == 1.0 for value in first]),
    )


def _answer(sample: Any, scorer: str) -> str | None:
    score = sample.scores[scorer]
    answer: str | None = sample.output.completion if score.answer is None else score.answer
    return answer


def _number(source: str, sample: Any, scorer: str) -> float:
    score = (sample.scores or {}).get(scorer)
    if score is None:
        raise L3DError(f"{source}: sample {sample.id} has no score of {scorer}.")
    value = _VALUES.get(score.value, score.value) if isinstance(score.value, str) else score.value
    if not isinstance(value, int | float):
        raise L3DError(f"{source}: the score of sample {sample.id} is {score.value!r}, no number and no C, P, I or N.")
    return float(value)


def _settings(log: Any) -> dict[str, str]:
    about = log.eval
    config = log.plan.config.model_dump(exclude_none=True) | about.model_generate_config.model_dump(exclude_none=True)
    model = {"model": about.model_args.get("model_path") or about.model}
    arguments = {name: value for name, value in about.model_args.items() if name != "model_path"}
    return flat({**model, **config, **(about.task_args or {}), "model_args": arguments, "solver": about.solver})
