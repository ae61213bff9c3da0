"""The runs of one system, which of them two systems share, and how much mean scores are luck of runs and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.intervals import FloatArray, IntArray

_NOTHING: Final = np.zeros(0, dtype=np.int64)
MOST_LOST: Final = 0.1
"""Share of lost runs or answers of a system above which nothing is decided: what fails is rarely any run."""


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
        :func:`mlflow_l3d.analysis.comparison.predictions.shares`; empty if there are no predictions. Sorted by run and
        unit; the units of all systems are numbered alike.
    right
        Shape (m,): whether the prediction is right; empty if predictions are not classes, or units are not examples.
    units
        How many units all systems have.
    grouped
        Where units are groups: shape (examples of all systems,), which test examples any run saw; else empty.
    width
        The highest less the lowest value of the metric, see
        :func:`mlflow_l3d.analysis.comparison.predictions.metric_width`; 0 if it has no bounds.
    examples
        Test examples of a run, on average; 0 if not known.
    lost
        Further runs, which failed and have no score.
    setting
        Shape (L,): the setting of each run, if scores differ by luck alone, see
        :func:`mlflow_l3d.analysis.comparison.system.within_settings`; else empty.
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


@dataclass(frozen=True)
class Means:
    """Mean scores of k systems, and the variance that runs and test examples give them.

    Attributes
    ----------
    systems
        In this order.
    means
        Shape (k,).
    of_runs, of_examples
        Shape (k, k): covariance of the means from runs (with the rest between a run and an example), and from
        test examples. The latter is estimated without bias and may be negative.
    pairings
        Numbers of two systems, the smaller first, to the runs that they share.
    """

    systems: tuple[System, ...]
    means: FloatArray
    of_runs: FloatArray
    of_examples: FloatArray
    pairings: dict[tuple[int, int], Pairing]


def within_settings(system: System, setting: IntArray, seed: IntArray) -> System:
    """Return a system of runs with several settings as if all had the average one: its scores differ by luck alone.

    Runs of several settings that have one seed may share its luck, as that of a split: they become one run.

    Parameters
    ----------
    system
        Two runs or more of each setting.
    setting
        Shape (L,): the number of the setting of each run, the same in all systems.
    seed
        Shape (L,): the number of the seed of each run, from 0 as they occur.

    Notes
    -----
    Each setting has equal weight in the mean, however many runs it has. Seed s, one of S, departs from the mean over G
    settings by the sum, over its runs, of ``S / (G n_g)`` times what the run departs from the mean of its setting g of
    n_g runs, times ``sqrt(n_g / (n_g - 1) (S - 1) / S)``. If each run has its own seed, the variance of the mean of
    such scores is ``sum_g s_g^2 / (G^2 n_g)``; if each seed is in all settings, that of the seeds' mean scores.
    """
    sizes, runs_of_seed = np.bincount(setting), np.bincount(seed)
    seeds = len(runs_of_seed)
    means = np.bincount(setting, system.scores) / sizes
    weight = seeds * runs_of_seed[seed] / (len(sizes) * sizes[setting])
    grown = np.sqrt(sizes / (sizes - 1) * (1 - 1 / seeds))[setting]
    departed = replace(
        system,
        scores=means.mean() + (system.scores - means[setting]) * weight * grown,
        share=system.share * weight[system.run] if len(system.run) else system.share,
        right=system.right[:0],
    )
    smallest_first = np.argsort(sizes[setting], kind="stable")
    smallest = smallest_first[np.unique(seed[smallest_first], return_index=True)[1]]
    runs_of = [np.flatnonzero(setting == each) for each in range(len(sizes))]
    by_setting = [(system.chosen(runs), seed[runs]) for runs in runs_of]
    return replace(departed.averaged(seed), setting=setting[smallest], by_setting=by_setting)


def mean_scores(systems: Sequence[System]) -> Means:
    """Return the means of systems, two runs or more of each, with their covariances.

    Notes
    -----
    Of one system ``y_li = mu + r_l + t_i + e_li``: run l (a configuration of every factor) and example i are random.
    Two systems share the luck of runs with equal configurations, and that of examples with equal ids.
    Covariance from runs: ``sum_l a_l b_l`` over shared configurations, ``a_l`` being what run l adds to the mean of
    a system, over ``1 - 1/L_a - 1/L_b + m/(L_a L_b)``, what the means of L_a and L_b runs, m of them shared, take away.
    Covariance from examples: what examples add to the two means, multiplied and summed, without the part that comes
    from shared runs; that is in the first. For one system, or two with the same runs and examples, the sum of both
    is ``(MS_R + MS_I - MS_E) / (L n)`` of the two-way analysis of variance (of their difference): variance of leaving
    out rows plus columns less that of cells, which both hold (Owen 2007, "The pigeonhole bootstrap", Annals of Applied
    Statistics 1, section 3). Test sets may differ from run to run.
    """
    count = len(systems)
    of_runs, of_examples = np.zeros((count, count)), np.zeros((count, count))
    pairings = {}
    for i, one in enumerate(systems):
        for j, other in enumerate(systems[: i + 1]):
            every = np.arange(one.runs)
            pairing = Pairing(every, every, ()) if i == j else paired(other, one)
            if i != j:
                pairings[j, i] = pairing
            of_runs[i, j] = of_runs[j, i] = _of_runs(other, one, pairing)
            of_examples[i, j] = of_examples[j, i] = _of_examples(other, one, pairing)
    return Means(tuple(systems), np.array([each.scores.mean() for each in systems]), of_runs, of_examples, pairings)


def _of_runs(one: System, other: System, pairing: Pairing) -> float:
    runs, others, shared = one.runs, other.runs, len(pairing.first)
    kept = 1 - 1 / runs - 1 / others + shared / (runs * others)
    added = [each.scores - each.scores.mean() for each in (one, other)]
    return float(added[0][pairing.first] @ added[1][pairing.second]) / (runs * others) / kept


def _of_examples(one: System, other: System, pairing: Pairing) -> float:
    if not len(one.run) or not len(other.run):
        return 0.0
    runs, others, shared = one.runs, other.runs, len(pairing.first)
    first, second = same_cells(one, other, pairing) if one is not other else (slice(None), slice(None))
    same_run = one.influence[first] @ other.influence[second]
    return float(one.of_units @ other.of_units - same_run) * runs * others / (runs * others - shared)


def same_cells(one: System, other: System, pairing: Pairing) -> tuple[IntArray, IntArray]:
    """Return the places, in the cells of either system, of shared runs on shared units, pair by pair."""
    keys, places = [], []
    for system, runs in ((one, pairing.first), (other, pairing.second)):
        place = np.full(system.runs, -1)
        place[runs] = np.arange(len(runs))
        of_pair = place[system.run]
        kept = np.flatnonzero(of_pair >= 0)
        keys.append(of_pair[kept] * np.int64(system.units) + system.unit[kept])
        places.append(kept)
    if np.array_equal(keys[0], keys[1]):
        return places[0], places[1]
    _, first, second = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    return places[0][first], places[1][second]
