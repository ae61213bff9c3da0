"""What the benchmarks of in-context learning share: a model, prompts of the paper's format A, operations and peak."""

from __future__ import annotations

import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlflow_l3d.tasks.sources.benchmark_set import BENCHMARKS

TASKS = ("sst2", "dbpedia")
# Words of a text where no data are at hand: mean and standard deviation of the two data sets.
WORDS = {"sst2": (10.2, 8.6), "dbpedia": (45.9, 22.6)}
FILLERS = ("the", "film", "of", "a", "small", "river", "in", "northern", "state", "known", "for", "its", "old", "music")


@dataclass(frozen=True)
class Case:
    """Prompts of one task: as texts and as tokens, with the answers and the true classes."""

    task: str
    texts: list[str]
    prompts: list[list[int]]
    words: list[str]
    answers: list[list[int]]
    labels: list[int]


def load(reference: str, device: str, dtype: str = "auto") -> Any:
    """Return the model, in the type that our approach takes for the device, or in the one named."""
    from mlflow_l3d.approaches.icl.models import load_model

    return load_model(reference, device, quantise="none", dtype=dtype, cache=cache_folder())


def cache_folder() -> Path:
    """Return where models that are converted stay."""
    return Path(os.environ.get("L3D_CACHE", tempfile.gettempdir())) / "l3d-benchmark-models"


def packings_of(loaded: Any) -> dict[Any, bool]:
    """Return whether a model runs packed rows: a session finds it out once for all of its cells."""
    from mlflow_l3d.approaches.icl.engine.packed import runs_packed
    from mlflow_l3d.approaches.icl.engine.reading import type_of

    with loaded.precision():
        return {(type_of(loaded.model), False): runs_packed(loaded.model)}


def new_engine(loaded: Any, pad: int, packings: dict[Any, bool], tokens: int | None = None) -> Any:
    """Return an engine that has run no prefix yet."""
    from mlflow_l3d.approaches.icl.engine import CausalEngine

    engine = CausalEngine(loaded.model, pad, batch_tokens=tokens)
    engine._packings |= packings
    return engine


def make_case(task: str, loaded: Any, tests: int) -> Case:
    """Return prompts of the paper's format A with two shots a class in random order, and `tests` different inputs."""
    from mlflow_l3d.approaches.icl.encoding import answer_ids, prompts_ids
    from mlflow_l3d.approaches.icl.formats import format_for

    generator = np.random.default_rng(7)
    classes = list(BENCHMARKS[task].class_names)
    texts, labels = _texts(task, generator, len(classes))
    order = generator.permutation(len(texts)).tolist()
    shots = [place for number in range(len(classes)) for place in [p for p in order if labels[p] == number][:2]]
    inputs = [place for place in order if place not in shots][:tests]
    generator.shuffle(shots)
    wording = format_for(task, "A", classes)
    shown = [((texts[place],), labels[place]) for place in shots]
    rendered = [wording.render(shown, (texts[place],)) for place in inputs]
    with tokenising_on_all_cores():
        prompts = prompts_ids(loaded, rendered, chat=False)
    return Case(
        task=task,
        texts=rendered,
        prompts=prompts,
        words=list(wording.answers),
        answers=[answer_ids(loaded, answer, chat=False) for answer in wording.answers],
        labels=[labels[place] for place in inputs],
    )


def _texts(task: str, generator: np.random.Generator, classes: int) -> tuple[list[str], list[int]]:
    folder = os.environ.get("L3D_DATA")
    if folder:
        import pandas as pd

        frame = pd.read_parquet(Path(folder) / f"{task}.parquet")
        return frame["text"].tolist(), frame["label"].tolist()
    mean, deviation = WORDS[task]
    shape = (mean / deviation) ** 2
    lengths = np.maximum(1, generator.gamma(shape, mean / shape, 2000).astype(int))
    return [" ".join(generator.choice(FILLERS, length)) for length in lengths], [i % classes for i in range(2000)]


