"""Samplers, pruners, and the grid: by name, from seeds, and one clear line where they cannot be."""

from __future__ import annotations

import importlib.util
import itertools
from typing import Any

import pytest

from mlflow_l3d.approaches.hyperparameters import SearchChoices, SearchRange, Value
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.search import samplers
from mlflow_l3d.studies.search.engine import distributions, new_study
from mlflow_l3d.studies.search.samplers import (
    Stage,
    grid_settings,
    need_optuna,
    pruner_name,
    pruner_of,
    sampler_name,
    sampler_of,
)
from mlflow_l3d.studies.search.space import SearchSpace

SPACE = SearchSpace(
    {
        "rate": SearchRange(1e-4, 1e-1, log=True),
        "epochs": SearchRange(5, 50, log=True, whole=True, coarse=(10, 30)),
        "dropout": SearchRange(0.0, 0.5),
        "kind": SearchChoices(("a", "b")),
        "flag": SearchChoices((False, True)),
    },
    fixed={"size": 8},
)
SIZE = 4 * 2 * 3 * 2 * 2


def value_of(params: dict[str, Value]) -> float:
    return -abs(float(params["rate"]) - 1e-2) - float(params["dropout"]) / 10 - (params["kind"] == "b")


def study_with(sampler: str, stage: Stage = "fine", seed: int = 0, begun: int = 0) -> Any:
    study = new_study("none", greater_is_better=True)
    study.sampler = sampler_of(sampler, stage, seed, begun)
    return study


def run(study: Any, trials: int) -> list[dict[str, Value]]:
    asked = []
    for _ in range(trials):
        trial = study.ask(distributions(SPACE))
        asked.append(dict(trial.params))
        study.tell(trial, value_of(asked[-1]))
    return asked


