"""What a search of hyperparameters found, and whether that is better where it was not searched for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from mlflow_l3d.analysis.jackknife import t_quantile
from mlflow_l3d.analysis.typing import known
from mlflow_l3d.metrics.base import Metric

if TYPE_CHECKING:
    import pandas as pd

Scale = Literal["linear", "log", "choices"]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The found setting against the default on configurations that were not searched on.

    Attributes
    ----------
    found, default
        Test scores, fractions; entry i of both is of the same configuration. Pairs without a score are left out.
    difference
        Mean of found minus default; nan without a pair.
    ci_low, ci_high
        Interval of the difference (paired, Student's t); nan with fewer than two pairs.
    level
        Its level.
    missing
        Pairs that were left out.
    """

    found: tuple[float, ...]
    default: tuple[float, ...]
    difference: float
    ci_low: float
    ci_high: float
    level: float = 0.95
    missing: int = 0

    @property
    def configurations(self) -> int:
        """Number of pairs."""
        return len(self.found)


def held_out(found: ArrayLike, default: ArrayLike, *, level: float = 0.95) -> HeldOut:
    """Compare two settings on the same configurations.

    Parameters
    ----------
    found, default
        Scores as fractions, shape (n,); entry i of both is of the same configuration. A pair in which one is not finite
        (a run that failed) is left out and counted.
    level
        Level of the interval, in (0, 1).

    Returns
    -------
    HeldOut
        The interval is mean ± t(n - 1) * std / sqrt(n) of the differences (std with ddof 1); of equal scores 0 to 0.
    """
    one, other = np.asarray(found, dtype=float), np.asarray(default, dtype=float)
    usable = np.isfinite(one) & np.isfinite(other)
    missing = int((~usable).sum())
    one, other = one[usable], other[usable]
    differences = one - other
    n = len(differences)
    mean = float(differences.mean()) if n else math.nan
    half = math.nan
    if n > 1:
        half = t_quantile(n - 1, level) * float(differences.std(ddof=1)) / math.sqrt(n)
    return HeldOut(tuple(one.tolist()), tuple(other.tolist()), mean, mean - half, mean + half, level, missing)


@dataclass(frozen=True, slots=True)
class StageSummary:
    """One stage of a search.

    Attributes
    ----------
    name
        ``coarse`` or ``fine``.
    sampler
        The one that was used, never ``auto``.
    ranges
        Searched hyperparameter -> its range as text.
    trials
        All that ended, those that were taken over from another stage left out.
    complete, pruned, failed
        How they ended.
    best_score
        Best score of a complete trial, a fraction; nan without one.
    scales
        Searched hyperparameter -> how its values are ordered, for figures.
    """

    name: str
    sampler: str
    ranges: Mapping[str, str]
    trials: int
    complete: int
    pruned: int
    failed: int
    best_score: float
    scales: Mapping[str, Scale] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A search that has ended.

    Attributes
    ----------
    title
        What was searched, as in ``finetuning on rotten_tomatoes: search of hyperparameters``.
    metric
        What is scored.
    stages
        In their order.
    trials
        One row a trial; columns ``stage``, ``number``, ``state``, ``origin``, ``score``, ``score_std``,
        ``duration_seconds``, ``run_id``, ``is_default``, and one a searched hyperparameter.
    best, default
        Complete hyperparameters: the found ones and the approach's own.
    best_score, default_score
        Their scores on the validation part, fractions; nan if the default was not scored.
    importances
        Searched hyperparameter -> share (0..1) of the variance of the score that it brings about alone, the largest
        first; empty if that is not known (`notes` say why).
    configurations
        How many splits and labelled sets each trial was trained on.
    validation_examples
        Examples that scored a trial, in each of these.
    held_out
        None if the found setting was not tried on other configurations.
    seconds
        Of the whole search.
    run_id
        MLflow's id of the search, to hand over its result; empty without one.
    notes
        Sentences.
    """

    title: str
    metric: Metric
    stages: tuple[StageSummary, ...]
    trials: pd.DataFrame
    best: Mapping[str, bool | int | float | str]
    default: Mapping[str, bool | int | float | str]
    best_score: float
    default_score: float
    importances: Mapping[str, float]
    configurations: int
    validation_examples: int
    held_out: HeldOut | None = None
    seconds: float = math.nan
    run_id: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def searched(self) -> tuple[str, ...]:
        """Names that any stage searched, in the order of the stages."""
        return tuple(dict.fromkeys(name for stage in self.stages for name in stage.ranges))

    @property
    def trials_run(self) -> int:
        """Trials of all stages together."""
        return sum(stage.trials for stage in self.stages)

    @property
    def kept_default(self) -> bool:
        """Whether the approach's own hyperparameters are the best."""
        return dict(self.best) == dict(self.default)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the parent; those that are not known are left out."""
        values = {"best_score": self.best_score, "default_score": self.default_score}
        for state in ("complete", "pruned", "failed"):
            values[f"trials_{state}"] = float(sum(getattr(stage, state) for stage in self.stages))
        values |= {f"hyperparameter_importance/{name}": share for name, share in self.importances.items()}
        if self.held_out is not None:
            values |= {f"held_out_{name}": getattr(self.held_out, name) for name in ("difference", "ci_low", "ci_high")}
        return known(values)
