"""Seeds studies made by hand or drawn, and slow ways to compute what they say."""

from itertools import combinations

import numpy as np
import pandas as pd

from mlflow_l3d.designs.layout import PAPER_SEEDS
from mlflow_l3d.studies.seeds.numbers import seeds_study


def long_frame(predictions, labels, seeds, ids=None):
    ids = np.arange(len(labels)) if ids is None else ids
    frames = [
        pd.DataFrame({"seed": seed, "example_id": ids, "label": labels, "prediction": row})
        for seed, row in zip(seeds, predictions, strict=True)
    ]
    return pd.concat(frames, ignore_index=True)


def drawn_predictions(rng, *, runs=10, examples=80, classes=2, quality=1.0, spread=0.3):
    labels = rng.integers(classes, size=examples)
    difficulty = rng.normal(size=examples)
    right = difficulty + rng.normal(quality, spread, size=(runs, 1)) + rng.normal(size=(runs, examples)) > 0
    wrong = (labels + rng.integers(1, max(classes, 2), size=(runs, examples))) % classes
    return np.where(right, labels, wrong), labels


def drawn_study(rng, *, seeds=PAPER_SEEDS, **options):
    names = ("task", "model", "benchmark", "training_size", "metric")
    chosen = {name: options.pop(name) for name in names if name in options}
    predictions, labels = drawn_predictions(rng, runs=len(seeds), **options)
    return seeds_study(pd.DataFrame({"seed": list(seeds)}), long_frame(predictions, labels, seeds), **chosen)


def drawn_regression(rng, *, seeds=PAPER_SEEDS, examples=60, **options):
    labels = rng.uniform(0, 5, size=examples)
    predictions = labels + rng.normal(0, 0.6, size=(len(seeds), examples)) + rng.normal(0, 0.1, size=(len(seeds), 1))
    return seeds_study(
        pd.DataFrame({"seed": list(seeds)}), long_frame(predictions, labels, seeds), kind="regression", **options
    )


def pair_values(predictions, labels):
    """Return agreement, and agreement that is right, of every pair of runs, one by one."""
    con, ccon = [], []
    for one, other in combinations(range(len(predictions)), 2):
        a, b = predictions[one], predictions[other]
        con.append(np.mean([x == y for x, y in zip(a, b, strict=True)]))
        ccon.append(np.mean([x == y == z for x, y, z in zip(a, b, labels, strict=True)]))
    return np.array(con), np.array(ccon)
