"""One hyperparameter search, checked and complete."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.cells.cell import Cell, cell_key, content_key
from mlflow_l3d.cells.factors import HELD_OUT_BASE, SEARCH_BASE, configuration_seed
from mlflow_l3d.parameters.search_document import Searches, validated_on
from mlflow_l3d.parameters.setup import headline_metric, read_parameters, set_up
from mlflow_l3d.parameters.sources import as_published
from mlflow_l3d.studies.request import CellRequest, StudyRequest, context_of, identity
from mlflow_l3d.studies.search.optimiser import Stage, pruner_name, sampler_name
from mlflow_l3d.studies.search.parameters import SEARCH
from mlflow_l3d.studies.search.space import SearchSpace, Setting, complete_setting
from mlflow_l3d.studies.search.trials import Earlier, TrialCell, evaluated_on, trial_key
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray
from mlflow_l3d.tracking import names


@dataclass(frozen=True, kw_only=True)
class SearchRequest(CellRequest):
    """One hyperparameter search; the hyperparameters of its setup hold for all trials, and are the first one.

    Attributes
    ----------
    space
        Of level 1.
    coarse_trials, fine_trials
        Trials of the two stages.
    samplers, pruner
        Names, as typed but checked.
    search_seeds, held_out_runs
        Number of configurations that a trial is trained on, and on which the found setting is compared afterwards.
    root_seed
        All seeds derive from it.
    """

    role: ClassVar[Literal["investigation", "search"]] = "search"
    parameters = SEARCH
    space: SearchSpace
    coarse_trials: int
    fine_trials: int
    samplers: Mapping[Stage, str]
    pruner: str
    search_seeds: int
    held_out_runs: int
    root_seed: int

    @property
    def title(self) -> str:
        """Name of the parent run as people read it."""
        return self.setup.title("search")

    def _seeds(self, base: int, count: int) -> tuple[dict[str, int], ...]:
        """Return factor -> seed of `count` configurations from `base` on.

        Every factor of the approach has one, except those on request that nobody requests.
        """
        approach, active = self.setup.approach, self.setup.all_factors
        factors = [name for name in approach.factors if name in active or name not in approach.on_request]
        return tuple(
            {name: configuration_seed(self.root_seed, name, base + number) for name in factors}
            for number in range(count)
        )

    @property
    def searched_on(self) -> tuple[dict[str, int], ...]:
        """Factor -> seed of each configuration that trials are trained on."""
        return self._seeds(SEARCH_BASE, self.search_seeds)

    @property
    def compared_on(self) -> tuple[dict[str, int], ...]:
        """Factor -> seed of each configuration on which the found setting is compared."""
        return self._seeds(HELD_OUT_BASE, self.held_out_runs)

    @property
    def validation_examples(self) -> int:
        """How many examples score a trial, in each configuration."""
        return len(evaluated_on(self.setup.task, "validation").split(self.searched_on[0]).test)

    @cached_property
    def validated_on(self) -> IntArray:
        """Positions of the examples that score trials."""
        return validated_on(self.setup.task, self.searched_on)

    def design(self) -> SearchRequest:
        """Return itself: it has the first trial, which the self-test tries as a cell of the context of its setup."""
        return replace(self, context_key=context_of(self.setup))

    def __len__(self) -> int:
        """Return the number of cells that the self-test tries."""
        return 1

    def cells(self) -> Iterator[Cell]:
        """Yield the cell that the self-test tries."""
        seeds = self.searched_on[0]
        yield Cell("golden", None, None, None, 0, {}, seeds, cell_key(self.context_key, seeds))

    def shared_params(self) -> dict[str, str]:
        """Return the parameters that every trial has."""
        return StudyRequest.shared_params(self)

    def trials_of(self, stage: Stage) -> int:
        """Return how many trials a stage has at most."""
        return self.coarse_trials if stage == "coarse" else self.fine_trials

    def sampler_seed(self, stage: Stage) -> int:
        """Return the seed of a stage's sampler."""
        return configuration_seed(self.root_seed, f"search {stage}", 0)

    def trial_cell(self, params: Setting, number: int, earlier: Earlier = ()) -> TrialCell:
        """Return the cell of a trial that tries `params`; `earlier` are the trials of its stage before it.

        Raises
        ------
        ParameterError
            If the approach refuses this combination of values.
        """
        hyperparameters = complete_setting(self.setup.approach, self.setup.origin.values, params)
        key = trial_key(self.context_key, self.setup.approach.identity(hyperparameters), self.searched_on)
        return TrialCell.of(key, hyperparameters, self.searched_on, number, earlier)

    def held_out_cells(self, hyperparameters: Setting) -> list[TrialCell]:
        """Return the cells that score a setting by the test examples of configurations that were not searched on."""
        context_key = content_key({"context": self.context_key, "evaluated": "test"})
        decisive = self.setup.approach.identity(hyperparameters)
        return [
            TrialCell.of(trial_key(context_key, decisive, [seeds]), hyperparameters, [seeds], number)
            for number, seeds in enumerate(self.compared_on)
        ]

    def compared_cells(self, best: Setting) -> dict[str, list[TrialCell]]:
        """Return the cells that compare the best setting with the given one; none if they are the same."""
        settings = {"found": best, "given": self.setup.hyperparameters}
        if not self.held_out_runs or dict(best) == dict(self.setup.hyperparameters):
            return {}
        return {kind: self.held_out_cells(setting) for kind, setting in settings.items()}

    def tags(self) -> dict[str, str]:
        """Return the tags of the parent run."""
        return {names.SEARCH_SUBJECT: self.setup.subject.key}

    def final(self) -> dict[str, str]:
        """Return parameters whose final value may differ from the typed text, as text."""
        return {
            **super().final(),
            "space": json.dumps(self.space.document()["ranges"], sort_keys=True),
            "coarse_trials": str(self.coarse_trials),
            "coarse_sampler": self.samplers["coarse"],
            "fine_sampler": self.samplers["fine"],
            "pruner": self.pruner,
        }

    def settings(self, more: Mapping[str, str], run_id: str) -> dict[str, str]:
        """Return what a report says of the search; its first table shows the hyperparameters."""
        samplers = ", ".join(f"{sampler} ({stage})" for stage, sampler in self.samplers.items())
        of_search = {"samplers": samplers, "pruner": self.pruner, "configurations a trial": str(self.search_seeds)}
        settings = super().settings({**of_search, "root seed": str(self.root_seed), **more}, run_id)
        return {name: value for name, value in settings.items() if name != "hyperparameters"}

    def content(self) -> dict[str, Any]:
        """Return what the document has in addition to that of every study."""
        same = ("coarse_trials", "fine_trials", "samplers", "pruner", "searched_on", "compared_on")
        return {
            "task": self.of_task({"examples": len(self.setup.task)}),
            "space": self.space.document(),
            **{name: getattr(self, name) for name in same},
        }


