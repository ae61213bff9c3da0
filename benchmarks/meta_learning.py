"""Meta-learning: our stacked cells beside one cell at a time in plain autograd, with and without the encoder.

Ours are the cells of an investigation through the executor with worker processes, their start included. The baselines
train the same tasks with the loops of the authors' code (`torch.nn`, task by task, `create_graph=True` for MAML), with
all cores; a few meta-steps are measured and the rest of a cell extrapolated. With `--tasks 1` all step after every
task. With `--device cuda` features are drawn, and both sides are on the GPU in float32, ours in one process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _common import ENVIRONMENT, machine, table
from _device import synchronise
from _drawn import drawn

FACTORS = ("label_selection", "data_split", "data_order", "sample_choice", "model_initialisation", "model_randomness")
LEARNERS = ("maml", "fomaml", "protonet", "reptile")


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--learners", nargs="+", default=["maml", "protonet"], choices=LEARNERS)
    parser.add_argument("--task", default="rotten_tomatoes")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--drawn", action="store_true", help="draw the features on the CPU, too")
    parser.add_argument("--cells", type=int, help="our cells; 100, on a GPU 128, of drawn features on the CPU 8")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--plain-steps", type=int, default=20, help="measured meta-steps of the plain baseline")
    parser.add_argument("--epochs", type=int, default=0, help="epochs of a cell, 0 for the learner's own")
    parser.add_argument(
        "--tasks", type=int, default=0, help="tasks a meta-step, as many in all; 0 for the learner's own"
    )
    options = parser.parse_args()
    options.drawn |= options.device != "cpu"
    if options.cells is None:
        options.cells = 128 if options.device == "cuda" else 8 if options.drawn else 100
    if min(options.cells, options.workers, options.plain_steps) < 1:
        parser.error("--cells, --workers and --plain-steps must be positive")
    os.environ.update(ENVIRONMENT)
    print("# Meta-learning\n")
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="l3d-benchmark-") as cache:
        for learner in options.learners:
            if options.drawn:
                _compare_drawn(learner, options)
            else:
                _compare(learner, Path(cache), options)


def _settings(learner: str, options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Return the approach, and its complete hyperparameters."""
    from mlflow_l3d.approaches.base import resolve_hyperparameters
    from mlflow_l3d.approaches.meta_learning import MetaLearning

    approach = MetaLearning()
    given = {"learner": learner} | ({"epochs": options.epochs} if options.epochs else {})
    settings = approach.complete(resolve_hyperparameters(approach, given))
    if options.tasks:
        steps = int(settings["steps"]) * int(settings["tasks"]) // options.tasks
        settings |= {"tasks": options.tasks, "steps": steps}
    return approach, settings


def _compare_drawn(learner: str, options: argparse.Namespace) -> None:
    """Compare both on drawn features, on one device and in this process; the first training of ours is not timed."""
    import torch

    from mlflow_l3d.approaches.meta_learning.recipe import Recipe
    from mlflow_l3d.approaches.meta_learning.session import MetaSession
    from mlflow_l3d.approaches.numerics import reproducible
    from mlflow_l3d.testing import one_cell

    device, (_, settings), (task, features) = options.device, _settings(learner, options), drawn(384)
    cells = [one_cell(FACTORS, number) for number in range(options.cells)]
    with reproducible(device):
        session = MetaSession(task, features, Recipe.of(settings), device)
        short = MetaSession(task, features, Recipe.of({**settings, "epochs": 1}), device)
        list(short.run(cells))
        wall, outcomes = _timed(lambda: list(session.run(cells)), device)
    failed = [outcome.error for outcome in outcomes if outcome.error]
    if failed:
        raise SystemExit(failed[0])
    ours, steps = wall / len(cells), int(settings["epochs"]) * int(settings["steps"])
    plain = _plain(session, cells[0], options.plain_steps) * steps
    what = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"\n## {learner} on {what}: {steps} meta-steps of {settings['tasks']} tasks, features drawn\n")
    rows = [
        [f"ours, {len(cells)} cells, {session.cells_at_once} fit", f"{ours:.3f}", f"{1 / ours:.1f}", "1.0"],
        ["plain autograd, cached features", f"{plain:.2f}", f"{1 / plain:.2f}", f"{plain / ours:.0f}"],
    ]
    print(table(["way", "seconds a cell", "cells a second", "times ours"], rows))
    right = statistics.fmean(float(np.mean(outcome.predictions == outcome.labels)) for outcome in outcomes)
    print(f"\nAccuracy of ours {100 * right:.1f} %.", flush=True)


