"""The parameters of every verb, once: the command line, MLproject, Python and docs/parameters.md read them here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mlflow_l3d.parameters.values import Choice, Number, Registered, Whole

MOST_RUNS: Final = 1_000_000
"""Beyond, columns would use the configurations of rows, and rows those of golden runs."""
MOST_TRIALS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a verb.

    Attributes
    ----------
    name, default, help
        Its name in Python, its default as typed, and one line of help.
    values
        What it may be, where that is one of a list or a number; else it is checked where it is used.
    """

    name: str
    default: str
    help: str
    values: Choice | Registered | Whole | Number | None = None

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return f"--{self.name.rstrip('_').replace('_', '-')}"

    def parse(self, given: Mapping[str, str]) -> Any:
        """Return its value among texts as typed: a number, None for a word in place of one, or the text itself.

        Raises
        ------
        ParameterError
            If it is not allowed.
        """
        text = given[self.name]
        return text if self.values is None else self.values.parse(self.name, text)


Parameters = Mapping[str, Parameter]
"""Name -> parameter, in the order in which people read them."""


def _table(*parameters: Parameter) -> Parameters:
    return {parameter.name: parameter for parameter in parameters}


_AUTO_OR_MORE: Final = Whole(2, words=("auto",))
_ROOT_SEED = Parameter("root_seed", "0", "the number that every seed is derived from", Whole(0))
_TASK = Parameter("task", "auto", "name of a task, .csv, .parquet or .jsonl file, data set folder, or hf:NAME[/CONFIG]")
_TRAINED = (
    Parameter("approach", "finetuning", "what is trained", Registered("approach")),
    Parameter("command", "", "approach=command: a program and its arguments, with {factor} where a seed belongs"),
    Parameter("uri", "", "approach=project: folder of an MLflow project, or address of a git repository"),
    Parameter("entry_point", "main", "approach=project: an entry point of it, or a script"),
    Parameter(
        "project_parameters",
        "",
        "approach=project: name=value pairs or JSON, with {factor} where a seed belongs: seed={data_order},epochs=3",
    ),
    Parameter(
        "model", "auto", "hub id, short name (bert-base), folder, or package:NAME; auto is the approach's own default"
    ),
)
_SIZES = (
    Parameter(
        "num_labelled",
        "auto",
        "training examples that count as labelled; auto is 1000, fewer where data is small",
        _AUTO_OR_MORE,
    ),
    Parameter(
        "test_size", "auto", "test examples that are evaluated; auto is 1000, fewer where data is small", _AUTO_OR_MORE
    ),
    Parameter(
        "test_selection",
        "label_selection",
        "whether the factor label_selection draws test examples, too",
        Choice(("label_selection", "fixed")),
    ),
)
_PLACE = (
    Parameter("text_column", "auto", "text column of a file or data set; two for sentence pairs, separated by a comma"),
    Parameter("label_column", "label", "label column of a file or data set"),
    Parameter(
        "task_kind",
        "auto",
        "classification, regression, multiple_choice, generation, tagging or ranking; auto goes by the data",
    ),
    Parameter("choice_columns", "auto", "columns of a multiple-choice file, separated by commas"),
    Parameter("device", "auto", "cpu, cuda, cuda:N, mps; auto takes an accelerator where there is one"),
    Parameter(
        "deterministic",
        "true",
        "false lets a GPU compute as it likes, which may be faster and never twice the same",
        Choice(("true", "false")),
    ),
    Parameter("executor", "processes", "where cells run", Registered("executor")),
    Parameter("workers", "auto", "worker processes; auto is one a core (one a GPU)", Whole(1, 10_000, ("auto",))),
    Parameter(
        "cell_timeout",
        "auto",
        "seconds that a cell may take; auto is 20 times the median of those that are done, 600 s or more; none",
        Number(0, words=("auto", "none")),
    ),
    Parameter(
        "executor_options",
        "none",
        'what only this executor takes: name=value pairs separated by commas, or JSON: {"num_gpus": 0.5}',
    ),
)
PLACE: Final = ("device", "deterministic", "executor", "workers", "cell_timeout", "executor_options")
"""Where and how cells run: one for all cells of a study."""
_SELF_TEST = Parameter(
    "self_test",
    "auto",
    "try before the cells what each seed does, and stop where one does nothing or results do not repeat; auto does so "
    "for functions, commands and projects",
    Choice(("auto", "run", "only", "skip")),
)
_PARENT = Parameter("parent_run_id", "latest", "the parent run; `latest` is the experiment's latest investigation")

