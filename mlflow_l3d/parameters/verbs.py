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
    question
        What it answers.
    examples
        Command lines, without the name of the program.
    usual
        Parameters that ``--help`` shows, those that most people need, separated by blanks; all if there are none.
        ``--help-all`` shows all.
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


_USUAL: Final = "task approach factor metric num_labelled hyperparameters golden_runs workers"
_ROWS: Final = (
    Verb(
        "investigate",
        table.MAIN,
        "studies.investigation.run:investigate",
        "run an investigation and score it",
        question="How much of my score is luck, and which kind of luck?",
        examples=(
            "investigate reviews.csv",
            "investigate reviews.csv --factor all --design radial --num-labelled 200",
            "investigate -- python train.py --seed {seed}",
        ),
        usual=_USUAL,
    ),
    Verb(
        "sweep",
        table.SWEEP,
        "studies.sweep.run:sweep",
        "run an investigation for each of several models, tasks, hyperparameters, ...",
        question="Does the luck change with the model, the data or a hyperparameter?",
        examples=(
            "sweep --task rotten_tomatoes,trec --budget 2h",
            "sweep reviews.csv --approach finetuning,meta_learning --factor all",
            "sweep reviews.csv --num-labelled 50,100,200 --dry-run true",
        ),
        usual="task approach factor num_labelled over budget dry_run golden_runs",
    ),
    Verb(
        "search",
        table.SEARCH,
        "studies.search.run:search",
        "find hyperparameters on two levels, before an investigation",
        question="Which hyperparameters should I fix before I ask about luck?",
        examples=(
            "search reviews.csv",
            "search reviews.csv --space learning_rate=1e-4..1e-2,batch_size=4|8",
            "search reviews.csv --approach meta_learning --fine-trials 0",
        ),
        usual="task approach space metric hyperparameters coarse_trials fine_trials held_out_runs",
    ),
    Verb(
        "seeds",
        table.SEEDS,
        "studies.seeds.run:seeds",
        "train one task with several seeds: scores and single predictions",
        question="How far apart are runs that differ in the seed alone, and do they predict the same?",
        examples=(
            "seeds reviews.csv",
            "seeds mrpc --seeds 10",
            "seeds -- python train.py --seed {seed}",
        ),
        usual="task approach command model seeds metric hyperparameters workers",
    ),
    Verb(
        "gate",
        GATE,
        "studies.gate.run:gate",
        "run until a candidate is better, worse or equivalent, for a CI job",
        failed=3,
        question="Is my change better, or did I only draw a lucky seed?",
        examples=(
            "gate --candidate model=bert-base",
            "gate --candidate 'hyperparameters=learning_rate=1e-4' --smallest-effect 2",
            "gate --baseline RUN_ID --candidate RUN_ID --dry-run true",
        ),
        usual="baseline candidate smallest_effect alpha power most_runs metric dry_run",
    ),
    Verb(
        "strategies",
        table.STRATEGIES,
        "studies.strategies.run:compare_strategies",
        "compare the published method with its baselines on one task",
        question="What would simpler strategies have said about the same factors?",
        examples=("strategies reviews.csv", "strategies rotten_tomatoes --factor all", "strategies --num-labelled 200"),
        usual=_USUAL,
    ),
    Verb(
        "ablation",
        table.ABLATION,
        "studies.ablation.run:ablate",
        "say what fewer runs and test examples would have found, without new runs",
        question="Would fewer runs have been enough?",
        examples=("ablation", "ablation --parent-run-id RUN_ID --rows 5,10", "ablation --test-sizes 100,500"),
    ),
    Verb(
        "compare",
        table.COMPARE,
        "studies.comparison.run:compare",
        "say which of several systems is better, counting the luck of every factor and of the test examples",
        question="Which of these systems is better, if all luck is counted?",
        examples=(
            "compare --runs RUN_ID,RUN_ID",
            "compare --runs RUN_ID,RUN_ID --smallest-effect 1",
            "compare --runs RUN_ID,RUN_ID --self-check 1000",
        ),
    ),
    Verb(
        "plan",
        table.PLAN,
        "studies.planning.run:plan_investigation",
        "say how many cells an investigation has, what they cost, and how many it needs",
        is_study=False,
        question="How many runs do I need, and what do they cost?",
        examples=(
            "plan reviews.csv",
            "plan reviews.csv --factor all --pilot run",
            "plan reviews.csv --half-width 0.2 --budget 2h",
        ),
        usual="task approach factor design half_width pilot assurance budget",
    ),
    Verb(
        "evaluate",
        table.EVALUATE,
        "studies.evaluation.run:evaluate",
        "score an existing parent run",
        is_study=False,
        question="What do runs say that are there already?",
        examples=("evaluate", "evaluate --metric accuracy", "evaluate --parent-run-id RUN_ID,RUN_ID"),
    ),
    Verb(
        "import",
        table.IMPORT,
        "studies.importing.run:import_runs",
        "make runs of results that other tools wrote, and score them",
        is_study=False,
        in_project=False,
        words=table.IMPORTED,
        question="What do results of another tool say about luck?",
        examples=("import results.csv", "import logs --from lm-eval", "import logs --task trec --metric f1"),
    ),
    Verb(
        "list",
        {},
        "studies.names:list_names",
        "name the factors, tasks, approaches, designs, metrics and executors there are",
        is_study=False,
        in_project=False,
        examples=("list",),
    ),
    Verb(
        "delete",
        table.DELETE,
        "studies.evaluation.delete:delete",
        "delete a parent run with its children",
        is_study=False,
        in_project=False,
        asks=True,
        examples=("delete --parent-run-id RUN_ID",),
    ),
    Verb(
        "new",
        {},
        "testing.skeleton:new",
        "write a package with an approach of your own, which passes the conformance suite",
        is_study=False,
        in_project=False,
        words=table.NEW,
        examples=("new approach mine",),
    ),
)
VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for verb in _ROWS}
"""Name -> verb, studies first."""
API: Final[Mapping[str, Mapping[str, str]]] = {
    "Studies": {verb.function: verb.module for verb in _ROWS},
    "What they return": {
        "Investigation": "mlflow_l3d.studies.investigation.run",
        "SeedsRun": "mlflow_l3d.studies.seeds.run",
        "HyperparameterSearch": "mlflow_l3d.studies.search.run",
        "Sweep": "mlflow_l3d.studies.sweep.run",
        "SweepPlan": "mlflow_l3d.studies.sweep.plan",
        "Gate": "mlflow_l3d.studies.gate.run",
        "GatePlan": "mlflow_l3d.studies.gate.plan",
        "ComparedRuns": "mlflow_l3d.studies.comparison.results",
        "Evaluation": "mlflow_l3d.studies.evaluation.run",
        "ImportedRuns": "mlflow_l3d.studies.importing.run",
        "Ablation": "mlflow_l3d.studies.ablation.run",
        "Plan": "mlflow_l3d.studies.planning.result",
    },
    "Your own training": {
        "FunctionApproach": "mlflow_l3d.approaches.functions.approach",
        "training": "mlflow_l3d.approaches.functions.training",
        "Estimator": "mlflow_l3d.approaches.functions.estimator",
        "Approach": "mlflow_l3d.approaches.base",
        "Hyperparameter": "mlflow_l3d.approaches.hyperparameters",
        "make_task": "mlflow_l3d.tasks.identity",
    },
    "Statistics, without MLflow": {
        "importance": "mlflow_l3d.analysis.importance.importance",
        "radial_importance": "mlflow_l3d.analysis.importance.importance",
        "consistency": "mlflow_l3d.analysis.seeds.agreement",
        "seeds_study": "mlflow_l3d.analysis.seeds.study",
    },
    "Errors": {"L3DError": "mlflow_l3d.errors", "ParameterError": "mlflow_l3d.errors"},
}
"""What is public: heading -> name in the package `mlflow_l3d` -> the module that it is loaded from."""
PUBLIC: Final = {name: module for names in API.values() for name, module in names.items()}
