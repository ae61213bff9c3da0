"""One side of the benchmark on a large model: trains twice, and times the second training."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _common import answer, settings_of_child
from _finetuning_cases import cell, load, recipe


def main() -> None:
    """Train one side, and tell seconds, memory and how many tokens were computed."""
    settings = settings_of_child()
    common = {"epochs": 1, "learning_rate": 1e-5, "dropout": 0.1}
    given = {**settings, **common}
    found = _ours(given) if settings["side"] == "ours" else _trainer(given)
    answer(settings, {**found, "texts": settings["train"], "memory": _memory(settings["device"])})


def _ours(settings: Mapping[str, Any]) -> dict[str, float]:
    from mlflow_l3d.approaches.base import resolve_hyperparameters
    from mlflow_l3d.approaches.finetuning import Finetuning
    from mlflow_l3d.approaches.finetuning.training import batch_order

    approach, task = Finetuning(), load(settings)
    dtype = "bfloat16" if settings["device"] == "cuda" else "float32"
    wanted = {**recipe(settings), "batch_size": settings["batch"], "dtype": dtype}
    hyperparameters = approach.complete(resolve_hyperparameters(approach, wanted))
    session: Any = approach.prepare(
        task, hyperparameters, model=settings["model"], device=settings["device"], cache=Path("cache")
    )
    # Of a few examples only, so that evaluation takes no time: the clock is for training.
    chosen = cell(42)
    whole = task.split(chosen.seeds)
    split = replace(whole, test=whole.test[:2])
    seconds = []
    for _ in range(2):
        _wait(settings["device"])
        started = time.perf_counter()
        session.train(chosen, split)
        _wait(settings["device"])
        seconds.append(time.perf_counter() - started)
    tokens = session.inputs
    lengths = np.diff(tokens.starts)
    order = split.train[batch_order(chosen.seeds["data_order"], 0, len(split.train))]
    batches = [lengths[order[at : at + settings["batch"]]] for at in range(0, len(order), settings["batch"])]
    return {"seconds": seconds[-1], **_computed([(len(batch), int(batch.max())) for batch in batches])}


def _trainer(settings: Mapping[str, Any]) -> dict[str, float]:
    from datasets import Dataset
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    task, limit, whole = load(settings), settings["max_length"], settings["side"].endswith("max_length")
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    model = AutoModelForSequenceClassification.from_pretrained(settings["model"], num_labels=2)
    rows = np.flatnonzero(task.parts == 0)
    texts = [[column[row] for row in rows] for column in task.texts]
    encoded = tokenizer(*texts, truncation=True, max_length=limit, padding="max_length" if whole else False)
    data = Dataset.from_dict({**encoded, "label": task.labels[rows].tolist()})
    cuda = settings["device"] == "cuda"
    arguments = TrainingArguments(
        output_dir="trainer",
        per_device_train_batch_size=settings["batch"],
        num_train_epochs=1,
        learning_rate=settings["learning_rate"],
        seed=42,
        bf16=cuda,
        use_cpu=not cuda,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=cuda,
    )
    shapes: list[tuple[int, int]] = []
    collator = DataCollatorWithPadding(tokenizer)

    def collate(features: list[dict[str, Any]]) -> Any:
        batch = collator(features)
        shapes.append(tuple(batch["input_ids"].shape))
        return batch

    trainer = Trainer(model=model, args=arguments, train_dataset=data, data_collator=collate)
    seconds = 0.0
    for _ in range(2):
        shapes.clear()
        _wait(settings["device"])
        started = time.perf_counter()
        trainer.train()
        _wait(settings["device"])
        seconds = time.perf_counter() - started
    return {"seconds": seconds, **_computed(shapes)}


def _computed(shapes: list[tuple[int, int]]) -> dict[str, float]:
    """Return how many tokens are computed, padding included, and the sum of the squares that attention looks at."""
    return {
        "tokens": float(sum(rows * length for rows, length in shapes)),
        "squares": float(sum(rows * length * length for rows, length in shapes)),
    }


def _wait(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def _memory(device: str) -> float:
    import torch

    return float(torch.cuda.max_memory_allocated()) if device == "cuda" else 0.0


if __name__ == "__main__":
    main()
