"""What a search hands over: its subject, its values in ``hyperparameters.json``, and what is doubtful about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Final, Literal, Self

import numpy as np

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.cured import Cured
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.cells.cell import Cell, content_key
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.paths import public_name
from mlflow_l3d.report.numbers import share_text
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray, SplitSettings

SourceName = Literal["default", "paper", "search", "file", "inline"]
SCHEMA: Final = 1
"""Schema of ``hyperparameters.json``."""
_SETTINGS: Final = ("num_labelled", "test_size", "test_selection", "fixed_seed", "train_fraction", "reference_size")
"""Settings of a split that the document has, as :class:`mlflow_l3d.tasks.settings.SplitSettings` has them."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is trained on what: a search is of use for the same subject.

    Attributes
    ----------
    task, model
        Names as people see them.
    task_fingerprint, model_revision
        What identifies the data and the weights.
    approach, approach_version
        Name of the approach, and its version.
    settings
        Of the split.
    """

    task: str
    task_fingerprint: str
    approach: str
    approach_version: str
    model: str
    model_revision: str
    settings: SplitSettings

    @classmethod
    def of(cls, approach: Approach, model: str, model_revision: str, task: Task) -> Self:
        """Return what is trained on what; `model` may be a private path, and its public name is kept.

        With and without a remedy the subject is the same.
        """
        whole = approach.approach if isinstance(approach, Cured) else approach
        of_approach = whole.name, whole.version
        return cls(task.name, task.fingerprint, *of_approach, public_name(model), model_revision, task.settings)

    @property
    def key(self) -> str:
        """Value of the tag ``l3d.search_subject`` of a search of this task, approach and model."""
        return content_key({"task": self.task_fingerprint, "approach": self.approach, "model": self.model_revision})


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the hyperparameters of an investigation came from.

    Attributes
    ----------
    source
        The kind.
    search_run_id
        The search that found them, the empty text where none did; of a file, the search that wrote it.
    overridden
        Names of those that were given in addition to the source.
    searched
        The content of the search's ``hyperparameters.json``; empty where no search is behind them.
    notes
        What is doubtful, one sentence each.
    values
        The given values, before the approach completed it: what is not named here may follow from what is.
    """

    source: SourceName = "default"
    search_run_id: str = ""
    overridden: tuple[str, ...] = ()
    searched: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the origin as JSON types, for ``investigation.json``."""
        return {"source": self.source, "search_run_id": self.search_run_id or None, "overridden": list(self.overridden)}


@dataclass(frozen=True, slots=True)
class FoundSearch:
    """A finished search: its run, and the content of its ``hyperparameters.json``."""

    run_id: str
    document: Mapping[str, Any]


Searches = Callable[[str, Subject], FoundSearch]
"""Finds a search by ``latest`` or a run id, see :func:`mlflow_l3d.tracking.earlier.find_search`."""


def search_document(
    subject: Subject,
    hyperparameters: Mapping[str, Value],
    *,
    score: float,
    metric: str,
    search_run_id: str,
    searched_on: Sequence[Mapping[str, int]],
) -> dict[str, Any]:
    """Return what a search leaves as ``hyperparameters.json``.

    Parameters
    ----------
    subject
        What was searched for, with the settings of an investigation: `evaluated` is not looked at.
    hyperparameters
        The best ones, complete.
    score, metric
        Mean of the metric over the configurations, on the validation part; a fraction.
    search_run_id
        Parent run of the search.
    searched_on
        Seed of every factor, one mapping a configuration.
    """
    about = asdict(subject)
    settings = about.pop("settings")
    return {
        "schema": SCHEMA,
        "hyperparameters": dict(hyperparameters),
        "score": score,
        "metric": metric,
        "search_run_id": search_run_id,
        **about,
        "searched_on": [dict(seeds) for seeds in searched_on],
        "settings": {name: settings[name] for name in _SETTINGS},
    }


def searched_values(
    name: str, found: FoundSearch, subject: Subject, overrides: Mapping[str, Value]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the values that a search found, and what is doubtful about them here, one sentence each.

    Parameters
    ----------
    name
        What the user named: a run or a file.
    found, subject, overrides
        The search, what is trained on what here, and values that win.

    Raises
    ------
    ParameterError
        If it is not what a search leaves, or was a search of another approach.
    """
    document = found.document
    if not well_formed(document):
        allowed = f"is not the hyperparameters.json (schema {SCHEMA}) that a search leaves"
        raise ParameterError("hyperparameters", name, allowed, "Search again, or give the values themselves.")
    if document.get("approach") != subject.approach:
        what = f"search {found.run_id}" if found.run_id else "this search"
        allowed = f"{what} was one of approach={document.get('approach')}, not of {subject.approach}"
        raise ParameterError("hyperparameters", name, allowed)
    values = document["hyperparameters"]
    other_values = [
        f"with {each}={values[each]}, and are used with {each}={value}"
        for each, value in overrides.items()
        if each in values and values[each] != value
    ]
    notes = (*differences(document, subject), *other_values)
    return values, tuple(f"Hyperparameters were searched {note}." for note in notes)


