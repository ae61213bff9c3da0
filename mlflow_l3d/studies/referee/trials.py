"""Trials of an Optuna study that a referee judges, with any sampler."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.referee.door import Referee
from mlflow_l3d.studies.referee.numbers import Judgement
from mlflow_l3d.studies.search.optimiser import need_optuna

if TYPE_CHECKING:
    from optuna import Study, Trial


class RefereedStudy:
    """An Optuna study whose trials are candidates of a referee.

    A trial whose candidate is rejected is pruned, mostly after one or two runs; one that is kept is complete. Samplers
    learn the mean score of either. `study.best_trial` is the luckiest trial: quote the referee's champion.

    Parameters
    ----------
    study
        Of the direction of the metric; samplers and storage are its own.
    referee
        Runs the candidates.

    Examples
    --------
    >>> import random, mlflow_l3d, optuna
    >>> def score(candidate, seed):
    ...     return -((candidate["x"] - 3) ** 2) + random.Random(seed).gauss(0, 1)
    >>> study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    >>> referee = mlflow_l3d.Referee(score, baseline={"x": 0}, smallest_effect=3, candidates=5, baseline_runs=8)
    >>> refereed = mlflow_l3d.RefereedStudy(study, referee)
    >>> judgements = refereed.optimize(lambda trial: {"x": round(trial.suggest_float("x", 0, 6), 2)}, n_trials=5)
    >>> [judgement.verdict for judgement in judgements]
    ['keep', 'reject', 'reject', 'reject', 'reject']
    """

    def __init__(self, study: Study, referee: Referee) -> None:
        metric = referee.conduct.source.metric
        wanted = "maximize" if metric.greater_is_better else "minimize"
        if (directions := [each.name.lower() for each in study.directions]) != [wanted]:
            allowed = f"must {wanted} {metric.name} alone"
            raise ParameterError("study", ", ".join(directions), allowed, f"Use direction={wanted!r}.")
        self.study, self.referee = study, referee

    def optimize(self, suggest: Callable[[Trial], Any], n_trials: int) -> list[Judgement]:
        """Judge the candidates of some trials; return the judgements.

        Parameters
        ----------
        suggest
            Returns the candidate of a trial, as :meth:`mlflow_l3d.Referee.judge` takes it.
        n_trials
            How many.
        """
        judgements: list[Judgement] = []

        def objective(trial: Trial) -> float:
            judgement = self.referee.judge(suggest(trial))
            judgements.append(judgement)
            trial.set_user_attr("verdict", judgement.verdict)
            systems = self.referee.conduct.recorder.systems
            record = next(each for each in systems if each.run_id == judgement.candidate_run_id)
            scores = np.array([value for value in record.scores.values() if math.isfinite(value)])
            if judgement.verdict == "undecided" or not len(scores):
                return math.nan  # Optuna lets such a trial fail
            if judgement.verdict == "reject":
                trial.report(float(scores.mean()), step=len(scores))
                raise need_optuna().TrialPruned
            return float(scores.mean())

        self.study.optimize(objective, n_trials=n_trials)
        return judgements