def specify_search(
    parameters: Mapping[str, object],
    *,
    approach: Approach | None = None,
    task: Task | None = None,
    searches: Searches | None = None,
) -> SearchRequest:
    """Check the parameters of `search` and load what they name.

    Parameters
    ----------
    parameters
        Any of :data:`mlflow_l3d.studies.search.parameters.SEARCH`; the others take their defaults.
    approach, task
        Objects in place of the names, for the Python API.
    searches
        As for :func:`mlflow_l3d.studies.investigation.request.specify`.

    Raises
    ------
    ParameterError
        For the first parameter that is not allowed. Cheap checks come first, data and models last.
    """
    typed, approach = read_parameters(parameters, SEARCH, approach, task)
    coarse_trials = typed["coarse_trials"]
    numbers = {name: typed[name] for name in ("fine_trials", "search_seeds", "held_out_runs", "root_seed")}
    pruner = pruner_name(typed["pruner"])
    stages: tuple[Stage, ...] = ("coarse", "fine")
    samplers = {stage: sampler_name(f"{stage}_sampler", typed[f"{stage}_sampler"], stage) for stage in stages}
    asked, _ = as_published(typed, approach)
    setup = set_up(asked, approach, task, root_seed=numbers["root_seed"], searches=searches)
    space = SearchSpace.of(approach, setup.hyperparameters, typed.texts["space"])
    if coarse_trials == "auto":
        # The grid of coarse values, and the given setting if it is not on it.
        is_on_grid = all(setup.hyperparameters[name] in values for name, values in space.coarse().items())
        coarse_trials = min(space.grid_size + (not is_on_grid), 40)
    on_validation = evaluated_on(setup.task, "validation")
    shared = identity(on_validation, approach, model_revision=setup.model_revision, numerics=setup.numerics)
    metric = headline_metric(setup)
    context_key = content_key({"search": 1, **shared, "metric": metric.name})
    layout = {
        "context": context_key,
        "hyperparameters": approach.identity(setup.hyperparameters),
        "given": dict(setup.origin.values),
        "space": space.document(),
        "trials": [coarse_trials, numbers["fine_trials"]],
        "samplers": samplers,
        "pruner": pruner,
        # Always the default of held_out_runs: with more of them, a search keeps its trials, also those that it pruned.
        "seeds": [numbers["root_seed"], numbers["search_seeds"], int(SEARCH["held_out_runs"].default)],
    }
    return SearchRequest(
        given=typed.texts,
        setup=setup,
        metric=metric,
        space=space,
        coarse_trials=coarse_trials,
        samplers=samplers,
        pruner=pruner,
        **numbers,
        context_key=context_key,
        key=content_key(layout),
    )
