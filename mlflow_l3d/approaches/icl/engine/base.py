"""What both engines share: how work comes in, what is asked of it, and how it is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.icl.engine.batches import Batches
from mlflow_l3d.approaches.icl.engine.sampling import Sampling
from mlflow_l3d.approaches.icl.engine.tensors import is_half
from mlflow_l3d.approaches.icl.engine.trie import AnswerTrie, build_trie

TokenIds: TypeAlias = tuple[int, ...]

Ended: TypeAlias = Callable[[Sequence[int]], bool]
"""Says of the new tokens of a text whether what follows would be of no use."""


class Engine(ABC):
    """Scores answers and generates with a language model.

    Parameters
    ----------
    model
        A `transformers` model in evaluation mode.
    pad_id
        Token that stands in for nothing.
    batch_tokens
        Most tokens run at once, None for 512 on a CPU and 4096 elsewhere: enough to keep matrix units busy, not more.
        A session takes these, so that the batches of a cell follow from its hyperparameters and the kind of device.
    batch_size
        Most prompts run at once, None for any number.

    Attributes
    ----------
    batches
        The bounds in force. They shrink when memory is spent, but not in half precision, in which batches of another
        size round otherwise and may change a prediction.
    """

    def __init__(
        self, model: Any, pad_id: int, *, batch_tokens: int | None = None, batch_size: int | None = None
    ) -> None:
        self.model = model
        self.pad_id = pad_id
        tokens = batch_tokens or (512 if model.device.type == "cpu" else 4096)
        self.batches = Batches(tokens, batch_size, fixed=partial(is_half, model))

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
        texts, shape = [tuple(prompt) for prompt in prompts], (len(prompts), len(answers))
        return self._score(texts, build_trie(answers)) if all(shape) else np.zeros(shape)

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
        return self._generate(texts, max_new_tokens, stop, sampling, ended or (lambda _: False)) if texts else []

    @abstractmethod
    def _score(self, texts: Sequence[TokenIds], trie: AnswerTrie) -> npt.NDArray[np.float64]:
        """Return the log-probabilities, (n, C), of at least one text."""

    @abstractmethod
    def _generate(
        self, texts: Sequence[TokenIds], limit: int, stop: Collection[int], sampling: Sampling | None, ended: Ended
    ) -> list[list[int]]:
        """Return the continuations of at least one text."""
