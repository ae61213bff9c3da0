"""The verbs, once: the command line, MLproject, the names of the package and docs/parameters.md are made from here.

A new study is a folder in `mlflow_l3d/studies/` and a row of `VERBS`; `python .ci/write.py` then writes the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mlflow_l3d.parameters.table import (
    ABLATION,
    DELETE,
    EVALUATE,
    MAIN,
    NEW,
    PLAN,
    SEARCH,
    SEEDS,
    STRATEGIES,
    Parameters,
)


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb.

    Attributes
    ----------
    name
        On the command line.
    description
        One line of help.
    function
        ``module:name`` of what it calls, with every parameter by its name. It returns an object whose ``summary()`` is
        printed. The package has it by its name, too.
    parameters
        Its options, and parameters of the entry point.
    entry_point
        Its name in MLproject; the empty text where it is none there.
    is_study
        Whether it is a study, and no help with one.
    progress
        Whether the function takes ``progress``, too, which shows a bar.
    words
        What stands behind the verb without a name of its own, in this order.
    result
        ``module:name`` of what the function returns, where the package has that name, too.
    """

    name: str
    description: str
    function: str
    parameters: Parameters
    entry_point: str = ""
    is_study: bool = True
    progress: bool = True
    words: Parameters = field(default_factory=dict)
    result: str = ""


_ROWS: Final = (
    Verb(
        "investigate",
        "run an investigation and score it",
        "mlflow_l3d.studies.investigation.run:investigate",
        MAIN,
        "main",
        result="mlflow_l3d.studies.investigation.run:Investigation",
    ),
    Verb(
        "search",
        "find hyperparameters on two levels, before an investigation",
        "mlflow_l3d.studies.search.run:search",
        SEARCH,
        "search",
    ),
    Verb(
        "seeds",
        "train one task with several seeds: scores and single predictions",
        "mlflow_l3d.studies.seeds.run:seeds",
        SEEDS,
        "seeds",
    ),
    Verb(
        "strategies",
        "compare the published method with its baselines on one task",
        "mlflow_l3d.studies.strategies.run:compare_strategies",
        STRATEGIES,
        "strategies",
    ),
    Verb(
        "ablation",
        "say what fewer runs and test examples would have found, without new runs",
        "mlflow_l3d.studies.ablation.run:ablate",
        ABLATION,
        "ablation",
        progress=False,
    ),
    Verb(
        "plan",
        "say how many cells an investigation has, what they cost, and how many it needs",
        "mlflow_l3d.studies.planning.run:plan_investigation",
        PLAN,
        "plan",
        is_study=False,
    ),
    Verb(
        "evaluate",
        "score an existing parent run",
        "mlflow_l3d.studies.evaluation.run:evaluate",
        EVALUATE,
        "evaluate",
        is_study=False,
        progress=False,
    ),
    Verb(
        "delete",
        "delete a parent run with its children",
        "mlflow_l3d.studies.evaluation.delete:delete",
        DELETE,
        is_study=False,
        progress=False,
    ),
    Verb(
        "new",
        "write a package with an approach of your own, which passes the conformance suite",
        "mlflow_l3d.testing.skeleton:new",
        {},
        is_study=False,
        progress=False,
        words=NEW,
    ),
)
VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for verb in _ROWS}
"""Name -> verb, studies first."""
PUBLIC: Final[Mapping[str, str]] = {
    name: module
    for module, _, name in (each.partition(":") for verb in _ROWS for each in (verb.function, verb.result) if each)
}
"""Name in the package `mlflow_l3d` -> the module that it is loaded from."""
