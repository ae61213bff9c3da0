"""The engine for causal models: the common prefix once, everything else packed behind it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.icl.engine.base import Engine, TokenIds
from mlflow_l3d.approaches.icl.engine.batches import is_out_of_memory, release
from mlflow_l3d.approaches.icl.engine.decoding import CACHED_TOKENS, TEXTS, decode, kept_tokens
from mlflow_l3d.approaches.icl.engine.packed import PackedModel
from mlflow_l3d.approaches.icl.engine.plain import plain_generate, plain_score
from mlflow_l3d.approaches.icl.engine.reading import read_steps
from mlflow_l3d.approaches.icl.engine.rows import Rows
from mlflow_l3d.approaches.icl.engine.sampling import Sampling
from mlflow_l3d.approaches.icl.engine.support import honours_mask, layer_window
from mlflow_l3d.approaches.icl.engine.trie import AnswerTrie, common_prefix

_SMALLEST_CHUNK = 16


class CausalEngine(Engine):
    """Scores answers and generates with a causal language model.

    The tokens that all prompts of a call begin with are run once. What is left of the prompts is laid end to end in
    one row that continues the prefix, with a mask under which every text sees the prefix and itself; the inner nodes
    of the answers' trie lie in the same row. So nothing is padded and no keys are copied per prompt. A model that does
    not take such a mask (found by a trial at the first call, and from its configuration) is run in full, prompt by
    prompt in batches of equal length.

    The last prefix is kept, so that the next call with the same prefix starts behind it. What a call returns does not
    depend on the calls before it, unless one of them ran out of memory and made batches smaller.

    Parameters and attributes are those of :class:`~mlflow_l3d.approaches.icl.engine.base.Engine`.
    """

    _honours: bool | None = None
    _kept: tuple[tuple[TokenIds, int | None], Rows] | None = None

    def _score(self, texts: Sequence[TokenIds], trie: AnswerTrie) -> npt.NDArray[np.float64]:
        packed = self._packed(max(map(len, texts)) + int(trie.depths.max(initial=0)))
        if packed is None:
            return plain_score(self.model, texts, trie, self.batches)
        length = common_prefix(texts)
        prefix = self._prefix(packed, texts[0][:length])
        nodes, tokens = trie.reads
        read = np.empty((len(texts), len(nodes)))

        def work(batch: Sequence[int]) -> None:
            own = [texts[item][length:] for item in batch]
            logits = packed.rest(prefix, own, trie, most=self.batches.tokens)
            read[batch] = read_steps(logits, nodes, tokens)

        self.batches.run(range(len(texts)), [len(text) - length + len(trie.tokens) for text in texts], work)
        return trie.total(read)

    def _generate(
        self, texts: Sequence[TokenIds], limit: int, stop: Collection[int], sampling: Sampling | None
    ) -> list[list[int]]:
        packed = self._packed(max(map(len, texts)) + limit - 1)
        if packed is None:
            return plain_generate(self.model, texts, limit, stop, self.pad_id, self.batches, sampling)
        length = common_prefix(texts)
        prefix = self._prefix(packed, texts[0][:length])
        results: list[list[int]] = [[] for _ in texts]

        def work(batch: Sequence[int]) -> None:
            own = None if sampling is None else sampling.of(batch)
            rests = [texts[item][length:] for item in batch]
            found = decode(packed, prefix, rests, limit, stop, own, self.batches.tokens)
            for item, tokens in zip(batch, found, strict=True):
                results[item] = tokens

        costs = kept_tokens([len(text) - length for text in texts], limit, length)
        self.batches.run(range(len(texts)), costs, work, tokens=CACHED_TOKENS, most=TEXTS)
        return results

    def _packed(self, longest: int) -> PackedModel | None:
        fits, window = layer_window(self.model.config, longest)
        if not fits:
            return None
        if self._honours is None:
            self._honours = honours_mask(self.model)
        return PackedModel(self.model, window) if self._honours else None

    def _prefix(self, packed: PackedModel, tokens: TokenIds) -> Rows:
        key = (tokens, packed.window)
        if self._kept is None or self._kept[0] != key:
            self._kept = None
            self._kept = (key, self._run_prefix(packed, tokens))
        return self._kept[1]

    def _run_prefix(self, packed: PackedModel, tokens: TokenIds) -> Rows:
        while True:
            try:
                return packed.prefix(tokens, self.batches.tokens)
            except Exception as error:
                if not is_out_of_memory(error) or self.batches.tokens <= _SMALLEST_CHUNK:
                    raise
            release()
            self.batches.tokens //= 2
