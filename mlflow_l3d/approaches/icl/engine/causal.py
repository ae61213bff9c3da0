"""The engine for causal models: the common prefix once, everything else packed behind it.

A model that cannot share a cache is run plainly: rows of equal length, nothing padded, right for every architecture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import groupby

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.icl.engine import reading
from mlflow_l3d.approaches.icl.engine.base import Batches, Continuation, Engine, Result, TokenIds
from mlflow_l3d.approaches.icl.engine.packed import PackedModel, layer_window, runs_packed
from mlflow_l3d.approaches.icl.engine.reading import ROOT, AnswerTrie, IntArray
from mlflow_l3d.approaches.icl.engine.rows import NOBODY, Block, Rows, joined, lay_out, row_width

# A step of decoding reads all weights of the model whatever it has to do: with fewer texts it mostly waits for memory.
TEXTS = 256
# Most keys that are kept at once, if a text does not have more: a number, and bytes of all layers.
CACHED_TOKENS = 16_384
CACHED_BYTES = 2 * 2**30
# Most tokens of packed rows run at once, by kind of device. On an H200 a model of 135M answers 1,983 texts a second of
# 2,298 shared tokens in place of 1,261 with 4,096, and 14,893 in place of 7,041 of 93: it waits for launches.
PACKED_TOKENS = {"cuda": 16_384}
# Most bytes of their keys, copies of the prefix included: 135M has 2 GB of them there, a model of 7B would have 12.
PACKED_BYTES = 4 * 2**30


class PlainEngine(Engine):
    """Scores answers and generates with a causal language model, prompt by prompt in batches of equal length.

    Nothing is padded and nothing shared, which is right for every architecture.

    Parameters and attributes as for :class:`~mlflow_l3d.approaches.icl.engine.base.Engine`.
    """

    @torch.inference_mode()
    def _score(self, texts: Sequence[TokenIds], trie: AnswerTrie) -> npt.NDArray[np.float64]:
        """Return log-probabilities (n, C), each longest way through the trie run behind each full prompt."""
        nodes, tokens = trie.reads
        read = np.empty((len(texts), len(nodes)))
        for path in trie.paths:
            # Logits behind the prompt, then behind each node of the path.
            steps, places = trie.reads_on((ROOT, *path))
            longer = [(*text, *trie.tokens[list(path)].tolist()) for text in texts]
            reads = reading.on_device(self.model.device, places, tokens[steps])
            work = partial(self._last_reads, longer, reads, len(path) + 1)
            read[:, steps] = reading.log_probabilities(self._in_equal_lengths(longer, 0, work))
        return trie.total(read)

    def _last_reads(
        self, texts: Sequence[TokenIds], reads: list[torch.Tensor], last: int, batch: Sequence[int]
    ) -> torch.Tensor:
        """Return what is read from the `last` logits of each text of a batch: places among them, and tokens."""
        ids = torch.tensor([texts[item] for item in batch], device=self.model.device)
        kept = {}
        if reading.takes(self.model, "logits_to_keep"):
            kept["logits_to_keep"] = torch.arange(ids.shape[1] - last, ids.shape[1], device=ids.device)
        return reading.read_steps(self.model(input_ids=ids, **kept).logits[:, -last:], *reads)

    def _generate(self, texts: Sequence[TokenIds], how: Continuation) -> list[list[int]]:
        """Return continuations by the model's own ``generate``, each up to its first stop token."""
        from transformers import GenerationConfig

        model = self.model
        # What the model came with, such as a penalty or a forced end, would be taken if settings are silent.
        own_settings, model.generation_config = model.generation_config, GenerationConfig()  # type: ignore[no-untyped-call]
        try:
            return self._in_equal_lengths(texts, how.limit, partial(self._continue, texts, how))
        finally:
            model.generation_config = own_settings

    def _continue(self, texts: Sequence[TokenIds], how: Continuation, batch: Sequence[int]) -> list[list[int]]:
        """Return the continuations of texts of equal length."""
        from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

        prompt_ids = torch.tensor([texts[item] for item in batch], device=self.model.device)
        start, sampling = prompt_ids.shape[1], how.of(batch).sampling
        results: list[list[int]] = [[] for _ in batch]
        running = np.arange(len(batch))

        def only_drawn(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            """Return scores under which the likeliest token is the one that is drawn."""
            drawn = reading.next_tokens(scores, ids.shape[1] - start, sampling)
            reading.copy_to_host(drawn)
            return torch.full_like(scores, -torch.inf).scatter_(1, drawn[:, None], 0.0)

        def have_ended(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
            """Return which rows have ended, (B,)."""
            nonlocal running
            latest = reading.copy_to_host(ids[:, -1])[running]
            running = running[how.extend([results[text] for text in running], latest)]
            return torch.from_numpy(~np.isin(np.arange(len(batch)), running)).to(ids.device)

        settings = GenerationConfig(max_new_tokens=how.limit, pad_token_id=self.pad_id)  # type: ignore[no-untyped-call]
        self.model.generate(
            prompt_ids,
            attention_mask=torch.ones_like(prompt_ids),
            generation_config=settings,
            logits_processor=LogitsProcessorList([only_drawn] if sampling else []),
            stopping_criteria=StoppingCriteriaList([have_ended]),
        )
        return results

    def _in_equal_lengths(
        self, texts: Sequence[TokenIds], new: int, work: Callable[[Sequence[int]], Iterable[Result]]
    ) -> list[Result]:
        """Return the results of texts, to each of which `new` tokens are added, in batches without padding."""
        costs = [len(text) + new for text in texts]
        results: dict[int, Result] = {}
        for _, group in groupby(sorted(range(len(texts)), key=costs.__getitem__), costs.__getitem__):
            items = list(group)
            results |= zip(items, self.batches.run(items, costs, work), strict=True)
        return [results[item] for item in range(len(texts))]


class CausalEngine(PlainEngine):
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
            return super()._score(texts, trie)
        length = reading.common_prefix(texts)
        prefix = self._prefix(packed, texts[0][:length])
        reads = reading.on_device(self.model.device, *trie.reads)
        most = packed_tokens(packed, prefix, self.batches)

        def work(batch: Sequence[int]) -> torch.Tensor:
            logits = packed.rest(prefix, [texts[item][length:] for item in batch], trie, most=most)
            return reading.read_steps(logits, *reads)

        costs = [len(text) - length + len(trie.tokens) for text in texts]
        return trie.total(reading.log_probabilities(self.batches.run(range(len(texts)), costs, work, tokens=most)))

    def _generate(self, texts: Sequence[TokenIds], how: Continuation) -> list[list[int]]:
        packed = self._packed(max(map(len, texts)) + how.limit - 1)
        if packed is None:
            return super()._generate(texts, how)
        length = reading.common_prefix(texts)
        prefix = self._prefix(packed, texts[0][:length])
        most = packed_tokens(packed, prefix, self.batches)

        def work(batch: Sequence[int]) -> list[list[int]]:
            return decode(packed, prefix, [texts[item][length:] for item in batch], how.of(batch), most)

        # What each text adds to the keys that are kept: its own, the new ones, its share of a row's copy of the prefix.
        lengths = [len(text) - length for text in texts]
        costs = [count + how.limit - 1 + min(length, count) for count in lengths]
        most_keys = min(CACHED_TOKENS, max(1, CACHED_BYTES // _key_bytes(prefix)))  # follows from the model alone
        return self.batches.run(range(len(texts)), costs, work, tokens=most_keys, most=TEXTS)

    def _packed(self, longest: int) -> PackedModel | None:
        fits, window = layer_window(self.model.config, longest)
        key = reading.type_of(self.model), window is not None
        if fits and key not in self._packings:
            self._packings[key] = runs_packed(self.model, windowed=window is not None)
        self.packed = fits and self._packings[key]
        return PackedModel(self.model, window) if self.packed else None

    def _prefix(self, packed: PackedModel, tokens: TokenIds) -> Rows:
        key = tokens, packed.window, reading.type_of(self.model)
        if self._kept is None or self._kept[0] != key:
            self._kept = None
            self._kept = key, packed.prefix(tokens, self.batches.tokens)
        return self._kept[1]


def packed_tokens(packed: PackedModel, prefix: Rows, batches: Batches) -> int:
    """Return the most tokens of packed rows that are run at once, by model, prefix and device."""
    most = PACKED_TOKENS.get(packed.device.type)
    if batches.are_chosen or most is None:
        return batches.tokens
    row = row_width(prefix.tokens, packed.row_tokens)
    rows = PACKED_BYTES // (_key_bytes(prefix) * (prefix.tokens + row))
    return min(most, max(1, rows) * row)


def _key_bytes(prefix: Rows) -> int:
    """Return the bytes of what is kept of a token in all layers, 1 if there is no prefix to tell."""
    size: int = sum(part.nbytes for layer in prefix.cache.layers for part in (layer.keys, layer.values))
    return max(1, size // max(1, prefix.tokens))


def decode(
    packed: PackedModel, prefix: Rows, texts: Sequence[Sequence[int]], how: Continuation, batch_tokens: int
) -> list[list[int]]:
    """Return the continuations of texts behind a prefix; a text that has ended is run no further.

    Parameters
    ----------
    packed
        The model.
    prefix
        The row of the shared prefix; stays as it is.
    texts
        What follows the prefix, n texts.
    how
        As in `CausalEngine.generate`.
    batch_tokens
        Most tokens of texts run at once.
    """
    results: list[list[int]] = [[] for _ in texts]
    rows, logits, texts_of = _begun(packed, prefix, texts, batch_tokens)
    ends = prefix.tokens + np.asarray([len(text) for text in texts])
    for step in range(how.limit):
        filled = texts_of >= 0
        running = texts_of[filled]
        flat = logits.flatten(0, 1)
        if len(running) < len(flat):
            flat = flat[reading.on_device(flat.device, np.flatnonzero(filled))[0]]
        chosen, going = np.full(texts_of.shape, 0), filled.copy()
        chosen[filled] = reading.copy_to_host(reading.next_tokens(flat, step, how.sampling, running))
        going[filled] = how.extend([results[text] for text in running], chosen[filled])
        if not going.any() or step == how.limit - 1:
            break
        rows_left = going.any(axis=1)
        if not rows_left.all():
            rows.keep(np.flatnonzero(rows_left))
        block = _next(texts_of[rows_left], chosen[rows_left], going[rows_left], ends + step)
        texts_of = block.texts
        logits = packed.extend(rows, block, texts_of.shape[1])
    return results


def _begun(
    packed: PackedModel, prefix: Rows, texts: Sequence[Sequence[int]], batch_tokens: int
) -> tuple[Rows, torch.Tensor, IntArray]:
    """Run the texts behind the prefix.

    Returns
    -------
    The rows to be decoded; the logits behind the texts, (_, _, vocabulary), the first two axes in the order of what
    follows; and which texts each row has, (R, S), -1 if it has fewer.
    """
    length = prefix.tokens
    block = lay_out(texts, None, length, batch_tokens, row_tokens=packed.row_tokens)
    parts, logits = [], []
    for part in block.parts(batch_tokens):
        rows = prefix.branch(len(part.tokens))
        logits.append(packed.extend(rows, part, part.texts.shape[1]))
        rows.cut(length)
        parts.append(rows)
    # What may run at once makes short rows behind a long prefix, of which each would keep a copy.
    count = len(block.texts)
    each = -(-count // -(-count // max(1, round(length / block.tokens.shape[1]))))
    joint = joined(prefix, parts, each)
    texts_of = np.pad(block.texts, ((0, len(joint.owners) * each - count), (0, 0)), constant_values=-1)
    return joint, torch.cat(logits), texts_of.reshape(len(joint.owners), -1)


def _next(texts: IntArray, tokens: IntArray, going: npt.NDArray[np.bool_], ends: IntArray) -> Block:
    """Return the block with one more token per continuing text, (R, S) each; `ends` is a text's next position."""
    # Those that continue come first, in their order.
    order = np.argsort(~going, axis=1, kind="stable")[:, : int(going.sum(axis=1).max())]
    alive = np.take_along_axis(going, order, axis=1)
    texts_left = np.where(alive, np.take_along_axis(texts, order, axis=1), -1)
    return Block(
        tokens=np.where(alive, np.take_along_axis(tokens, order, axis=1), 0),
        owners=np.where(alive, texts_left, NOBODY),
        positions=np.where(alive, ends[texts_left], 0),
        nodes=np.full(texts_left.shape, -1),
        texts=texts_left,
    )
