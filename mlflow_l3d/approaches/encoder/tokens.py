"""Texts as token numbers: tokenised once, padded batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import ParameterError

if TYPE_CHECKING:
    import torch

CHUNK = 10_000


class Tokens:
    """Token numbers of n examples, without padding.

    Parameters
    ----------
    columns
        Name of a model input (``input_ids``, ``token_type_ids``) -> the numbers of all examples one after another.
    starts
        Shape (n + 1,): where each example begins in them.
    padding
        Name -> number that fills a row up.
    """

    def __init__(
        self,
        columns: dict[str, npt.NDArray[np.int32]],
        starts: npt.NDArray[np.int64],
        padding: dict[str, int],
    ) -> None:
        self.columns = columns
        self.starts = starts
        self.padding = padding

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each example, shape (n,)."""
        return np.diff(self.starts)

    def batch(self, positions: npt.NDArray[np.int64], device: str) -> dict[str, torch.Tensor]:
        """Return the model's inputs for some examples, each of shape (b, longest of them), padded on the right."""
        import torch

        lengths = self.lengths[positions]
        inside = np.arange(int(lengths.max())) < lengths[:, None]
        found = {"attention_mask": torch.from_numpy(inside.astype(np.int64))}
        taken = np.concatenate([np.arange(self.starts[i], self.starts[i + 1]) for i in positions])
        for name, numbers in self.columns.items():
            padded = np.full(inside.shape, self.padding[name], dtype=np.int64)
            padded[inside] = numbers[taken]
            found[name] = torch.from_numpy(padded)
        return {name: tensor.to(device) for name, tensor in found.items()}

    def by_length(self, positions: npt.NDArray[np.int64], size: int) -> list[npt.NDArray[np.int64]]:
        """Cut examples into batches of like length, the longest first; return indices *into* `positions`."""
        order = np.argsort(-self.lengths[positions], kind="stable")
        return [order[start : start + size] for start in range(0, len(order), size)]


def tokenise(tokenizer: Any, texts: Sequence[Sequence[str]], max_length: int) -> Tokens:
    """Tokenise one text column, or two as pairs (the longer text of a pair is cut first).

    Parameters
    ----------
    tokenizer
        Of `transformers`.
    texts
        One or two columns of n texts.
    max_length
        Most tokens of an example, those that mark its beginning and end included.
    """
    parts: dict[str, list[npt.NDArray[np.int32]]] = {}
    lengths: list[int] = []
    for start in range(0, len(texts[0]), CHUNK):
        columns = [list(column[start : start + CHUNK]) for column in texts]
        encoded = tokenizer(*columns, truncation=True, max_length=max_length, return_attention_mask=False)
        lengths += map(len, encoded["input_ids"])
        for name, rows in encoded.items():
            parts.setdefault(name, []).append(np.concatenate([np.asarray(row, dtype=np.int32) for row in rows]))
    padding = {name: tokenizer.pad_token_id if name == "input_ids" else 0 for name in parts}
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Tokens({name: np.concatenate(rows) for name, rows in parts.items()}, starts, padding)


def check_length(max_length: int, tokenizer: Any, config: Any) -> None:
    """Raise :class:`ParameterError` if the model takes fewer tokens than `max_length`."""
    limits = [tokenizer.model_max_length, getattr(config.get_text_config(), "max_position_embeddings", None)]
    limit = min(int(number) for number in limits if number)
    if max_length > limit:
        raise ParameterError("hyperparameters.max_length", max_length, f"the model takes at most {limit} tokens")
