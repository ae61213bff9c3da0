"""An approach whose importance scores are known in closed form; nothing is trained, and torch is not needed."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.cure import Remedy
from mlflow_l3d.approaches.base import Approach, CellwiseSession, Session, answered
from mlflow_l3d.approaches.hooks import changing
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Searched, SearchRange, Value
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.cells.factors import TASK_FACTORS, stream
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray

FACTORS: Final = (*TASK_FACTORS, "data_order", "sample_choice", "model_initialisation", "model_randomness")
NO_EFFECT: Final = 1e6
"""A factor whose sensitivity is at least this is left out of the score."""
MARGIN: Final = 0.05
"""Scores lie in ``[MARGIN, 1 - MARGIN]``."""
_HYPERPARAMETERS: Final[Mapping[str, Hyperparameter]] = {
    f"a_{factor}": Hyperparameter(
        default, f"sensitivity of the score to {factor}: 0 is strongest, {NO_EFFECT:g} and above is none", 0.0, 1e9
    )
    for factor, default in zip(FACTORS, (1.0, 4.5, 0.0, 9.0, 2.0, 99.0), strict=True)
} | {
    "noise": Hyperparameter(
        0.0, "relative half-width of noise that a change of any active factor redraws", low=0.0, high=1.0
    ),
    "duration": Hyperparameter(0.0, "seconds that a cell sleeps", low=0.0),
    "spin": Hyperparameter(0.0, "milliseconds that a cell keeps its core busy", low=0.0),
    "fail_every": Hyperparameter(0, "one cell in so many fails, chosen by the hash of its key; 0 is none", low=0),
}


def sensitivities(hyperparameters: Mapping[str, Value]) -> dict[str, float]:
    """Return the sensitivity ``a_k`` of every factor that has an effect."""
    all_factors = {factor: float(hyperparameters[f"a_{factor}"]) for factor in FACTORS}
    return {factor: a for factor, a in all_factors.items() if a < NO_EFFECT}


def score(seeds: Mapping[str, int], hyperparameters: Mapping[str, Value]) -> float:
    r"""Return the score of a cell: the Sobol G-function of one uniform number a factor.

    :math:`y = e \prod_k (|4 u_k - 2| + a_k) / (1 + a_k)`, with :math:`u_k` the first number of the stream of factor k
    and e uniform in ``[1 - noise, 1 + noise]``, drawn from the seeds of all active factors together. The range of y is
    mapped linearly onto ``[MARGIN, 1 - MARGIN]``, which leaves every share of its variance as it is.

    Parameters
    ----------
    seeds
        Factor -> seed; those of inactive factors are not looked at.
    hyperparameters
        Complete.

    References
    ----------
    Sobol (2003), "Theorems and examples on high dimensional model representation"; Saltelli et al. (2010), section 5.
    """
    active = sensitivities(hyperparameters)
    noise = float(hyperparameters["noise"])
    if not active:
        return 0.5
    value, low, high = 1.0, 1.0, 1.0
    for factor, a in active.items():
        uniform = stream(seeds[factor], "synthetic").random()
        value *= (abs(4.0 * uniform - 2.0) + a) / (1.0 + a)
        low *= a / (1.0 + a)
        high *= (2.0 + a) / (1.0 + a)
    if noise > 0:
        together = stream(0, "synthetic noise", *(f"{factor}={seeds[factor]}" for factor in active))
        value *= 1.0 + noise * together.uniform(-1.0, 1.0)
        low *= 1.0 - noise
        high *= 1.0 + noise
    return float(MARGIN + (1.0 - 2.0 * MARGIN) * (value - low) / (high - low))


def fails(key: str, every: int) -> bool:
    """Return whether the cell with this key fails if one in `every` does."""
    return every > 0 and zlib.crc32(key.encode("utf-8")) % every == 0


class Synthetic(Approach):
    """The synthetic approach: metric ``synthetic_score`` is exact, predictions have about that accuracy."""

    name: str = "synthetic"
    version: str = "1"
    factors: tuple[str, ...] = FACTORS
    hyperparameters: Mapping[str, Hyperparameter] = _HYPERPARAMETERS
    metrics: tuple[str, ...] = ("synthetic_score",)
    default_task: str = "synthetic"
    self_tested: bool = False

    def inactive_factors(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:
        """Return the factors whose sensitivity is :data:`NO_EFFECT` or more."""
        active = sensitivities(hyperparameters)
        return {
            factor: f"a_{factor} is {NO_EFFECT:g} or more; give it a smaller value"
            for factor in FACTORS
            if factor not in active
        }

    def remedies(self, task: Task, hyperparameters: Mapping[str, Value]) -> tuple[Remedy, ...]:  # noqa: ARG002
        """Return a weaker effect of the strongest factor, and less noise: their truth is known in closed form."""
        active = sensitivities(hyperparameters)
        values: dict[str, dict[str, Value]] = {}
        if active:
            strongest = min(active, key=lambda name: active[name])
            values[f"weaker effect of {strongest}"] = {f"a_{strongest}": 99.0}
        values["no noise"] = {"noise": 0.0}
        return changing(hyperparameters, values)

    def search_space(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, Searched]:
        """Return two sensitivities, if they have an effect: the best ones of a few cells are luck alone."""
        return {
            name: SearchRange(0.0, 9.0)
            for name in ("a_data_order", "a_sample_choice")
            if float(hyperparameters[name]) < NO_EFFECT
        }

    def numerics(self, device: str) -> Mapping[str, str]:  # noqa: ARG002
        """Return nothing but the dtype: the device has no effect in it."""
        return {"dtype": "float64"}

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> Session:
        """Return a session; there is nothing to load."""
        del model, device, cache
        return SyntheticSession(task, dict(hyperparameters))


@dataclass(frozen=True)
class SyntheticSession(CellwiseSession):
    """Scores cells, one after the other."""

    task: Task
    hyperparameters: Mapping[str, Value]

    def run_cell(self, cell: Cell) -> Outcome:
        """Score a cell."""
        settings = self.hyperparameters
        if fails(cell.key, int(settings["fail_every"])):
            raise RuntimeError("this cell fails, as fail_every asks")
        _spend(float(settings["duration"]), float(settings["spin"]) / 1000.0)
        value = score(cell.seeds, settings)
        # An inactive factor of the task must not draw another split either.
        active = sensitivities(settings)
        positions = self.task.split({name: cell.seeds[name] if name in active else 0 for name in TASK_FACTORS}).test
        scores = _class_scores(value, positions, self.task)
        predicted = scores.argmax(axis=1).astype(np.int64)
        return answered(cell.key, self.task, positions, predicted, scores, metrics={"synthetic_score": value})


def _class_scores(value: float, positions: IntArray, task: Task) -> npt.NDArray[np.float32]:
    """Return (n, classes) scores of which the true class has the highest if the example's own uniform is low.

    An example keeps its uniform in every cell, so the share of right predictions is close to `value`, and a higher
    score never makes a right prediction wrong.
    """
    uniform = stream(0, "synthetic examples").random(len(task))[positions]
    labels, rows = task.labels[positions], np.arange(len(positions))
    scores = np.zeros((len(labels), len(task.class_names)), dtype=np.float32)
    right = 0.5 + (value - uniform) / 2.0
    scores[rows, labels] = right
    scores[rows, (labels + 1) % len(task.class_names)] = 1.0 - right
    return scores


def _spend(sleep_seconds: float, busy_seconds: float) -> None:
    if sleep_seconds > 0:
        time.sleep(sleep_seconds)
    end = time.perf_counter() + busy_seconds
    while time.perf_counter() < end:
        pass
