"""The engine for causal models: the common prefix once, everything else packed behind it.

A model that cannot share a cache is run plainly: rows of equal length, nothing padded, right for every architecture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.icl.engine.base import Batches, Continuation, Engine, Result, TokenIds
from mlflow_l3d.approaches.icl.engine.decoding import TEXTS, cached_tokens, decode, packed_tokens
from mlflow_l3d.approaches.icl.engine.packed import PackedModel
from mlflow_l3d.approaches.icl.engine.rows import Rows
from mlflow_l3d.approaches.icl.engine.tensors import (
    copy_to_host,
    log_probabilities,
    next_tokens,
    on_device,
    read_steps,
    takes,
    type_of,
)
from mlflow_l3d.approaches.icl.engine.trial import layer_window, runs_packed
from mlflow_l3d.approaches.icl.engine.trie import ROOT, AnswerTrie, common_prefix


@torch.inference_mode()
def plain_score(model: Any, prompts: Sequence[TokenIds], trie: AnswerTrie, batches: Batches) -> npt.NDArray[np.float64]:
    """Return log-probabilities (n, C), each longest way through the trie run behind each full prompt."""
    nodes, tokens = trie.reads
    read = np.empty((len(prompts), len(nodes)))
    sliced = takes(model, "logits_to_keep")
    for path in trie.paths:
        # Logits behind the prompt, then behind each node of the path.
        steps, places = trie.reads_on((ROOT, *path))
        texts = [(*prompt, *trie.tokens[list(path)].tolist()) for prompt in prompts]
        work = partial(_last_reads, model, sliced, texts, on_device(model.device, places, tokens[steps]), len(path) + 1)
        read[:, steps] = log_probabilities(_in_equal_lengths(texts, 0, work, batches))
    return trie.total(read)


def _last_reads(
    model: Any, sliced: bool, texts: Sequence[TokenIds], reads: list[torch.Tensor], last: int, batch: Sequence[int]
) -> torch.Tensor:
    """Return what is read from the `last` logits of each text of a batch: places among them, and tokens."""
    ids = torch.tensor([texts[item] for item in batch], device=model.device)
    kept = {"logits_to_keep": torch.arange(ids.shape[1] - last, ids.shape[1], device=ids.device)} if sliced else {}
    return read_steps(model(input_ids=ids, **kept).logits[:, -last:], *reads)


def plain_generate(
    model: Any, prompts: Sequence[TokenIds], how: Continuation, pad_id: int, batches: Batches
) -> list[list[int]]:
    """Return continuations by the model's own ``generate``, each up to its first stop token."""
    from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

    settings = GenerationConfig(max_new_tokens=how.limit, pad_token_id=pad_id)  # type: ignore[no-untyped-call]

    def work(batch: Sequence[int]) -> list[list[int]]:
        prompt_ids = torch.tensor([prompts[item] for item in batch], device=model.device)
        start, sampling = prompt_ids.shape[1], how.of(batch).sampling
        results: list[list[int]] = [[] for _ in batch]
        running = np.arange(len(batch))

        def only_drawn(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            """Return scores under which the likeliest token is the one that is drawn."""
            drawn = next_tokens(scores, ids.shape[1] - start, sampling)
            copy_to_host(drawn)
            return torch.full_like(scores, -torch.inf).scatter_(1, drawn[:, None], 0.0)

        def have_ended(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
            """Return which rows have ended, (B,)."""
            nonlocal running
            running = running[how.extend([results[text] for text in running], copy_to_host(ids[:, -1])[running])]
            return torch.from_numpy(~np.isin(np.arange(len(batch)), running)).to(ids.device)

        model.generate(
            prompt_ids,
            attention_mask=torch.ones_like(prompt_ids),
            generation_config=settings,
            logits_processor=LogitsProcessorList([only_drawn] if sampling else []),
            stopping_criteria=StoppingCriteriaList([have_ended]),
        )
        return results

    # What the model came with, such as a penalty or a forced end, would be taken if `settings` is silent.
    own_settings, model.generation_config = model.generation_config, GenerationConfig()  # type: ignore[no-untyped-call]
    try:
        return _in_equal_lengths(prompts, how.limit, work, batches)
    finally:
        model.generation_config = own_settings


def _in_equal_lengths(
    texts: Sequence[TokenIds], new: int, work: Callable[[Sequence[int]], Iterable[Result]], batches: Batches
) -> list[Result]:
    """Return the results of texts, to each of which `new` tokens are added, in batches without padding."""
    costs = [len(text) + new for text in texts]
    results: dict[int, Result] = {}
    for _, group in groupby(sorted(range(len(texts)), key=costs.__getitem__), costs.__getitem__):
        items = list(group)
        results |= zip(items, batches.run(items, costs, work), strict=True)
    return [results[item] for item in range(len(texts))]


class CausalEngine(Engine):
    """Scores answers and generates with a causal language model.

    The tokens that all prompts of a call begin with are run once. The rest of the prompts is laid end to end in
    one row that continues the prefix, with a mask under which every text sees the prefix and itself; the inner nodes
    of the answers' trie lie in the same row. So nothing is padded and no keys are copied per prompt. A model that does
    not take such a mask (found by a trial at the first call, and from its configuration) is run in full, prompt by
    prompt in batches of equal length.

    The last prefix is kept, so that the next call with the same prefix starts behind it. What a call returns does not
    depend on the calls before it. The weights must stay as they are: a model with others needs an engine of its own.

    Parameters and other attributes as for :class:`~mlflow_l3d.approaches.icl.engine.base.Engine`.

    Attributes
    ----------
    packed
        Whether the latest call ran packed rows.
    """

    packed = False

    _kept: tuple[tuple[TokenIds, int | None, torch.dtype], Rows] | None = None

    @cached_property
    def _packings(self) -> dict[tuple[torch.dtype, bool], bool]:
        """Whether the model runs packed rows, by the type that it computes in and whether texts exceed its window."""
        return {}

    def _score(self, texts: Sequence[TokenIds], trie: AnswerTrie) -> npt.NDArray[np.float64]:
        packed = self._packed(max(map(len, texts)) + int(trie.depths.max(initial=0)))
        if packed is None:
            return plain_score(self.model, texts, trie, self.batches)
        length = common_prefix(texts)
        prefix = self._prefix(packed, texts[0][:length])
        reads, most = on_device(self.model.device, *trie.reads), packed_tokens(packed, prefix, self.batches)

        def work(batch: Sequence[int]) -> torch.Tensor:
            return read_steps(packed.rest(prefix, [texts[item][length:] for item in batch], trie, most=most), *reads)

        costs = [len(text) - length + len(trie.tokens) for text in texts]
        return trie.total(log_probabilities(self.batches.run(range(len(texts)), costs, work, tokens=most)))

    def _generate(self, texts: Sequence[TokenIds], how: Continuation) -> list[list[int]]:
        packed = self._packed(max(map(len, texts)) + how.limit - 1)
        if packed is None:
            return plain_generate(self.model, texts, how, self.pad_id, self.batches)
        length = common_prefix(texts)
        prefix = self._prefix(packed, texts[0][:length])
        most = packed_tokens(packed, prefix, self.batches)

        def work(batch: Sequence[int]) -> list[list[int]]:
            return decode(packed, prefix, [texts[item][length:] for item in batch], how.of(batch), most)

        # What each text adds to the keys that are kept: its own, the new ones, its share of a row's copy of the prefix.
        lengths = [len(text) - length for text in texts]
        costs = [count + how.limit - 1 + min(length, count) for count in lengths]
        return self.batches.run(range(len(texts)), costs, work, tokens=cached_tokens(prefix), most=TEXTS)

    def _packed(self, longest: int) -> PackedModel | None:
        fits, window = layer_window(self.model.config, longest)
        key = type_of(self.model), window is not None
        if fits and key not in self._packings:
            self._packings[key] = runs_packed(self.model, windowed=window is not None)
        self.packed = fits and self._packings[key]
        return PackedModel(self.model, window) if self.packed else None

    def _prefix(self, packed: PackedModel, tokens: TokenIds) -> Rows:
        key = tokens, packed.window, type_of(self.model)
        if self._kept is None or self._kept[0] != key:
            self._kept = None
            self._kept = key, packed.prefix(tokens, self.batches.tokens)
        return self._kept[1]
