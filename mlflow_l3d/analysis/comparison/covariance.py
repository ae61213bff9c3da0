"""How much the mean scores of systems are luck: of the runs, and of the test examples.

The model of one system is ``y_li = mu + r_l + t_i + e_li``: run l (a configuration of every factor) and test example i
are both random. Two systems share the luck of runs with equal configurations and that of examples with equal ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mlflow_l3d.analysis.comparison.system import Pairing, System, paired
from mlflow_l3d.analysis.intervals import FloatArray, IntArray


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
