"""What a search takes from Optuna: samplers and pruners by name, distributions, studies, and importances."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal

from mlflow_l3d.approaches.hyperparameters import SearchChoices, Searched
from mlflow_l3d.cells.factors import stream_seed
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.studies.search.space import SearchSpace

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

Stage = Literal["coarse", "fine"]
Kind = Literal["sampler", "pruner"]
GRID: Final = "grid"
FEWEST: Final = 10
"""Trials below which a share of the variance says nothing."""
_UNFIT: Final = {"base", "basega", "grid", "bruteforce", "partialfixed", "patient", "threshold"}
"""Optuna's classes that end the study themselves, or that need more arguments than a seed."""
_STARTUP: Final = {"n_startup_trials": 5}
_WAYS: Final = {**_STARTUP, "n_warmup_steps": 1, "n_min_trials": 3}
_ARGUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "tpe": {"multivariate": False, "constant_liar": True, **_STARTUP},
    "gp": {"warn_independent_sampling": False, **_STARTUP},
    "cmaes": {"warn_independent_sampling": False},
    "qmc": {"warn_independent_sampling": False},
    "median": _WAYS,
    "percentile": {"percentile": 25.0, **_WAYS},
}


def need_optuna() -> ModuleType:
    """Return the module `optuna`, whose messages about each trial are off: the search has its own.

    Raises
    ------
    L3DError
        If it is not installed.
    """
    if find_spec("optuna") is None:
        raise L3DError("A search of hyperparameters needs the package optuna. Run: pip install 'mlflow-l3d[search]'")
    import optuna

    if optuna.logging.get_verbosity() == optuna.logging.INFO:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def sampler_name(parameter: str, typed: str, stage: Stage) -> str:
    """Return the short name of a sampler: ``grid``, or that of Optuna's class (``tpe`` of ``TPESampler``).

    Parameters
    ----------
    parameter
        What it was typed for.
    typed
        ``auto`` (the grid at level 1, tpe at level 2), or a name in any case, with or without ``Sampler``.
    stage
        ``coarse`` or ``fine``.

    Raises
    ------
    ParameterError
        If there is no such sampler, with a did-you-mean, or the package that it needs is missing.
    """
    name = _short_name(parameter, typed, "sampler", auto=GRID if stage == "coarse" else "tpe", more=GRID)
    if name == "cmaes" and find_spec(name) is None:
        fix = "Run: pip install cmaes"
        raise ParameterError(parameter, typed, "needs the package cmaes, which is not installed", fix)
    return name


def pruner_name(typed: str) -> str:
    """Return the short name of a pruner: ``none``, or that of Optuna's class; ``auto`` is ``median``.

    ``median``: a trial ends whose best score so far is below the median of the others at the same epoch; never in the
    first epoch, nor before 5 trials are complete, nor if fewer than 3 came that far. ``percentile``: the same with the
    best quarter.

    Raises
    ------
    ParameterError
        If there is no such pruner, with a did-you-mean.
    """
    name = _short_name("pruner", typed, "pruner", auto="median", more="none")
    return "none" if name == "nop" else name


def _short_name(parameter: str, typed: str, kind: Kind, *, auto: str, more: str) -> str:
    names = {"auto", more, *_classes(kind)}
    name = typed.strip().lower().replace("_", "").replace("-", "").removesuffix(kind)
    if name not in names:
        raise unknown_name(parameter, typed.strip(), names)
    return auto if name == "auto" else name


def _classes(kind: Kind) -> dict[str, Any]:
    """Return short name -> class of Optuna's samplers or pruners."""
    module, ending = getattr(need_optuna(), f"{kind}s"), kind.capitalize()
    short = {name.removesuffix(ending).lower(): name for name in module.__all__ if name[0].isupper()}
    return {name: getattr(module, class_name) for name, class_name in short.items() if name not in _UNFIT}


