"""Time to import 100 runs of 1,000 samples each, as lm-evaluation-harness writes them, into SQLite.

The files have the layout of the tool's own (multiple choice, four choices; 10 few-shot seeds x 5 numbers of shots x 2
prompts). Each import is a fresh process; beside its wall clock stands its CPU time, which other load does not change.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
from pathlib import Path
from typing import Any

from _common import empty_store, machine, spread, table, workplace

PROMPT = "The following are questions about countries, each with its answer.\n\nCountry: {}\nCapital:"


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print("# Importing runs\n")
    print(machine(), end="\n\n", flush=True)
    found: dict[str, list[dict[str, Any]]] = {"first": [], "again": []}
    with workplace() as place:
        template, _ = empty_store(place)
        logs = place.new_folder("logs")
        size = sum(write_run(logs, number, options.samples) for number in range(options.runs))
        for repeat in range(options.repeats):
            folder = place.new_folder(f"store-{repeat}")
            shutil.copyfile(template, folder / "mlflow.db")
            settings = {"MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}", "L3D_CACHE": str(folder / "cache")}
            for results in found.values():
                results.append(place.start("_import_run.py", {"logs": str(logs)}, folder, **settings).wait())
    rows = [
        [name, *(spread([each[key] for each in results]) for key in ("seconds", "cpu", "start"))]
        for name, results in found.items()
    ]
    print(f"{options.runs} runs x {options.samples:,} samples, {size / 2**20:.0f} MiB of logs\n")
    print(table(["import", "seconds", "CPU seconds", "CPU seconds before it: Python and MLflow start"], rows))


def write_run(folder: Path, number: int, samples: int) -> int:
    """Write one run as the tool does; return how many bytes it has."""
    draw = random.Random(number)
    seed, shots, prompt = number % 10, (0, 1, 2, 4, 8)[number // 10 % 5], number // 50
    date = f"2026-01-01T00-{number // 60:02}-{number % 60:02}.000000"
    config = {"model": "hf", "model_args": {"pretrained": "model"}, "random_seed": 0, "fewshot_seed": seed}
    of_task = {"output_type": "multiple_choice", "doc_to_text": f"prompt {prompt}", "num_fewshot": shots}
    results = {"config": config, "configs": {"capitals": of_task}, "n-shot": {"capitals": shots}}
    (folder / f"results_{date}.json").write_text(json.dumps(results), encoding="utf-8")
    lines = []
    for sample in range(samples):
        target = sample % 4
        resps = [[str(-draw.random() - 0.8 * (choice != target)), "False"] for choice in range(4)]
        right = float(max(range(4), key=lambda choice, resps=resps: float(resps[choice][0])) == target)
        text = PROMPT.format(sample)
        content = {
            "doc_id": sample,
            "doc": {"country": f"country {sample}", "choices": ["a", "b", "c", "d"], "answer": target},
            "target": str(target),
            "arguments": {f"gen_args_{choice}": {"arg_0": text, "arg_1": f" {choice}"} for choice in range(4)},
            "resps": [[each] for each in resps],
            "filtered_resps": resps,
            "filter": "none",
            "metrics": ["acc"],
            "doc_hash": f"{sample:064x}",
            "acc": right,
        }
        lines.append(json.dumps(content))
    path = folder / f"samples_capitals_{date}.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path.stat().st_size


if __name__ == "__main__":
    main()
