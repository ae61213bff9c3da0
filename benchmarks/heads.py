"""Heads on frozen features: ours, many cells in one program, and a plain loop of torch.nn, one seed after another.

Features are drawn, as wide as those of the small encoder. First both train the same weights in the same order without
dropout, and must predict the same. All is measured on one thread, in CPU time; on a GPU in wall clock, both in float32.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from _common import machine, spread, table
from _device import seconds_of
from _drawn import CLASSES, drawn
from _icl import peak

DEFAULTS = {"cpu": (24, 4, 5), "cuda": (512, 2, 2)}
"""Device -> our cells and those of the loop in a round, and rounds."""


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu", choices=tuple(DEFAULTS))
    parser.add_argument("--cells", type=int, help="our cells in a round; 24, on a GPU 512")
    parser.add_argument("--plain-cells", type=int, help="4, on a GPU 2")
    parser.add_argument("--rounds", type=int, help="5, on a GPU 2")
    parser.add_argument("--inputs", type=int, default=384)
    parser.add_argument("--hyperparameters", nargs="*", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    usual = zip((options.cells, options.plain_cells, options.rounds), DEFAULTS[options.device], strict=True)
    ours_cells, plain_cells, rounds = (default if value is None else value for value, default in usual)
    import torch

    torch.set_num_threads(1)
    device, what = options.device, "CPU" if options.device == "cpu" else torch.cuda.get_device_name()
    print(f"# Heads: cells in one program, and one after another, on {what}\n\n{machine()}\n", flush=True)
    given = dict(each.split("=") for each in options.hyperparameters)
    task, features = drawn(options.inputs)
    exact = _recipe({**given, "dropout": "0"})
    few = min(4, 2 * plain_cells)
    same = np.mean(
        [
            np.mean(ours == plain)
            for ours, plain in zip(
                *(side(task, features, exact, _cells(few), device) for side in (_ours, _plain)), strict=True
            )
        ]
    )
    print(f"Predictions that are the same without dropout: {same:.2%} of {few} cells.\n", flush=True)
    recipe = _recipe(given)
    operations = _operations(task, recipe, options.inputs)
    sides = {
        "ours": (lambda: _ours(task, features, recipe, _cells(ours_cells), device), ours_cells),
        "torch.nn": (lambda: _plain(task, features, recipe, _cells(plain_cells), device), plain_cells),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    shares: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):  # in turn, so that others who use the machine disturb both
        for name, (work, cells) in sides.items():
            own = seconds_of(work, device) / cells
            seconds[name].append(own)
            shares[name].append(100 * operations / own / peak(device, torch.float32))
    ratios = [plain / ours for ours, plain in zip(seconds["ours"], seconds["torch.nn"], strict=True)]
    clock = "CPU ms a cell" if device == "cpu" else "ms a cell"
    rows = [
        [name, spread([1000 * each for each in own]), spread([1 / each for each in own]), spread(shares[name])]
        for name, own in seconds.items()
    ]
    print(table(["side", clock, "cells a second", "% of the peak of a matrix product"], rows))
    print(f"\nOurs is {spread(ratios)} times as fast; the goal is 20 % of the peak.")


def _recipe(given: dict[str, str]) -> Any:
    """Return the complete hyperparameters; training never stops early, so that both sides do the same work."""
    from mlflow_l3d import registry
    from mlflow_l3d.approaches.base import resolve_hyperparameters
    from mlflow_l3d.approaches.finetuning.recipe import Recipe

    approach = registry.load("approach", "finetuning")()
    given = {"trainable": "head", "early_stopping_patience": "0", **given}
    return Recipe(**approach.complete(resolve_hyperparameters(approach, given)))


def _cells(count: int) -> list[Any]:
    from mlflow_l3d.cells.cell import Cell
    from mlflow_l3d.cells.factors import TASK_FACTORS

    factors = (*TASK_FACTORS, "data_order", "model_initialisation", "model_randomness")
    return [
        Cell("golden", None, None, None, seed, *[dict.fromkeys(factors, seed)] * 2, str(seed)) for seed in range(count)
    ]


def _ours(task: Any, features: Any, recipe: Any, cells: Sequence[Any], device: str) -> list[Any]:
    from mlflow_l3d.approaches.finetuning.head import HeadSession
    from mlflow_l3d.approaches.numerics import reproducible

    with reproducible(device):
        outcomes = {each.key: each for each in HeadSession(task, features, recipe, device).run(cells)}
    return [outcomes[cell.key].predictions for cell in cells]


def _plain(task: Any, features: Any, recipe: Any, cells: Sequence[Any], device: str) -> list[Any]:
    """Train as a script would: one model a seed, torch's AdamW (fused on a GPU), the best epoch kept."""
    import torch

    from mlflow_l3d.approaches.finetuning.training import Progress, batch_order, learning_rates, validate
    from mlflow_l3d.approaches.stack import initial_head

    rows, labels, found = torch.from_numpy(features).to(device), torch.from_numpy(task.labels).to(device), []
    for cell in cells:
        split = task.split(cell.seeds)
        first, second = initial_head(cell.seeds["model_initialisation"], rows.shape[1], recipe.hidden_units, CLASSES)
        torch.manual_seed(cell.seeds["model_randomness"])
        model = torch.nn.Sequential(
            torch.nn.Linear(rows.shape[1], recipe.hidden_units),
            torch.nn.ReLU(),
            torch.nn.Dropout(recipe.dropout),
            torch.nn.Linear(recipe.hidden_units, CLASSES),
        )
        with torch.no_grad():
            for layer, weights in ((model[0], first), (model[3], second)):
                layer.weight.copy_(torch.from_numpy(weights[:-1].T))
                layer.bias.copy_(torch.from_numpy(weights[-1]))
        model.to(device)
        settings = {"lr": recipe.learning_rate, "weight_decay": recipe.weight_decay}
        optimizer = torch.optim.AdamW(model.parameters(), **settings, fused=device == "cuda")
        batches = -(-len(split.train) // recipe.batch_size)
        rates = iter(learning_rates(recipe, recipe.epochs * batches))
        progress, best = Progress(recipe), {}
        for epoch in range(recipe.epochs):
            model.train()
            order = split.train[batch_order(cell.seeds["data_order"], epoch, len(split.train))]
            order = torch.from_numpy(order).to(device)
            losses = []
            for part in order.split(recipe.batch_size):
                loss = torch.nn.functional.cross_entropy(model(rows[part]), labels[part])
                optimizer.param_groups[0]["lr"] = next(rates)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())  # read at the end of the epoch: a GPU need not wait for the host
            model.eval()
            with torch.inference_mode():
                validation = validate(model(rows[split.validation]), task.labels[split.validation])
            if progress.add(*validation, float(torch.stack(losses).mean())):
                best = {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(best)
        with torch.inference_mode():
            found.append(model(rows[split.test]).argmax(1).cpu().numpy())
    return found


def _operations(task: Any, recipe: Any, inputs: int) -> float:
    """Return the operations of a cell that are products of matrices: two a weight and row forwards, and as many back.

    No gradient is wanted of the features.
    """
    split = task.first_split
    outer, inner = (inputs + 1) * recipe.hidden_units, (recipe.hidden_units + 1) * CLASSES
    trained, read = recipe.epochs * len(split.train), recipe.epochs * len(split.validation) + len(split.test)
    return 2.0 * (trained * (2 * outer + 3 * inner) + read * (outer + inner))


if __name__ == "__main__":
    main()