MAIN: Final[Parameters] = _table(
    Parameter(
        "factor",
        "auto",
        "randomness factors to investigate: names separated by commas, or `all`; auto is data_order, and all where the "
        "approach has none of that name; a+b is a and b jointly; replicate "
        "(also all,replicate) trains the same cell again, test_sample (also all,test_sample) draws the test examples",
    ),
    _TASK,
    *_TRAINED,
    Parameter(
        "design",
        "crossed",
        "how cells are laid out; crossed is the published way, see docs/designs.md",
        Registered("design"),
    ),
    Parameter("investigation_runs", "10", "N: configurations of the factor, the columns", Whole(2, MOST_RUNS)),
    Parameter(
        "mitigation_runs",
        "auto",
        "M: configurations of all other factors, the rows; auto is 20, and 320 at most where stop= may end it",
        Whole(2, MOST_RUNS, ("auto",)),
    ),
    Parameter(
        "golden_runs",
        "auto",
        "L: runs in which every factor varies; auto is N x M, pooled takes all other runs in their place",
        Whole(2, 10 * MOST_RUNS, ("auto", "pooled")),
    ),
    Parameter("joint", "paired", "columns of a+b: i-th with i-th, or every combination", Choice(("paired", "product"))),
    Parameter("mitigation", "none", "reduced sets of mitigated factors: data_order:0, or name=sample_choice:0+3+7"),
    Parameter("stop", "none", "the rule that stops early", Choice(("none", "interval", "epsilon"))),
    Parameter(
        "half_width", "0.1", "stop=interval, plan: wanted half-width of the corrected score's interval", Number(0, 1)
    ),
    Parameter(
        "epsilon",
        "0.01",
        "stop=epsilon: largest change by a row (percentage points, score) that counts as none",
        Number(0),
    ),
    _SELF_TEST,
    Parameter("missing", "anova", "how a table that lacks cells is estimated", Choice(("anova", "reml"))),
    _ROOT_SEED,
    Parameter(
        "metric",
        "auto",
        "the metric whose spread is investigated; auto is f1_macro; of scores pearson",
    ),
    Parameter(
        "hyperparameters",
        "default",
        "`default`, `latest` (finished search) or a search's run id, `paper` (the authors' values, also of model, "
        "mitigation_runs and metric where these are auto), or a JSON file; "
        "name=value pairs, separated by commas, stand alone or after one of these and override it",
    ),
    *_SIZES,
    *_PLACE,
)
"""Of the entry point `main`."""

SEARCH: Final[Parameters] = _table(
    _TASK,
    *_TRAINED,
    Parameter("metric", "f1_macro", "what a trial is scored by, on the validation part"),
    Parameter("hyperparameters", "default", "what holds for all trials, and the first trial itself; forms as in main"),
    Parameter(
        "space",
        "auto",
        "what is searched: auto, name=low..high, name=a|b|c or a name, separated by commas, or JSON (a file)",
    ),
    Parameter(
        "coarse_trials", "auto", "trials of level 1; auto is the grid, and 40 at most", Whole(2, MOST_TRIALS, ("auto",))
    ),
    Parameter(
        "fine_trials",
        "20",
        "trials of level 2, around the best of level 1; 0 leaves level 2 out",
        Whole(0, MOST_TRIALS),
    ),
    Parameter("search_seeds", "1", "configurations that a trial is trained on and averaged over", Whole(1, 1000)),
    Parameter("coarse_sampler", "auto", "level 1: auto (grid; a random part of it if it is large), or one of Optuna's"),
    Parameter("fine_sampler", "auto", "level 2: auto (tpe), random, grid, or another sampler of Optuna's"),
    Parameter("pruner", "auto", "what ends poor trials early: auto (median), none, or another pruner of Optuna's"),
    Parameter(
        "held_out_runs",
        "10",
        "configurations not searched on, on which the found setting and the given one are compared; 0 for none",
        Whole(0, 100_000),
    ),
    replace(_ROOT_SEED, help="the number that the search's configurations and samplers are derived from"),
    *_SIZES,
    *_PLACE,
)

SEEDS: Final[Parameters] = _table(
    replace(
        _TASK,
        help="a task of GLUE or SuperGLUE by name, or a file with a column split: its own parts are used; another task "
        "is split once, as main splits it first",
    ),
    *_TRAINED,
    Parameter("seeds", "10", "how many (42, 52, 62, ... as the papers'), or the seeds themselves, separated by commas"),
    Parameter("metric", "auto", "the metric in the headline; auto is the task's own (mcc for cola, pearson for stsb)"),
    Parameter(
        "hyperparameters",
        "auto",
        "as in main; auto trains the whole model where the approach can (trainable=full; the packaged encoder with "
        "learning_rate=2e-4), and may be followed by name=value pairs",
    ),
    Parameter(
        "validation_fraction",
        "0",
        "share of the train part that is held out, for early stopping and the best epoch; 0: the last epoch counts",
        Number(0, 1, closed=True),
    ),
    _SELF_TEST,
    replace(_SIZES[0], help="training examples, drawn once from the task's train part; auto is all of them"),
    replace(_SIZES[1], help="evaluated examples, drawn once from its validation part; auto is all of them"),
    replace(_ROOT_SEED, help="the number that these draws are derived from; the seeds are not"),
    *_PLACE,
)