def _make(name: str, kind: Kind, **more: Any) -> Any:
    """Make one of Optuna's, without a warning that the class may still change: the user asked for it by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", need_optuna().exceptions.ExperimentalWarning)
        return _classes(kind)[name](**more, **_ARGUMENTS.get(name, {}))


def make_sampler(name: str, stage: Stage, seed: int, begun: int = 0) -> BaseSampler:
    """Return a sampler of Optuna.

    Parameters
    ----------
    name
        From :func:`sampler_name`; for ``grid``, whose settings are queued, it is one that draws at random.
    stage, seed
        Each stage has its own stream of the seed; zero is a seed.
    begun
        How many trials the study has; every number has its own stream.
    """
    number = stream_seed(seed, "search sampler", stage, str(begun)) % 2**32  # numpy's old generators take no more
    sampler: BaseSampler = _make("random" if name == GRID else name, "sampler", seed=number)
    return sampler


def new_study(pruner: str, *, greater_is_better: bool) -> Study:
    """Return an empty study of Optuna, in memory: the recorder keeps its trials."""
    optuna = need_optuna()
    study: Study = optuna.create_study(
        study_name="trials",  # hyperband's brackets follow from it
        direction="maximize" if greater_is_better else "minimize",
        sampler=optuna.samplers.RandomSampler(seed=0),  # each trial has one of its own
        pruner=_make("nop" if pruner == "none" else pruner, "pruner"),
    )
    return study


def distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """Return name -> Optuna's distribution: the whole range, also at level 1, where few values of it are queued."""
    kinds = need_optuna().distributions

    def of(searched: Searched) -> Any:
        if isinstance(searched, SearchChoices):
            return kinds.CategoricalDistribution(searched.choices)
        number, kind = (int, kinds.IntDistribution) if searched.whole else (float, kinds.FloatDistribution)
        return kind(number(searched.low), number(searched.high), log=searched.log)

    return {name: of(searched) for name, searched in space.ranges.items()}


def compute_importances(
    space: SearchSpace, scored: Sequence[tuple[Mapping[str, Any], float]], *, seed: int
) -> tuple[dict[str, float], str]:
    """Return the share of the variance of the score that each hyperparameter alone accounts for, by Optuna's fANOVA.

    Parameters
    ----------
    space, scored
        Of the coarse stage: the fine one looks at a small part of the space only. The searched values and the score of
        each trial that has one.
    seed
        Of the random forest; zero is a seed.

    Returns
    -------
    dict
        Name -> share (0..1), the largest first; they sum to at most 1, the rest is due to hyperparameters together.
        Empty if they cannot be determined.
    str
        Why it is empty; '' if it is not.

    Notes
    -----
    Hutter, Hoos and Leyton-Brown, ICML 2014. Pruned trials count with the score that they ended with: without them only
    good settings would be looked at. A logarithmic range counts by its orders of magnitude. A forest takes luck for a
    cause, so small shares are not findings.
    """
    # A default outside the space is not a part of what is explained.
    usable = [
        (params, score)
        for params, score in scored
        if math.isfinite(score) and all(searched.holds(params[name]) for name, searched in space.ranges.items())
    ]
    names = [name for name in sorted(space.ranges) if len({params[name] for params, _ in usable}) > 1]
    if len(names) < 2:
        return {}, "Fewer than two hyperparameters were varied, so there is nothing to rank."
    if len(usable) < FEWEST:
        return {}, f"Only {len(usable)} trials of the coarse level have a score: importances need {FEWEST}."
    if len({score for _, score in usable}) < 2:
        return {}, "All trials of the coarse level have the same score, so no hyperparameter matters."
    optuna, whole_ranges = need_optuna(), distributions(space)
    kinds = {name: whole_ranges[name] for name in names}
    logarithmic = [name for name in names if getattr(kinds[name], "log", False)]
    for name in logarithmic:  # fANOVA weighs a range by its width
        low, high = (math.log10(getattr(kinds[name], end)) for end in ("low", "high"))
        kinds[name] = optuna.distributions.FloatDistribution(low, high)
    study = new_study("none", greater_is_better=True)
    for params, score in usable:
        values = {name: math.log10(params[name]) if name in logarithmic else params[name] for name in names}
        study.add_trial(optuna.trial.create_trial(value=score, params=values, distributions=kinds))
    try:
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=stream_seed(seed, "search importances") % 2**32)
        shares = evaluator.evaluate(study)
    except ImportError:
        return {}, "Importances need the package scikit-learn."
    except RuntimeError as error:
        # A forest without a single split.
        return {}, f"There are no importances ({error})."
    return {name: float(share) for name, share in sorted(shares.items(), key=lambda item: (-item[1], item[0]))}, ""
