"""Samplers, pruners, the grid and the importances: by name, from seeds, and one clear line if they cannot be."""

from __future__ import annotations

import importlib.util
import itertools
import math
from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState
from refusals import refuses

from mlflow_l3d.approaches.hyperparameters import SearchChoices, SearchRange, Value
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.search import optimiser
from mlflow_l3d.studies.search.optimiser import (
    FEWEST,
    Stage,
    compute_importances,
    distributions,
    make_sampler,
    need_optuna,
    new_study,
    pruner_name,
    sampler_name,
)
from mlflow_l3d.studies.search.space import SearchSpace, grid_settings

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


def run(sampler: str, trials: int, stage: Stage = "fine", seed: int = 0, begun: int = 0, queue: Any = None) -> Any:
    """Return the settings that a sampler suggests."""
    study, asked = new_study("none", greater_is_better=True), []
    study.sampler = make_sampler(sampler, stage, seed, begun)
    if queue:
        study.enqueue_trial(queue)
    for _ in range(trials):
        trial = study.ask(distributions(SPACE))
        asked.append(dict(trial.params))
        study.tell(trial, value_of(asked[-1]))
    return asked


def test_distributions_are_those_of_the_ranges() -> None:
    assert distributions(SPACE) == {
        "rate": FloatDistribution(1e-4, 1e-1, log=True),
        "epochs": IntDistribution(5, 50, log=True),
        "dropout": FloatDistribution(0.0, 0.5),
        "kind": CategoricalDistribution(("a", "b")),
        "flag": CategoricalDistribution((False, True)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tpe", "random", "qmc", "nsgaii", "nsgaiii", "gp", "cmaes"])
def test_every_sampler_suggests_what_the_space_contains(name: str) -> None:
    if name in {"gp", "cmaes"}:
        pytest.importorskip({"gp": "torch"}.get(name, name))
    first: dict[str, Value] = {"rate": 0.05, "epochs": 7, "dropout": 0.0, "kind": "b", "flag": True}
    asked = run(name, 9, queue=first)
    assert asked[0] == first
    assert all(searched.holds(params[each]) for params in asked for each, searched in SPACE.ranges.items())
    assert all(type(params["epochs"]) is int and type(params["flag"]) is bool for params in asked)
    assert len({tuple(params.values()) for params in asked}) > 5


def test_tpe_comes_closer_than_it_began_and_optuna_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    values = [value_of(params) for params in run("tpe", 30)]
    assert max(values[:5]) < max(values[15:])
    assert sum(values[:10]) / 10 < sum(values[-10:]) / 10
    optuna = need_optuna()
    assert optuna.logging.get_verbosity() == optuna.logging.WARNING
    assert capfd.readouterr().err == ""


def test_seeds_decide_what_is_drawn() -> None:
    first = run("tpe", 1)
    assert first == run("tpe", 1)  # zero is a seed
    others = [run("tpe", 1, seed=1), run("tpe", 1, begun=3), run("tpe", 1, "coarse"), run("tpe", 1, seed=2**53 - 1)]
    assert len({each["rate"] for (each,) in (first, *others)}) == 5


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


@pytest.mark.parametrize(
    ("typed", "short", "kind"),
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
def test_names_of_pruners(typed: str, short: str, kind: str) -> None:
    assert pruner_name(typed) == short
    assert type(new_study(short, greater_is_better=True).pruner).__name__ == kind


def test_unknown_names_and_missing_packages_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    message = r"^fine_sampler='tpes': must be one of auto, cmaes, gp, grid, nsgaii, .*\. Did you mean 'tpe'\?$"
    refuses(message, sampler_name, "fine_sampler", "tpes", "fine")
    with pytest.raises(ParameterError, match=r"^fine_sampler='BruteForceSampler': must be one of"):
        sampler_name("fine_sampler", "BruteForceSampler", "fine")
    refuses(r"^pruner='medain': must be one of auto, .*Did you mean 'median'\?$", pruner_name, "medain")
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(optimiser, "find_spec", lambda name: None if name == "cmaes" else find_spec(name))
    message = r"^fine_sampler=CmaEsSampler: needs the package cmaes, which is not installed\. Run: pip install cmaes$"
    refuses(message, sampler_name, "fine_sampler", "CmaEsSampler", "fine")
    monkeypatch.setattr(optimiser, "find_spec", lambda name: None)
    with pytest.raises(L3DError, match=r"needs the package optuna\. Run: pip install 'mlflow-l3d\[search\]'$"):
        sampler_name("fine_sampler", "tpe", "fine")


def test_the_default_pruner_ends_trials_below_the_median() -> None:
    study = new_study(pruner_name("auto"), greater_is_better=True)

    def ends_after(*scores: float) -> int | None:
        """Return the epoch after which the trial is ended early."""
        trial = study.ask()
        for epoch, score in enumerate(scores):
            trial.report(score, epoch)
            if trial.should_prune():
                study.tell(trial, state=TrialState.PRUNED)
                return epoch
        study.tell(trial, scores[-1])
        return None

    assert [ends_after(*[0.1 * n] * 3) for n in range(5, 0, -1)] == [None] * 5  # nothing to compare with before
    assert ends_after(0.05, 0.06, 0.9) == 1  # not in the first epoch
    assert ends_after(0.05, 0.9, 0.9) is None
    assert ends_after(0.36, 0.36, 0.36) is None  # the median of the second epoch is 0.35


@pytest.mark.parametrize("seed", [0, 1])
def test_a_grid_is_every_combination_once_in_random_order(seed: int) -> None:
    grid = grid_settings(SPACE, trials=1000, seed=seed)
    assert len(grid) == SPACE.grid_size == SIZE
    every = [dict(zip(SPACE.ranges, point, strict=True)) for point in itertools.product(*SPACE.coarse().values())]
    assert sorted(map(str, grid)) == sorted(map(str, every))
    assert grid != every
    assert grid == grid_settings(SPACE, trials=1000, seed=seed)
    assert grid != grid_settings(SPACE, trials=1000, seed=seed + 1)


def test_what_is_tried_anyway_is_not_in_the_grid_and_of_a_huge_one_a_part_is_tried() -> None:
    one = {**SPACE.grid_point(3), "size": 8, "another": 1}
    outside = {**SPACE.grid_point(4), "rate": 3e-4}
    grid = grid_settings(SPACE, trials=SIZE, seed=0, done=[one, outside, {"rate": 1e-4}])
    assert len(grid) == SIZE - 1
    assert SPACE.grid_point(3) not in grid
    tried = [SPACE.grid_point(n) for n in range(50)]
    part = grid_settings(SPACE, trials=10, seed=0, done=tried)
    assert len(part) == 10
    assert not [point for point in part if point in tried]
    huge = SearchSpace({f"x{n}": SearchRange(1e-9, 1.0, log=True) for n in range(40)})
    assert len({tuple(point.values()) for point in grid_settings(huge, trials=5, seed=0)}) == 5


RANKED = SearchSpace(
    {
        "rate": SearchRange(1e-5, 1e-2, log=True),
        "size": SearchChoices((4, 8, 16)),
        "layers": SearchRange(1, 3, whole=True),
    }
)
GRID: list[Any] = [
    {"rate": rate, "size": size, "layers": layers}
    for rate in (1e-5, 1e-4, 1e-3, 1e-2)
    for size in (4, 8, 16)
    for layers in (1, 3)
]


def rank(points: list[Any], score: Any = None, seed: int = 0) -> tuple[dict[str, float], str]:
    """Return the importances if only the rate matters, or with another score."""
    score = score or (lambda params: 0.8 - 0.02 * (math.log10(params["rate"]) + 3) ** 2)
    return compute_importances(RANKED, [(params, score(params)) for params in points], seed=seed)


def test_importances_find_the_one_that_matters() -> None:
    shares, note = rank(GRID)
    assert note == ""
    assert next(iter(shares)) == "rate"
    assert shares["rate"] > 0.9
    assert 0.94 < sum(shares.values()) <= 1 + 1e-9
    assert rank(GRID)[0] == shares != rank(GRID, seed=1)[0]
    no_score = compute_importances(RANKED, [(params, math.nan) for params in GRID], seed=0)
    assert no_score == rank([])


def test_importances_are_shares_that_leave_room_for_interactions() -> None:
    # Exclusive or: alone, neither says anything.
    shares, _ = rank(GRID, lambda params: 0.5 + 0.1 * ((params["layers"] == 3) == (params["rate"] > 2e-4)))
    assert sum(shares.values()) < 0.3


def test_a_default_outside_the_space_does_not_count() -> None:
    outside = {"rate": 0.5, "size": 8, "layers": 1}
    assert rank([outside, *GRID]) == rank(GRID)


@pytest.mark.parametrize(
    ("points", "score", "word"),
    [
        (GRID[: FEWEST - 1], None, f"Only {FEWEST - 1} trials"),
        (GRID, lambda params: 0.5, "same score"),
        ([{**GRID[0], "rate": 10**-power} for power in (2.1, 2.5, 3, 4)] * 3, None, "nothing to rank"),
        ([], None, "nothing to rank"),
    ],
)
def test_importances_that_cannot_be_known_say_why(points: list[Any], score: Any, word: str) -> None:
    shares, note = rank(points, score)
    assert shares == {}
    assert word in note
