"""One random-seeds study, checked and complete: what `seeds` is asked to do (Zhou et al. 2025)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mlflow_l3d.analysis.seeds.predictions import check_seeds
from mlflow_l3d.approaches.base import Approach, Value, identity_of
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.search_document import Searches
from mlflow_l3d.parameters.setup import Setup, given_texts, set_up
from mlflow_l3d.parameters.table import SEEDS
from mlflow_l3d.parameters.values import integer, public_name
from mlflow_l3d.plan.cells import content_key
from mlflow_l3d.plan.designs.seeds import PAPER_SEEDS, SeedsDesign
from mlflow_l3d.plan.factors import TASK_FACTORS, configuration_seed
from mlflow_l3d.tasks.base import SPLITS_VERSION, Split, Task
from mlflow_l3d.tasks.glue import benchmark_of

MOST_SEEDS: Final = 100_000


@dataclass(frozen=True)
class SeedsSpecification:
    """One random-seeds study.

    Attributes
    ----------
    given
        Every parameter as it was typed, defaults included.
    setup
        What is trained, on what and where.
    seeds
        The seeds, in their order.
    metric
        The metric in the headline.
    split_seeds
        Seeds of the one split, of a task without parts of its own; else none.
    context_key
        Hash of everything that the cells share.
    key
        Hash that says whether two parents are the same study.
    """

    given: Mapping[str, str]
    setup: Setup
    seeds: tuple[int, ...]
    metric: str
    split_seeds: Mapping[str, int]
    context_key: str
    key: str

    @property
    def task(self) -> Task:
        """The data."""
        return self.setup.task

    @property
    def approach(self) -> Approach:
        """What is trained."""
        return self.setup.approach

    @property
    def model(self) -> str:
        """The model as people see it."""
        return self.setup.model

    @property
    def hyperparameters(self) -> Mapping[str, Value]:
        """Complete."""
        return self.setup.hyperparameters

    @property
    def split(self) -> Split:
        """The split, the same for every seed."""
        return self.task.split(self.split_seeds)

    @property
    def title(self) -> str:
        """Name of the parent as people read it."""
        return f"{self.approach.name} {self.task.name}: {len(self.seeds)} seeds"

    def design(self) -> SeedsDesign:
        """Return the layout of the cells."""
        return SeedsDesign(self.seeds, self.setup.all_factors, self.context_key, self.split_seeds)

    def resolved(self) -> dict[str, str]:
        """Return the parameters whose final value is not what was typed, as text."""
        final = {
            "task": self.task.name,
            "model": self.model,
            "seeds": ",".join(map(str, self.seeds)),
            "metric": self.metric,
            "device": self.setup.device,
            "hyperparameters": json.dumps(dict(self.hyperparameters), sort_keys=True),
        }
        return {name: value for name, value in final.items() if value and value != self.given[name]}

    def document(self) -> dict[str, Any]:
        """Return everything needed to repeat the study, as JSON types; free of private paths."""
        task, setup = self.task, self.setup
        split = self.split
        return {
            "schema": 1,
            "parameters": {name: public_name(value) for name, value in self.given.items()},
            "factors": ["seed"],
            "governed_factors": [name for name in setup.all_factors if name not in TASK_FACTORS],
            "seeds": list(self.seeds),
            "task": {
                "name": task.name,
                "kind": task.kind,
                "benchmark": benchmark_of(task.name),
                "classes": list(task.class_names),
                "fingerprint": task.fingerprint,
                "train_examples": len(split.train),
                "validation_examples": len(split.validation),
                "evaluated_examples": len(split.test),
                "split": {"source": task.settings.source, "seeds": dict(self.split_seeds)},
                "notes": list(task.notes),
            },
            "approach": {"name": self.approach.name, "version": self.approach.version},
            "model": {"name": self.model, "revision": setup.model_revision},
            "hyperparameters": dict(self.hyperparameters),
            "hyperparameters_from": setup.origin.document(),
            "metric": self.metric,
            "numerics": dict(setup.numerics),
            "context_key": self.context_key,
            "investigation_key": self.key,
        }


def specify_seeds(
    parameters: Mapping[str, object],
    *,
    approach: Approach | None = None,
    task: Task | None = None,
    searches: Searches | None = None,
) -> SeedsSpecification:
    """Check the parameters of `seeds` and load what they name.

    Parameters
    ----------
    parameters
        Any of :data:`mlflow_l3d.parameters.table.SEEDS`; the others take their defaults.
    approach, task
        Objects in place of the names, for the Python API.
    searches
        As for :func:`mlflow_l3d.studies.investigation.specification.specify`.

    Raises
    ------
    ParameterError
        For the first parameter that is not allowed. Cheap checks come first, data and models last.
    """
    given, approach = given_texts(parameters, SEEDS, approach, task)
    seeds = parse_seeds(given["seeds"])
    fraction = _fraction(given["validation_fraction"])
    root_seed = integer("root_seed", given["root_seed"], 0)
    setup = set_up(
        {**given, "hyperparameters": _hyperparameters(given["hyperparameters"], approach, given["model"])},
        approach,
        task,
        root_seed=root_seed,
        searches=searches,
        predefined_split=True,
        validation_fraction=fraction,
    )
    governed = [name for name in setup.all_factors if name not in TASK_FACTORS]
    if not governed:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in setup.fixed_factors.items())
        allowed = (
            f"no source of randomness of {approach.name} has an effect, so every seed would be the same ({reasons})"
        )
        raise ParameterError("seeds", given["seeds"], allowed)
    metric = setup.task.metric if given["metric"] == "auto" else given["metric"]
    context = content_key(
        {
            "task": setup.task.fingerprint,
            "splits": [SPLITS_VERSION, ".".join(np.__version__.split(".")[:2])],
            "settings": setup.task.settings.identity(),
            "approach": [approach.name, approach.version],
            "model": setup.model_revision,
            "hyperparameters": identity_of(approach, setup.hyperparameters),
            "numerics": dict(setup.numerics),
        }
    )
    own = setup.task.settings.source == "own"
    split_seeds = {} if own else {name: configuration_seed(root_seed, name, 0) for name in TASK_FACTORS}
    drawn = {} if own else {"split": split_seeds}
    key = content_key({"context": context, "seeds": list(seeds), "metric": metric, **drawn})
    return SeedsSpecification(given, setup, seeds, metric, split_seeds, context, key)


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds that `text` asks for: so many of 42, 52, 62, ..., or those that it lists.

    Raises
    ------
    ParameterError
        If there are fewer than two, one is no whole number, or one is repeated.
    """
    parts = [part.strip() for part in text.strip().strip("[]()").split(",")]
    if len(parts) == 1:
        count = integer("seeds", parts[0], 0, MOST_SEEDS)
        if count < 2:
            allowed = "must be two or more: the spread of one run is not known"
            raise ParameterError("seeds", text, allowed, "Give a count such as 10, or a list such as 42,52.")
        first, second = PAPER_SEEDS[:2]
        return tuple(first + number * (second - first) for number in range(count))
    if not all(parts):
        raise ParameterError("seeds", text, "has a comma without a seed", "Give a list such as 42,52.")
    return check_seeds([integer("seeds", part, 0) for part in parts])


def _hyperparameters(text: str, approach: Approach, model: str) -> str:
    """Return what `auto`, alone or before name=value pairs, stands for.

    The optional hook ``seeds_defaults(model, given)`` of the approach says what differs from its defaults in a study of
    seeds; the pairs that were typed come after it and win.
    """
    source, _, rest = text.partition(",")
    if source.strip() != "auto":
        return text
    given = {name.strip(): value.strip() for name, _, value in (part.partition("=") for part in rest.split(","))}
    hook = getattr(approach, "seeds_defaults", None)
    defaults: Mapping[str, Value] = {} if hook is None else hook(model, given)
    pairs = [f"{name}={value}" for name, value in defaults.items() if name not in given]
    return ",".join([*pairs, *([rest] if rest.strip() else [])]) or "default"


def _fraction(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0.0 <= found < 1.0:
        raise ParameterError("validation_fraction", text, "must be a number from 0 to below 1")
    return found
