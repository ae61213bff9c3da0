"""What engines share: how work comes in and what it asks, how answers are read, and attention in bfloat16 on a CPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.failures import is_out_of_memory
from mlflow_l3d.approaches.icl.engine.reading import AnswerTrie, Sampling, build_trie
from mlflow_l3d.errors import L3DError

Result = TypeVar("Result")


class Batches:
    """Batches of neighbours, bounded in tokens and in number.

    Parameters
    ----------
    tokens
        Most tokens of a batch; one item alone may have more.
    size
        Most items of a batch, 0 for any number.
    are_chosen
        Whether the caller chose the tokens.
    """

    def __init__(self, tokens: int, size: int = 0, *, are_chosen: bool = False) -> None:
        self.tokens, self.size, self.are_chosen = tokens, size, are_chosen

    def run(
        self,
        order: Sequence[int],
        costs: Sequence[int],
        work: Callable[[Sequence[int]], Iterable[Result]],
        *,
        tokens: int = 0,
        most: int = 0,
        padded: bool = False,
    ) -> list[Result]:
        """Call `work` with batches of `order` until every item had its turn; return the results by number of the item.

        Parameters
        ----------
        order
            Items in the order in which they are to be batched.
        costs
            Tokens of each item, by item.
        work
            Returns a result for each item of a batch.
        tokens
            Most tokens of a batch in place of the usual bound.
        most
            Most items of a batch in addition to the usual bound.
        padded
            Whether every item of a batch costs what the most costly does.

        Raises
        ------
        Exception
            What `work` raises, an error of memory only if a batch of one item has it.
        L3DError
            If memory is spent by several items. Smaller batches round otherwise, so the user chooses them.
        """
        results: dict[int, Result] = {}
        while len(results) < len(order):
            rest, bound = order[len(results) :], tokens or self.tokens
            size = min(len(rest), bound, self.size or bound, most or bound)  # an item has a token at least
            of_items = np.array([costs[item] for item in rest[:size]])
            of_batches = np.maximum.accumulate(of_items) * np.arange(1, size + 1) if padded else of_items.cumsum()
            count = max(1, int(np.searchsorted(of_batches, bound, side="right")))
            try:
                results |= zip(rest[:count], work(rest[:count]), strict=True)
            except Exception as error:
                if count == 1 or not is_out_of_memory(error):
                    raise
                what = f"memory is spent by {count} prompts at once, and others at once may round otherwise"
                raise L3DError(f"{what}. Use batch_size={count // 2}, or fewer workers.") from error
        return [results[item] for item in sorted(results)]


TokenIds: TypeAlias = tuple[int, ...]

Ended: TypeAlias = Callable[[Sequence[int]], bool]
"""Says of the new tokens of a text whether what follows would be of no use."""


@contextmanager
def _naming_spent_memory(texts: Sequence[TokenIds]) -> Iterator[None]:
    """Say in a line what to do if memory is spent though no two prompts ran at once.

    Raises
    ------
    L3DError
        In place of an error of memory.
    """
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        what = f"memory is spent by a single prompt, of which the longest has {max(map(len, texts)):,} tokens"
        raise L3DError(f"{what}. Use fewer shots, dtype=bfloat16 or quantise=4bit, or fewer workers.") from error


@dataclass(frozen=True, slots=True)
class Continuation:
    """How texts are continued; see :meth:`Engine.generate`."""

    limit: int
    stop: Collection[int]
    sampling: Sampling | None
    ended: Ended

    def of(self, items: Sequence[int]) -> Continuation:
        """Return how some of the texts are continued."""
        return replace(self, sampling=self.sampling and self.sampling.of(items))

    def extend(self, new: Sequence[list[int]], tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Add the next token, (n,), to the new tokens of each text; return which texts are continued, (n,)."""
        going = ~np.isin(tokens, list(self.stop))
        for text in np.flatnonzero(going).tolist():
            new[text].append(int(tokens[text]))
            going[text] = not self.ended(new[text])
        return going


