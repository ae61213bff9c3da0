"""The compared parent runs: their settings, whether they can be compared, and their names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pandas as pd

from mlflow_l3d import registry
from mlflow_l3d.approaches.command.template import options_of
from mlflow_l3d.designs import all_designs
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.numbers import value_text
from mlflow_l3d.studies.comparison.report.words import ComparedParent
from mlflow_l3d.studies.investigation.evaluate import recorded_about
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.seeds.parameters import SEEDS
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import whole_id
from mlflow_l3d.tracking.connection import Client, Run
from mlflow_l3d.tracking.earlier import latest_investigation, own_parameter
from mlflow_l3d.tracking.earlier.reader import fetch_document, parent_run


@dataclass(frozen=True)
class Parent:
    """One parent run.

    Attributes
    ----------
    run
        The run on the tracking server.
    document
        Its ``investigation.json``; empty for a run of other code.
    """

    run: Run
    document: Mapping[str, Any]

    @property
    def run_id(self) -> str:
        """Its run id."""
        return str(self.run.info.run_id)

    @property
    def metric(self) -> str:
        """Its own metric; the empty text if it names none."""
        return str(self.document.get("metric") or own_parameter(self.run, "metric") or "")

    @property
    def task(self) -> str:
        """Name of its task; the name of the run if it names no task."""
        return str(self._task.get("name") or own_parameter(self.run, "task") or self.run.info.run_name)

    @property
    def identities(self) -> tuple[str, str, str]:
        """Identities of its task, ever weaker; of files the task, its test examples, and its name with its classes."""
        content = str(self._task.get("fingerprint") or self.task)
        if "imported_from" not in self.document:
            return content, content, content
        named = str((self.task, self._task["kind"], self._task["classes"]))
        return content, self._task.get("examples", content), named

    @property
    def classes(self) -> int | None:
        """Number of classes; None if unknown."""
        return len(self._task.get("classes") or ()) or None

    @property
    def _task(self) -> Mapping[str, Any]:
        return self.document.get("task") or {}

    def choices(self) -> dict[str, str]:
        """Return the choices that distinguish systems, in the order in which people name them."""
        model = self.document.get("model", {}).get("name") or own_parameter(self.run, "model") or ""
        approach = self.document.get("approach", {}).get("name") or own_parameter(self.run, "approach") or ""
        choices = {"approach": str(approach), "model": str(model).rsplit("/", 1)[-1]}
        typed = {name: str(value) for name, value in self.run.data.params.items() if name.startswith("choice.")}
        choices |= {name.removeprefix("choice."): text for name, text in typed.items() if name != "choice.task"}
        choices |= {name: str(value) for name, value in self._hyperparameters(str(approach)).items()}
        # These name parent runs that approach, model and hyperparameters do not distinguish.
        later = ("num_labelled", "test_size", "test_selection", "design", "root_seed", "source")
        return choices | {name: own_parameter(self.run, name) or "" for name in later}

    def _hyperparameters(self, approach: str) -> dict[str, object]:
        """Return its hyperparameters; one that an earlier version did not have has its default."""
        declared = registry.hyperparameters_of(approach) or {}
        recorded: Mapping[str, object] | None = self.document.get("hyperparameters")
        return {} if recorded is None else {name: each.default for name, each in declared.items()} | dict(recorded)

    def compared(self, client: Client, task: str, system: str, choices: Mapping[str, object]) -> ComparedParent:
        """Return how a report names it, with the parameters in which it differs from the others."""
        layout = all_designs().get(self.run.data.tags.get(names.DESIGN, ""))
        runs = "mitigation_runs" if layout is not None and layout.tables_are_golden else "golden_runs"
        declared, verb = MAIN, "investigate"
        if "seeds" in self.document:
            declared, verb, runs = SEEDS, "seeds", "seeds"
        shown = {name: value_text(value) for name, value in choices.items()}
        source = recorded_about(client, self.run, declared, self.document).source
        command = source.command(verb, **{runs: "RUNS"})
        return ComparedParent(task, system, self.run_id, str(self.run.info.experiment_id), shown, command)


def read_parents(client: Client, run_ids: Sequence[str]) -> list[Parent]:
    """Return the parent runs to compare.

    Raises
    ------
    ParameterError
        If one is named twice, is not an investigation, or has not finished.
    """
    parents: dict[str, Parent] = {}
    for typed in run_ids:
        run_id = latest_investigation(client, "runs") if typed == "latest" else whole_id(client, typed, "runs")
        if run_id in parents:
            raise ParameterError("runs", run_id, "must be named once: a run does not differ from itself")
        run = parent_run(client, run_id, "runs")
        _check(run)
        document = fetch_document(client, run_id, names.INVESTIGATION)
        parents[run_id] = Parent(run, document if isinstance(document, dict) else {})
    return [*parents.values()]


def _check(run: Run) -> None:
    """Raise a ParameterError if a run is not a finished investigation."""
    tags, run_id = run.data.tags, run.info.run_id
    role = tags.get(names.ROLE, "none")
    if role == "cell":
        parent = tags.get(names.PARENT_RUN_ID)
        raise ParameterError("runs", run_id, "is a cell", f"Name its parent run, {parent}." if parent else "")
    if role not in ("investigation", "golden_runs"):
        fix = "Name the parent run of an investigation; for runs of other code, run mlflow-l3d evaluate first."
        if role == "sweep":
            fix = "Name two or more of its points."
        raise ParameterError("runs", run_id, f"is not an investigation ({names.ROLE}={role})", fix)
    if later := tags.get(names.SUPERSEDED_BY):
        raise ParameterError("runs", run_id, "was continued by another parent run", f"Name {later}.")
    if run.info.status != "FINISHED" and tags.get(names.STATE) != "complete":
        fix = "Run its command again, which continues it."
        raise ParameterError("runs", run_id, f"has not finished ({run.info.status.lower()})", fix)


def metric_of(parents: Sequence[Parent], metric: str) -> Metric:
    """Return the metric that `metric` names; for ``auto`` the metric of the parent runs.

    Raises
    ------
    ParameterError
        If they have different metrics.
    """
    if metric != "auto":
        return named(metric)
    metrics = list(dict.fromkeys(parent.metric for parent in parents))
    if len(metrics) > 1:
        listed = ", ".join(name or "none" for name in metrics)
        raise ParameterError("runs", _ids(parents), f"have different metrics ({listed})", "Name one that all have.")
    return named(metrics[0] if metrics[0] not in ("", "auto") else "f1_macro")


def by_task(parents: Sequence[Parent]) -> dict[str, dict[str, Parent]]:
    """Return task -> system -> parent, every system on every task.

    Files are of one task if they have equal test examples, or else equal names and classes.

    Raises
    ------
    ParameterError
        If a system is missing on a task.
    """
    tasks: dict[str, dict[str, Parent]] = {}
    for contents in zip(*(parent.identities for parent in parents), strict=True):
        tasks = _tasks(parents, contents)
        first, *others = tasks.values()
        if len(first) > 1 and all(systems.keys() == first.keys() for systems in others):
            return {task: {name: systems[name] for name in first} for task, systems in tasks.items()}
    listed = "; ".join(f"{task}: {', '.join(filter(None, systems))}".rstrip(": ") for task, systems in tasks.items())
    fix = "Compare on one task (files need equal test examples, or one name and equal classes), or all on every task."
    raise ParameterError("runs", _ids(parents), f"are of different tasks ({listed})", fix)


def _tasks(parents: Sequence[Parent], contents: Sequence[str]) -> dict[str, dict[str, Parent]]:
    """Return task -> system -> parent; parents of one task have equal `contents`."""
    every = list(zip(contents, system_names(parents, contents), parents, strict=True))
    tasks = {}
    for number, content in enumerate(dict.fromkeys(contents), 1):
        group = {name: parent for identity, name, parent in every if identity == content}
        task = next(iter(group.values())).task
        is_shared = any(identity != content and parent.task == task for identity, _, parent in every)
        tasks[f"{task} ({number})" if is_shared else task] = group
    return tasks


def system_names(parents: Sequence[Parent], contents: Sequence[str]) -> list[str]:
    """Return a name for each parent run: as few of its choices as distinguish the runs of equal `contents`."""
    commands = [options_of(own_parameter(parent.run, "command") or "") for parent in parents]
    defaults = dict.fromkeys(chain.from_iterable(commands), "default")
    typed = [{**defaults, **options} if options else {} for options in commands]
    rows = [parent.choices() | options for parent, options in zip(parents, typed, strict=True)]
    choices = pd.DataFrame(rows).fillna("")
    words = pd.Series("", choices.index)
    group = pd.Series(contents, dtype=object)
    for name, values in choices.items():
        if values.groupby(group).nunique().max() > 1:
            bare = name in ("approach", "model", "source")
            words += (" " + (values if bare else f"{name}=" + values)).where(values != "", "")
            group = values.groupby([group, values]).ngroup().astype(object)
    ids = pd.Series([parent.run_id[:8] for parent in parents])
    words += (" " + ids).where(group.duplicated(keep=False) | (words == ""), "")
    return words.str.strip().tolist()


def _ids(parents: Sequence[Parent]) -> str:
    return ",".join(parent.run_id for parent in parents)


def requests(runs: object) -> list[object]:
    """Return the systems to compare: run ids, or parameters of `main` as mappings.

    Parameters
    ----------
    runs
        Run ids separated by commas, a list in JSON, or a list of run ids, mappings, and objects with a `run_id`.

    Raises
    ------
    ParameterError
        If `runs` is anything else, or holds fewer than two systems.
    """
    if isinstance(runs, str) and runs.lstrip().startswith(("[", "{")):
        try:
            runs = json.loads(runs)
        except ValueError as error:
            allowed = f"must be run ids separated by commas, or a list of objects in JSON ({error})"
            raise ParameterError("runs", runs, allowed) from error
    if isinstance(runs, str):
        runs = [each.strip() for each in runs.split(",") if each.strip()]
    if not isinstance(runs, list | tuple):
        raise ParameterError("runs", runs, "must be a list of run ids, or of objects with the parameters of main")
    systems = [each if isinstance(each, str | Mapping) else getattr(each, "run_id", None) for each in runs]
    if None in systems:
        wrong = runs[systems.index(None)]
        raise ParameterError("runs", wrong, "must hold run ids, investigations, or objects with the parameters of main")
    if len(systems) < 2:
        listed = ", ".join(map(str, systems)) or "(none)"
        raise ParameterError("runs", listed, "must be two or more parent runs, separated by commas")
    return systems
