"""The engine for encoder-decoder models: prompts encoded in batches of similar length, answers read off the decoder."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.icl.engine.batches import Batches
from mlflow_l3d.approaches.icl.engine.checks import TokenIds, checked_length, checked_prompts, device_tokens
from mlflow_l3d.approaches.icl.engine.reading import read_steps
from mlflow_l3d.approaches.icl.engine.sampling import Sampling, checked_sampling, next_tokens
from mlflow_l3d.approaches.icl.engine.trie import AnswerTrie, build_trie


class Seq2SeqEngine:
    """Scores answers and generates with an encoder-decoder language model.

    An encoder reads in both directions, so prompts share nothing; they are encoded in batches of similar length, each
    once. The decoder's first step fills the keys and values of the encoded prompt for all that follows: the ways
    through the answers' trie are run behind it one by one, each for all prompts of a batch.

    Parameters
    ----------
    model
        An encoder-decoder `transformers` model in evaluation mode.
    pad_id
        Token that fills up short prompts.
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
        start = getattr(model.generation_config, "decoder_start_token_id", None)
        start = getattr(model.config, "decoder_start_token_id", None) if start is None else start
        self.start_id = int(pad_id if start is None else start)

    def score(self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
        """Return the log-probability of every answer as the beginning of the decoder's text, for every prompt.

        Parameters
        ----------
        prompts
            n prompts for the encoder, token ids, whatever the model wants at their end included.
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
        read = np.empty((len(texts), len(trie.reads[0])))

        def work(batch: Sequence[int]) -> None:
            read[batch] = self._read([texts[item] for item in batch], trie)

        self._run(texts, work)
        return trie.total(read)

    @torch.inference_mode()
    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        stop: Collection[int],
        *,
        sampling: Sampling | None = None,
    ) -> list[list[int]]:
        """Decode every prompt.

        Parameters
        ----------
        prompts
            n prompts for the encoder, token ids.
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
        results: list[list[int]] = [[] for _ in texts]

        def work(batch: Sequence[int]) -> None:
            own = None if sampling is None else sampling.of(batch)
            found = self._continue([texts[item] for item in batch], limit, stop, own)
            for item, tokens in zip(batch, found, strict=True):
                results[item] = tokens

        self._run(texts, work)
        return results

    def _run(self, texts: Sequence[TokenIds], work: Any) -> None:
        order = sorted(range(len(texts)), key=lambda item: (len(texts[item]), item))
        self.batches.run(order, [len(text) for text in texts], work)

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
        shared = {
            "encoder_outputs": BaseModelOutput(last_hidden_state=encoded.last_hidden_state),
            "attention_mask": mask,
        }
        first = torch.full((len(texts), 1), self.start_id, device=device)
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        return self._decode(first, shared, cache), shared, cache

    def _decode(self, tokens: torch.Tensor, shared: dict[str, Any], cache: Any) -> torch.Tensor:
        """Run (B, T) decoder tokens behind a cache, which grows; return logits (B, T, vocabulary)."""
        output = self.model(decoder_input_ids=tokens, past_key_values=cache, use_cache=True, **shared)
        logits: torch.Tensor = output.logits
        return logits

    @torch.inference_mode()
    def _read(self, texts: Sequence[TokenIds], trie: AnswerTrie) -> npt.NDArray[np.float64]:
        logits, shared, cache = self._start(texts)
        nodes, tokens = trie.reads
        read = np.empty((len(texts), len(nodes)))
        at_root = np.flatnonzero(nodes == 0)
        read[:, at_root] = read_steps(logits, nodes[at_root], tokens[at_root])
        for path in filter(None, trie.paths):
            ids = torch.from_numpy(trie.tokens[list(path)]).to(self.model.device).expand(len(texts), -1)
            behind = self._decode(ids, shared, _branch(cache))
            places = {node + 1: place for place, node in enumerate(path)}
            steps = [step for step, node in enumerate(nodes) if int(node) in places]
            read[:, steps] = read_steps(behind, np.asarray([places[int(nodes[step])] for step in steps]), tokens[steps])
        return read

    @torch.inference_mode()
    def _continue(
        self, texts: Sequence[TokenIds], limit: int, stop: Collection[int], sampling: Sampling | None
    ) -> list[list[int]]:
        results: list[list[int]] = [[] for _ in texts]
        running = set(range(len(texts)))
        logits, shared, cache = self._start(texts)
        for step in range(limit):
            chosen = next_tokens(logits[:, -1], step, sampling)
            # A text that has ended goes on in its row, unread.
            for text, token in enumerate(chosen.tolist()):
                if token in stop:
                    running.discard(text)
                elif text in running:
                    results[text].append(token)
            if not running or step == limit - 1:
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
