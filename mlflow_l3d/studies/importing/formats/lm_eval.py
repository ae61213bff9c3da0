"""lm-evaluation-harness with ``--log_samples``: ``samples_<task>_<date>.jsonl`` beside ``results_<date>.json``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import L3DError
from mlflow_l3d.parameters.values import public_name
from mlflow_l3d.studies.importing.recorded import RecordedRun, flat, graded, pairs, read_json, settled, texts

_DATE: Final = -len("2026-11-23T03-12-47.657677.jsonl")
_NOT_SETTINGS: Final = (
    "batch_sizes bootstrap_iters device max_batch_size model_num_parameters model_sha model_source use_cache "
    "verbosity write_out"
)
"""Of the tool's ``config``: what has no say in the score, or says again what another entry says."""
_SCORES: Final = {"acc": "accuracy", "perplexity": "log_likelihood"}
"""Metric of the tool, as its samples have it -> the same of ours."""
_RIGHT: Final = ("acc", "exact_match")
"""Metrics that say of a sample whether its answer is right."""
_NEEDED: Final = ("doc_id", "target", "filtered_resps", "metrics")


def read(path: Path, columns: Mapping[str, str], metric: str = "auto") -> list[RecordedRun]:
    """Return the runs of one file of samples: one for each filter of the tool."""
    del columns, metric
    task, results = path.name[len("samples_") : _DATE - 1], path.with_name(f"results_{path.name[_DATE:-1]}")
    if not results.is_file():
        raise L3DError(f"{path.name}: {results.name} is not beside it, which says how it was run. Put it there.")
    document = read_json(results)
    samples = _samples(path)
    if not samples:
        raise L3DError(f"{path.name}: holds no samples.")
    filters: dict[str, list[int]] = {}
    for place, name in enumerate(samples["filter"]):
        filters.setdefault(str(name or "none"), []).append(place)
    settings, config = _settings(document, task), document.get("configs", {}).get(task, {})
    of_task = document.get("results", {}).get(task, {})
    seconds = float(document.get("total_evaluation_time_seconds") or 0.0)
    named = {} if len(filters) == 1 else {name: {"filter": name} for name in filters}
    return [
        _run(
            path.name,
            task,
            {key: [values[place] for place in places] for key, values in samples.items()},
            {**settings, **named.get(name, {})},
            config,
            {key.partition(",")[0]: value for key, value in of_task.items() if key.endswith(f",{name}")},
            seconds,
        )
        for name, places in filters.items()
    ]


_Samples: TypeAlias = dict[str, list[Any]]


def _samples(path: Path) -> _Samples:
    """Return the samples of a file, without the texts of prompts and documents where they can be passed over.

    Raises
    ------
    L3DError
        If a line is no JSON, or one lacks what all of the tool's have.
    """
    import pyarrow as pa
    from pyarrow import json

    with path.open(encoding="utf-8") as file:
        first = next(file, "")
        if not first:
            return {}
        sample = read_json(path, first, 1)
        names = (*_NEEDED, "doc_hash", "filter", *sample.get("metrics", ()))
        try:
            schema = pa.Table.from_pylist([{name: sample[name] for name in names if name in sample}]).schema
            options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
            read = json.read_json(path, parse_options=options).to_pydict()
        except (pa.ArrowException, TypeError):  # a value that has no one type, or a line that is not JSON
            rows = [sample, *(read_json(path, line, at) for at, line in enumerate(file, 2))]
            read = {name: [row.get(name) for row in rows] for name in names if any(name in row for row in rows)}
    count = len(next(iter(read.values()), ()))
    lacking = [
        (read[name].index(None) if name in read else 0, name) for name in _NEEDED if None in read.get(name, [None])
    ]
    if lacking:
        place, name = min(lacking, key=lambda each: each[0])
        raise L3DError(f"{path.name}, line {place + 1}: has no {name}; is it written by lm_eval?")
    return {"filter": [None] * count, **read}


