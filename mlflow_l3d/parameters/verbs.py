"""The verbs, once: the command line, MLproject, the names of the package and docs/parameters.md are made from here.

A new study is a folder in `mlflow_l3d/studies/` and a row of the table; `python .ci/write.py` then writes the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mlflow_l3d.parameters import table
from mlflow_l3d.parameters.gate import GATE


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
        ``module:function`` of what it calls, in this package, with every parameter by its name. It returns an object
        whose ``summary()`` is printed. The package has it by its name, too.
    description
        One line of help.
    is_study
        Whether it is a study, and no help with one.
    in_project
        Whether it is an entry point of MLproject.
    words
        What stands behind the verb without a name of its own, in this order.
    failed
        Exit status of every error; None for that of its kind. What the function returns may have an `exit_status` of
        its own.
    asks
        Whether it asks before it begins, unless ``--yes`` is given; its function has a parameter `ask`.
    """

    name: str
    parameters: table.Parameters
    target: str
    description: str
    is_study: bool = True
    in_project: bool = True
    words: table.Parameters = field(default_factory=dict)
    failed: int | None = None
    asks: bool = False

    @property
    def module(self) -> str:
        """Where the function is."""
        return f"mlflow_l3d.{self.target.partition(':')[0]}"

    @property
    def function(self) -> str:
        """Name of the function, and of the same in the package."""
        return self.target.partition(":")[2]

    @property
    def entry_point(self) -> str:
        """Name in MLproject; the empty text where it has none."""
        return ("main" if self.parameters is table.MAIN else self.name) if self.in_project else ""


_ROWS: Final = (
    Verb("investigate", table.MAIN, "studies.investigation.run:investigate", "run an investigation and score it"),
    Verb(
        "sweep",
        table.SWEEP,
        "studies.sweep.run:sweep",
        "run an investigation for each of several models, tasks, hyperparameters, ...",
    ),
    Verb(
        "search",
        table.SEARCH,
        "studies.search.run:search",
        "find hyperparameters on two levels, before an investigation",
    ),
    Verb(
        "seeds",
        table.SEEDS,
        "studies.seeds.run:seeds",
        "train one task with several seeds: scores and single predictions",
    ),
    Verb(
        "gate",
        GATE,
        "studies.gate.run:gate",
        "run until a candidate is better, worse or equivalent, for a CI job",
        failed=3,
    ),
    Verb(
        "strategies",
        table.STRATEGIES,
        "studies.strategies.run:compare_strategies",
        "compare the published method with its baselines on one task",
    ),
    Verb(
        "ablation",
        table.ABLATION,
        "studies.ablation.run:ablate",
        "say what fewer runs and test examples would have found, without new runs",
    ),
    Verb(
        "compare",
        table.COMPARE,
        "studies.comparison.run:compare",
        "say which of several systems is better, counting the luck of every factor and of the test examples",
    ),
    Verb(
        "plan",
        table.PLAN,
        "studies.planning.run:plan_investigation",
        "say how many cells an investigation has, what they cost, and how many it needs",
        is_study=False,
    ),
    Verb("evaluate", table.EVALUATE, "studies.evaluation.run:evaluate", "score an existing parent run", is_study=False),
    Verb(
        "delete",
        table.DELETE,
        "studies.evaluation.delete:delete",
        "delete a parent run with its children",
        is_study=False,
        in_project=False,
        asks=True,
    ),
    Verb(
        "new",
        {},
        "testing.skeleton:new",
        "write a package with an approach of your own, which passes the conformance suite",
        is_study=False,
        in_project=False,
        words=table.NEW,
    ),
)
VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for verb in _ROWS}
"""Name -> verb, studies first."""
PUBLIC: Final = {verb.function: verb.module for verb in _ROWS} | {
    "Investigation": VERBS["investigate"].module,
    "Callable": "mlflow_l3d.approaches.callable",
}
"""Name in the package `mlflow_l3d` -> the module that it is loaded from."""