class Engine(ABC):
    """Scores answers and generates with a language model.

    Parameters
    ----------
    model
        A `transformers` model in evaluation mode.
    pad_id
        Token that fills gaps.
    batch_tokens
        Most tokens run at once, 0 for 512 on a CPU and 4096 elsewhere: enough to keep matrix units busy, not more;
        of packed rows on CUDA see :func:`~mlflow_l3d.approaches.icl.engine.causal.packed_tokens`. A session takes
        these, so that the batches of a cell follow from its hyperparameters, its model and the kind of device.
    batch_size
        Most prompts run at once, 0 for any number.

    Attributes
    ----------
    batches
        The bounds.
    """

    def __init__(self, model: Any, pad_id: int, *, batch_tokens: int = 0, batch_size: int = 0) -> None:
        self.model, self.pad_id = model, pad_id
        usual = 512 if model.device.type == "cpu" else 4096
        self.batches = Batches(batch_tokens or usual, batch_size, are_chosen=bool(batch_tokens))

    def score(self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
        """Return the log-probability of every answer behind every prompt.

        Parameters
        ----------
        prompts
            n prompts, token ids, none of them empty; of an encoder-decoder those for the encoder, whatever it wants at
            their end included.
        answers
            C answers, token ids, none of them empty; they may begin with one another.

        Returns
        -------
        (n, C), the sum over the answer's tokens of their natural log-probability, in the order of the arguments.
        """
        texts = [tuple(prompt) for prompt in prompts]
        shape = (len(prompts), len(answers))
        if not all(shape):
            return np.zeros(shape)
        with _naming_spent_memory(texts):
            return self._score(texts, build_trie(answers))

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        stop: Collection[int],
        *,
        sampling: Sampling | None = None,
        ended: Ended | None = None,
    ) -> list[list[int]]:
        """Continue every prompt.

        Parameters
        ----------
        prompts
            n prompts, token ids, none of them empty.
        max_new_tokens
            Most tokens to generate, at least 1.
        stop
            Tokens that end a text.
        sampling
            How tokens are drawn, one row of `max_new_tokens` numbers a prompt; None for the likeliest token each time.
        ended
            Asked of every text that has a new token; one that has ended need not be run further.

        Returns
        -------
        The new tokens of each prompt, without the stop token, in the order of the prompts.
        """
        texts = [tuple(prompt) for prompt in prompts]
        how = Continuation(max_new_tokens, stop, sampling, ended or (lambda _: False))
        with _naming_spent_memory(texts):
            return self._generate(texts, how) if texts else []

    @abstractmethod
    def _score(self, texts: Sequence[TokenIds], trie: AnswerTrie) -> npt.NDArray[np.float64]:
        """Return the log-probabilities, (n, C), of at least one text."""

    @abstractmethod
    def _generate(self, texts: Sequence[TokenIds], how: Continuation) -> list[list[int]]:
        """Return the continuations of at least one text."""


PRODUCTS: Final = "l3d_products"
_OTHERS: Final = ("position_bias", "softcap", "s_aux", "cache")
"""What layers may ask for, next to dropout, that is left to torch's kernel."""


def use_products(model: Any) -> None:
    """Let a model on a CPU attend in bfloat16 as two plain products, if it would leave the kernel to torch.

    torch's own kernel computes there no faster than in float32, unless the CPU has AMX: 512 tokens that see 2,810 keys
    in 9 heads take it 42 ms on one thread with AVX512-BF16 in either type, where the products and the softmax between
    them take 17.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    if getattr(model.config, "_attn_implementation", None) != "sdpa":
        return
    AttentionInterface.register(PRODUCTS, attend_by_products)
    AttentionMaskInterface.register(PRODUCTS, eager_mask)
    model.set_attn_implementation(PRODUCTS)


def attend_by_products(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, **asked: Any
) -> tuple[torch.Tensor, None]:
    """Return what the queries read, shape (rows, N, heads, width), and no weights.

    Parameters
    ----------
    module
        The layer.
    query
        Shape (rows, heads, N, width).
    key, value
        Shape (rows, groups, K, width): so many heads share one of them as `groups` goes into heads.
    mask
        Added to the scores; broadcasts to (rows, heads, N, K).
    asked
        `scaling`, what scores are multiplied by; by default the square root of one over the width. What else layers
        ask for, such as dropout and biases of positions, is left to torch's kernel.
    """
    if mask is None or asked.get("dropout") or any(asked.get(name) is not None for name in _OTHERS):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, query, key, value, mask, **asked)
    rows, heads, new, width = query.shape
    groups, keys = key.shape[1:3]
    scale = width**-0.5 if asked.get("scaling") is None else asked["scaling"]
    with torch.autocast("cpu", enabled=False):
        query, key, value = (part.to(torch.bfloat16) for part in (query, key, value))
        scaled = (query * scale).reshape(rows, groups, -1, width)
        scores = torch.matmul(scaled, key.transpose(2, 3)).view(rows, heads, new, keys)
        # The lowest number of another type is infinite in this one, and what sees nothing would read no number.
        lowest = torch.finfo(torch.bfloat16).min
        scores += mask if mask.dtype is torch.bfloat16 else mask.clamp(min=lowest)
        read = torch.matmul(torch.softmax(scores, -1).view(rows, groups, -1, keys), value)
    return read.view(rows, heads, new, -1).transpose(1, 2).contiguous(), None
