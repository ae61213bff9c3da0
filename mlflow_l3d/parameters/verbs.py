"""The verbs, once: the command line, MLproject, the names of the package and docs/parameters.md are made from here.

A new study is a folder in `mlflow_l3d/studies/` and a row of the table; `python .ci/write.py` then writes the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mlflow_l3d.parameters import table
from mlflow_l3d.parameters.declaration import Parameters
from mlflow_l3d.parameters.table import GATE


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
    example
        A command line.
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
    example: str = ""

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
    Verb(
        "investigate",
        table.MAIN,
        "studies.investigation.run:investigate",
        "run an investigation and score it",
        example="mlflow-l3d investigate --factor all --task reviews.csv --num-labelled 200",
    ),
    Verb(
        "sweep",
        table.SWEEP,
        "studies.sweep.run:sweep",
        "run an investigation for each of several models, tasks, hyperparameters, ...",
        example="mlflow-l3d sweep --approach finetuning,meta_learning --task rotten_tomatoes,trec --budget 2h",
    ),
    Verb(
        "search",
        table.SEARCH,
        "studies.search.run:search",
        "find hyperparameters on two levels, before an investigation",
        example="mlflow-l3d search --task reviews.csv --space learning_rate=1e-4..1e-2",
    ),
    Verb(
        "seeds",
        table.SEEDS,
        "studies.seeds.run:seeds",
        "train one task with several seeds: scores and single predictions",
        example="mlflow-l3d seeds --task mrpc --seeds 10",
    ),
    Verb(
        "gate",
        GATE,
        "studies.gate.run:gate",
        "run until a candidate is better, worse or equivalent, for a CI job",
        failed=3,
        example="mlflow-l3d gate --baseline latest --candidate model=bert-base --smallest-effect 1",
    ),
    Verb(
        "strategies",
        table.STRATEGIES,
        "studies.strategies.run:compare_strategies",
        "compare the published method with its baselines on one task",
        example="mlflow-l3d strategies --factor all --task rotten_tomatoes",
    ),
    Verb(
        "ablation",
        table.ABLATION,
        "studies.ablation.run:ablate",
        "say what fewer runs and test examples would have found, without new runs",
        example="mlflow-l3d ablation --parent-run-id latest --rows 5,10",
    ),
    Verb(
        "compare",
        table.COMPARE,
        "studies.comparison.run:compare",
        "say which of several systems is better, counting the luck of every factor and of the test examples",
        example="mlflow-l3d compare --runs RUN_ID,RUN_ID --smallest-effect 1",
    ),
    Verb(
        "plan",
        table.PLAN,
        "studies.planning.run:plan_investigation",
        "say how many cells an investigation has, what they cost, and how many it needs",
        is_study=False,
        example="mlflow-l3d plan --factor all --task reviews.csv --pilot run",
    ),
    Verb(
        "evaluate",
        table.EVALUATE,
        "studies.evaluation.run:evaluate",
        "score an existing parent run",
        is_study=False,
        example="mlflow-l3d evaluate --parent-run-id latest --metric accuracy",
    ),
    Verb(
        "import",
        table.IMPORT,
        "studies.importing.run:import_runs",
        "make runs of results that other tools wrote, and score them",
        is_study=False,
        in_project=False,
        words=table.IMPORTED,
        example="mlflow-l3d import logs --from lm-eval",
    ),
    Verb(
        "list",
        {},
        "studies.names:list_names",
        "name the factors, tasks, approaches, designs, metrics and executors there are",
        is_study=False,
        in_project=False,
        example="mlflow-l3d list",
    ),
    Verb(
        "delete",
        table.DELETE,
        "studies.evaluation.delete:delete",
        "delete a parent run with its children",
        is_study=False,
        in_project=False,
        asks=True,
        example="mlflow-l3d delete --parent-run-id RUN_ID",
    ),
    Verb(
        "new",
        {},
        "testing.skeleton:new",
        "write a package with an approach of your own, which passes the conformance suite",
        is_study=False,
        in_project=False,
        words=table.NEW,
        example="mlflow-l3d new approach mine",
    ),
)
VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for verb in _ROWS}
"""Name -> verb, studies first."""
PUBLIC: Final = {verb.function: verb.module for verb in _ROWS} | {
    "Investigation": VERBS["investigate"].module,
    "Callable": "mlflow_l3d.approaches.callable",
    "training": "mlflow_l3d.approaches.training",
}
"""Name in the package `mlflow_l3d` -> the module that it is loaded from."""
