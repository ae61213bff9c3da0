"""lm-evaluation-harness with ``--log_samples``: ``samples_<task>_<date>.jsonl`` beside ``results_<date>.json``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlflow_l3d.errors import L3DError
from mlflow_l3d.parameters.values import public_name
from mlflow_l3d.studies.importing.recorded import RecordedRun, flat, pairs, read_json, settled, texts

_DATE: Final = -len("2026-11-23T03-12-47.657677.jsonl")
_NOT_SETTINGS: Final = (
    "batch_sizes bootstrap_iters device max_batch_size model_num_parameters model_sha model_source use_cache "
    "verbosity write_out"
)
"""Of the tool's ``config``: what has no say in the score, or says again what another entry says."""
_SCORES: Final = {"acc": "accuracy"}
"""Metric of the tool -> the same of ours."""
_MORE: Final = ("doc_hash", "filter")
_NEEDED: Final = ("doc_id", "target", "filtered_resps", "metrics")


def read(path: Path, columns: Mapping[str, str]) -> list[RecordedRun]:
    """Return the runs of one file of samples: one for each filter of the tool."""
    del columns
    task, results = path.name[len("samples_") : _DATE - 1], path.with_name(f"results_{path.name[_DATE:-1]}")
    if not results.is_file():
        raise L3DError(f"{path.name}: {results.name} is not beside it, which says how it was run. Put it there.")
    document = read_json(results)
    filters: dict[str, list[Mapping[str, Any]]] = {}
    for number, sample in enumerate(_samples(path), 1):
        if missing := [name for name in _NEEDED if sample.get(name) is None]:
            raise L3DError(f"{path.name}, line {number}: has no {missing[0]}; is it written by lm_eval?")
        filters.setdefault(str(sample.get("filter") or "none"), []).append(sample)
    if not filters:
        raise L3DError(f"{path.name}: holds no samples.")
    settings, config = _settings(document, task), document.get("configs", {}).get(task, {})
    seconds = float(document.get("total_evaluation_time_seconds") or 0.0)
    named = {} if len(filters) == 1 else {name: {"filter": name} for name in filters}
    return [
        _run(path.name, task, samples, {**settings, **named.get(name, {})}, config, seconds)
        for name, samples in filters.items()
    ]


def _samples(path: Path) -> list[Mapping[str, Any]]:
    """Return the samples of a file, without the texts of prompts and documents where they can be passed over."""
    import pyarrow as pa
    from pyarrow import json

    with path.open(encoding="utf-8") as file:
        lines = iter(file)
        first = next(lines, "")
        sample = read_json(path, first, 1) if first else {}
        wanted = {
            name: value for name, value in sample.items() if name in (*_NEEDED, *_MORE, *sample.get("metrics", ()))
        }
        try:
            schema = pa.Table.from_pylist([wanted]).schema
            options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
            found: list[Mapping[str, Any]] = json.read_json(path, parse_options=options).to_pylist()
        except (pa.ArrowException, TypeError):  # a value that has no one type, or a line that is not JSON
            return [*([sample] if first else ()), *(read_json(path, line, at) for at, line in enumerate(lines, 2))]
    return found


def _run(
    source: str,
    task: str,
    samples: list[Mapping[str, Any]],
    settings: dict[str, str],
    config: Mapping[str, Any],
    seconds: float,
) -> RecordedRun:
    own = [name for name in samples[0]["metrics"] if isinstance(samples[0].get(name), int | float)]
    if not own:
        raise L3DError(f"{source}: no metric has a number for each sample ({', '.join(samples[0]['metrics'])}).")
    scores = {
        _SCORES.get(name, name): math.fsum(_number(each.get(name)) for each in samples) / len(samples) for name in own
    }
    ids = np.array([f"{each['doc_id']}:{str(each.get('doc_hash', ''))[:8]}" for each in samples])
    kind, labels, predictions = "multiple_choice", texts([each["target"] for each in samples]), None
    if config.get("output_type", "") in ("multiple_choice", "loglikelihood") or "acc" in own:
        chosen = _choices(samples)
        if chosen is not None:
            labels, predictions = chosen
            kind = "classification" if isinstance(config.get("doc_to_choice"), list) else kind
    if predictions is None:
        answers = texts([_answer(each["filtered_resps"]) for each in samples])
        right = [_number(each.get(own[0])) == 1.0 for each in samples]
        predictions = settled(answers, labels, right)
    return RecordedRun(
        source=source,
        task=task,
        kind=kind,
        settings=settings,
        scores=scores,
        ids=ids,
        labels=labels,
        predictions=predictions,
        duration_seconds=seconds,
    )


def _choices(samples: list[Mapping[str, Any]]) -> tuple[Any, Any] | None:
    """Return the true and the likeliest choice; None where samples hold no choices, or the truth is no number."""
    if any(len(each["filtered_resps"]) < 2 or not str(each["target"]).isdigit() for each in samples):
        return None
    try:
        resps = [[float(answer[0]) for answer in each["filtered_resps"]] for each in samples]
        likely = [one.index(max(one)) for one in resps]
    except (TypeError, ValueError, IndexError):
        return None
    return np.array([int(each["target"]) for each in samples], dtype=np.int64), np.array(likely, dtype=np.int64)


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
