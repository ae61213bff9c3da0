"""A causal model without a shared cache: rows of equal length, nothing padded, right for every architecture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.icl.engine.base import TokenIds
from mlflow_l3d.approaches.icl.engine.batches import Batches
from mlflow_l3d.approaches.icl.engine.reading import read_steps
from mlflow_l3d.approaches.icl.engine.sampling import Sampling, next_tokens
from mlflow_l3d.approaches.icl.engine.trie import ROOT, AnswerTrie


def plain_score(model: Any, prompts: Sequence[TokenIds], trie: AnswerTrie, batches: Batches) -> npt.NDArray[np.float64]:
    """Return log-probabilities (n, C), each longest way through the trie run behind each full prompt."""
    nodes, tokens = trie.reads
    read = np.empty((len(prompts), len(nodes)))
    for path in trie.paths:
        # Logits behind the prompt, then behind each node of the path.
        columns = {node + 1: place for place, node in enumerate((ROOT, *path))}
        steps = [step for step in range(len(nodes)) if int(nodes[step]) in columns]
        places = np.asarray([columns[int(nodes[step])] for step in steps])
        ending = [int(trie.tokens[node]) for node in path]
        texts = [(*prompt, *ending) for prompt in prompts]
        work = partial(_read_last, model, texts, places, tokens[steps], steps, read)
        for rows in _equal_lengths(texts):
            batches.run(rows, [len(text) for text in texts], work)
    return trie.total(read)


@torch.inference_mode()
def _read_last(
    model: Any,
    texts: Sequence[TokenIds],
    places: npt.NDArray[np.int64],
    tokens: npt.NDArray[np.int64],
    steps: Sequence[int],
    read: npt.NDArray[np.float64],
    batch: Sequence[int],
) -> None:
    """Fill the steps of `read` for a batch, from the last logits of each text; `places` counts from the first read."""
    ids = torch.tensor([texts[item] for item in batch], device=model.device)
    logits = model(input_ids=ids).logits[:, -1 - int(places.max()) :]
    read[np.ix_(batch, steps)] = read_steps(logits, places, tokens)


def plain_generate(
    model: Any,
    prompts: Sequence[TokenIds],
    max_new_tokens: int,
    stop: Collection[int],
    pad_id: int,
    batches: Batches,
    sampling: Sampling | None = None,
) -> list[list[int]]:
    """Return continuations by the model's own ``generate``, each up to its first stop token."""
    from transformers import GenerationConfig, LogitsProcessorList

    settings = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=False,
        num_beams=1,
        repetition_penalty=1.0,
        max_new_tokens=max_new_tokens,
        pad_token_id=pad_id,
        eos_token_id=sorted(stop) or None,
    )
    results: list[list[int]] = [[] for _ in prompts]
    for rows in _equal_lengths(prompts):

        def work(batch: Sequence[int]) -> None:
            ids = torch.tensor([prompts[item] for item in batch], device=model.device)
            processors = LogitsProcessorList()
            if sampling is not None:
                processors.append(partial(_only_drawn, sampling.of(batch), ids.shape[1]))
            output = model.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=settings, logits_processor=processors
            )
            for item, tokens in zip(batch, output[:, ids.shape[1] :].tolist(), strict=True):
                end = next((place for place, token in enumerate(tokens) if token in stop), len(tokens))
                results[item] = tokens[:end]

        batches.run(rows, [len(prompt) + max_new_tokens for prompt in prompts], work)
    return results


def _only_drawn(sampling: Sampling, start: int, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Return scores under which the likeliest token is the one that is drawn; texts began at token `start`."""
    chosen = next_tokens(scores, ids.shape[1] - start, sampling)
    return torch.full_like(scores, -torch.inf).scatter_(1, chosen[:, None], 0.0)


def _equal_lengths(prompts: Sequence[TokenIds]) -> list[list[int]]:
    groups: dict[int, list[int]] = defaultdict(list)
    for item, prompt in enumerate(prompts):
        groups[len(prompt)].append(item)
    return [groups[length] for length in sorted(groups)]
