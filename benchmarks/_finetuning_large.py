"""One process of the benchmark of fine-tuning on a GPU: our executor, or a Trainer that trains several times."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from _common import FOLDER, answer, settings_of_child
from _device import synchronise
from _finetuning_cases import cell, load, recipe
from _turns import wait_for_turn

LORA = {"r": 8, "lora_alpha": 16.0, "lora_dropout": 0.1, "target_modules": ["query", "value"]}


def main() -> None:
    """Run a side, and tell when what was trained."""
    settings = settings_of_child()
    sides = {"ours": _ours, "Trainer": _trainer, "profile": _profile}
    found = sides[settings["side"]](settings)
    answer(settings, {**found, "spawned": settings["spawned"]})


def _hyperparameters(settings: Mapping[str, Any], **more: Any) -> Any:
    from mlflow_l3d.approaches.base import resolve_hyperparameters
    from mlflow_l3d.approaches.finetuning import Finetuning

    approach = Finetuning()
    wanted = {**recipe(settings), "batch_size": settings["batch"], "trainable": settings["trainable"]}
    if settings["trainable"] == "lora":
        wanted |= {"lora_cells": settings.get("cells", 1)}
        wanted |= {"lora_r": LORA["r"], "lora_alpha": LORA["lora_alpha"], "lora_dropout": LORA["lora_dropout"]}
    return approach.complete(resolve_hyperparameters(approach, {**wanted, **more}))


def _approach(settings: Mapping[str, Any]) -> Any:
    """Return the approach, whose workers wait for their turn, and note how many steps a second each training makes."""
    from mlflow_l3d.approaches.finetuning import Finetuning

    class Waiting(Finetuning):
        def prepare(self, *given: Any, **named: Any) -> Any:
            import sys

            sys.path.insert(0, settings["benchmarks"])
            from _turns import note_rates, wait_for_turn

            wait_for_turn(settings)
            note_rates(settings)
            return super().prepare(*given, **named)

    return Waiting()


def _profile(settings: Mapping[str, Any]) -> dict[str, Any]:
    from _finetuning_profile import compare

    wait_for_turn(settings)
    compare(settings, _hyperparameters(settings))
    return {}


def _ours(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Train a cell a seed through the executor, and tell when each had its outcome."""
    settings = {**settings, "benchmarks": str(FOLDER)}
    from mlflow_l3d.execution.base import CountedCells, Job
    from mlflow_l3d.execution.processes import ProcessExecutor

    # With a number this process need not ask torch for the GPUs.
    device = "cuda:0" if settings["device"] == "cuda" else "cpu"
    approach = _approach(settings)

    shared = approach, load(settings), _hyperparameters(settings), settings["model"], device
    job = Job(*shared, Path("cache"), deterministic=settings["deterministic"])
    cells = iter([cell(seed) for seed in settings["seeds"]])
    times = []
    executor = ProcessExecutor(job=job, workers=settings["workers"])
    for outcome in executor.run(CountedCells(cells, cells.__length_hint__)):
        if outcome.error is not None:
            raise SystemExit(outcome.traceback or outcome.error)
        times.append(time.perf_counter())
    rates = [[float(rate) for rate in path.read_text().split()] for path in Path(settings["turn"]).glob("rates *")]
    return {"times": times, "rates": rates}


