"""The engine for causal models: the common prefix once, everything else packed behind it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.icl.engine.batches import Batches, is_out_of_memory, release
from mlflow_l3d.approaches.icl.engine.checks import TokenIds, checked_length, checked_prompts, device_tokens
from mlflow_l3d.approaches.icl.engine.decoding import CACHED_TOKENS, TEXTS, decode, kept_tokens
from mlflow_l3d.approaches.icl.engine.packed import PackedModel
from mlflow_l3d.approaches.icl.engine.plain import plain_generate, plain_score
from mlflow_l3d.approaches.icl.engine.reading import read_steps
from mlflow_l3d.approaches.icl.engine.rows import Rows
from mlflow_l3d.approaches.icl.engine.sampling import Sampling, checked_sampling
from mlflow_l3d.approaches.icl.engine.support import honours_mask, layer_window
from mlflow_l3d.approaches.icl.engine.trie import build_trie, common_prefix

_SMALLEST_CHUNK = 16


class CausalEngine:
    """Scores answers and generates with a causal language model.

    The tokens that all prompts of a call begin with are run once. What is left of the prompts is laid end to end in
    one row that continues the prefix, with a mask under which every text sees the prefix and itself; the inner nodes
    of the answers' trie lie in the same row. So nothing is padded and no keys are copied per prompt. A model that does
    not take such a mask (found by a trial at the first call, and from its configuration) is run in full, prompt by
    prompt in batches of equal length.

    The last prefix is kept, so that the next call with the same prefix starts behind it. What a call returns does not
    depend on the calls before it, unless one of them ran out of memory and made batches smaller.

    Parameters
    ----------
    model
        A causal `transformers` model in evaluation mode.
    pad_id
        Token that stands in for nothing, where the model's own ``generate`` is used.
    batch_tokens
        Most tokens run at once, None for 512 on a CPU and 4096 elsewhere.
    batch_size
        Most prompts run at once, None for any number.

    Attributes
    ----------
    batches
        The bounds in force; they shrink when memory is spent.
    """

    def __init__(
        self, model: Any, pad_id: int, *, batch_tokens: int | None = None, batch_size: int | None = None
    ) -> None:
        self.model = model
        self.pad_id = pad_id
        self.batches = Batches(batch_tokens or device_tokens(model.device.type), batch_size)
        self._honours: bool | None = None
        self._kept: tuple[tuple[TokenIds, int | None], Rows] | None = None

    def score(self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
        """Return the log-probability of every answer behind every prompt.

        Parameters
        ----------
        prompts
            n prompts, token ids.
        answers
            C answers, token ids; they may begin with one another.

        Returns
        -------
        (n, C), the sum over the answer's tokens of their natural log-probability, in the order of the arguments.

        Raises
        ------
        ValueError
            If a prompt or an answer has no tokens.
        """
        texts, trie = checked_prompts(prompts), build_trie(answers)
        if not texts:
            return np.zeros((0, len(answers)))
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

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        stop: Collection[int],
        *,
        sampling: Sampling | None = None,
    ) -> list[list[int]]:
        """Continue every prompt.

        Parameters
        ----------
        prompts
            n prompts, token ids.
        max_new_tokens
            Most tokens to generate.
        stop
            Tokens that end a text.
        sampling
            How tokens are drawn, one row of `max_new_tokens` numbers a prompt; None for the likeliest token each time.

        Returns
        -------
        The new tokens of each prompt, without the stop token, in the order of the prompts.

        Raises
        ------
        ValueError
            If a prompt has no tokens, `max_new_tokens` is not positive, or `sampling` has another shape.
        """
        texts, limit = checked_prompts(prompts), checked_length(max_new_tokens)
        sampling = checked_sampling(sampling, len(texts), limit)
        if not texts:
            return []
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
