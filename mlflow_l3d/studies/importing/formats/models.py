"""Tools that evaluate and train models: lm-evaluation-harness, and the Trainer of Hugging Face."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.intervals import known
from mlflow_l3d.errors import L3DError
from mlflow_l3d.parameters.values import pairs
from mlflow_l3d.paths import public_name
from mlflow_l3d.studies.importing import RecordedRun, flat, graded, read_json
from mlflow_l3d.studies.importing.formats import csv_file

LOG_SAMPLES: Final = "Use lm_eval --log_samples and name the folder of samples_*.jsonl, or write a CSV: seed,acc."
_DATE: Final = -len("2026-11-23T03-12-47.657677.jsonl")
_NOT_SETTINGS: Final = (
    "batch_sizes bootstrap_iters device max_batch_size model_num_parameters model_sha model_source use_cache "
    "verbosity write_out"
)
"""Entries of the ``config`` of lm_eval that do not affect the score, or repeat another entry."""
_RIGHT: Final = ("acc", "exact_match")
"""Metrics that are 1 for a sample with a right answer."""


def read_lm_eval(path: Path, _columns: Mapping[str, str], metric: str = "auto") -> list[RecordedRun]:
    """Return the runs of one file of samples: one for each filter of the tool.

    With ``--log_samples`` it writes ``samples_<task>_<date>.jsonl`` next to ``results_<date>.json``.
    """
    task = path.name[len("samples_") : _DATE - 1]
    about = path.with_name(f"results_{path.name[_DATE:-1]}")
    if not about.is_file():
        raise L3DError(f"{path.name}: {about.name}, which has the settings, is not next to it. Put it there.")
    document = read_json(about)
    # Metrics that choose otherwise than ``acc``: their runs have other predictions.
    rule = metric if metric in ("acc_norm", "acc_mutual_info") else ""
    samples = _samples(path, ["arguments"] if rule else [])
    if samples.empty:
        raise L3DError(f"{path.name}: holds no samples.")
    config = document.get("configs", {}).get(task, {})
    of_task = document.get("results", {}).get(task, {})
    seconds = float(document.get("total_evaluation_time_seconds") or 0.0)
    settings = _lm_eval_settings(document, task)
    filters = [str(name or "none") for name in samples["filter"]]
    runs = []
    for name, rows in samples.groupby(pd.Series(filters), sort=False):
        how = {**settings, "filter": str(name)} if len({*filters}) > 1 else settings
        run = RecordedRun(source=path.name, task=task, kind="", settings=how, scores={}, duration_seconds=seconds)
        results = {key.partition(",")[0]: value for key, value in of_task.items() if key.endswith(f",{name}")}
        runs.append(_with_samples(run, rows.reset_index(drop=True), config, results, rule))
    return runs


def _samples(path: Path, more: list[str]) -> pd.DataFrame:
    """Return the samples of a file, without the texts of documents, and of prompts if `more` lacks them.

    Raises
    ------
    L3DError
        If a line is not JSON, or lacks an entry that the tool always writes.
    """
    needed, rows = ("doc_id", "target", "filtered_resps", "metrics"), []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            sample = read_json(path, line, number)
            if lacking := [name for name in needed if sample.get(name) is None]:
                raise L3DError(f"{path.name}, line {number}: has no {lacking[0]}; is it written by lm_eval?")
            rows.append({name: sample.get(name) for name in (*needed, "doc_hash", "filter", *more, *sample["metrics"])})
    return pd.DataFrame(rows, dtype=object)


def _with_samples(
    run: RecordedRun, samples: pd.DataFrame, config: Mapping[str, Any], results: Mapping[str, Any], rule: str
) -> RecordedRun:
    """Return a run with its scores, and with its predictions if there are any."""
    metrics = samples["metrics"][0]
    with_numbers = [name for name in metrics if isinstance(samples[name][0], int | float)]
    with_numbers.sort(key=lambda name: (name != rule, name not in _RIGHT))
    means = {name: math.fsum(map(_number, samples[name])) / len(samples[name]) for name in with_numbers}
    right, own_names = None, {"acc": "accuracy", "perplexity": "log_likelihood"}
    if with_numbers:
        usual, right = graded(list(map(_number, samples[with_numbers[0]])))
        if right is None and with_numbers[0] in _RIGHT:  # partial credit, as of truthfulqa_mc2
            own_names[with_numbers[0]] = usual
    scores = {own_names.get(name, name): mean for name, mean in means.items()}
    # Of mcc or f1 the tool has one number for all samples.
    scores |= known({name: _number(results.get(name)) for name in metrics if name not in means})
    if not scores:
        raise L3DError(f"{run.source}: no metric has a number for each sample, or for all ({', '.join(metrics)}).")
    run, targets, likely = replace(run, scores=scores), samples["target"], None
    if with_numbers and right is None:
        return run
    documents = zip(samples["doc_id"], samples["doc_hash"], strict=True)
    ids = [f"{number}:{str(text or '')[:8]}" for number, text in documents]
    if config.get("output_type", "") in ("multiple_choice", "loglikelihood") or "acc" in with_numbers:
        likely = _likely(samples, rule)
        if likely is not None and all(str(target).isdigit() for target in targets):
            choices = config.get("doc_to_choice")
            classes = tuple(map(str, choices)) if isinstance(choices, list) else ()
            kind = "classification" if classes else "multiple_choice"
            labels = np.array([int(target) for target in targets], dtype=np.int64)
            if right is not None and not np.array_equal(likely == labels, right):  # the tool chose by another rule
                return run
            return replace(run, kind=kind, ids=np.array(ids), labels=labels, predictions=likely, classes=classes)
    if right is None or (rule and likely is None):
        return run
    answers = [*map(_answer, samples["filtered_resps"])] if likely is None else [f"choice {place}" for place in likely]
    return replace(run, kind="multiple_choice").answered(ids, targets, answers, right)


def _likely(samples: pd.DataFrame, rule: str) -> npt.NDArray[np.int64] | None:
    """Return the place of the choice that each sample has by a rule, else the likeliest; None if this is unknown."""
    if any(len(each) < 2 for each in samples["filtered_resps"]):
        return None
    try:
        logs = [np.array([float(answer[0]) for answer in each]) for each in samples["filtered_resps"]]
        if "acc_mutual_info" in samples["metrics"][0]:  # all choices come again, without the question
            halves = [np.split(each, 2) for each in logs]
            logs = [asked - alone if rule == "acc_mutual_info" else asked for asked, alone in halves]
        if rule == "acc_norm":
            choices = [[each["arg_1"].strip() for each in asked.values()] for asked in samples["arguments"]]
            logs = [each / [*map(len, texts[: len(each)])] for each, texts in zip(logs, choices, strict=True)]
        return np.array([each.argmax() for each in logs], dtype=np.int64)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError):
        return None


def _answer(resps: list[Any]) -> Any:
    """Return the generated text; for a log-likelihood alone whether the text was the likeliest."""
    first = resps[0] if resps else None
    return first[-1] if isinstance(first, list) and first else first


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _lm_eval_settings(document: Mapping[str, Any], task: str) -> dict[str, str]:
    config = dict(document.get("config", {}))
    arguments = config.pop("model_args", None) or {}
    arguments = pairs(arguments) if isinstance(arguments, str) else dict(arguments)
    kind = config.pop("model", "")
    model = next((arguments.pop(name) for name in ("pretrained", "model") if name in arguments), kind)
    of_task = document.get("configs", {}).get(task, {})
    shots = document.get("n-shot", {}).get(task, of_task.get("num_fewshot"))
    prompt = {name: of_task.get(name) for name in ("doc_to_text", "description") if isinstance(of_task.get(name), str)}
    of_chat = ("chat_template_sha", "system_instruction_sha", "fewshot_as_multiturn")
    chat = {name: document.get(name) for name in of_chat}
    rest = {name: value for name, value in config.items() if name not in _NOT_SETTINGS.split()}
    about = {"model": public_name(str(model)), "backend": kind, "num_fewshot": shots, **chat, **prompt}
    return flat({**about, **rest, "model_args": arguments})


_NOT_SCORES: Final = ("runtime", "samples", "samples_per_second", "steps_per_second", "model_preparation_time")


def read_trainer(path: Path, columns: Mapping[str, str], metric: str = "auto") -> list[RecordedRun]:
    """Return the one run of an output folder, with predictions if they are written there; none for a checkpoint's.

    The Trainer writes its arguments as a pickle, which is never opened. The model card (``README.md``) lists them, seed
    included.
    """
    folder = path.parent
    if folder.name.startswith("checkpoint-"):
        return []
    state = read_json(path)
    results = [folder / name for name in ("eval_results.json", "all_results.json") if (folder / name).is_file()]
    logged = [entry for entry in state.get("log_history", ()) if any(name.startswith("eval_") for name in entry)]
    evaluation: Mapping[str, Any] = read_json(results[0]) if results else logged[-1] if logged else {}
    numbers = {name: value for name, value in evaluation.items() if isinstance(value, int | float)}
    named = {name.removeprefix("eval_"): float(value) for name, value in numbers.items() if name.startswith("eval_")}
    scores = {name: named[name] for name in sorted(named, key=lambda name: name == "loss") if name not in _NOT_SCORES}
    if not scores:
        raise L3DError(f"{folder.name}/{path.name}: has no evaluation. Evaluate the run: trainer.evaluate().")
    settings = _trainer_settings(folder, state)
    run = RecordedRun(source=folder.name, task=folder.parent.name, kind="", settings=settings, scores=scores)
    predictions = folder / "predictions.csv"
    if not predictions.is_file():
        return [run]
    runs = csv_file.read(predictions, columns, metric)
    if len(runs) > 1:
        raise L3DError(f"{folder.name}/{predictions.name}: holds {len(runs)} runs, and the folder is of one.")
    one = runs[0]
    return [replace(run, kind=one.kind, ids=one.ids, labels=one.labels, predictions=one.predictions)]


def _trainer_settings(folder: Path, state: Mapping[str, Any]) -> dict[str, str]:
    config = folder / "config.json"
    model = read_json(config).get("_name_or_path") if config.is_file() else None
    card = folder / "README.md"
    text = card.read_text(encoding="utf-8") if card.is_file() else ""
    listed = dict(re.findall(r"(?m)^- (\w+): (.+)$", text.partition("hyperparameters")[2]))
    numbers = {name: state.get(name) for name in ("num_train_epochs", "train_batch_size", "max_steps")}
    settings = flat({"model": model, **numbers, **listed})
    # Without a card only the name of the folder identifies the run.
    seed = re.search(r"(seed)[-_=]?(\d+)", folder.name, re.IGNORECASE)
    named = {"seed": seed[2]} if seed else {"folder": folder.name}
    return settings if "seed" in settings else {**settings, **named}
