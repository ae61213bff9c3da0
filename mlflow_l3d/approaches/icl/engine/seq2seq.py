"""The engine for encoder-decoder models: prompts encoded in batches of similar length, answers read off the decoder."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.icl.engine import reading
from mlflow_l3d.approaches.icl.engine.base import Continuation, Engine, Result, TokenIds
from mlflow_l3d.approaches.icl.engine.reading import ROOT, AnswerTrie, cache_argument


class Seq2SeqEngine(Engine):
    """Scores answers and generates with an encoder-decoder language model.

    An encoder reads in both directions, so prompts share nothing; they are encoded in batches of similar length, each
    once. The decoder's first step fills the keys and values of the encoded prompt for all that follows: the ways
    through the answers' trie are run behind it one by one, each for all prompts of a batch.

    Parameters and attributes as for :class:`~mlflow_l3d.approaches.icl.engine.base.Engine`.
    """

    @cached_property
    def cache_argument(self) -> str:
        """What the model calls its cache."""
        return cache_argument(self.model)

    def _score(self, texts: Sequence[TokenIds], trie: AnswerTrie) -> npt.NDArray[np.float64]:
        ways: list[tuple[int, ...]] = [(ROOT,), *filter(None, trie.paths)]
        step_places = [trie.reads_on(way) for way in ways]
        steps = np.concatenate([steps_of_way for steps_of_way, _ in step_places])
        tokens = trie.reads[1]
        reads = [
            reading.on_device(self.model.device, places, tokens[steps_of_way]) for steps_of_way, places in step_places
        ]

        @torch.inference_mode()
        def work(batch: Sequence[int]) -> torch.Tensor:
            """Return what is read behind the start token, then behind each way, (B, 2, steps of all of them)."""
            logits, shared, cache = self._start([texts[item] for item in batch])
            reads_of_ways = [reading.read_steps(logits, *reads[0])]
            for way, places in zip(ways[1:], reads[1:], strict=True):
                ids = reading.on_device(self.model.device, trie.tokens[list(way)])[0].expand(len(batch), -1)
                reads_of_ways.append(reading.read_steps(self._decode(ids, shared, _branch(cache)), *places))
            return torch.cat(reads_of_ways, dim=2)

        read = np.empty((len(texts), len(tokens)))
        read[:, steps] = reading.log_probabilities(self._run(texts, work))
        return trie.total(read)

    def _generate(self, texts: Sequence[TokenIds], how: Continuation) -> list[list[int]]:
        return self._run(texts, lambda batch: self._continue([texts[item] for item in batch], how.of(batch)))

    def _run(self, texts: Sequence[TokenIds], work: Callable[[Sequence[int]], Iterable[Result]]) -> list[Result]:
        order = sorted(range(len(texts)), key=lambda item: (len(texts[item]), item))
        return self.batches.run(order, [len(text) for text in texts], work, padded=True)

    def _start(self, texts: Sequence[TokenIds]) -> tuple[torch.Tensor, dict[str, Any], Any]:
        """Encode a batch and run the start token; return its logits, what the decoder needs again, and its cache."""
        from transformers import DynamicCache, EncoderDecoderCache
        from transformers.modeling_outputs import BaseModelOutput

        width = max(map(len, texts))
        device = self.model.device
        ids = torch.tensor([[*text, *[self.pad_id] * (width - len(text))] for text in texts], device=device)
        lengths = torch.tensor([len(text) for text in texts], device=device)
        mask = (torch.arange(width, device=device) < lengths[:, None]).long()
        encoded = self.model.get_encoder()(input_ids=ids, attention_mask=mask)
        output = BaseModelOutput(last_hidden_state=encoded.last_hidden_state)
        shared = {"encoder_outputs": output, "attention_mask": mask}
        settings = (self.model.generation_config, self.model.config)
        starts = [getattr(each, "decoder_start_token_id", None) for each in settings]
        start_id = int(next((token for token in starts if token is not None), self.pad_id))
        first = torch.full((len(texts), 1), start_id, device=device)
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        return self._decode(first, shared, cache), shared, cache

    def _decode(self, tokens: torch.Tensor, shared: dict[str, Any], cache: Any) -> torch.Tensor:
        """Run (B, T) decoder tokens behind a cache, which grows; return logits (B, T, vocabulary)."""
        output = self.model(decoder_input_ids=tokens, use_cache=True, **{self.cache_argument: cache}, **shared)
        logits: torch.Tensor = output.logits
        return logits

    @torch.inference_mode()
    def _continue(self, texts: Sequence[TokenIds], how: Continuation) -> list[list[int]]:
        results: list[list[int]] = [[] for _ in texts]
        running = np.arange(len(texts))
        logits, shared, cache = self._start(texts)
        for step in range(how.limit):
            chosen = reading.next_tokens(logits[:, -1], step, how.sampling)
            # A text that has ended goes on in its row, unread.
            running = running[how.extend([results[text] for text in running], reading.copy_to_host(chosen)[running])]
            if not len(running) or step == how.limit - 1:
                break
            logits = self._decode(chosen[:, None], shared, cache)
        return results


def _branch(cache: Any) -> Any:
    """Return a cache that starts with the same keys and grows by itself; the keys are not copied."""
    branch = copy.copy(cache)
    branch.self_attention_cache = copy.copy(cache.self_attention_cache)
    branch.self_attention_cache.layers = [copy.copy(layer) for layer in cache.self_attention_cache.layers]
    branch.is_updated = dict(cache.is_updated)
    return branch
