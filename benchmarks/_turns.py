"""Processes that start together, so that their imports overlap, and that work one after another, in turns."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _common import Child

PATIENCE = 300.0


def wait_for_turn(settings: Mapping[str, Any]) -> None:
    """Import what trains, tell that this process is ready, and sleep until its side has its turn.

    A process whose parent is gone ends.
    """
    import torch  # noqa: F401
    from transformers import AutoModelForSequenceClassification, AutoTokenizer  # noqa: F401
    from transformers.models.bert import modeling_bert  # noqa: F401

    import mlflow_l3d.approaches.finetuning.full  # noqa: F401

    if settings["side"] == "Trainer":
        from datasets import Dataset  # noqa: F401
        from transformers import DataCollatorWithPadding, Trainer, TrainingArguments  # noqa: F401
    folder, parent, end = Path(settings["turn"]), os.getppid(), time.perf_counter() + PATIENCE
    (folder / f"ready {os.getpid()}").write_text(repr(time.perf_counter()), encoding="utf-8")
    while not (folder / "turn").exists():
        if os.getppid() != parent or time.perf_counter() > end:
            raise SystemExit("the turn of this side does not come")
        time.sleep(0.02)


def note_rates(settings: Mapping[str, Any]) -> None:
    """Let this process write, for each of its trainings, the steps a second between the first and the last one."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    times: list[float] = []
    path = Path(settings["turn"]) / f"rates {os.getpid()}"

    def note(*_given: object) -> None:
        times.append(time.perf_counter())
        if len(times) == settings["steps"]:
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{(len(times) - 1) / (times[-1] - times[0])}\n")
            times.clear()

    if settings["device"] != "cuda" or settings["trainable"] != "full":
        register_optimizer_step_post_hook(note)
        return
    from mlflow_l3d.approaches.finetuning.graphed import GraphedSteps

    def timed(self: GraphedSteps, order: Any, rates: Any) -> float:
        """Make the steps of an epoch, which Python only starts, and wait for the last one."""
        begun = time.perf_counter()
        loss = epoch(self, order, rates)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{len(rates) / (time.perf_counter() - begun)}\n")
        return loss

    epoch = GraphedSteps.epoch
    GraphedSteps.epoch = timed  # type: ignore[method-assign]


@dataclass
class Side:
    """The processes of a side, which wait for their turn.

    Attributes
    ----------
    expected
        How many processes tell that they are ready, workers of ours included.
    overlapped
        Seconds that they slept, once they had their turn.
    """

    folder: Path
    expected: int
    children: list[Child] = field(default_factory=list)
    overlapped: float = 0.0

    def settled(self) -> bool:
        """Return whether all processes wait, or one has ended."""
        return len(self._ready()) >= self.expected or any(child.process.poll() is not None for child in self.children)

    def begin(self) -> None:
        """Give the side its turn."""
        times = [float(text) for path in self._ready() if (text := path.read_text(encoding="utf-8"))]
        self.overlapped = max(0.0, time.perf_counter() - max(times)) if len(times) >= self.expected else 0.0
        (self.folder / "turn").touch()

    def end(self) -> None:
        """End what still runs."""
        for child in self.children:
            if child.process.poll() is None:
                child.process.kill()
                child.process.wait()

    def _ready(self) -> list[Path]:
        return list(self.folder.glob("ready *"))


def wait_until_settled(sides: Sequence[Side], seconds: float) -> None:
    """Wait until no process imports any more, or for some seconds."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end and not all(side.settled() for side in sides):
        time.sleep(0.05)
