"""Trials with known scores, and the result that belongs to them."""

import math
from typing import Any

from mlflow_l3d.approaches.hyperparameters import SearchChoices, Searched, SearchRange
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.search.numbers import HeldOut, SearchResult, compare_held_out
from mlflow_l3d.studies.search.report import search_report
from mlflow_l3d.studies.search.trials import FinishedTrial, trials_table

RANGES: dict[str, dict[str, Searched]] = {
    "coarse": {
        "learning_rate": SearchRange(1e-5, 1e-2, log=True),
        "batch_size": SearchChoices((4, 8, 16)),
        "layers": SearchRange(1, 3, whole=True),
    },
    "fine": {"learning_rate": SearchRange(2e-4, 5e-3, log=True)},
}
DEFAULT = {"learning_rate": 2e-5, "batch_size": 8, "layers": 1, "epochs": 10, "optimizer": "adamw"}
BEST = {**DEFAULT, "learning_rate": 9.5e-4}
GRID = [
    {"learning_rate": rate, "batch_size": size, "layers": layers}
    for rate in (1e-5, 1e-4, 1e-3, 1e-2)
    for size in (4, 8, 16)
    for layers in (1, 3)
]
SHARES = {"learning_rate": 0.91, "layers": 0.03, "batch_size": 0.004}


def true_score(params: Any) -> float:
    """Only the learning rate matters: best at 1e-3."""
    return 0.8 - 0.02 * (math.log10(params["learning_rate"]) + 3) ** 2


def trials(points: Any, score: Any = true_score, pruned: Any = (), failed: Any = ()) -> list[FinishedTrial]:
    def trial(number: int, params: Any) -> FinishedTrial:
        setting = {**DEFAULT, **params}
        if number in failed:
            return FinishedTrial(number, params, setting, f"key {number}", error="no")
        state = "pruned" if number in pruned else "complete"
        return FinishedTrial(number, params, setting, f"key {number}", state, score(params))

    return [trial(number, params) for number, params in enumerate(points)]


def coarse(**more: Any) -> list[FinishedTrial]:
    default = {name: DEFAULT[name] for name in RANGES["coarse"]}
    return trials([default, *GRID], **{"pruned": (3, 4), "failed": (7,), **more})


def fine() -> list[FinishedTrial]:
    return trials([{"learning_rate": rate} for rate in (3e-4, 5e-4, 8e-4, 9.5e-4, 2e-3)])


def result(stages: Any = None, **more: Any) -> SearchResult:
    """Return the result of stages, both of them by default."""
    stages = stages or {"coarse": coarse(), "fine": fine()}
    seconds = {f"key {number}": {"duration_seconds": 1.5} for number in range(400)}
    searched = tuple(RANGES["coarse"])
    table = trials_table(stages, searched, default=DEFAULT, run_of=lambda _: "", metrics=seconds)
    values = {
        "title": "finetuning on rotten_tomatoes: search",
        "metric": named("f1_macro"),
        "stages": {stage: RANGES[stage] for stage in stages},
        "trials": table,
        "best": BEST,
        "default": DEFAULT,
        "importances": SHARES,
        "configurations": 1,
        "validation_examples": 200,
        "seconds": 754.0,
    }
    return SearchResult(**{**values, **more})


def report_of(found: SearchResult, **more: Any) -> Document:
    return search_report(found, **{"source": Source(), "lines": (), "settings": {}, **more})


def held_out(found: Any, default: Any, sides: Any = None, **more: Any) -> HeldOut:
    """Return two settings compared, without predictions by default."""
    how = {"metric": named("f1_macro"), "classes": 0, "searched": (), "overlap": 0.0, **more}
    return compare_held_out(found, default, sides or [[None] * len(found)] * 2, **how)