def _compare(learner: str, cache: Path, options: argparse.Namespace) -> None:
    import torch

    from mlflow_l3d.execution.base import Job
    from mlflow_l3d.execution.processes import ProcessExecutor
    from mlflow_l3d.tasks.resolve import load_task
    from mlflow_l3d.tasks.settings import SplitSettings
    from mlflow_l3d.testing import one_cell

    (approach, settings), task = _settings(learner, options), load_task(options.task, settings=SplitSettings())
    model = approach.default_model
    seconds, session = _timed(lambda: approach.prepare(task, settings, model=model, device="cpu", cache=cache))
    cells = [one_cell(FACTORS, number) for number in range(options.cells)]
    executor = ProcessExecutor(job=Job(approach, task, settings, model, "cpu", cache), workers=options.workers)
    wall, outcomes = _timed(lambda: list(executor.run(cells)))
    failed = [outcome.error for outcome in outcomes if outcome.error]
    if failed:
        raise SystemExit(failed[0])
    ours = wall / len(cells)
    training = statistics.fmean(outcome.duration_seconds for outcome in outcomes) / options.workers
    steps = int(settings["epochs"]) * int(settings["steps"])
    plain = _plain(session, cells[0], options.plain_steps) * steps
    encode, step_encode = _encoding(session, cells[0], model)
    print(f"\n## {learner}: {settings['epochs']} epochs of {settings['steps']} steps of {settings['tasks']} tasks\n")
    rows = [
        ["ours, start of the workers included", f"{ours:.3f}", "1.0", ""],
        ["of which training", f"{training:.3f}", f"{training / ours:.2f}", ""],
        ["plain autograd, cached features", f"{plain:.2f}", f"{plain / ours:.0f}", "15 (maml)"],
        ["the same, texts encoded once a cell", f"{plain + encode:.2f}", f"{(plain + encode) / ours:.0f}", "50"],
        [
            "the same, encoder in every meta-step",
            f"{plain + step_encode * steps:.0f}",
            f"{(plain + step_encode * steps) / ours:.0f}",
            "",
        ],
    ]
    print(table(["way", "seconds a cell", "times ours", "goal"], rows))
    print(
        f"\n{len(cells)} cells, {options.workers} workers, {session.cells_at_once} cells a chunk, baselines with "
        f"{torch.get_num_threads()} threads. Features of all texts, once for all cells: {seconds:.0f} s. F1 macro "
        f"{100 * statistics.fmean(outcome.metrics['f1_macro'] for outcome in outcomes):.1f}.",
        flush=True,
    )


def _plain(session: Any, cell: Any, count: int) -> float:
    """Return the seconds of a meta-step of one cell, task by task, on features in memory."""
    import torch

    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "approaches"))
    import meta_learning_published as published

    device = session.device
    recipe, classes = session.recipe, torch.arange(len(session.classes), device=device)
    features = torch.from_numpy(np.array(session.features)).to(device)
    draws = session.draw(cell)
    network = published.Network(*draws.weights).to(device)
    counts = recipe.shots, recipe.queries
    labels = [classes.repeat_interleave(number) for number in counts]
    sizes = [len(part) for part in labels]

    def batches(steps: int) -> Iterator[list[published.TrainingTask]]:
        for _ in range(steps):
            sets = [
                features[own].split(sizes) for own in torch.from_numpy(draws.episodes.draw(recipe.tasks)).to(device)
            ]
            yield [tuple(zip(parts, labels, strict=True)) for parts in sets]

    inner = recipe.inner_optimizer, recipe.inner_learning_rate, recipe.inner_steps
    ways = {"after": "batch", "meta": (recipe.meta_optimizer, recipe.meta_learning_rate), "base": inner}
    published.train(recipe.learner, network, batches(1), **ways)
    seconds, _ = _timed(lambda: published.train(recipe.learner, network, batches(count), **ways), device)
    return seconds / count


def _encoding(session: Any, cell: Any, model: str) -> tuple[float, float]:
    """Return the seconds to encode the labelled and the test texts of a cell, and those of one meta-step."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from mlflow_l3d.approaches.models import resolve

    folder, split, recipe = resolve(model).path_or_id, session.task.split(cell.seeds), session.recipe
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoder = AutoModel.from_pretrained(folder, use_safetensors=True).eval()

    def encode(positions: Sequence[int]) -> None:
        for start in range(0, len(positions), 32):
            texts = [session.task.texts[0][place] for place in positions[start : start + 32]]
            batch = tokenizer(texts, padding=True, truncation=True, max_length=recipe.max_length, return_tensors="pt")
            with torch.inference_mode():
                encoder(**batch)

    used = [*split.train.tolist(), *split.validation.tolist(), *split.test.tolist()]
    encode(used[:32])
    whole, _ = _timed(lambda: encode(used[:512]))
    each = recipe.tasks * len(session.classes) * (recipe.shots + recipe.queries)
    return whole / min(512, len(used)) * len(used), whole / min(512, len(used)) * each


def _timed(work: Callable[[], Any], device: str = "cpu") -> tuple[float, Any]:
    synchronise(device)
    start = time.perf_counter()
    result = work()
    synchronise(device)
    return time.perf_counter() - start, result


if __name__ == "__main__":
    sys.exit(main())
