"""A trial as a cell: one complete setting of hyperparameters, with the configurations that it is scored on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.plan.cells import Cell, Outcome, content_key
from mlflow_l3d.studies.request import identity
from mlflow_l3d.studies.search.space import setting
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tracking.records import TrialRecord, measured

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


@dataclass(frozen=True, slots=True)
class TrialCell(Cell):
    """One trial of a search. As a cell it is a golden run: index is its number, seeds are those of configuration 0.

    Attributes
    ----------
    hyperparameters
        Complete.
    trial_number
        Number in its stage, from 0.
    configurations_seeds
        Factor -> seed, one mapping for each of the k configurations that it is trained on.
    earlier
        Optuna's trials of the stage before this one, as they were when it began: what a pruner compares it with.
    """

    hyperparameters: Mapping[str, Value]
    trial_number: int
    configurations_seeds: tuple[Mapping[str, int], ...]
    earlier: tuple[FrozenTrial, ...] = ()

    @property
    def name(self) -> str:
        """Name of the run as people read it."""
        return f"trial {self.trial_number}"

    def record(self, stage: str, name: str, state: str, outcome: Outcome) -> TrialRecord:
        """Return the record of the trial, or of a run of the comparison."""
        seeds = self.configurations_seeds
        return TrialRecord(
            stage=stage,
            number=self.trial_number,
            state=state,
            hyperparameters=dict(self.hyperparameters),
            seeds={factor: ",".join(str(own[factor]) for own in seeds) for factor in seeds[0]},
            key=self.key,
            name=name,
            **measured(outcome),
        )


def search_key(task: Task, approach: Approach, *, model_revision: str, numerics: Mapping[str, str], metric: str) -> str:
    """Return the key of everything that the trials of a search share, their seeds and hyperparameters left out.

    Parameters
    ----------
    task
        With the settings of the split; whatever they say, a search evaluates on the validation part.
    approach, model_revision, numerics
        As for the key of a cell.
    metric
        What is scored.
    """
    on_validation = replace(task, settings=replace(task.settings, evaluated="validation"))
    shared = identity(on_validation, approach, model_revision=model_revision, numerics=numerics)
    return content_key({"search": 1, **shared, "metric": metric})


def trial_key(context_key: str, hyperparameters: Mapping[str, Value], seeds: Sequence[Mapping[str, int]]) -> str:
    """Return the key of a trial: equal keys mean equal scores, on either stage and in any search."""
    configurations = [dict(configuration) for configuration in seeds]
    content = {"context": context_key, "hyperparameters": dict(hyperparameters), "configurations": configurations}
    return content_key(content)


@dataclass(frozen=True, slots=True)
class TrialMaker:
    """Makes the cells of one stage from what Optuna suggests.

    Attributes
    ----------
    approach
        The user's.
    base
        What holds for all trials, see :func:`mlflow_l3d.studies.search.space.setting`.
    context_key
        From :func:`search_key`.
    seeds
        Factor -> seed, for each of the k configurations.
    """

    approach: Approach
    base: Mapping[str, Value]
    context_key: str
    seeds: tuple[Mapping[str, int], ...]

    def __call__(self, params: Mapping[str, Value], number: int, earlier: tuple[FrozenTrial, ...] = ()) -> TrialCell:
        """Return the cell of a trial.

        Parameters
        ----------
        params
            Hyperparameter -> value, of all that is searched; or all hyperparameters.
        number, earlier
            Of the trial, see :class:`TrialCell`.

        Raises
        ------
        ParameterError
            If the approach refuses this combination of values.
        """
        hyperparameters = setting(self.approach, self.base, params)
        key = trial_key(self.context_key, self.approach.identity(hyperparameters), self.seeds)
        of_trial = (hyperparameters, number, self.seeds, earlier)
        return TrialCell("golden", None, None, None, number, {}, dict(self.seeds[0]), key, *of_trial)


def held_out_cells(
    approach: Approach,
    context_key: str,
    settings: Mapping[str, Mapping[str, Value]],
    seeds: Sequence[Mapping[str, int]],
) -> list[tuple[str, TrialCell]]:
    """Return the cells that compare settings on configurations that were not searched on, by their test examples.

    Parameters
    ----------
    approach
        The user's.
    context_key
        From :func:`search_key`.
    settings
        Name of a setting -> complete hyperparameters. Cells of one setting follow each other, so that a worker keeps
        its session.
    seeds
        Factor -> seed, for each configuration.
    """
    context = content_key({"context": context_key, "evaluated": "test"})
    makers = [TrialMaker(approach, {}, context, (own,)) for own in seeds]
    return [(name, maker(own, number)) for name, own in settings.items() for number, maker in enumerate(makers)]
