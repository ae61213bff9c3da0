"""Fine-tuning a small encoder with several seeds: cells an hour, ours and Hugging Face's Trainer once per seed.

First both train the same weights in the same order without dropout, and must predict the same. `L3D_DATA` names the
folder with the data sets.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Mapping
from typing import Any

from _common import Child, Workplace, machine, spread, table, workplace

FIRST_SEED, STEP = 42, 10


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="mrpc", choices=("mrpc", "rte", "qnli"))
    parser.add_argument("--train", type=int, default=0, help="training examples; 0 is all (mrpc: 3,668)")
    parser.add_argument("--test", type=int, default=0, help="examples that are evaluated; 0 is all (mrpc: 408)")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=4, help="of ours; a multiple of the workers")
    parser.add_argument("--trainer-seeds", type=int, default=1, help="of the Trainer, one process each")
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--padding", nargs="*", default=["longest", "max_length"], help="of the Trainer's batches")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"), help="of both sides")
    parser.add_argument("--trainer-dtype", choices=("float32", "bfloat16"), help="of the Trainer, where it has another")
    parser.add_argument("--side-by-side", action="store_true", help="also one Trainer a core, with one thread each")
    options = parser.parse_args()
    if "L3D_DATA" not in os.environ:
        parser.error("L3D_DATA must name the folder with the data sets")
    settings = {
        "data": options.data,
        "train": options.train,
        "test": options.test,
        "epochs": options.epochs,
        "max_length": options.max_length,
        "learning_rate": 2e-5,
        "dropout": 0.1,
        "dtype": options.dtype,
    }
    theirs = {**settings, "dtype": options.trainer_dtype or options.dtype}
    what = f"{options.data}, ours in {settings['dtype']}, the Trainer in {theirs['dtype']}"
    print(f"# Fine-tuning against the Trainer: {what}\n\n{machine()}\n", flush=True)
    with workplace() as place:
        _check(place, settings)
        seeds = [FIRST_SEED + STEP * number for number in range(max(options.seeds, options.trainer_seeds))]
        ours = _run(
            place, "ours", "_finetuning_ours.py", settings, seeds=seeds[: options.seeds], workers=options.workers
        )
        baselines = {
            f"padded to {padding}, one after the other": [
                _run(place, f"{padding}-{seed}", "_finetuning_trainer.py", theirs, seed=seed, padding=padding)
                for seed in seeds[: options.trainer_seeds]
            ]
            for padding in options.padding
        }
        if options.side_by_side:
            padding = options.padding[0]
            children = [
                _start(place, f"beside-{seed}", "_finetuning_trainer.py", theirs, 1, seed=seed, padding=padding)
                for seed in seeds[: options.workers]
            ]
            found = [child.wait() for child in children]
            # Two at once: each takes its wall clock, and a seed half of it.
            shared = [{**run, "wall": run["wall"] / len(found)} for run in found]
            baselines[f"padded to {padding}, {len(found)} side by side"] = shared
    _print(ours, baselines, options.workers)


def _start(
    place: Workplace, name: str, script: str, settings: Mapping[str, Any], threads: int = 0, /, **more: Any
) -> Child:
    environment = {
        "L3D_DATA": os.environ["L3D_DATA"],
        "TRANSFORMERS_VERBOSITY": "error",
        **({"OMP_NUM_THREADS": str(threads)} if threads else {}),
    }
    return place.start(script, {**settings, **more}, place.new_folder(name), **environment)


def _run(place: Workplace, name: str, script: str, settings: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return _start(place, name, script, settings, **more).wait()


def _check(place: Workplace, settings: Mapping[str, Any]) -> None:
    """Train once on both sides with nothing random, and compare the logits."""
    same = {**settings, "train": 64, "test": 64, "epochs": 2, "dropout": 0.0, "learning_rate": 1e-4, "dtype": "float32"}
    weights = str(place.folder / "weights")
    ours = _run(place, "check-ours", "_finetuning_ours.py", same, seeds=[FIRST_SEED], save=weights)
    theirs = _run(
        place,
        "check-theirs",
        "_finetuning_trainer.py",
        same,
        seed=FIRST_SEED,
        padding="longest",
        start=weights,
        orders=ours["orders"],
    )
    pairs = list(zip(ours["logits"], theirs["logits"], strict=True))
    furthest = max(abs(a - b) for left, right in pairs for a, b in zip(left, right, strict=True))
    equal = sum((left[1] > left[0]) == (right[1] > right[0]) for left, right in pairs)
    print("Same weights, order and steps, no dropout: ", end="")
    print(f"{equal} of {len(pairs)} predictions equal, logits differ by {furthest:.1e} at most.\n", flush=True)
    if equal != len(pairs):
        raise SystemExit("the two sides do not train the same")


def _print(ours: Mapping[str, Any], baselines: Mapping[str, list[dict[str, Any]]], workers: int) -> None:
    cells = len(ours["cells"])
    steady = statistics.mean(ours["cells"].values()) / workers
    headers = ["side", "seconds a seed", "seeds an hour", "CPU s a seed", "start and data", "training", "evaluation"]
    whole, cpu = ours["wall"] / cells, ours["cpu"] / cells
    start = (ours["wall"] - sum(ours["cells"].values()) / workers) / cells
    rows: list[list[object]] = [
        [f"ours, {workers} workers, {cells} seeds", whole, 3600 / whole, cpu, start, f"{steady:.1f} (both)", ""]
    ]
    for name, runs in baselines.items():
        marks = [run["marks"] for run in runs]
        parts = [
            [mark["prepared"] - run["spawned"] for run, mark in zip(runs, marks, strict=True)],
            [mark["trained"] - mark["prepared"] for mark in marks],
            [mark["evaluated"] - mark["trained"] for mark in marks],
        ]
        middle = statistics.median(run["wall"] for run in runs)
        spent = statistics.median(run["cpu"] for run in runs)
        side = f"Trainer, {name}, {runs[0]['threads']} threads"
        rows.append([side, middle, 3600 / middle, spent, *(spread(part) for part in parts)])
        rows.append(["**ours against it**", f"**{middle / whole:.2f}x**", "", f"{spent / cpu:.2f}x", "", "", ""])
    print(table(headers, rows), end="\n\n")
    right = [_share(found, ours["labels"]) for found in ours["predictions"].values()]
    theirs = [_share(run["predictions"], ours["labels"]) for runs in baselines.values() for run in runs]
    print(f"Accuracy: ours {spread([100 * share for share in right])} %, Trainer ", end="")
    print(f"{spread([100 * share for share in theirs])} %.")


def _share(predictions: list[int], labels: list[int]) -> float:
    return sum(a == b for a, b in zip(predictions, labels, strict=True)) / len(labels)


if __name__ == "__main__":
    main()
