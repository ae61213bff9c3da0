"""The runs of one side of a gate: those that were there, and those that are trained now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.system import Predictions, System, systems
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.gate.golden import GoldenRequest, GoldenRuns
from mlflow_l3d.studies.gate.request import GateRequest
from mlflow_l3d.studies.gate.sides import Side

if TYPE_CHECKING:
    from mlflow import MlflowClient


@dataclass
class Runs:
    """The golden runs of a side.

    Attributes
    ----------
    side
        What was there before.
    asked
        The gate.
    client
        The tracking server.
    wanting
        With which more of them are trained; None where enough were there.
    stack
        Ends what was begun.
    progress
        Whether to show progress bars.
    takes_turns
        Whether the other side trains, too.
    training
        What trains more of them, once it is needed.
    """

    side: Side
    asked: GateRequest
    client: MlflowClient
    wanting: GoldenRequest | None = None
    stack: ExitStack = field(default_factory=ExitStack)
    progress: bool = False
    takes_turns: bool = False
    training: GoldenRuns | None = None

    @property
    def parent(self) -> tuple[str, str]:
        """Run and experiment of the investigation, or of those that were trained now; empty before there is one."""
        if self.side.run_id or not self.training:
            return self.side.run_id, self.side.experiment_id
        return self.training.ledger.parent.run_id, self.training.ledger.parent.experiment_id

    def missing(self, runs: int) -> bool:
        """Return whether some of the first `runs` are still to be trained, and find those of earlier commands first."""
        if self.wanting and not self.training and not np.isfinite(self.scores(runs)).all():
            training = GoldenRuns(self.wanting, progress=self.progress, takes_turns=self.takes_turns)
            self.stack.enter_context(training.opened())
            self.training = training
        return self.training is not None and self.training.missing_runs(runs) > 0

    def advance(self, runs: int) -> None:
        """Train what is missing of the first `runs`."""
        if self.missing(runs) and self.training:
            self.training.advance(runs)

    def pause(self) -> None:
        """Let the workers go."""
        if self.training:
            self.training.pause()

    def finish(self, runs: int) -> None:
        """End the parent of what was trained."""
        if self.training:
            self.training.finish(runs)

    def scores(self, runs: int) -> FloatArray:
        """Return the scores of the first `runs`, nan where there is none; shape (runs,)."""
        if self.training:
            return self.training.scores[:runs]
        return self.side.scores(self.asked.metric.name, runs)

    def predictions(self, runs: int) -> Iterator[pd.DataFrame | None]:
        """Yield the predictions of the first `runs`."""
        return self.training.predictions(runs) if self.training else self.side.predictions(self.client, runs)


def systems_of(sides: Mapping[str, Runs], runs: int, asked: GateRequest, *, predictions: bool) -> dict[str, System]:
    """Return both sides as systems that can be compared, by name.

    Parameters
    ----------
    sides
        By name.
    runs
        So many of each are looked at.
    asked
        The gate.
    predictions
        Whether the luck of test examples is to be known.

    Raises
    ------
    L3DError
        If a side has fewer than two runs with a score, or predictions are wanted and a run has none.
    """
    scores, numbers, tables = [], [], []
    for name, side in sides.items():
        own = side.scores(runs)
        known = np.flatnonzero(np.isfinite(own))
        if len(known) < 2:
            raise L3DError(f"{name}: {len(known)} of {runs} golden runs have a score; two are needed.")
        scores.append(own[known])
        numbers.append(known)
        if predictions:
            frames = list(side.predictions(runs))
            tables.append(_joined([frames[number] for number in known]))
    configurations = [{"run": each} if asked.paired else {} for each in numbers]
    whole = [table for table in tables if table is not None]
    given = whole if len(whole) == len(scores) else None
    classes = len((asked.baseline.task or {}).get("classes", ())) or None
    read, why = systems(list(sides), scores, configurations, given, asked.metric, classes, asked.test_examples)
    if predictions and why:
        raise ParameterError("examples", "random", f"the luck of test examples is not known: {why}")
    return dict(zip(sides, read, strict=True))


def _joined(frames: list[pd.DataFrame | None]) -> Predictions | None:
    if any(frame is None for frame in frames):
        return None
    run = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames if frame is not None])
    whole = pd.concat([frame for frame in frames if frame is not None], ignore_index=True)
    return Predictions(run, *(whole[name].to_numpy() for name in ("example_id", "label", "prediction")))