EVALUATE: Final[Parameters] = _table(
    replace(_PARENT, help=f"{_PARENT.help}; a sweep; several investigations or studies of seeds, separated by commas"),
    Parameter("where", "none", "an MLflow filter that finds the cells, in place of the parent's children"),
    Parameter("metric", "auto", "the metric whose spread is investigated; auto is the parent's own, or f1_macro"),
    Parameter("design", "auto", "how cells are laid out; auto is the parent's own, or what their phases say"),
    Parameter("missing", "auto", "as in main; auto is the parent's own, or anova", Choice(("auto", "anova", "reml"))),
    Parameter(
        "agreement", "auto", "how predictions are compared: auto, regression, or a scoring function (rougeL, ...)"
    ),
)

COMPARE: Final[Parameters] = _table(
    Parameter(
        "runs",
        "none",
        "parents, separated by commas; or a JSON list of objects with the parameters of main, which are then run",
    ),
    Parameter("metric", "auto", "what systems are scored by; auto is the parents' own"),
    Parameter(
        "smallest_effect",
        "none",
        "differences up to this (percentage points, or an error's unit) count for nothing: systems within it are "
        "called equivalent",
        Number(0, words=("none",)),
    ),
    Parameter("level", "0.95", "confidence level of intervals and claims", Number(0, 1)),
    Parameter(
        "self_check",
        "0",
        "A/A: how many comparisons of each system with itself, which say how often a claim is false; 0 for none",
        Whole(0, 100_000),
    ),
    replace(_ROOT_SEED, help="the number that the halves of an A/A comparison are derived from"),
)

PLAN: Final[Parameters] = _table(
    *MAIN.values(),
    Parameter(
        "pilot",
        "auto",
        "where cost and variances come from: auto (past runs of the same kind), a parent run's id, run, or none",
    ),
    Parameter("assurance", "0.8", "probability that the interval becomes as narrow as half_width", Number(0, 1)),
    Parameter(
        "budget",
        "none",
        "what may be spent on the mean score: 2h, 90m (of one worker), 500 cells or 10000 requests; "
        "says how many cells and test examples that is best for",
    ),
)

SWEEP: Final[Parameters] = _table(
    *MAIN.values(),
    Parameter(
        "over",
        "none",
        'hyperparameters and their values as JSON: {"shots": [2, 4, 8], "prompt_format": ["A", "B"]}',
    ),
    Parameter("file", "none", "a YAML or JSON file with the same, and with sets, exclusions and overrides"),
    Parameter("budget", "none", "the most that is computed: 2h, 90m, or 5000 cells; what is given again goes on"),
    Parameter("dry_run", "false", "say what there is to do, and start no run", Choice(("false", "true"))),
)
"""Of the entry point `sweep`: those of `main`, which may be lists."""

STRATEGIES: Final[Parameters] = {
    name: parameter
    for name, parameter in MAIN.items()
    if name not in {"design", "stop", "half_width", "epsilon", "joint"}
}
"""Those of `main` that all three strategies share."""

ABLATION: Final[Parameters] = _table(
    _PARENT,
    Parameter("metric", "auto", "the metric whose spread is investigated; auto is the parent's own"),
    Parameter("rows", "auto", "numbers of rows (mitigation runs) to look at, separated by commas"),
    Parameter("columns", "auto", "numbers of columns (investigation runs) to look at, separated by commas"),
    Parameter("test_sizes", "auto", "numbers of test examples to look at, separated by commas; all is all of them"),
    Parameter("repeats", "10", "how many random choices for each setting", Whole(1, 10_000)),
    replace(_ROOT_SEED, help="the number that these choices are derived from"),
)

IMPORT: Final[Parameters] = _table(
    Parameter(
        "from_",
        "auto",
        "the tool that wrote the files (in Python `from_`); auto goes by the files",
        Choice(("auto", "lm-eval", "inspect", "promptfoo", "csv", "huggingface-trainer")),
    ),
    Parameter(
        "task", "auto", "the task that is imported; several, separated by commas, are variants with the same examples"
    ),
    Parameter(
        "metric",
        "auto",
        "what runs are scored by; auto is the first that the tool has; of inspect also a scorer, or scorer.key",
    ),
    Parameter(
        "task_kind",
        "auto",
        "csv: what labels and predictions are; auto goes by them and says what it takes them for",
        Choice(("auto", "classification", "regression", "multiple_choice", "generation", "tagging", "ranking")),
    ),
    Parameter("classes", "auto", "csv: names of all classes, separated by |; auto takes those that occur"),
    Parameter("only", "none", "only runs with these settings: name=value pairs, separated by commas"),
    Parameter(
        "columns",
        "none",
        "csv: which column is what, as example_id=id, prediction=answer, settings=seed+shots",
    ),
)
IMPORTED: Final[Parameters] = _table(Parameter("path", "", "a file, or a folder that is searched for files"))

DELETE: Final[Parameters] = _table(
    replace(_PARENT, default="none", help="the parent run that is deleted together with its children")
)

NEW: Final[Parameters] = _table(
    Parameter("kind", "", "what is written: approach"),
    Parameter("name", "", "what it is to be called: small letters, digits and underscores"),
)