@contextmanager
def tokenising_on_all_cores() -> Iterator[None]:
    """Make tokens of a batch of texts on all cores: a prompt of 2,300 tokens takes 3 ms."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name, "false")
    os.environ[name] = "true"
    try:
        yield
    finally:
        os.environ[name] = before


@contextmanager
def rows_of(tokens: int | None) -> Iterator[None]:
    """Let rows of ours have no more than so many tokens, though the prefix is longer; None for what they have."""
    from mlflow_l3d.approaches.icl.engine import rows

    usual = rows._packs
    if tokens is not None:
        rows._packs = lambda costs, width, most: usual(costs, min(width, tokens), most)
    try:
        yield
    finally:
        rows._packs = usual


def shares(prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> tuple[int, float, int]:
    """Return how many tokens all prompts begin with, how many one has of its own, and the inner nodes of answers."""
    from mlflow_l3d.approaches.icl.engine.reading import build_trie, common_prefix

    length = common_prefix([tuple(prompt) for prompt in prompts])
    own = sum(len(prompt) - length for prompt in prompts) / len(prompts)
    return length, own, len(build_trie(answers).tokens)


def score_operations(model: Any, prompts: Sequence[list[int]], answers: Sequence[list[int]]) -> tuple[float, str]:
    """Return the operations that our scores need, two a weight a token run, and of what the prompts are made."""
    (length, own, nodes), count = shares(prompts, answers), len(prompts)
    operations = _operations(model, length + (own + nodes) * count, count * (1 + nodes), length + own)
    return operations, f"{length} tokens shared, {own:.1f} of its own; {nodes} inner nodes of answers"


def _operations(model: Any, tokens: float, read: int, keys: float) -> float:
    """Return operations: two a weight a token run, the head where it is read, and attention."""
    config = model.config
    table_size = model.get_input_embeddings().weight.numel()
    tied = getattr(config, "tie_word_embeddings", False)
    weights = sum(parameter.numel() for parameter in model.parameters()) - table_size * (1 if tied else 2)
    attention = 4 * config.num_hidden_layers * config.hidden_size * keys
    return tokens * (2 * weights + attention) + 2 * read * table_size


def peak(device: str, dtype: Any) -> float:
    """Return operations per second of a large matrix product, the best of five."""
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


def wait(model: Any) -> None:
    """Wait until the device has done what it was asked."""
    import torch

    if model.device.type == "cuda":
        torch.cuda.synchronize()


def free_bytes(device: str) -> float:
    """Return the memory of a GPU that nobody has, what torch keeps for later included."""
    import torch

    where = torch.device(device)
    kept = torch.cuda.memory_reserved(where) - torch.cuda.memory_allocated(where)
    return float(torch.cuda.mem_get_info(where)[0] + kept)


def plain_scores(model: Any, prompts: Sequence[list[int]], answers: Sequence[list[int]], *, together: bool) -> Any:
    """Return log-probabilities (n, C) by full passes: one a prompt and answer, or one a prompt (`together`)."""
    import torch

    scores = torch.zeros(len(prompts), len(answers), dtype=torch.float64)
    longest = max(map(len, answers))
    for row, prompt in enumerate(prompts):
        # What fills a row up on its right is seen by nothing that is read.
        texts = [[*prompt, *answer, *([0] * (longest - len(answer)) if together else [])] for answer in answers]
        for start in range(0, len(texts), len(texts) if together else 1):
            batch = texts[start : start + (len(texts) if together else 1)]
            ids = torch.tensor(batch, device=model.device)
            kept = ids.shape[1] - len(prompt) + 1
            logits = model(input_ids=ids, logits_to_keep=kept, use_cache=False).logits[:, :-1].double().log_softmax(-1)
            for at, answer in enumerate(answers[start : start + len(batch)]):
                read = [float(logits[at, place, token]) for place, token in enumerate(answer)]
                scores[row, start + at] = sum(read)
    return scores


def timed_round(work: Callable[[], Any], model: Any, least: float) -> tuple[float, Any]:
    """Return the seconds of one call, the mean over so many that they take `least` seconds, and what the last gave."""
    wait(model)
    start, calls = time.perf_counter(), 0
    while True:
        found = work()
        wait(model)
        calls += 1
        seconds = time.perf_counter() - start
        if found is None or seconds >= least:
            return seconds / calls, found


def release() -> None:
    """Give memory of a GPU back that an attempt has taken."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def one_line(error: BaseException) -> str:
    """Return the kind of an error and the first line of what it says."""
    return f"{type(error).__name__}: {(str(error).strip() or 'no words').splitlines()[0][:300]}"


class Attempts:
    """Work that may fail: one line reports it, and what is left goes on.

    Attributes
    ----------
    names
        What failed.
    """

    def __init__(self) -> None:
        self.names: list[str] = []

    @property
    def failed(self) -> int:
        """1 if anything failed, the exit status."""
        return int(bool(self.names))

    def make(self, name: str, work: Callable[[], Any]) -> Any:
        """Return what the work returns, None if it failed."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001  # nobody can mend it there
            self.names.append(name)
            print(f"- FAILED: {name}: {one_line(error)}", flush=True)
            release()
            if os.environ.get("L3D_TRACEBACKS"):
                traceback.print_exc()
            return None
