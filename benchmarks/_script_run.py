"""What people do today: a script that loads, encodes, trains and logs, in plain torch and MLflow's fluent calls.

The model, the data, the split and the recipe are those of the default job, so that only the way of working differs.
Started by default_job.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from _common import answer, settings_of_child

HIDDEN, RATE, DECAY, DROPOUT, EPOCHS, BATCH, PATIENCE, WARMUP = 128, 3e-4, 0.01, 0.1, 10, 8, 3, 0.1


def main() -> None:
    """Carry out so many runs, one after the other."""
    settings = settings_of_child()
    began = time.perf_counter()
    import mlflow
    import numpy as np
    import torch
    from transformers import AutoModel, AutoTokenizer

    imported = time.perf_counter()
    folder, cells, task = _cells(settings["runs"])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoder = AutoModel.from_pretrained(folder, use_safetensors=True).eval()
    loaded = time.perf_counter()
    mlflow.set_experiment(settings["experiment"])
    opened = time.perf_counter()
    spent = dict.fromkeys(("encode", "train", "log"), 0.0)
    scores = []
    for cell in cells:
        split = task.split(cell.seeds)
        parts = (split.train, split.validation, split.test)
        start = time.perf_counter()
        features = [_encode([task.texts[0][i] for i in part], tokenizer, encoder) for part in parts]
        encoded = time.perf_counter()
        labels = [torch.from_numpy(task.labels[part]) for part in parts]
        predictions = _train(features, labels, cell.seeds["model_initialisation"] % 2**31)
        truth = task.labels[split.test]
        trained = time.perf_counter()
        scores.append(_f1(truth, predictions))
        with mlflow.start_run(run_name=cell.name):
            mlflow.log_params({f"seed.{name}": seed for name, seed in cell.seeds.items()})
            mlflow.log_metrics({"f1_macro": scores[-1], "accuracy": float(np.mean(truth == predictions))})
            columns = {"example_id": task.example_ids[split.test], "label": truth, "prediction": predictions}
            mlflow.log_table(columns, "predictions.json")
        end = time.perf_counter()
        for name, seconds in zip(spent, (encoded - start, trained - encoded, end - trained), strict=True):
            spent[name] += seconds / len(cells)
    answer(
        settings,
        {
            "wall": time.perf_counter() - settings["spawned"],
            "imports": imported - settings["spawned"],
            "interpreter": began - settings["spawned"],
            "load": loaded - imported,
            "experiment": opened - loaded,
            **spent,
            "f1_macro": float(np.mean(scores)),
        },
    )


def _cells(count: int) -> tuple[str, Sequence[Any], Any]:
    """Return the folder of the model, the first cells of the default job, and its task."""
    from itertools import islice

    from mlflow_l3d.approaches.models import resolve
    from mlflow_l3d.studies.investigation.request import specify

    request = specify({})
    cells = list(islice(request.design().cells(), count))
    return resolve(request.setup.model_reference).path_or_id, cells, request.setup.task


def _encode(texts: list[str], tokenizer: Any, encoder: Any) -> Any:
    """Return the mean over the tokens of each text, shape (n, D)."""
    import torch

    rows = []
    with torch.inference_mode():
        for start in range(0, len(texts), 32):
            batch = tokenizer(
                texts[start : start + 32], padding=True, truncation=True, max_length=128, return_tensors="pt"
            )
            weights = batch["attention_mask"].unsqueeze(2).float()
            rows.append((encoder(**batch).last_hidden_state * weights).sum(1) / weights.sum(1))
    return torch.cat(rows).clone()


def _train(features: Sequence[Any], labels: Sequence[Any], seed: int) -> Any:
    """Train a dense head and return the predictions for the test part, shape (n,)."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    (train, validation, test), (targets, wanted, _) = features, labels
    head = nn.Sequential(nn.Linear(train.shape[1], HIDDEN), nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(HIDDEN, 2))
    optimizer = torch.optim.AdamW(head.parameters(), lr=RATE, weight_decay=DECAY)
    steps = EPOCHS * -(-len(train) // BATCH)
    warmup = round(WARMUP * steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: step / warmup if step < warmup else (steps - step) / (steps - warmup)
    )
    best, since, weights = -1.0, 0, head.state_dict()
    for _ in range(EPOCHS):
        head.train()
        for rows in torch.randperm(len(train)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(head(train[rows]), targets[rows]).backward()
            optimizer.step()
            schedule.step()
        head.eval()
        with torch.no_grad():
            score = _f1(wanted.numpy(), head(validation).argmax(1).numpy())
        if score > best:
            best, since, weights = score, 0, {name: value.clone() for name, value in head.state_dict().items()}
        else:
            since += 1
        if since >= PATIENCE:
            break
    head.load_state_dict(weights)
    with torch.no_grad():
        return head(test).argmax(1).numpy()


def _f1(labels: Any, predictions: Any) -> float:
    from mlflow_l3d.metrics.known import scores_of

    return float(scores_of(labels, predictions)["f1_macro"])


if __name__ == "__main__":
    main()
