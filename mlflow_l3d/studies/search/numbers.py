"""The result of a hyperparameter search, and the comparison of its setting on other configurations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mlflow_l3d.analysis.comparison.difference import interval, spread
from mlflow_l3d.analysis.comparison.predictions import Predictions, graded, join_predictions, systems
from mlflow_l3d.analysis.comparison.system import MOST_LOST, System, mean_scores
from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, known
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, SearchChoices, Searched, SearchRange, Value
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.classification import occurring
from mlflow_l3d.metrics.known import score
from mlflow_l3d.report.numbers import shorten, value_text

Sides: TypeAlias = Sequence[Sequence[pd.DataFrame | None]]
"""Predictions of two settings, one table per configuration; None if a run has none."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The found setting compared with the default on configurations that were not searched on.

    Attributes
    ----------
    found, default
        Test scores, fractions; entry i of both is of the same configuration. Pairs without a score are left out.
    difference
        Mean of found minus default; nan without a pair.
    ci_low, ci_high
        Interval of the difference; nan with fewer than two pairs.
    level
        Its level.
    missing
        Pairs that were left out.
    overlap
        Share of the test examples of these configurations that scored trials, too.
    is_unseen
        Whether these were left out, and the interval counts the luck of test examples.
    """

    found: tuple[float, ...]
    default: tuple[float, ...]
    difference: float
    ci_low: float
    ci_high: float
    level: float = LEVEL
    missing: int = 0
    overlap: float = 0.0
    is_unseen: bool = False

    @property
    def configurations(self) -> int:
        """Number of pairs."""
        return len(self.found)

    @property
    def is_lossy(self) -> bool:
        """Whether too many pairs lack a score to decide anything."""
        return self.missing > MOST_LOST * (self.configurations + self.missing)


def compare_held_out(
    found: ArrayLike, default: ArrayLike, sides: Sides, *, metric: Metric, classes: int, searched: Any, overlap: float
) -> HeldOut:
    """Compare two settings on the same configurations.

    Parameters
    ----------
    found, default
        Scores as fractions, shape (n,); entry i of both is of the same configuration. A pair in which one is not finite
        (a run that failed) is left out and counted.
    sides
        Predictions of both settings, one table per configuration; None if a run has none.
    metric, classes
        What is scored, and the number of classes; 0 if there are none.
    searched
        Ids of the examples that scored trials; their predictions are left out.
    overlap
        See :class:`HeldOut`.

    Returns
    -------
    HeldOut
        With predictions, scores are of the test examples that scored no trial, and the interval counts configurations
        and test examples (:func:`mlflow_l3d.analysis.comparison.system.mean_scores`). Else it counts configurations
        alone.
    """
    pairs = np.array([found, default], dtype=float)
    kept = np.flatnonzero(np.isfinite(pairs).all(axis=0)).tolist()
    unseen = _unseen([[side[at] for at in kept] for side in sides], metric, classes, searched)
    finite_pairs = pairs[:, kept] if unseen is None else np.array([side.scores for side in unseen])
    differences = finite_pairs[0] - finite_pairs[1]
    n = len(differences)
    mean = float(differences.mean()) if n else math.nan
    ends = math.nan, math.nan
    if n > 1:
        alone = [System("", scores, {"configuration": np.arange(n)}) for scores in finite_pairs]
        ends = interval(mean, spread(mean_scores(unseen or alone), 0, 1), LEVEL)
    found_scores, default_scores = map(tuple, finite_pairs.tolist())
    missing = pairs.shape[1] - n
    return HeldOut(found_scores, default_scores, mean, *ends, LEVEL, missing, overlap, unseen is not None)


def _unseen(sides: Sides, metric: Metric, classes: int, searched: Any) -> list[System] | None:
    """Return both settings on the test examples that scored no trial; None if a run has fewer than two predictions."""
    known = [[table for table in side if table is not None] for side in sides]
    runs = len(sides[0])
    if runs < 2 or metric.function is None or any(len(side) < runs for side in known):
        return None
    parts = [[table[~table["example_id"].isin(searched)] for table in side] for side in known]
    if min(len(table) for side in parts for table in side) < FEWEST_EXAMPLES:
        return None
    tables = [graded(join_predictions(enumerate(side), runs), metric) for side in parts]
    if (found := tables[0]) is None or (default := tables[1]) is None:
        return None
    answers = found.label, found.prediction, default.label, default.prediction
    distinct = max(classes, occurring(*answers)) if metric.scores_classes else None

    def scores_of(side: Predictions) -> FloatArray:
        at = [side.run == run for run in range(runs)]
        return np.array([score(metric, side.label[here], side.prediction[here], distinct) for here in at])

    scores = [scores_of(found), scores_of(default)]
    places = {"configuration": np.arange(runs)}
    read, why = systems(("found", "default"), scores, (places, places), tables, metric, distinct)
    return None if why else read


def range_text(searched: Searched) -> str:
    """Return what may be tried, as in ``1e-05 to 0.01, log scale``, or ``4, 8, 16``."""
    if isinstance(searched, SearchChoices):
        return ", ".join(map(value_text, searched.choices))
    number = int if searched.whole else float
    ends = f"{value_text(number(searched.low))} to {value_text(number(searched.high))}"
    return f"{ends}, log scale" if searched.log else ends


_EDGE: Final = 0.05
"""A found number that is nearer to an end than this part of its range lies at this end."""


def edge_notes(
    best: Mapping[str, Value], ranges: Mapping[str, Searched], declared: Mapping[str, Hyperparameter]
) -> Iterator[str]:
    """Yield which found numbers lie at an end of their range beyond which others are allowed, and where to search."""
    for name, searched in ranges.items():
        if not isinstance(searched, SearchRange) or not searched.holds(best[name]):
            continue
        scale = math.log if searched.log else float
        low, value, high = (scale(float(number)) for number in (searched.low, best[name], searched.high))
        near = _EDGE * (high - low)
        lowest, highest = declared[name].low, declared[name].high
        if high - value <= near and (highest is None or searched.high < highest):
            end, further = "upper", "higher"
        # 0 leaves something out, which is another question.
        elif value - low <= near and searched.low != 0 and (lowest is None or searched.low > lowest):
            end, further = "lower", "lower"
        else:
            continue
        text = f"{name} = {value_text(best[name])} lies at the {end} end of what was searched"
        yield f"{text} ({range_text(searched)}): search {further} values, too."


def setting_text(value: Any, width: int = 40, absent: str = "-") -> str:
    """Return the value of a hyperparameter as people read it; `absent` if there is none."""
    # pandas puts nan in a gap.
    return absent if value is None or value != value else shorten(value_text(value), width)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A search that has ended.

    Attributes
    ----------
    title
        What was searched, as in ``finetuning on rotten_tomatoes: search of hyperparameters``.
    metric
        What scores the trials.
    stages
        Stage, ``coarse`` or ``fine``, in their order -> searched hyperparameter -> its range.
    trials
        One row per trial; columns ``level`` (name of the stage), ``number``, ``state``, ``origin``, ``score``,
        ``score_std``, ``duration_seconds``, ``run_id``, ``is_default``, and one for each searched hyperparameter.
    best, default
        Complete hyperparameters: the found ones and the approach's own.
    importances
        Searched hyperparameter -> share (0..1) of the variance of the score that it causes alone, the largest first;
        empty if they are not known (`notes` say why).
    configurations
        How many splits and labelled sets each trial was trained on.
    validation_examples
        Number of examples that score a trial, in each of these.
    held_out
        None if the found setting was not tried on other configurations.
    seconds
        Duration of the whole search.
    run_id
        MLflow's id of the search, to hand over its result; empty without one.
    notes
        Sentences.
    """

    title: str
    metric: Metric
    stages: Mapping[str, Mapping[str, Searched]]
    trials: pd.DataFrame
    best: Mapping[str, Value]
    default: Mapping[str, Value]
    importances: Mapping[str, float]
    configurations: int
    validation_examples: int
    held_out: HeldOut | None = None
    seconds: float = math.nan
    run_id: str = ""
    notes: tuple[str, ...] = ()

    @property
    def best_score(self) -> float:
        """Score of the best setting on the validation part, a fraction; nan if no trial of the last stage has one."""
        last = self.trials["level"].eq([*self.stages][-1]) & self.trials["state"].eq("complete")
        return float(self.metric.sign * (self.metric.sign * self.trials.loc[last, "score"]).max())

    @property
    def default_score(self) -> float:
        """Score of the default on the validation part, a fraction; nan if it has none."""
        trials = self.trials
        scored = (trials["level"] == "coarse") & (trials["state"] == "complete") & trials["is_default"].astype(bool)
        return next(map(float, trials.loc[scored, "score"]), math.nan)

    @property
    def searched(self) -> tuple[str, ...]:
        """Names that any stage searched, in the order of the stages."""
        return tuple(dict.fromkeys(name for ranges in self.stages.values() for name in ranges))

    @property
    def ended(self) -> pd.DataFrame:
        """The trials of all stages, but for those that were taken over from another stage."""
        return self.trials[self.trials["origin"].ne("taken over")]

    @property
    def kept_default(self) -> bool:
        """Whether the approach's own hyperparameters are the best."""
        return dict(self.best) == dict(self.default)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the parent run; those that are not known are left out."""
        values = {"best_score": self.best_score, "default_score": self.default_score}
        for state in ("complete", "pruned", "failed"):
            values[f"trials_{state}"] = float(self.ended["state"].eq(state).sum())
        values |= {f"hyperparameter_importance/{name}": share for name, share in self.importances.items()}
        if self.held_out is not None:
            values |= {f"held_out_{name}": getattr(self.held_out, name) for name in ("difference", "ci_low", "ci_high")}
        return known(values)