def _run(
    source: str,
    task: str,
    samples: _Samples,
    settings: dict[str, str],
    config: Mapping[str, Any],
    results: Mapping[str, Any],
    seconds: float,
) -> RecordedRun:
    metrics = samples["metrics"][0]
    values = {name: samples[name] for name in metrics if name in samples}
    own = [name for name in metrics if name in values and isinstance(values[name][0], int | float)]
    own.sort(key=lambda name: name not in _RIGHT)
    scores = {_SCORES.get(name, name): math.fsum(map(_number, values[name])) / len(values[name]) for name in own}
    if not own:  # mcc or f1: the tool has one number for all samples
        scores = {name: value for name in metrics if math.isfinite(value := _number(results.get(name)))}
    if not scores:
        raise L3DError(f"{source}: no metric has a number for each sample, or for all ({', '.join(metrics)}).")
    right = None
    if own:
        usual, right = graded(list(map(_number, values[own[0]])))
        if right is None and own[0] in _RIGHT:  # a share of what is right, as of truthfulqa_mc2
            scores = {usual if name == _SCORES.get(own[0], own[0]) else name: value for name, value in scores.items()}
    numbers, targets = samples["doc_id"], samples["target"]
    hashes = samples["doc_hash"] if "doc_hash" in samples else [""] * len(numbers)
    ids = np.array([f"{number}:{str(of_doc)[:8]}" for number, of_doc in zip(numbers, hashes, strict=True)])
    run = RecordedRun(source=source, task=task, kind="", settings=settings, scores=scores, duration_seconds=seconds)
    if own and right is None:
        return run
    likely = None
    if config.get("output_type", "") in ("multiple_choice", "loglikelihood") or "acc" in own:
        likely = _likely(samples["filtered_resps"])
        if likely is not None and all(str(target).isdigit() for target in targets):
            choices = config.get("doc_to_choice")
            kind = "classification" if isinstance(choices, list) else "multiple_choice"
            classes = tuple(map(str, choices)) if isinstance(choices, list) else ()
            labels = np.array([int(target) for target in targets], dtype=np.int64)
            return replace(run, kind=kind, ids=ids, labels=labels, predictions=likely, classes=classes)
    if right is None:
        return run
    resps = samples["filtered_resps"] if likely is None else []
    answers = texts([f"choice {place}" for place in likely] if likely is not None else [*map(_answer, resps)])
    labels = texts(targets)
    predictions = settled(answers, labels, right)
    return replace(run, kind="multiple_choice", ids=ids, labels=labels, predictions=predictions)


def _likely(resps: list[Any]) -> npt.NDArray[np.int64] | None:
    """Return the place of each sample's likeliest choice; None where samples hold no choices."""
    if any(len(each) < 2 for each in resps):
        return None
    try:
        logs = [[float(answer[0]) for answer in each] for each in resps]
        return np.array([one.index(max(one)) for one in logs], dtype=np.int64)
    except (TypeError, ValueError, IndexError):
        return None


def _answer(resps: list[Any]) -> Any:
    """Return what was generated; of a log-likelihood alone whether the text was the likeliest."""
    first = resps[0] if resps else None
    return first[-1] if isinstance(first, list) and first else first


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _settings(document: Mapping[str, Any], task: str) -> dict[str, str]:
    config = dict(document.get("config", {}))
    arguments = config.pop("model_args", None) or {}
    arguments = pairs(arguments) if isinstance(arguments, str) else dict(arguments)
    kind = config.pop("model", "")
    model = next((arguments.pop(name) for name in ("pretrained", "model") if name in arguments), kind)
    of_task = document.get("configs", {}).get(task, {})
    shots = document.get("n-shot", {}).get(task, of_task.get("num_fewshot"))
    prompt = {name: of_task.get(name) for name in ("doc_to_text", "description") if isinstance(of_task.get(name), str)}
    chat = {
        name: document.get(name) for name in ("chat_template_sha", "system_instruction_sha", "fewshot_as_multiturn")
    }
    rest = {name: value for name, value in config.items() if name not in _NOT_SETTINGS.split()}
    own = {"model": public_name(str(model)), "backend": kind, "num_fewshot": shots, **chat, **prompt}
    return flat({**own, **rest, "model_args": arguments})
