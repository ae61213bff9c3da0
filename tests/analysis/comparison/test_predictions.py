"""What an example adds to the score of a run: equal to leaving it out, whatever the metric."""

import numpy as np
import pytest

from mlflow_l3d.analysis.comparison.predictions import GROUPS, shares
from mlflow_l3d.metrics.known import named, score

RUNS, EXAMPLES, CLASSES = 3, 30, 4


def predicted(rng):
    labels = np.tile(rng.integers(0, CLASSES, EXAMPLES), RUNS)
    guesses = rng.integers(-1, CLASSES, len(labels))
    return (
        np.repeat(np.arange(RUNS), EXAMPLES),
        np.tile(np.arange(EXAMPLES), RUNS),
        labels,
        np.where(rng.random(len(labels)) < 0.6, labels, guesses),
    )


@pytest.mark.parametrize("name", ["accuracy", "f1_macro", "matthews_corrcoef"])
def test_a_share_is_what_the_score_loses_with_the_example(rng, name):
    run, example, labels, guesses = predicted(rng)
    metric = named(name)
    size = {"runs": RUNS, "examples": EXAMPLES, "classes": CLASSES}
    scores, runs, units, found = shares(metric, run, example, labels, guesses, **size)
    assert (runs == run).all()
    assert (units == example).all()
    for number in range(RUNS):
        own = run == number
        whole = score(metric, labels[own], guesses[own], CLASSES)
        kept = [own & (example != each) for each in range(EXAMPLES)]
        without = [score(metric, labels[some], guesses[some], CLASSES) for some in kept]
        lost = (whole - np.array(without)) * (1 - 1 / EXAMPLES)
        assert scores[number] == pytest.approx(whole)
        assert found[own] == pytest.approx(lost - lost.mean())


def test_shares_of_errors_are_their_distance_from_the_mean(rng):
    labels, guesses = rng.normal(size=EXAMPLES), rng.normal(size=EXAMPLES)
    numbers = np.arange(EXAMPLES)
    size = {"runs": 1, "examples": EXAMPLES, "classes": None}
    scores, _, _, found = shares(named("mse"), numbers * 0, numbers, labels, guesses, **size)
    errors = np.square(labels - guesses)
    assert scores[0] == pytest.approx(errors.mean())
    assert found == pytest.approx((errors - errors.mean()) / EXAMPLES)


def test_other_metrics_lose_a_group_of_examples_at_a_time_the_same_in_every_run(rng):
    examples = 2000
    labels = np.tile(rng.normal(size=examples), 2)
    guesses = labels + rng.normal(size=2 * examples)
    run, example = np.repeat([0, 1], examples), np.tile(np.arange(examples), 2)
    size = {"runs": 2, "examples": examples, "classes": None}
    scores, runs, units, found = shares(named("pearson"), run, example, labels, guesses, **size)
    assert np.bincount(runs).tolist() == [GROUPS, GROUPS]
    assert (units[:GROUPS] == units[GROUPS:]).all()
    assert np.bincount(runs, found) == pytest.approx(0, abs=1e-12)
    # Standard error of Pearson's correlation of normal values: (1 - r^2) / sqrt(n).
    error = np.sqrt(np.square(found[:GROUPS]).sum() * GROUPS / (GROUPS - 1))
    assert error == pytest.approx((1 - scores[0] ** 2) / np.sqrt(examples), rel=0.25)
