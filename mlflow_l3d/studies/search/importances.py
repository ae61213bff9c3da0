"""How much of the variance of the score each hyperparameter brings about, by Optuna's fANOVA."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mlflow_l3d.approaches.hyperparameters import SearchRange
from mlflow_l3d.plan.factors import stream_seed
from mlflow_l3d.studies.search.engine import distributions, new_study
from mlflow_l3d.studies.search.results import FinishedTrial
from mlflow_l3d.studies.search.samplers import need_optuna
from mlflow_l3d.studies.search.space import SearchSpace

FEWEST: Final = 10
"""Trials below which a share of the variance says nothing."""


def importances(space: SearchSpace, trials: Sequence[FinishedTrial], *, seed: int) -> tuple[dict[str, float], str]:
    """Return the share of the variance of the score that each hyperparameter alone accounts for.

    Parameters
    ----------
    space, trials
        Of the coarse stage: the fine one looks at a small part of the space only.
    seed
        Of the random forest; zero is a seed.

    Returns
    -------
    dict
        Name -> share (0..1), the largest first; they sum to at most 1, the rest is due to hyperparameters together.
        Empty where there is no telling.
    str
        Why it is empty; '' where it is not.

    Notes
    -----
    Hutter, Hoos and Leyton-Brown, ICML 2014. Pruned trials count with the score that they ended with: without them only
    good settings would be looked at. A logarithmic range counts by its orders of magnitude. What a forest sees of luck
    it takes for a cause, so small shares are not findings.
    """
    optuna = need_optuna()
    usable: list[tuple[Mapping[str, Any], float]] = [
        (trial.params, trial.score)
        for trial in trials
        if trial.score is not None
        and math.isfinite(trial.score)
        # A default outside the space is not a part of what is explained.
        and all(space.contains(name, trial.params[name]) for name in space.ranges)
    ]
    names = [name for name in sorted(space.ranges) if len({params[name] for params, _ in usable}) > 1]
    if len(names) < 2:
        return {}, "Fewer than two hyperparameters were varied, so there is nothing to rank."
    if len(usable) < FEWEST:
        return {}, f"Only {len(usable)} trials of the coarse level have a score: importances need {FEWEST}."
    if len({score for _, score in usable}) < 2:
        return {}, "All trials of the coarse level have the same score, so no hyperparameter matters."
    whole, logs = distributions(space), set()
    kinds = {name: whole[name] for name in names}
    for name, each in space.ranges.items():
        if name in kinds and isinstance(each, SearchRange) and each.log:
            logs.add(name)  # fANOVA weighs a range by its width
            kinds[name] = optuna.distributions.FloatDistribution(math.log10(each.low), math.log10(each.high))
    study = new_study("none", greater_is_better=True)
    for params, score in usable:
        values = {name: math.log10(params[name]) if name in logs else params[name] for name in names}
        study.add_trial(optuna.trial.create_trial(value=score, params=values, distributions=kinds))
    try:
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=stream_seed(seed, "search importances") % 2**32)
        found = evaluator.evaluate(study)
    except ImportError:
        return {}, "Importances need the package scikit-learn."
    except RuntimeError as error:
        # A forest without a single split.
        return {}, f"There are no importances ({error})."
    return {name: float(share) for name, share in sorted(found.items(), key=lambda item: (-item[1], item[0]))}, ""
