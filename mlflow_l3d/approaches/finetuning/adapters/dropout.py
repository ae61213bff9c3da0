"""Dropout before adapters: whether a number is dropped follows from its example, the epoch and where it stands.

So it depends neither on the device, nor on how a batch is cut or padded, nor on the cells that are trained beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from mlflow_l3d.approaches.counted import counted, kept, mixed, places
from mlflow_l3d.errors import L3DError

AHEAD: Final = 2**26
"""Bytes of random bits that are drawn at once on a GPU, which would spend its time on starting what is small."""


class Keys:
    """Where the streams of the batch at hand begin, for all dropouts of a model.

    Attributes
    ----------
    widths
        Numbers in a row of what each dropout gets.
    """

    def __init__(self) -> None:
        self.widths: list[int] = []
        self._starts = self._batch = torch.empty(0, dtype=torch.int64)
        self._places: dict[int, torch.Tensor] = {}
        self._drawn: dict[tuple[int, int, int], torch.Tensor] = {}

    def __len__(self) -> int:
        return len(self._batch)

    def begin(self, seeds: Sequence[int], examples: int, rows: int, device: str) -> None:
        """Begin an epoch.

        Parameters
        ----------
        seeds
            One for each of the B cells.
        examples
            How many each visits, n: the i-th one of a cell has streams of its own, whichever it is.
        rows
            How many rows of tokens an example has.
        device
            Where the model is.
        """
        if not self.widths:
            return
        starts = mixed(torch.tensor(seeds, device=device))
        for count in (examples * rows, len(self.widths)):
            starts = counted(starts, places(count, device))
        self._starts = starts.view(len(seeds), examples, rows, -1)

    def take(self, part: slice) -> None:
        """Turn to a batch: some of the examples that each cell visits."""
        if self.widths:
            self._batch = self._starts[:, part].reshape(-1, len(self.widths))
            self._drawn = {}

    def of(self, number: int, rows: int, length: int) -> torch.Tensor:
        """Return bits for a dropout: int64, shape (rows, length * words); four numbers a word, whole words a width."""
        if len(self) != rows:
            difference = f"{len(self)} rows, but {rows} at an adapter"
            raise L3DError(f"the model does not keep the texts of a batch apart: {difference}. Use lora_dropout=0.")
        words, on_host = length * -(-self.widths[number] // 4), self._batch.device.type == "cpu"
        size = 1 if on_host else max(1, AHEAD // (8 * rows * words))
        first = number - number % size
        if len(set(self.widths[first : first + size])) > 1:
            first, size = number, 1
        span = first, first + size, words
        if span not in self._drawn:
            # Batches come in many lengths, whose places begin alike.
            longest = 1 << (words - 1).bit_length()
            if longest not in self._places:
                self._places[longest] = places(longest, self._batch.device)
            self._drawn = {span: counted(self._batch[:, first : first + size], self._places[longest][:words])}
        return self._drawn[span][:, number - first]


class CountedDropout(torch.nn.Module):
    """Dropout of one adapter.

    Parameters
    ----------
    probability
        That of a number to be dropped.
    width
        Numbers in a row of what it gets.
    keys
        Those of the model; this dropout becomes one of its modules.
    """

    def __init__(self, probability: float, width: int, keys: Keys) -> None:
        super().__init__()
        self.probability, self.keys, self.number = probability, keys, len(keys.widths)
        keys.widths.append(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop numbers of x, shape (rows, *, width) or (rows * length, width), while training."""
        if not self.training:
            return x
        width = x.shape[-1]
        rows = len(self.keys) if x.dim() == 2 else len(x)
        bits = self.keys.of(self.number, rows, x.numel() // (rows * width))
        keeps, factor = kept(bits.reshape(-1, -(-width // 4)), self.probability)
        return x * keeps[:, :width].reshape(x.shape) * factor
