"""lm-evaluation-harness with ``--log_samples``: ``samples_<task>_<date>.jsonl`` beside ``results_<date>.json``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
_MORE: Final = ("doc_hash", "filter")
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
    for place, name in enumerate(samples["filter"].to_pylist()):
        filters.setdefault(str(name or "none"), []).append(place)
    settings, config = _settings(document, task), document.get("configs", {}).get(task, {})
    of_task = document.get("results", {}).get(task, {})
    seconds = float(document.get("total_evaluation_time_seconds") or 0.0)
    named = {} if len(filters) == 1 else {name: {"filter": name} for name in filters}
    return [
        _run(
            path.name,
            task,
            _of(samples, places),
            {**settings, **named.get(name, {})},
            config,
            {key.partition(",")[0]: value for key, value in of_task.items() if key.endswith(f",{name}")},
            seconds,
        )
        for name, places in filters.items()
    ]


class _Column:
    """What samples hold under one name: values as they were read, in Arrow's memory where they have one type."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def to_pylist(self) -> list[Any]:
        return self.values if isinstance(self.values, list) else self.values.to_pylist()

    def take(self, places: Sequence[int]) -> _Column:
        if isinstance(self.values, list):
            return _Column([self.values[place] for place in places])
        return _Column(self.values.take(places))

    def first_missing(self) -> int | None:
        """Return the place of the first sample without a value."""
        if not isinstance(self.values, list) and not self.values.null_count:
            return None
        return next((place for place, value in enumerate(self.to_pylist()) if value is None), None)


_Samples: TypeAlias = dict[str, _Column]


def _of(samples: _Samples, places: Sequence[int]) -> _Samples:
    """Return some of the samples."""
    if len(places) == len(samples["doc_id"].values):
        return samples
    return {name: column.take(places) for name, column in samples.items()}


def _samples(path: Path) -> _Samples:
    """Return the samples of a file, without the texts of prompts and documents where they can be passed over.

    Raises
    ------
    L3DError
        If a line is no JSON, or one lacks what all of the tool's have.
    """
    read = _columns(path)
    missing = [(place, name) for name in _NEEDED if name in read and (place := read[name].first_missing()) is not None]
    missing += [(0, name) for name in _NEEDED if read and name not in read]
    if missing:
        place, name = min(missing, key=lambda each: (each[0], _NEEDED.index(each[1])))
        raise L3DError(f"{path.name}, line {place + 1}: has no {name}; is it written by lm_eval?")
    return read


def _columns(path: Path) -> _Samples:
    """Return the columns of a file of samples; none where it has no line."""
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
            table = json.read_json(path, parse_options=options)
            found = {name: _Column(table.column(name)) for name in table.column_names}
            count = len(table)
        except (pa.ArrowException, TypeError):  # a value that has no one type, or a line that is not JSON
            rows = [*([sample] if first else ()), *(read_json(path, line, at) for at, line in enumerate(lines, 2))]
            names, count = dict.fromkeys(name for row in rows for name in row), len(rows)
            found = {name: _Column([row.get(name) for row in rows]) for name in names}
    return {"filter": _Column([None] * count), **found} if found else {}


def _run(
    source: str,
    task: str,
    samples: _Samples,
    settings: dict[str, str],
    config: Mapping[str, Any],
    results: Mapping[str, Any],
    seconds: float,
) -> RecordedRun:
    metrics = samples["metrics"].take([0]).to_pylist()[0]
    values = {name: samples[name].to_pylist() for name in metrics if name in samples}
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
    numbers, targets = samples["doc_id"].to_pylist(), samples["target"].to_pylist()
    hashes = samples["doc_hash"].to_pylist() if "doc_hash" in samples else [""] * len(numbers)
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
    resps = samples["filtered_resps"].to_pylist() if likely is None else []
    answers = texts([f"choice {place}" for place in likely] if likely is not None else [*map(_answer, resps)])
    labels = texts(targets)
    predictions = settled(answers, labels, right)
    return replace(run, kind="multiple_choice", ids=ids, labels=labels, predictions=predictions)


def _likely(resps: _Column) -> npt.NDArray[np.int64] | None:
    """Return the place of each sample's likeliest choice; None where samples hold no choices."""
    found = _likeliest(resps.values)
    if found is not None:
        return found
    given = resps.to_pylist()
    if any(len(each) < 2 for each in given):
        return None
    try:
        logs = [[float(answer[0]) for answer in each] for each in given]
        return np.array([one.index(max(one)) for one in logs], dtype=np.int64)
    except (TypeError, ValueError, IndexError):
        return None


def _likeliest(resps: Any) -> npt.NDArray[np.int64] | None:
    """Return the place of each sample's largest log-likelihood, where all have as many choices in Arrow's memory."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(resps, list):
        return None
    try:
        whole = resps.combine_chunks()
        counts = pc.unique(pc.list_value_length(whole)).to_pylist()
        if len(counts) != 1 or not counts[0] or counts[0] < 2:
            return None
        logs = pc.list_element(whole.flatten(), 0).cast(pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowException, IndexError):  # no lists of lists, or no numbers in them
        return None
    if np.isnan(logs).any():
        return None
    likely: npt.NDArray[np.int64] = logs.reshape(-1, counts[0]).argmax(axis=1).astype(np.int64)
    return likely


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
