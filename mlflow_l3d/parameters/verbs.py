"""What a verb is, and those that are installed: each study declares its own, as an entry point.

The command line, MLproject, the names of the package and docs/parameters.md are made from them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from mlflow_l3d import registry
from mlflow_l3d.errors import L3DError, logger
from mlflow_l3d.parameters import Parameters
from mlflow_l3d.parameters.shared import DRY_RUN


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb.

    Attributes
    ----------
    name
        On the command line.
    parameters
        Its options, and parameters of the entry point.
    target
        ``module:function`` of what it calls, with every parameter by its name. It returns an object whose ``summary()``
        is printed. Of ours the package has it by its name, too.
    description
        One line of help.
    is_study
        Whether it is a study, and no help with one.
    in_project
        Whether it is an entry point of MLproject.
    words
        The words that follow the verb without names of their own, in this order.
    failed
        Exit status of every error; None for that of its kind. What the function returns may have an `exit_status` of
        its own.
    question
        What it answers.
    examples
        Command lines, without the name of the program.
    usual
        Parameters that ``--help`` shows, those that most people need, separated by blanks; all if there are none.
        ``--help-all`` shows all.
    groups
        Heading in ``--help-all`` -> names of the parameters below it, if the verb has headings of its own.
    order
        Its place in lists, from low to high; studies and helpers apart.
    instead
        Parameter -> the value for which the command calls another function without it, and its ``module:function``.
    returns
        ``module:name`` of the classes of what it returns; they are public, too, and `load` reads them by their fields
        (:mod:`mlflow_l3d.studies.files`).
    plans
        ``module:function`` of what says what there is to do and trains nothing: the command calls it for ``--dry-run``,
        a parameter that each verb with such a function has.
    asks
        Whether it asks before it begins, unless ``--yes`` is given; its function has a parameter `ask`.
    """

    name: str
    parameters: Parameters
    target: str
    description: str
    is_study: bool = True
    in_project: bool = True
    words: Parameters = field(default_factory=dict)
    failed: int | None = None
    asks: bool = False
    question: str = ""
    examples: tuple[str, ...] = ()
    usual: str = ""
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)
    order: int = 1000
    instead: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    returns: tuple[str, ...] = ()
    plans: str = ""

    def __post_init__(self) -> None:
        if self.plans:
            object.__setattr__(self, "parameters", {**self.parameters, **DRY_RUN})
            object.__setattr__(self, "usual", " ".join([self.usual, *DRY_RUN]) if self.usual else "")

    @property
    def is_ours(self) -> bool:
        """Whether it comes with this package."""
        return self.target.startswith("mlflow_l3d.")

    @property
    def module(self) -> str:
        """Where the function is."""
        return self.target.partition(":")[0]

    @property
    def function(self) -> str:
        """Name of the function, and of the same in the package."""
        return self.target.partition(":")[2]

    @property
    def first(self) -> str:
        """The parameter that may follow the verb without its name; the empty text if there is none."""
        return (
            ""
            if self.words
            else next((name for name in ("action", "source", "task", "parent_run_id") if name in self.parameters), "")
        )

    @property
    def entry_point(self) -> str:
        """Name in MLproject; the empty text where it has none."""
        return ("main" if self.name == "investigate" else self.name) if self.in_project else ""


USUAL: Final = "task approach factor metric num_labelled hyperparameters workers"
"""What `investigate`, and most who know it, need."""


@cache
def verbs() -> Mapping[str, Verb]:
    """Return name -> verb, studies first; every entry point of the group ``mlflow_l3d.studies`` is one.

    An entry point that cannot be loaded is left out with a warning, so that a broken package costs its command only.
    """
    loaded = []
    for name in registry.names("study"):
        try:
            loaded.append(registry.load("study", name))
        except L3DError as error:
            logger.warning("%s It is left out.", error)
    return {verb.name: verb for verb in sorted(loaded, key=lambda verb: (not verb.is_study, verb.order, verb.name))}


FIXED: Final[Mapping[str, Mapping[str, str]]] = {
    "Finished studies": {"load": "mlflow_l3d.studies.evaluation.finished"},
    "Your own training": {
        "FunctionApproach": "mlflow_l3d.approaches.functions.approach",
        "training": "mlflow_l3d.approaches.functions.estimator",
        "SeedFunction": "mlflow_l3d.approaches.functions.of_seeds",
        "Estimator": "mlflow_l3d.approaches.functions.estimator",
        "Approach": "mlflow_l3d.approaches.base",
        "Hyperparameter": "mlflow_l3d.approaches.hyperparameters",
        "make_task": "mlflow_l3d.tasks.identity",
        "cured": "mlflow_l3d.parameters.cures",
    },
    "Many candidates": {
        "Referee": "mlflow_l3d.studies.referee.door",
        "RefereedStudy": "mlflow_l3d.studies.referee.trials",
    },
    "Statistics, without MLflow": {
        "importance": "mlflow_l3d.analysis.importance",
        "radial_importance": "mlflow_l3d.analysis.importance",
        "consistency": "mlflow_l3d.analysis.consistency.runs",
        "seeds_study": "mlflow_l3d.studies.seeds.numbers",
    },
    "Errors": {"L3DError": "mlflow_l3d.errors", "ParameterError": "mlflow_l3d.errors"},
}
"""Heading -> name -> module, of all but the studies."""


@cache
def public_names() -> Mapping[str, Mapping[str, str]]:
    """Return heading -> name -> module: also the functions of the studies, and the classes of what they return."""
    ours = [verb for verb in verbs().values() if verb.is_ours]
    others = [target for verb in ours for target in (verb.plans, *(each for _, each in verb.instead.values()))]
    return {
        "Studies": _modules([*(verb.target for verb in ours), *filter(None, others)]),
        "What they return": _modules(target for verb in ours for target in verb.returns),
        **FIXED,
    }


def _modules(targets: Iterable[str]) -> dict[str, str]:
    return {name: module for module, _, name in (target.partition(":") for target in targets)}


def module_of(name: str) -> str:
    """Return the module that a public name is loaded from; the empty text for any other name."""
    fixed = {each: module for names in FIXED.values() for each, module in names.items()}
    return fixed.get(name) or next((names[name] for names in public_names().values() if name in names), "")
