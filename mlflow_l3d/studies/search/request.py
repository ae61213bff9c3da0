"""One hyperparameter search, checked and complete: what `search` is asked to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.metrics.known import named
from mlflow_l3d.parameters.published import as_published
from mlflow_l3d.parameters.search_document import Searches
from mlflow_l3d.parameters.setup import read_parameters, set_up
from mlflow_l3d.plan.cells import content_key
from mlflow_l3d.plan.factors import HELD_OUT_BASE, SEARCH_BASE, configuration_seed
from mlflow_l3d.studies.request import StudyRequest
from mlflow_l3d.studies.search.cells import search_key
from mlflow_l3d.studies.search.parameters import SEARCH
from mlflow_l3d.studies.search.samplers import Stage, pruner_name, sampler_name
from mlflow_l3d.studies.search.space import SearchSpace
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tracking import names


@dataclass(frozen=True, kw_only=True)
class SearchRequest(StudyRequest):
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
        Configurations that a trial is trained on, and on which the found setting is compared afterwards.
    root_seed
        Where every seed comes from.
    """

    role: ClassVar[Literal["investigation", "search"]] = "search"
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
        """Name of the parent as people read it."""
        return self.setup.title("search")

    def seeds(self, base: int, count: int) -> tuple[dict[str, int], ...]:
        """Return factor -> seed of `count` configurations from `base` on.

        Every factor of the approach has one, but for those that are not asked for.
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
        return self.seeds(SEARCH_BASE, self.search_seeds)

    @property
    def compared_on(self) -> tuple[dict[str, int], ...]:
        """Factor -> seed of each configuration on which the found setting is compared."""
        return self.seeds(HELD_OUT_BASE, self.held_out_runs)

    @property
    def validation_examples(self) -> int:
        """How many examples score a trial, in each configuration."""
        task = self.setup.task
        on_validation = replace(task, settings=replace(task.settings, evaluated="validation"))
        return len(on_validation.split(self.searched_on[0]).test)

    def sampler_seed(self, stage: Stage) -> int:
        """Return the seed of a stage's sampler."""
        return configuration_seed(self.root_seed, f"search {stage}", 0)

    def tags(self) -> dict[str, str]:
        """Return the tags of the parent."""
        return {names.SEARCH_SUBJECT: self.setup.subject.key}

    def final(self) -> dict[str, str]:
        """Return parameters that may come out otherwise than they were typed, as text."""
        return {
            **super().final(),
            "space": json.dumps(self.space.document()["ranges"], sort_keys=True),
            "coarse_trials": str(self.coarse_trials),
            "coarse_sampler": self.samplers["coarse"],
            "fine_sampler": self.samplers["fine"],
            "pruner": self.pruner,
        }

    def content(self) -> dict[str, Any]:
        """Return what the document holds beside what that of every study has."""
        return {
            "task": self.of_task({"examples": len(self.setup.task)}),
            "space": self.space.document(),
            "coarse_trials": self.coarse_trials,
            "fine_trials": self.fine_trials,
            "samplers": dict(self.samplers),
            "pruner": self.pruner,
            "searched_on": list(self.searched_on),
            "compared_on": list(self.compared_on),
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
    numbers = ("coarse_trials", "fine_trials", "search_seeds", "held_out_runs", "root_seed")
    wanted, fine_trials, search_seeds, held_out_runs, root_seed = (typed[name] for name in numbers)
    pruner = pruner_name(typed["pruner"])
    samplers: dict[Stage, str] = {
        "coarse": sampler_name("coarse_sampler", typed["coarse_sampler"], "coarse"),
        "fine": sampler_name("fine_sampler", typed["fine_sampler"], "fine"),
    }
    asked, _ = as_published(typed, approach)
    setup = set_up(asked, approach, task, root_seed=root_seed, searches=searches)
    space = SearchSpace.of(approach, setup.hyperparameters, typed.texts["space"])
    # The grid of coarse values, and the given setting where it is not on it.
    on_grid = all(setup.hyperparameters[name] in values for name, values in space.coarse().items())
    coarse_trials = min(space.grid_size + (not on_grid), 40) if wanted == "auto" else wanted
    context = search_key(
        setup.task, approach, model_revision=setup.model_revision, numerics=setup.numerics, metric=typed["metric"]
    )
    layout = {
        "context": context,
        "hyperparameters": approach.identity(setup.hyperparameters),
        "given": dict(setup.origin.values),
        "space": space.document(),
        "trials": [coarse_trials, fine_trials],
        "samplers": dict(samplers),
        "pruner": pruner,
        "seeds": [root_seed, search_seeds, held_out_runs],
    }
    return SearchRequest(
        given=typed.texts,
        setup=setup,
        metric=named(typed["metric"]),
        space=space,
        coarse_trials=coarse_trials,
        fine_trials=fine_trials,
        samplers=samplers,
        pruner=pruner,
        search_seeds=search_seeds,
        held_out_runs=held_out_runs,
        root_seed=root_seed,
        context_key=context,
        key=content_key(layout),
    )