def _trainer(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Train a new model in each phase; all processes begin together, but in the first, as scripts would."""
    wait_for_turn(settings)
    rank, found = settings.get("rank", 0), []
    for number, phase in enumerate(settings["phases"]):
        # Who has no part in a phase must not prepare the next one meanwhile.
        _meet(settings, f"{number} before")
        run = _Run(settings, phase) if rank < phase["count"] else None
        _meet(settings, f"{number} ready")
        found.append(run.timed() if run else {})
        run = None
        _free(settings["device"])
    checks = _checks(settings) if settings.get("check") else []
    return {"phases": found, "checks": checks}


def _meet(settings: Mapping[str, Any], where: str) -> None:
    """Wait until all processes have come to a place in a phase, if there are others and it is not the first phase."""
    if "meeting" not in settings or where.startswith("0 "):
        return
    folder = Path(settings["meeting"])
    (folder / f"{where} {settings['rank']}").touch()
    end = time.perf_counter() + 120
    while not all((folder / f"{where} {other}").exists() for other in range(settings["processes"])):
        if time.perf_counter() > end:
            msg = "the other processes do not come"
            raise SystemExit(msg)
        time.sleep(0.002)


def _clock(times: list[float]) -> Any:
    """Return a callback that notes when each step ended."""
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        def on_step_end(self, *_args: Any, **_more: Any) -> None:
            times.append(time.perf_counter())

    return Clock()


class _Run:
    """A model and its Trainer, ready to train."""

    def __init__(self, settings: Mapping[str, Any], phase: Mapping[str, Any]) -> None:
        from transformers import AutoTokenizer

        self.settings, task = settings, load(settings)
        tokenizer = AutoTokenizer.from_pretrained(settings["model"])
        self.shapes: list[tuple[int, int]] = []
        model = _model(settings, settings["dropout"], LORA["lora_dropout"])
        train, test = (_encoded(settings, task, tokenizer, part, phase["padding"]) for part in (0, 1))
        self.trainer = _make(settings, phase["dtype"], model, tokenizer, train, self.shapes)
        self.test, self.times = test, []
        self.trainer.add_callback(_clock(self.times))

    def timed(self) -> dict[str, Any]:
        """Train and predict; return when, also the steps, and how many tokens were trained, padding included."""
        synchronise(self.settings["device"])
        start = time.perf_counter()
        self.trainer.train()
        shapes = list(self.shapes)
        self.trainer.predict(self.test)
        synchronise(self.settings["device"])
        end = time.perf_counter()
        return {
            "start": start,
            "end": end,
            "seconds": end - start,
            "first_step": self.times[0],
            "last_step": self.times[-1],
            "tokens": float(sum(rows * length for rows, length in shapes)),
            "squares": float(sum(rows * length * length for rows, length in shapes)),
        }


def _model(settings: Mapping[str, Any], dropout: float, lora_dropout: float) -> Any:
    """Return a model with a new head, and with adapters of PEFT if they are trained."""
    from transformers import AutoModelForSequenceClassification

    drop = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), dropout)
    model = AutoModelForSequenceClassification.from_pretrained(settings["model"], num_labels=2, **drop)
    if settings["trainable"] == "full":
        return model
    from peft import LoraConfig, TaskType, get_peft_model

    return get_peft_model(model, LoraConfig(**{**LORA, "lora_dropout": lora_dropout}, task_type=TaskType.SEQ_CLS))


def _encoded(settings: Mapping[str, Any], task: Any, tokenizer: Any, part: int, padding: str, rows: Any = None) -> Any:
    from datasets import Dataset

    rows = np.flatnonzero(task.parts == part) if rows is None else rows
    texts = [[column[row] for row in rows] for column in task.texts]
    whole = "max_length" if padding == "max_length" else False
    encoded = tokenizer(*texts, truncation=True, max_length=settings["max_length"], padding=whole)
    return Dataset.from_dict({**encoded, "label": task.labels[rows].tolist()})


def _make(
    settings: Mapping[str, Any],
    dtype: str,
    model: Any,
    tokenizer: Any,
    train: Any,
    shapes: list[tuple[int, int]],
    *,
    in_order: bool = False,
) -> Any:
    """Return a Trainer with its defaults, but that it logs and saves nothing."""
    from torch.utils.data import SequentialSampler
    from transformers import DataCollatorWithPadding, PrinterCallback, Trainer, TrainingArguments

    cuda = settings["device"] == "cuda"
    arguments = TrainingArguments(
        output_dir="trainer",
        per_device_train_batch_size=settings["batch"],
        per_device_eval_batch_size=64,
        num_train_epochs=1,
        learning_rate=settings["learning_rate"],
        seed=42 + settings.get("rank", 0),
        bf16=dtype == "bfloat16",
        use_cpu=not cuda,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=cuda,
    )
    collator = DataCollatorWithPadding(tokenizer)

    def collate(features: list[dict[str, Any]]) -> Any:
        batch = collator(features)
        shapes.append(tuple(batch["input_ids"].shape))
        return batch

    class Ordered(Trainer):
        def _get_train_sampler(self, *_args: Any, **_more: Any) -> Any:
            return SequentialSampler(self.train_dataset)

    kind = Ordered if in_order else Trainer
    trainer = kind(model=model, args=arguments, train_dataset=train, data_collator=collate)
    trainer.remove_callback(PrinterCallback)
    return trainer


def _checks(settings: Mapping[str, Any]) -> list[str]:
    """Train a few steps on both sides from the same weights in the same order, nothing dropped; compare the logits."""
    dtypes = dict.fromkeys(["float32", *([settings["dtype"]] if settings["trainable"] == "full" else [])])
    lines = []
    for dtype in dtypes:
        try:
            ours, theirs = _both(
                {**settings, "train": 4 * settings["batch"], "dropout": 0.0, "learning_rate": 1e-4}, dtype
            )
            furthest, size = float(np.abs(ours - theirs).max()), float(np.abs(theirs).max())
            equal = int((ours.argmax(1) == theirs.argmax(1)).sum())
            verdict = "" if dtype != "float32" or furthest < 1e-3 * max(1.0, size) else " THE SIDES DIFFER."
            lines.append(
                f"Check in {dtype}, same weights and order, 4 steps: logits differ by {furthest:.1e} at most (of "
                f"{size:.2f}), {equal} of {len(ours)} predictions equal.{verdict}"
            )
        except Exception as error:  # noqa: BLE001 - the timings stand without it
            lines.append(f"Check in {dtype} failed: {type(error).__name__}: {str(error).splitlines()[0]}")
    return lines


def _both(settings: Mapping[str, Any], dtype: str) -> tuple[Any, Any]:
    """Return the logits of the test examples, ours and the Trainer's; ours of the first of several cells."""
    from transformers import AutoTokenizer

    from mlflow_l3d.approaches.finetuning import Finetuning
    from mlflow_l3d.approaches.finetuning.training import batch_order
    from mlflow_l3d.approaches.numerics import one_thread, reproducible

    task, device, lora = load(settings), settings["device"], settings["trainable"] == "lora"
    own = _hyperparameters({**settings, "cells": 2}, dtype=dtype, **({"lora_dropout": 0.0} if lora else {}))
    cells = [cell(42 + number) for number in range(2 if lora else 1)]
    with reproducible(device, deterministic=settings["deterministic"]), one_thread():
        session: Any = Finetuning().prepare(task, own, model=settings["model"], device=device, cache=Path("cache"))
        session._start(cells[0].seeds["model_initialisation"])
        state = {name: tensor.detach().cpu().clone() for name, tensor in session.model.state_dict().items()}
        ours = session.train([session.draw(each) for each in cells])[0].numpy()
    train = task.split(cells[0].seeds).train
    rows = train[batch_order(cells[0].seeds["data_order"], 0, len(train))]
    tokenizer, model = AutoTokenizer.from_pretrained(settings["model"]), _model(settings, 0.0, 0.0)
    unlike = ("base_model.model.", ".modules_to_save.default", ".original_module")
    weights = {}
    for name in model.state_dict():
        plain = name
        for part in unlike:
            plain = plain.replace(part, "")
        weights[name] = state[plain if plain in state else plain.replace(".base_layer", "")]
    model.load_state_dict(weights)
    data = [_encoded(settings, task, tokenizer, part, "longest", chosen) for part, chosen in ((0, rows), (1, None))]
    trainer = _make(settings, dtype, model, tokenizer, data[0], [], in_order=True)
    trainer.train()
    return ours, np.asarray(trainer.predict(data[1]).predictions, dtype=np.float64)


def _free(device: str) -> None:
    """Give back the memory of what is no longer there."""
    import gc

    import torch

    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
