"""Hugging Face Trainer: an output folder with ``trainer_state.json`` and, if written there, predictions.

The Trainer writes its arguments as a pickle, which is never opened. The model card (``README.md``) lists them, seed
included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.importing import RecordedRun, flat, read_json
from mlflow_l3d.studies.importing.formats import csv_file

_NOT_SCORES: Final = ("runtime", "samples", "samples_per_second", "steps_per_second", "model_preparation_time")


def read(path: Path, columns: Mapping[str, str], metric: str = "auto") -> list[RecordedRun]:
    """Return the one run of an output folder; none for the folder of a checkpoint."""
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
    settings = _settings(folder, state)
    run = RecordedRun(source=folder.name, task=folder.parent.name, kind="", settings=settings, scores=scores)
    predictions = folder / "predictions.csv"
    if not predictions.is_file():
        return [run]
    runs = csv_file.read(predictions, columns, metric)
    if len(runs) > 1:
        raise L3DError(f"{folder.name}/{predictions.name}: holds {len(runs)} runs, and the folder is of one.")
    one = runs[0]
    return [replace(run, kind=one.kind, ids=one.ids, labels=one.labels, predictions=one.predictions)]


def _settings(folder: Path, state: Mapping[str, Any]) -> dict[str, str]:
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
