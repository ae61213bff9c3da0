"""Seeds studies for the report: drawn ones, whose predictions are made here."""

import numpy as np
import pandas as pd

from mlflow_l3d.designs.layout import PAPER_SEEDS
from mlflow_l3d.studies.seeds.numbers import seeds_study

TASKS = {
    "cb": ("SuperGLUE", 250, 56, 0.9, 0.4),
    "copa": ("SuperGLUE", 400, 100, 0.3, 0.8),
    "rte_superglue": ("SuperGLUE", 2490, 277, 0.5, 0.7),
    "mrpc": ("GLUE", 3668, 408, 1.3, 0.1),
    "cola": ("GLUE", 8551, 500, 1.4, 0.1),
    "sst2": ("GLUE", 67349, 500, 2.4, 0.05),
}


def study(task, *, seeds=PAPER_SEEDS, model="RoBERTa-large", missing=(), collapsed=(), root=0):
    benchmark, size, examples, quality, spread = TASKS.get(task, ("GLUE", 1000, 60, 1.0, 0.3))
    rng = np.random.default_rng([root, len(task), size, ord(model[0])])
    labels = rng.integers(2, size=examples)
    difficulty = 1.5 * rng.normal(size=examples)
    frames = []
    for seed in seeds:
        right = difficulty + quality + spread * rng.normal() + 0.5 * rng.normal(size=examples) > 0
        prediction = np.where(right, labels, 1 - labels)
        if seed in collapsed:
            prediction[:] = 1
        columns = {"seed": seed, "example_id": np.arange(examples), "label": labels, "prediction": prediction}
        if seed not in missing:
            frames.append(pd.DataFrame(columns))
    metric = "matthews_corrcoef" if task == "cola" else "accuracy"
    names = {"task": task, "model": model, "benchmark": benchmark, "training_size": size}
    return seeds_study(pd.DataFrame({"seed": list(seeds)}), pd.concat(frames), metric=metric, **names)


def regression(*, seeds=PAPER_SEEDS, model="RoBERTa-large"):
    rng = np.random.default_rng(5)
    labels = rng.uniform(0, 5, size=120)
    truth = pd.DataFrame({"example_id": np.arange(120), "label": labels})
    guesses = {seed: labels + 0.1 * rng.normal() + 0.6 * rng.normal(size=120) for seed in seeds}
    frames = [truth.assign(seed=seed, prediction=guess) for seed, guess in guesses.items()]
    names = {"task": "stsb", "model": model, "benchmark": "GLUE", "training_size": 5749}
    return seeds_study(pd.DataFrame({"seed": list(seeds)}), pd.concat(frames), kind="regression", **names)


def all_studies():
    made = [study(task, collapsed=(92, 102, 132) if task == "rte_superglue" else ()) for task in TASKS]
    return [*made, regression()]
