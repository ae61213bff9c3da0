"""The runs of one system, as they are compared with those of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.comparison.leave_out import metric_width, shares
from mlflow_l3d.analysis.importance.tables import LARGEST_SCORE, SMALLEST_SCORE
from mlflow_l3d.analysis.intervals import FloatArray, IntArray
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.classification import occurring

_NOTHING: Final = np.zeros(0, dtype=np.int64)
ANSWERS: Final = ["example_id", "label", "prediction"]
"""Columns of a table of predictions."""
MOST_LOST: Final = 0.1
"""Share of lost runs or answers of a system above which nothing is decided: what fails is rarely any run."""
_DIFFERENT: Final = 1e-6
"""Where a recorded score is further from the one of the recorded predictions, they do not belong together."""


@dataclass(frozen=True)
class System:
    """The independent runs of one system: each redraws every factor.

    Attributes
    ----------
    name
        What it is called.
    scores
        Shape (L,): own metric of each run.
    configurations
        Factor -> shape (L,): what tells its configurations apart, such as seeds. Equal values of two systems are the
        same configuration.
    run, unit, share
        Shape (m,): what a test example (or group of them) adds to the score of a run, see
        :func:`mlflow_l3d.analysis.comparison.leave_out.shares`; empty if there are no predictions. Sorted by run and
        unit; the units of all systems are numbered alike.
    right
        Shape (m,): whether the prediction is right; empty if predictions are not classes, or units are not examples.
    units
        How many units all systems have.
    grouped
        Where units are groups: shape (examples of all systems,), which test examples any run saw; else empty.
    width
        The highest less the lowest value of the metric, see
        :func:`mlflow_l3d.analysis.comparison.leave_out.metric_width`; 0 if it has no bounds.
    examples
        Test examples of a run, on average; 0 if not known.
    lost
        Further runs, which failed and have no score.
    setting
        Shape (L,): the setting of each run, if scores differ by luck alone, see
        :func:`mlflow_l3d.analysis.comparison.covariance.within_settings`; else empty.
    by_setting
        In this case, the recorded runs of each setting, and to which run of this system each belongs.
    """

    name: str
    scores: FloatArray
    configurations: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    run: IntArray = field(default_factory=lambda: _NOTHING)
    unit: IntArray = field(default_factory=lambda: _NOTHING)
    share: FloatArray = field(default_factory=lambda: _NOTHING.astype(np.float64))
    right: npt.NDArray[np.bool_] = field(default_factory=lambda: _NOTHING.astype(bool))
    units: int = 0
    grouped: npt.NDArray[np.bool_] = field(default_factory=lambda: _NOTHING.astype(bool))
    width: float = 0.0
    examples: float = 0.0
    lost: int = 0
    setting: IntArray = field(default_factory=lambda: _NOTHING)
    by_setting: Sequence[tuple[System, IntArray]] = ()

    @property
    def is_lossy(self) -> bool:
        """Whether too many runs are lost to decide anything."""
        return self.lost > MOST_LOST * (self.runs + self.lost)

    @property
    def step(self) -> float:
        """What one test example moves the score of a run by; 0 if not known."""
        return self.width / self.examples if self.examples and np.abs(self.scores).max() <= self.width else 0.0

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.scores)

    @cached_property
    def seen(self) -> npt.NDArray[np.bool_]:
        """Which test examples any run saw, shape (examples of all systems,)."""
        return self.grouped if len(self.grouped) else np.bincount(self.unit, minlength=self.units) > 0

    @cached_property
    def influence(self) -> FloatArray:
        """What the pair of a run and a unit adds to the mean over runs, shape (m,).

        Made larger by the degree of freedom that each run loses to its own mean.
        """
        sizes = np.bincount(self.run, minlength=self.runs)
        grown = np.sqrt(sizes / np.maximum(sizes - 1, 1)) / self.runs
        return self.share * grown[self.run]

    @cached_property
    def of_units(self) -> FloatArray:
        """What each unit adds to the mean over runs, shape (units,)."""
        if not len(self.unit):
            return np.zeros(self.units)
        return np.bincount(self.unit, self.influence, minlength=self.units).astype(np.float64)

    def averaged(self, unit: IntArray) -> System:
        """Return the same with one run for the runs that have the same number in `unit`, numbers from 0 as they occur.

        Its score is the mean of their scores, as is what a test example adds; it has the first configuration.
        """
        first, sizes = np.unique(unit, return_index=True)[1], np.bincount(unit)
        if len(first) == self.runs:
            return self
        cells, place = np.unique(unit[self.run] * np.int64(self.units) + self.unit, return_inverse=True)
        run, example = np.divmod(cells, max(self.units, 1))
        return replace(
            self,
            scores=np.bincount(unit, self.scores) / sizes,
            configurations={factor: values[first] for factor, values in self.configurations.items()},
            run=run,
            unit=example,
            share=np.bincount(place, self.share, minlength=len(cells)) / sizes[run],
            right=self.right[:0],
        )

    def chosen(self, runs: IntArray) -> System:
        """Return the same with some of its runs only, in the order given."""
        place = np.full(self.runs, -1)
        place[runs] = np.arange(len(runs))
        kept = np.flatnonzero(place[self.run] >= 0) if len(self.run) else _NOTHING
        kept = kept[np.argsort(place[self.run[kept]], kind="stable")]
        return replace(
            self,
            scores=self.scores[runs],
            configurations={factor: values[runs] for factor, values in self.configurations.items()},
            run=place[self.run[kept]],
            unit=self.unit[kept],
            share=self.share[kept],
            right=self.right[kept] if len(self.right) else self.right,
            setting=_NOTHING,
            by_setting=(),
        )


class Predictions(NamedTuple):
    """Predictions of the runs of one system, one row each.

    Attributes
    ----------
    run
        Number of the run among the scores of its system.
    example_id, label, prediction
        As the cells record them.
    """

    run: IntArray
    example_id: npt.NDArray[Any]
    label: npt.NDArray[Any]
    prediction: npt.NDArray[Any]


def join_predictions(parts: Iterable[tuple[int, Any]], runs: int) -> Predictions | None:
    """Return the predictions of so many runs from number and table of each; None if one has fewer than two."""
    arrays = [[np.full(len(table), number), *(table[name].to_numpy() for name in ANSWERS)] for number, table in parts]
    if not arrays:
        return None
    joined = Predictions(*(np.concatenate(part) for part in zip(*arrays, strict=True)))
    return joined if np.bincount(joined.run, minlength=runs).min() >= 2 else None


def graded(answers: Predictions | None, metric: Metric) -> Predictions | None:
    """Return texts as right (0, as every label), wrong (1) or none (-1) for a metric of classes; others unchanged."""
    if answers is None or answers.label.dtype != object or not metric.scores_classes:
        return answers
    right = np.where(answers.prediction == answers.label, 0, np.where(pd.isna(answers.prediction), -1, 1))
    return answers._replace(label=np.zeros(len(right), dtype=np.int64), prediction=right)


def systems(
    names: Sequence[str],
    scores: Sequence[FloatArray],
    configurations: Sequence[Mapping[str, npt.NDArray[Any]]],
    tables: Sequence[Predictions | None],
    metric: Metric,
    classes: int | None = None,
    examples: int | None = None,
) -> tuple[list[System], str]:
    """Return the systems that are to be compared, and why the luck of test examples is not counted, if it is not.

    Parameters
    ----------
    names, scores, configurations
        One a system, as :class:`System` has them.
    tables
        Predictions, one a system, two or more of each run, see :func:`join_predictions`; empty if there are none.
    metric
        What the scores are.
    classes
        How many classes are distinguished; by default those that occur.
    examples
        Test examples of a run, if there are no predictions; None if not known.

    Raises
    ------
    ParameterError
        If an example has two labels, or scores are so large or small that their squares are not known.
    """
    for name, runs_scores in zip(names, scores, strict=True):
        size = float(np.abs(runs_scores).max(initial=0.0))
        if not SMALLEST_SCORE <= (size or 1.0) <= LARGEST_SCORE:
            allowed = f"has scores of about {size:.0e} ({name}); {SMALLEST_SCORE:g} to {LARGEST_SCORE:g} are allowed"
            raise ParameterError("metric", metric.name, allowed, "Log it in another unit.")
    predictions = [each for each in tables if each is not None]
    if len(predictions) < len(names):
        predictions = []
    size = sum(len(each.run) for each in predictions) / sum(map(len, scores)) or float(examples or 0)
    width = metric_width(metric)
    plain = [System(*each, width=width, examples=size) for each in zip(names, scores, configurations, strict=True)]
    if not predictions:
        return plain, "not every run has predictions"
    if metric.function is None:
        return plain, f"{metric.name} cannot be computed from stored predictions"
    codes, distinct = pd.factorize(np.concatenate([each.example_id for each in predictions]), sort=True)
    _check_examples(names, codes, distinct, predictions)
    values = [np.unique(part) for each in predictions for part in (each.label, each.prediction)]
    classes = max(classes or 0, occurring(*values)) if metric.scores_classes else None
    found, start = [], 0
    for name, own, configuration, each in zip(names, scores, configurations, predictions, strict=True):
        example = codes[start : start + len(each.run)]
        start += len(each.run)
        place = each.run * np.int64(len(distinct)) + example
        order = slice(None) if (np.diff(place) > 0).all() else np.argsort(place)
        run, example, label, guess = each.run[order], example[order], each.label[order], each.prediction[order]
        again, runs, units, share = shares(
            metric, run, example, label, guess, runs=len(own), examples=len(distinct), classes=classes
        )
        if not np.allclose(again, own, rtol=0, atol=_DIFFERENT):
            return plain, f"the recorded {metric.name} is not that of the recorded predictions"
        is_grouped, nothing = units is not example, np.zeros(0, dtype=bool)
        right = label == guess if metric.scores_classes and not is_grouped else nothing
        grouped = np.bincount(example, minlength=len(distinct)) > 0 if is_grouped else nothing
        cells = runs, units, share, right, len(distinct), grouped
        found.append(System(name, own, configuration, *cells, width, len(run) / len(own)))
    return found, ""


def _check_examples(names: Sequence[str], codes: IntArray, known: Any, predictions: Sequence[Predictions]) -> None:
    labels = np.concatenate([each.label for each in predictions])
    of_example = np.empty(len(known), dtype=labels.dtype)
    of_example[codes] = labels
    if (other := np.flatnonzero(of_example[codes] != labels)).size:
        place = other[0]
        both = " and ".join(map(str, sorted((labels[place], of_example[codes[place]]))))
        allowed = f"test example {known[codes[place]]} has the labels {both}"
        raise ParameterError("runs", ", ".join(names), allowed, "Compare systems on one task.")


class Pairing(NamedTuple):
    """Which runs of two systems share their configurations.

    Attributes
    ----------
    first, second
        Shape (m,): numbers of the runs of either system, pair by pair.
    factors
        Factors whose configurations they share.
    """

    first: IntArray
    second: IntArray
    factors: tuple[str, ...]


def paired(one: System, other: System) -> Pairing:
    """Pair the runs of two systems that have equal configurations of every factor that both vary from equal numbers."""
    common = [name for name in one.configurations if name in other.configurations]
    shared = [name for name in common if np.isin(one.configurations[name], other.configurations[name]).any()]
    if not shared:
        return Pairing(_NOTHING, _NOTHING, ())
    columns = [[np.asarray(each.configurations[name]).tolist() for name in shared] for each in (one, other)]
    keys = [[*zip(*each, strict=True)] for each in columns]
    first, second = ({key: len(every) - at for at, key in enumerate(every[::-1], start=1)} for every in keys)
    pairs = sorted((at, second[key]) for key, at in first.items() if key in second)
    kept = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Pairing(kept[:, 0], kept[:, 1], tuple(shared) if pairs else ())
