"""In-context learning with 4-bit weights, loaded as our approach loads them, compared with whole ones in bfloat16."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _common import table
from _icl import Case, cache_folder, new_engine, packings_of, wait
from _icl_sizes import as_a_session


def compare_four_bits(loaded: Any, case: Case, device: str) -> None:
    """Save a model, load it with NF4 weights, score and generate on both, and print a table."""
    import torch

    from mlflow_l3d.approaches.icl.models import load_model

    gpu, rows, scores, texts = device.startswith("cuda"), [], {}, {}
    prompts = case.prompts[:32]
    with tempfile.TemporaryDirectory(prefix="l3d-benchmark-") as folder:
        loaded.model.save_pretrained(folder)
        loaded.tokenizer.save_pretrained(folder)
        for name, quantise in (("bfloat16", "none"), ("4bit", "4bit")):
            before = torch.cuda.memory_allocated() if gpu else 0
            start = time.perf_counter()
            if quantise == "none":
                model = loaded
            else:
                with torch.inference_mode(False):
                    model = load_model(folder, device, quantise="4bit", cache=cache_folder() / Path(folder).name)
            wait(model.model)
            marks = [time.perf_counter() - start]
            pad, stop = model.tokenizer.pad_token_id, [model.tokenizer.eos_token_id]
            with as_a_session(device), torch.inference_mode(), model.precision():
                packings = packings_of(model)
                new_engine(model, pad, packings).score(prompts, case.answers)
                wait(model.model)
                start = time.perf_counter()
                scores[name] = new_engine(model, pad, packings).score(prompts, case.answers)
                wait(model.model)
                marks.append(time.perf_counter() - start)
                texts[name] = new_engine(model, pad, packings).generate(prompts[:8], 10, stop)
            own = torch.cuda.memory_allocated() - before if gpu and quantise != "none" else 0
            footprint = f"{model.model.get_memory_footprint() / 2**20:.0f}"
            taken = f"{own / 2**20:.0f}" if own else "-"
            packed = next(iter(packings.values()))
            rows.append([name, f"{marks[0]:.2f}", f"{marks[1]:.3f}", footprint, taken, "yes" if packed else "NO"])
            print(f"- {name}: loaded in {marks[0]:.2f} s, {len(prompts)} texts scored in {marks[1]:.3f} s", flush=True)
    columns = ["weights", "s to load", "s to score", "MiB of weights", "MiB taken on the GPU", "packed rows"]
    print("\n" + table(columns, rows))
    exact, rounded = scores["bfloat16"], scores["4bit"]
    same = (exact.argmax(1) == rounded.argmax(1)).sum()
    alike = sum(a == b for a, b in zip(*texts.values(), strict=True))
    print(
        f"\n4bit: {same} of {len(prompts)} predictions equal those in bfloat16, {alike} of 8 generated texts; scores "
        f"differ by {np.abs(exact - rounded).mean():.2f} on average, correlation "
        f"{np.corrcoef(exact.ravel(), rounded.ravel())[0, 1]:.3f} (random weights).\n",
        flush=True,
    )
