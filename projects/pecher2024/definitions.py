"""What each table and figure of Pecher et al. (2024) is made of: systems, data sets, factors, and what varies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import published

Kind = Literal["sweep", "strategies", "cells", "ablation", "prompts"]
TASKS: Final = tuple(published.CLASSES)
BINARY: Final = tuple(name for name, classes in published.CLASSES.items() if classes == 2)
_GENERAL: Final = ("label_selection", "data_split")
FACTORS: Final[Mapping[str, tuple[str, ...]]] = {
    "icl": (*_GENERAL, "data_order", "sample_choice"),
    "finetuning": (*_GENERAL, "model_initialisation", "data_order"),
    "meta_learning": (*_GENERAL, "model_initialisation", "data_order", "sample_choice"),
}
"""Approach -> investigated factors, in the order of its tables. What is random in a model else is mitigated only."""
ROWS: Final = {"icl": 20, "finetuning": 100, "meta_learning": 100}
"""M, as ``hyperparameters=paper`` has it in a design with columns."""
SHOTS: Final = (2, 4, 6, 8, 10)
FORMATS: Final = ("A", "B", "C", "D")
ALL: Final = "all"
"""Test size of Table 3: as many as there are, evenly over the classes."""
ABLATED: Final = {"rows": (100, 10), "test_sizes": (1000, 500)}
REDUCED_ABLATED: Final = {"rows": (4, 3), "test_sizes": (30, 20)}
"""Mitigation runs (rows) and test examples in the columns of Table 3."""
SMALL_FOLDER: Final = Path(__file__).resolve().parent / "small"
SMALL: Final[Mapping[str, tuple[str, ...]]] = {
    "small": ("heads", "meta_learning", "icl"),
    "small-heads": ("heads",),
    "small-meta": ("meta_learning",),
    "small-icl": ("icl",),
}
"""Command -> files of sweeps that two cores can do."""


@dataclass(frozen=True)
class System:
    """What is trained or prompted.

    Attributes
    ----------
    approach, model, learner
        As in this package; a learner is meta-learning's.
    tasks
        Its data sets in the paper.
    hyperparameters
        Source of the hyperparameters.
    """

    approach: str
    model: str
    learner: str = ""
    tasks: tuple[str, ...] = TASKS
    hyperparameters: str = "paper"

    @property
    def name(self) -> str:
        """Name as it is typed."""
        return self.learner or self.model


_MODELS: Final = [System(*found) for found in published.SYSTEMS.values()]
SYSTEMS: Final[Mapping[str, System]] = {
    system.name: replace(
        system,
        tasks=BINARY if system.learner else tuple(t for t in TASKS if (system.model, t) != ("flan-t5-base", "dbpedia")),
    )
    for system in _MODELS
}
"""Name -> system of the paper. Flan-T5 gives every text of DB-Pedia the same class, and is left out there."""
FLAN, LLAMA, MISTRAL, ZEPHYR, BERT, ROBERTA, PROTONET, MAML, REPTILE = SYSTEMS


@dataclass(frozen=True)
class What:
    """A table or figure.

    Attributes
    ----------
    shows
        In a few words.
    systems
        Names of systems.
    kind
        What is done: a sweep, three strategies, a sweep whose cells are shown, an ablation, or prompts are shown.
    tasks
        Data sets; those of each system if empty.
    factors
        Investigated factors; all of each approach if empty.
    over
        Hyperparameters and their values.
    sizes
        Further parameters.
    reduced_over, reduced_tasks, reduced_sizes
        The same in a reduced run, if it has fewer.
    """

    shows: str
    systems: tuple[str, ...]
    kind: Kind = "sweep"
    tasks: tuple[str, ...] = ()
    factors: tuple[str, ...] = ()
    over: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    sizes: Mapping[str, Any] = field(default_factory=dict)
    reduced_over: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    reduced_tasks: tuple[str, ...] = ("sst2", "cola", "trec")
    reduced_sizes: Mapping[str, Any] = field(default_factory=dict)


_IN_TABLES: Final = dict(enumerate(SYSTEMS, start=6))
WHATS: Final[Mapping[str, What]] = {
    "table1": What(
        "strategies random, fixed and interactions on SST2",
        (FLAN, ZEPHYR),
        "strategies",
        ("sst2",),
        reduced_tasks=("sst2",),
    ),
    "table2": What(
        "the scores of all cells of one factor, row by row (its layout)",
        (FLAN,),
        "cells",
        ("sst2",),
        reduced_tasks=("sst2",),
    ),
    "table3": What(
        "fewer mitigation runs and test examples on SST2",
        (FLAN,),
        "ablation",
        ("sst2",),
        reduced_tasks=("sst2",),
        sizes={"mitigation_runs": 500, "test_size": ALL},
        reduced_sizes={"mitigation_runs": 6, "test_size": 40},
    ),
    "table4": What("the prompts of formats A to D", (MISTRAL,), "prompts", TASKS, reduced_tasks=TASKS),
    "table5": What(
        "strategies random, fixed and interactions",
        (FLAN, ZEPHYR, BERT, PROTONET),
        "strategies",
        tuple(task for task in TASKS if task != "dbpedia"),
        reduced_tasks=("cola",),
        reduced_sizes={"investigation_runs": 2, "mitigation_runs": 2},
    ),
    **{f"table{number}": What(f"importance, {name}", (name,)) for number, name in _IN_TABLES.items()},
    "figure1": What(
        "importance by number of classes",
        (FLAN, LLAMA, MISTRAL, ZEPHYR, BERT, ROBERTA),
        reduced_tasks=("sst2", "trec"),
    ),
    "figure2": What(
        "data_order and sample_choice by number of shots",
        (FLAN, MISTRAL, ZEPHYR),
        factors=("data_order", "sample_choice"),
        over={"shots": SHOTS},
        reduced_over={"shots": (2, 6, 10)},
        reduced_tasks=("sst2",),
    ),
    "figure3": What(
        "importance by prompt format on SST2",
        (FLAN, MISTRAL, ZEPHYR),
        tasks=("sst2",),
        over={"prompt_format": FORMATS},
        reduced_tasks=("sst2",),
    ),
    "figure4": What("importance, meta-learning", (PROTONET, MAML, REPTILE), reduced_tasks=("cola",)),
    "figure5": What(
        "importance by prompt format on all data sets",
        (FLAN, MISTRAL),
        over={"prompt_format": FORMATS},
        reduced_tasks=("trec",),
    ),
}
