"""Studies with known scores, and the result that belongs to them."""

import math

import optuna
import pandas as pd

from mlflow_l3d.analysis.search import SearchResult, StageSummary
from mlflow_l3d.studies.search.results import TRIAL_COLUMNS

KINDS = {
    "learning_rate": optuna.distributions.FloatDistribution(1e-5, 1e-2, log=True),
    "batch_size": optuna.distributions.CategoricalDistribution([4, 8, 16]),
    "layers": optuna.distributions.IntDistribution(1, 3),
}
DEFAULT = {"learning_rate": 2e-5, "batch_size": 8, "layers": 1, "epochs": 10, "optimizer": "adamw"}
STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}


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


def study(points, score=true_score, kinds=KINDS, *, pruned=(), failed=(), reports=True):
    found = optuna.create_study(direction="maximize", storage=optuna.storages.InMemoryStorage())
    for number, params in enumerate(points):
        name = "PRUNED" if number in pruned else "FAIL" if number in failed else "COMPLETE"
        value = score(params)
        steps = range(2 if name == "PRUNED" else 4) if reports else ()
        found.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState[name],
                value=None if name == "FAIL" else value,
                params=params,
                distributions={key: kinds[key] for key in params},
                intermediate_values={step: value - 0.1 / (1 + step) for step in steps},
            )
        )
    return found


def coarse(**more):
    default = {name: DEFAULT[name] for name in KINDS}
    return study([default, *grid()], **{"pruned": (3, 4), "failed": (7,), **more})


def fine(**more):
    kinds = {"learning_rate": optuna.distributions.FloatDistribution(2e-4, 5e-3, log=True)}
    points = [{"learning_rate": rate} for rate in (3e-4, 5e-4, 8e-4, 9.5e-4, 2e-3)]
    return study(points, kinds=kinds, **more)


def rows(studies):
    found = []
    for stage, each in studies.items():
        for trial in each.trials:
            failed = trial.state.name == "FAIL"
            found.append(
                {
                    "level": stage,
                    "number": trial.number,
                    "state": STATES[trial.state.name],
                    "origin": "trained",
                    "score": math.nan if failed else trial.value,
                    "score_std": math.nan,
                    "duration_seconds": 1.5,
                    "run_id": "",
                    "is_default": stage == "coarse" and trial.number == 0,
                    **{name: trial.params.get(name) for name in KINDS},
                }
            )
    return pd.DataFrame(found, columns=[*TRIAL_COLUMNS, *KINDS])


def curves(studies):
    return {
        stage: {trial.number: trial.intermediate_values for trial in each.trials} for stage, each in studies.items()
    }


def result(studies, **more):
    counts = {stage: [trial.state.name for trial in each.trials] for stage, each in studies.items()}
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
            names.count("COMPLETE"),
            names.count("PRUNED"),
            names.count("FAIL"),
            max((trial.value for trial in studies[stage].trials if trial.state.name == "COMPLETE"), default=math.nan),
            {"learning_rate": "log", "batch_size": "choices", "layers": "linear"},
        )
        for stage, names in counts.items()
    )
    values = {
        "title": "finetuning on rotten_tomatoes: search",
        "metric": "f1_macro",
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