def is_search_document(values: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is what a search leaves, and not a plain one of values."""
    return "schema" in values and isinstance(values.get("hyperparameters"), dict)


def well_formed(document: Mapping[str, Any]) -> bool:
    """Return whether a document has our schema, and its parts have the types that they should."""
    searched_on = document.get("searched_on", [])
    settings = document.get("settings", {})
    return (
        document.get("schema") == SCHEMA
        and is_search_document(document)
        and isinstance(settings, dict)
        and isinstance(searched_on, list)
        and all(isinstance(seeds, dict) for seeds in searched_on)
        and all(type(seed) is int for seeds in searched_on for seed in seeds.values())
    )


def differences(document: Mapping[str, Any], subject: Subject) -> Iterator[str]:
    """Yield what the search had that an investigation has not, as ends of the sentence "... were searched"."""
    task, model, version = (document.get(name) for name in ("task", "model", "approach_version"))
    if document.get("task_fingerprint") != subject.task_fingerprint:
        same_name = f"on data of that name whose content differs from today's {task}"
        yield same_name if task == subject.task else f"on the task {task}, and are used on {subject.task}"
    if document.get("model_revision") != subject.model_revision:
        another = f"with the model {model}, and are used with {subject.model}"
        yield f"with other weights of {model}" if model == subject.model else another
    if str(version) != subject.approach_version:
        yield f"with version {version} of {subject.approach}, and are used with version {subject.approach_version}"
    settings: Mapping[str, Any] = document.get("settings") or {}
    searched, used = settings.get("num_labelled"), subject.settings.num_labelled
    if "num_labelled" in settings and searched != used:
        yield f"with num_labelled={searched or 'auto'}, and are used with {used or 'auto'}"


def validated_on(task: Task, searched_on: Iterable[Mapping[str, int]]) -> IntArray:
    """Return the positions of the examples that score the trials of a search: the validation parts of its splits."""
    validation = replace(task, settings=replace(task.settings, evaluated="validation"))
    return np.unique(np.concatenate([validation.split(seeds).test for seeds in searched_on]))


def share_validated_on(task: Task, seeds: Iterable[Mapping[str, int]], positions: IntArray) -> float:
    """Return the share of the test examples of some splits that are at these positions; 0 without a test example."""
    tests = np.concatenate([task.split(each).scored for each in seeds])
    return float(np.isin(tests, positions).mean()) if len(tests) else 0.0


_OVERLAP_OF: Final = 20
"""Cells whose test examples are compared with those of a search."""


def overlap_remarks(document: Mapping[str, Any], task: Task, cells: Iterable[Cell]) -> tuple[str, ...]:
    """Return what is to be said if test examples of the first cells scored trials of the search; empty if none did."""
    searched_on = [each for each in document.get("searched_on", []) if set(TASK_FACTORS) <= set(each)]
    if document.get("task_fingerprint") != task.fingerprint or not searched_on:
        return ()
    settings: Mapping[str, Any] = document.get("settings") or {}
    recorded = {name: settings[name] for name in _SETTINGS if name in settings}
    searched = replace(task, settings=replace(task.settings, **recorded))
    seeds = [{**dict.fromkeys(TASK_FACTORS, 0), **cell.seeds} for cell in islice(cells, _OVERLAP_OF)]
    if not (share := share_validated_on(task, seeds, validated_on(searched, searched_on))):
        return ()
    why = "of the test examples scored the trials of the search that found the hyperparameters"
    fix = "test_selection=fixed and the same root_seed in both keep them apart"
    return (f"{share_text(share)} {why}, so scores may be slightly too high; {fix}.",)


def splits_of(
    document: Mapping[str, Any], fingerprint: str, settings: SplitSettings, factors: Sequence[str]
) -> tuple[dict[str, int], ...]:
    """Return the splits that were searched on and that an investigation may meet again, by their seeds.

    Parameters
    ----------
    document
        A well-formed document, or an empty one.
    fingerprint, settings
        The task of the investigation; with another one no split is the same.
    factors
        Factors with an effect. Seeds of other factors decide nothing about a split.

    Returns
    -------
    tuple of dict
        One a configuration of the search: seed of each factor of the split. An empty one where no factor of the split
        has an effect: every cell then has this split.
    """
    recorded: Mapping[str, Any] = document.get("settings", {})
    searched = {**asdict(settings), "reference_size": 0, **recorded}
    are_same = recorded and all(searched[name] == getattr(settings, name) for name in _SETTINGS)
    if document.get("task_fingerprint") != fingerprint or not are_same:
        return ()
    active = [name for name in TASK_FACTORS if name in factors]
    searched_on = [seeds for seeds in document.get("searched_on", []) if set(active) <= set(seeds)]
    found = dict.fromkeys(tuple((name, int(seeds[name])) for name in active) for seeds in searched_on)
    return tuple(map(dict, found))
