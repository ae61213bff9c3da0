"""Simulated systems: right where an own luck of run, example and both together is above a threshold."""

import math

import numpy as np
from scipy.special import ndtri

from mlflow_l3d.analysis.comparison.system import System


def answers(generator, runs, examples, accuracies, *, of_run=0.3, of_example=1.0, apart=0):
    """Return which answers of each system are right, shape (runs, examples), True for a right one.

    The last `apart` runs of all systems but the first share no luck with others.
    """
    shared_run, shared_example = 0.5, 0.8
    scale = math.sqrt(1 + of_run**2 + of_example**2)
    run, example = generator.normal(size=runs), generator.normal(size=examples)
    found = []
    for accuracy in accuracies:
        common = run.copy()
        if found and apart:
            common[-apart:] = generator.normal(size=apart)
        own_run = shared_run * common + math.sqrt(1 - shared_run**2) * generator.normal(size=runs)
        own_example = shared_example * example + math.sqrt(1 - shared_example**2) * generator.normal(size=examples)
        noise = generator.normal(size=(runs, examples))
        found.append(scale * ndtri(accuracy) + of_run * own_run[:, None] + of_example * own_example + noise > 0)
    return found


def system(right, configurations=None, name="A", seen=None):
    """Return a system whose scores are accuracies; `seen` says which examples each run has."""
    seen = np.ones(right.shape, dtype=bool) if seen is None else seen
    scores = np.array([own[kept].mean() for own, kept in zip(right, seen, strict=True)])
    run, unit = np.nonzero(seen)
    share = (right - scores[:, None]) / seen.sum(axis=1)[:, None]
    seeds = np.arange(len(right)) if configurations is None else configurations
    return System(name, scores, {"data_order": seeds}, run, unit, share[seen], right[seen], right.shape[1])


def scored(scores, configurations=None, name="A"):
    """Return a system of which scores alone are known."""
    scores = np.asarray(scores, dtype=float)
    return System(name, scores, {} if configurations is None else {"data_order": np.asarray(configurations)})
