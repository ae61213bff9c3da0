"""An approach that harms the GPU when one cell comes: workers load it from here."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.cells.cell import Cell


def dead_context(device: str) -> None:
    """Read beyond the end of a tensor: an assertion on the device fails."""
    if device == "cpu":  # a rehearsal
        raise RuntimeError("CUDA error: device-side assert triggered")
    torch.zeros(2, device=device)[torch.tensor([5], device=device)].cpu()


def spent(device: str) -> None:
    """Ask for more memory than any GPU has."""
    torch.empty(2**43, device=device)


HARMS = {"dead context": dead_context, "spent": spent, "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL)}


class Harmed(Finetuning):
    """Fine-tuning in which `harm` happens before the cell of `key`: each time, or the first time only."""

    def __init__(self, key: str, harm: str, *, once: bool) -> None:
        self.key, self.harm, self.once = key, harm, once

    def prepare(
        self, task: Any, hyperparameters: Mapping[str, Any], *, model: str, device: str, cache: Path
    ) -> Session:
        """Return the session of fine-tuning, with the harm."""
        inner: Any = super().prepare(task, hyperparameters, model=model, device=device, cache=cache)
        draw, mark = inner.draw, cache / "harmed"

        def harmed(cell: Cell) -> Any:
            if cell.key == self.key and not (self.once and mark.exists()):
                mark.touch()
                HARMS[self.harm](device)
            return draw(cell)

        inner.draw = harmed
        return inner