def test_distributions_are_those_of_the_ranges() -> None:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    assert distributions(SPACE) == {
        "rate": FloatDistribution(1e-4, 1e-1, log=True),
        "epochs": IntDistribution(5, 50, log=True),
        "dropout": FloatDistribution(0.0, 0.5),
        "kind": CategoricalDistribution(("a", "b")),
        "flag": CategoricalDistribution((False, True)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tpe", "random", "qmc", "nsgaii", "nsgaiii", "gp"])
def test_every_sampler_suggests_what_the_space_holds(name: str) -> None:
    if name == "gp":
        pytest.importorskip("torch")
    study = study_with(name)
    study.enqueue_trial({"rate": 0.05, "epochs": 7, "dropout": 0.0, "kind": "b", "flag": True})
    asked = run(study, 9)
    assert asked[0] == {"rate": 0.05, "epochs": 7, "dropout": 0.0, "kind": "b", "flag": True}
    assert all(SPACE.contains(each, params[each]) for params in asked for each in SPACE.ranges)
    assert all(type(params["epochs"]) is int and type(params["flag"]) is bool for params in asked)
    assert len({tuple(params.values()) for params in asked}) > 5


def test_tpe_comes_closer_than_it_began() -> None:
    values = [value_of(params) for params in run(study_with("tpe"), 30)]
    assert max(values[:5]) < max(values[15:])
    assert sum(values[:10]) / 10 < sum(values[-10:]) / 10


def test_seeds_decide_what_is_drawn() -> None:
    def first(begun: int = 0, seed: int = 0, stage: Stage = "fine") -> dict[str, Value]:
        return run(study_with("tpe", stage, seed, begun), 1)[0]

    assert first() == first()  # zero is a seed
    assert len({first()["rate"], first(seed=1)["rate"], first(begun=3)["rate"], first(stage="coarse")["rate"]}) == 4
    assert first(seed=2**53 - 1)


@pytest.mark.parametrize(
    ("typed", "stage", "name"),
    [
        ("auto", "coarse", "grid"),
        ("auto", "fine", "tpe"),
        ("GridSampler", "fine", "grid"),
        ("QMCSampler", "coarse", "qmc"),
        (" TPE ", "coarse", "tpe"),
        ("RandomSampler", "coarse", "random"),
        ("nsga_ii", "coarse", "nsgaii"),
    ],
)
def test_names_of_samplers(typed: str, stage: Stage, name: str) -> None:
    assert sampler_name("sampler", typed, stage) == name


def test_unknown_samplers_and_missing_packages_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = r"^fine_sampler='tpes': must be one of auto, cmaes, gp, grid, nsgaii, .*\. Did you mean 'tpe'\?$"
    with pytest.raises(ParameterError, match=wanted):
        sampler_name("fine_sampler", "tpes", "fine")
    with pytest.raises(ParameterError, match=r"^fine_sampler='BruteForceSampler': must be one of"):
        sampler_name("fine_sampler", "BruteForceSampler", "fine")
    found = importlib.util.find_spec
    monkeypatch.setattr(samplers, "find_spec", lambda name: None if name == "cmaes" else found(name))
    wanted = r"^fine_sampler=CmaEsSampler: needs the package cmaes, which is not installed\. Run: pip install cmaes$"
    with pytest.raises(ParameterError, match=wanted):
        sampler_name("fine_sampler", "CmaEsSampler", "fine")
    monkeypatch.setattr(samplers, "find_spec", lambda name: None)
    with pytest.raises(L3DError, match=r"needs the package optuna\. Run: pip install 'mlflow-l3d\[search\]'$"):
        sampler_name("fine_sampler", "tpe", "fine")


def test_cmaes_where_it_is_installed() -> None:
    pytest.importorskip("cmaes")
    assert len(run(study_with("cmaes"), 9)) == 9


@pytest.mark.parametrize(
    ("name", "short", "kind"),
    [
        ("auto", "median", "MedianPruner"),
        ("none", "none", "NopPruner"),
        ("NopPruner", "none", "NopPruner"),
        ("percentile", "percentile", "PercentilePruner"),
        ("successive_halving", "successivehalving", "SuccessiveHalvingPruner"),
        ("hyperband", "hyperband", "HyperbandPruner"),
        ("WilcoxonPruner", "wilcoxon", "WilcoxonPruner"),
    ],
)
def test_names_of_pruners(name: str, short: str, kind: str) -> None:
    assert pruner_name(name) == short
    assert type(pruner_of(short)).__name__ == kind


def test_unknown_pruners_are_one_line() -> None:
    with pytest.raises(ParameterError, match=r"^pruner='medain': must be one of auto, .*Did you mean 'median'\?$"):
        pruner_name("medain")


def test_the_default_pruner_ends_what_is_below_the_median() -> None:
    study = new_study(pruner_name("auto"), greater_is_better=True)

    def told(scores: list[float]) -> int | None:
        """Return the epoch after which the trial was told to end."""
        trial = study.ask()
        for epoch, score in enumerate(scores):
            trial.report(score, epoch)
            if trial.should_prune():
                study.tell(trial, state=ended)
                return epoch
        study.tell(trial, scores[-1])
        return None

    from optuna.trial import TrialState

    ended = TrialState.PRUNED
    assert [told([0.1 * n, 0.1 * n, 0.1 * n]) for n in range(5, 0, -1)] == [None] * 5  # nothing to compare with before
    assert told([0.05, 0.06, 0.9]) == 1  # not in the first epoch
    assert told([0.05, 0.9, 0.9]) is None
    assert told([0.36, 0.36, 0.36]) is None  # the median of the second epoch is 0.35


@pytest.mark.parametrize("seed", [0, 1])
def test_a_grid_is_every_combination_once_in_random_order(seed: int) -> None:
    found = grid_settings(SPACE, trials=1000, seed=seed)
    assert len(found) == SPACE.grid_size == SIZE
    every = [dict(zip(SPACE.ranges, point, strict=True)) for point in itertools.product(*SPACE.coarse().values())]
    assert sorted(map(str, found)) == sorted(map(str, every))
    assert found != every
    assert found == grid_settings(SPACE, trials=1000, seed=seed)
    assert found != grid_settings(SPACE, trials=1000, seed=seed + 1)


def test_what_is_tried_anyway_is_not_in_the_grid() -> None:
    one = {**SPACE.grid_point(3), "size": 8, "another": 1}
    outside = {**SPACE.grid_point(4), "rate": 3e-4}
    found = grid_settings(SPACE, trials=SIZE, seed=0, done=[one, outside, {"rate": 1e-4}])
    assert len(found) == SIZE - 1
    assert SPACE.grid_point(3) not in found
    tried = [SPACE.grid_point(n) for n in range(50)]
    part = grid_settings(SPACE, trials=10, seed=0, done=tried)
    assert len(part) == 10
    assert not [point for point in part if point in tried]


def test_a_huge_grid_has_a_random_part_tried() -> None:
    huge = SearchSpace({f"x{n}": SearchRange(1e-9, 1.0, log=True) for n in range(40)})
    found = grid_settings(huge, trials=5, seed=0)
    assert len({tuple(point.values()) for point in found}) == 5


def test_optuna_is_quiet_but_warns(capfd: pytest.CaptureFixture[str]) -> None:
    run(study_with("random"), 2)
    optuna = need_optuna()
    assert optuna.logging.get_verbosity() == optuna.logging.WARNING
    assert capfd.readouterr().err == ""
