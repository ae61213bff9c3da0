"""Trials with known scores, and the result that belongs to them."""

import math

import pandas as pd

from mlflow_l3d.analysis.search import SearchResult, StageSummary
from mlflow_l3d.approaches.hyperparameters import SearchChoices, SearchRange
from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.studies.search.results import TRIAL_COLUMNS, FinishedTrial
from mlflow_l3d.studies.search.space import SearchSpace

SPACE = SearchSpace(
    {
        "learning_rate": SearchRange(1e-5, 1e-2, log=True),
        "batch_size": SearchChoices((4, 8, 16)),
        "layers": SearchRange(1, 3, whole=True),
    }
)
DEFAULT = {"learning_rate": 2e-5, "batch_size": 8, "layers": 1, "epochs": 10, "optimizer": "adamw"}


def true_score(params):
    """Only the learning rate matters: best at 1e-3."""
    return 0.8 - 0.02 * (math.log10(params["learning_rate"]) + 3) ** 2


def grid():
    return [
        {"learning_rate": rate, "batch_size": size, "layers": layers}
        for rate in (1e-5, 1e-4, 1e-3, 1e-2)
        for size in (4, 8, 16)
        for layers in (1, 3)
    ]


def study(points, score=true_score, *, pruned=(), failed=()):
    found = []
    for number, params in enumerate(points):
        state = "pruned" if number in pruned else "failed" if number in failed else "complete"
        value = None if state == "failed" else score(params)
        found.append(FinishedTrial(number, params, {}, "", state, value))
    return found


def coarse(**more):
    default = {name: DEFAULT[name] for name in SPACE.ranges}
    return study([default, *grid()], **{"pruned": (3, 4), "failed": (7,), **more})


def fine(**more):
    return study([{"learning_rate": rate} for rate in (3e-4, 5e-4, 8e-4, 9.5e-4, 2e-3)], **more)


def rows(studies):
    found = [
        {
            "level": stage,
            "number": trial.number,
            "state": trial.state,
            "origin": "trained",
            "score": math.nan if trial.score is None else trial.score,
            "score_std": math.nan,
            "duration_seconds": 1.5,
            "run_id": "",
            "is_default": stage == "coarse" and trial.number == 0,
            **{name: trial.params.get(name) for name in SPACE.ranges},
        }
        for stage, trials in studies.items()
        for trial in trials
    ]
    return pd.DataFrame(found, columns=[*TRIAL_COLUMNS, *SPACE.ranges])


def result(studies, **more):
    counts = {stage: [trial.state for trial in trials] for stage, trials in studies.items()}
    ranges = {
        "coarse": {"learning_rate": "1e-05 to 0.01, log scale", "batch_size": "4, 8, 16", "layers": "1 to 3"},
        "fine": {"learning_rate": "0.0002 to 0.005, log scale"},
    }
    stages = tuple(
        StageSummary(
            stage,
            {"coarse": "grid", "fine": "tpe"}[stage],
            ranges[stage],
            len(names),
            names.count("complete"),
            names.count("pruned"),
            names.count("failed"),
            max((trial.score for trial in studies[stage] if trial.state == "complete"), default=math.nan),
            {"learning_rate": "log", "batch_size": "choices", "layers": "linear"},
        )
        for stage, names in counts.items()
    )
    values = {
        "title": "finetuning on rotten_tomatoes: search",
        "metric": F1_MACRO,
        "stages": stages,
        "trials": rows(studies),
        "best": {**DEFAULT, "learning_rate": 9.5e-4},
        "default": DEFAULT,
        "best_score": 0.8,
        "default_score": 0.742,
        "importances": {"learning_rate": 0.91, "layers": 0.03, "batch_size": 0.004},
        "configurations": 1,
        "validation_examples": 200,
        "seconds": 754.0,
    }
    return SearchResult(**{**values, **more})
