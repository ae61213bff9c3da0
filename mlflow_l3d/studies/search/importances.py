"""How much of the variance of the score each hyperparameter brings about, by Optuna's fANOVA."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.plan.factors import stream_seed
from mlflow_l3d.studies.search.optional import need_optuna
from mlflow_l3d.studies.search.results import RESULT

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

FEWEST: Final = 10
"""Trials below which a share of the variance says nothing."""


def importances(study: Study, *, seed: int) -> tuple[dict[str, float], str]:
    """Return the share of the variance of the score that each hyperparameter alone accounts for.

    Parameters
    ----------
    study
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
    trials = [(trial, _score(trial)) for trial in study.get_trials(deepcopy=False)]
    everywhere = set().union(*(trial.params for trial, _ in trials)) if trials else set()
    # A default outside the space has no value there, and fANOVA would leave out the hyperparameter for it.
    usable = [(trial, score) for trial, score in trials if score is not None and set(trial.params) == everywhere]
    tried = {name: {trial.params[name] for trial, _ in usable} for name in sorted(everywhere)}
    names = [name for name, values in tried.items() if len(values) > 1]
    if len(names) < 2:
        return {}, "Fewer than two hyperparameters were varied, so there is nothing to rank."
    if len(usable) < FEWEST:
        return {}, f"Only {len(usable)} trials of the coarse level have a score: importances need {FEWEST}."
    if len({score for _, score in usable}) < 2:
        return {}, "All trials of the coarse level have the same score, so no hyperparameter matters."
    kinds = {(name, str(trial.distributions[name])) for trial, _ in usable for name in names}
    if len(kinds) > len(names):
        return {}, "The trials of the coarse level come from different spaces, so there are no importances."
    copy = optuna.create_study(
        direction="maximize", storage=optuna.storages.InMemoryStorage(), sampler=optuna.samplers.RandomSampler(seed=0)
    )
    copy.add_trials([_uniform(trial, score, names) for trial, score in usable])
    try:
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=stream_seed(seed, "search importances") % 2**32)
        found = evaluator.evaluate(copy)
    except ImportError:
        return {}, "Importances need the package scikit-learn."
    except RuntimeError as error:
        # A forest without a single split.
        return {}, f"There are no importances ({error})."
    return {name: float(share) for name, share in sorted(found.items(), key=lambda item: (-item[1], item[0]))}, ""


def _uniform(trial: FrozenTrial, score: float, names: list[str]) -> FrozenTrial:
    """Return a trial whose logarithmic hyperparameters are their logarithms: fANOVA weighs a range by its width."""
    optuna = need_optuna()
    params: dict[str, Any] = {}
    distributions: dict[str, BaseDistribution] = {}
    for name in names:
        value: Any = trial.params[name]
        kind: Any = trial.distributions[name]
        if getattr(kind, "log", False):
            value = math.log10(value)
            kind = optuna.distributions.FloatDistribution(math.log10(kind.low), math.log10(kind.high))
        params[name], distributions[name] = value, kind
    made: FrozenTrial = optuna.trial.create_trial(value=score, params=params, distributions=distributions)
    return made


def _score(trial: FrozenTrial) -> float | None:
    """Return the score of a trial that was complete or pruned."""
    if trial.state.name not in ("COMPLETE", "PRUNED"):
        return None
    result = trial.user_attrs.get(RESULT, {})
    score = result.get("score") if result.get("score") is not None else trial.value
    return None if score is None or not math.isfinite(score) else float(score)
