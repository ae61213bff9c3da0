"""The golden runs of one side of a gate, those that were there or those that are trained now, as a system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.difference import Spread, examples_to_settle, runs_to_settle
from mlflow_l3d.analysis.comparison.predictions import join_predictions, systems
from mlflow_l3d.analysis.comparison.system import System
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.gate.golden import GoldenRuns
from mlflow_l3d.studies.gate.numbers.gate import Look, Outstanding
from mlflow_l3d.studies.gate.request import GateRequest
from mlflow_l3d.studies.gate.sides import Side
from mlflow_l3d.studies.loop import State
from mlflow_l3d.tracking.connection import Client


@dataclass
class SideRuns:
    """The golden runs of a side.

    Attributes
    ----------
    side
        The side as it was before.
    request
        The gate.
    client
        The tracking server.
    training
        Trains more of them, once that is needed; None if enough were there.
    stack
        Ends what was begun.
    """

    side: Side
    request: GateRequest
    client: Client
    training: GoldenRuns | None = None
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def begun(self) -> GoldenRuns | None:
        """What trains more of them, if that has begun: it then knows all of them."""
        return self.training if self.training and self.training.state is not State.PLANNED else None

    @property
    def parent(self) -> tuple[str, str]:
        """Run and experiment of the investigation, or of those that were trained now; empty before there is one."""
        if self.side.run_id or not self.begun:
            return self.side.run_id, self.side.experiment_id
        return self.begun.recorder.parent.run_id, self.begun.recorder.parent.experiment_id

    def missing(self, runs: int) -> bool:
        """Return whether some of the first `runs` are still to be trained, and find those of earlier commands first."""
        if self.training and not self.begun and not np.isfinite(self.scores(runs)).all():
            self.stack.enter_context(self.training.opened())
        return self.begun is not None and self.begun.missing_runs(runs) > 0

    def scores(self, runs: int) -> FloatArray:
        """Return the scores of the first `runs`, nan if there is none; shape (runs,)."""
        return self.begun.scores[:runs] if self.begun else self.side.scores(self.request.metric.name, runs)

    def predictions(self, runs: int) -> Iterator[pd.DataFrame | None]:
        """Yield the predictions of the first `runs`."""
        return self.begun.predictions(runs) if self.begun else self.side.predictions(self.client, runs)


def systems_of(
    sides: Mapping[str, SideRuns], runs: int, request: GateRequest, *, predictions: bool
) -> dict[str, System]:
    """Return both sides as systems that can be compared, by name.

    Parameters
    ----------
    sides
        By name.
    runs
        So many of each are looked at.
    request
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
        side_scores = side.scores(runs)
        scored = np.flatnonzero(np.isfinite(side_scores))
        if len(scored) < 2:
            raise L3DError(f"{name}: {len(scored)} of {runs} golden runs have a score; two are needed.")
        scores.append(side_scores[scored])
        numbers.append(scored)
        if predictions:
            frames = list(side.predictions(runs))
            parts = ((place, frames[number]) for place, number in enumerate(scored) if frames[number] is not None)
            tables.append(join_predictions(parts, len(scored)))
    configurations = [{"run": each} if request.paired else {} for each in numbers]
    classes = len(request.baseline.task.get("classes", ())) or None
    read, why = systems(list(sides), scores, configurations, tables, request.metric, classes, request.test_examples)
    if predictions and why:
        raise ParameterError("examples", "random", f"the luck of test examples is not known: {why}")
    return dict(zip(sides, read, strict=True))


def check_examples(baseline: Iterable[pd.DataFrame | None], first: pd.DataFrame | None, title: str) -> None:
    """Raise ParameterError if a candidate has other test examples than the baseline, whose runs all have the same.

    Parameters
    ----------
    baseline
        Predictions of two of its runs.
    first, title
        Predictions of a run of the candidate, and its title.
    """
    tables = [each for each in (first, *baseline) if each is not None]
    if first is None or len(tables) < 3:
        return
    own, *others = (frozenset(each["example_id"]) for each in tables)
    if len(set(others)) == 1 and own != others[0]:
        shared = f"{len(own & others[0])} of its {len(own)} are among the {len(others[0])} of the baseline"
        fix = "Evaluate both on the same ones. An example without an answer needs an empty prediction: it is wrong."
        raise ParameterError("candidate", title, f"has other test examples: {shared}", fix)


def outstanding(request: GateRequest, systems: Mapping[str, System], look: Look, spread: Spread) -> Outstanding:
    """Return what a look leaves open, by the runs of both sides and the spread of their difference."""
    effect, level = request.plan.smallest_effect, 1 - request.plan.alpha
    equal = request.paired and np.array_equal(systems["baseline"].scores, systems["candidate"].scores)
    if request.examples == "fixed":
        spread = replace(spread, of_examples=0.0, examples_raw=0.0)
    runs = runs_to_settle(look.difference, spread, effect, level)
    return Outstanding(equal, runs, examples_to_settle(look.difference, spread, effect, level))
