"""The parents that are compared: what they ran, whether they can be compared, and what each is called."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import named
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier.past import own_parameter
from mlflow_l3d.tracking.earlier.reader import fetch_document, parent_run

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_CHOICE: Final = "choice."
_LATER: Final = ("num_labelled", "test_size", "test_selection", "design", "root_seed")
"""Parameters by which parents are told apart where approach, model and hyperparameters do not."""


@dataclass(frozen=True)
class Parent:
    """One parent.

    Attributes
    ----------
    run
        As the tracking server has it.
    document
        Its ``investigation.json``; empty for a stranger's.
    """

    run: Run
    document: Mapping[str, Any]

    @property
    def run_id(self) -> str:
        """Its run id."""
        return str(self.run.info.run_id)

    @property
    def metric(self) -> str:
        """Its own metric; the empty text where it names none."""
        return str(self.document.get("metric") or own_parameter(self.run, "metric") or "")

    @property
    def task(self) -> str:
        """Name of its task; that of the run where it names none."""
        return str(self._task.get("name") or own_parameter(self.run, "task") or self.run.info.run_name)

    @property
    def content(self) -> str:
        """What tells its task from another: a hash of the data, or the name."""
        return str(self._task.get("fingerprint") or self.task)

    @property
    def classes(self) -> int | None:
        """How many classes are told apart; None where that is not known."""
        return len(self._task.get("classes") or ()) or None

    @property
    def _task(self) -> Mapping[str, Any]:
        return self.document.get("task") or {}

    def choices(self) -> dict[str, str]:
        """Return what tells systems apart, what people would name first: approach, model, choices, hyperparameters."""
        model = self.document.get("model", {}).get("name") or own_parameter(self.run, "model") or ""
        found = {"approach": own_parameter(self.run, "approach") or "", "model": str(model).rsplit("/", 1)[-1]}
        found |= {
            name.removeprefix(_CHOICE): str(value)
            for name, value in self.run.data.params.items()
            if name.startswith(_CHOICE) and name != f"{_CHOICE}task"
        }
        found |= {name: str(value) for name, value in self.document.get("hyperparameters", {}).items()}
        return found | {name: own_parameter(self.run, name) or "" for name in _LATER}


def read_parents(client: MlflowClient, run_ids: Sequence[str]) -> list[Parent]:
    """Read parents that are to be compared.

    Raises
    ------
    ParameterError
        If one is named twice, is no investigation, or has not finished.
    """
    for at, run_id in enumerate(run_ids):
        if run_id in run_ids[:at]:
            raise ParameterError("runs", run_id, "must be named once: a run has no difference to itself")
    parents = []
    for run_id in run_ids:
        run = parent_run(client, run_id, "runs")
        _check(run)
        document = fetch_document(client, run_id, names.INVESTIGATION)
        parents.append(Parent(run, document if isinstance(document, dict) else {}))
    return parents


def _check(run: Run) -> None:
    """Raise a ParameterError where a run is no finished investigation."""
    tags, run_id = run.data.tags, run.info.run_id
    if tags.get(names.ROLE) == "cell":
        parent = tags.get(names.PARENT_RUN_ID)
        raise ParameterError("runs", run_id, "is a cell", f"Name its parent, {parent}." if parent else "")
    if tags.get(names.ROLE) not in ("investigation", "golden_runs"):
        fix = "Name the parent of an investigation; one of other code is one after mlflow-l3d evaluate."
        if tags.get(names.ROLE) == "sweep":
            fix = "Name two or more of its points."
        raise ParameterError("runs", run_id, f"is no investigation ({names.ROLE}={tags.get(names.ROLE, 'none')})", fix)
    if later := tags.get(names.SUPERSEDED_BY):
        raise ParameterError("runs", run_id, "was continued by another parent", f"Name {later}.")
    if run.info.status != "FINISHED" and tags.get(names.STATE) != "complete":
        fix = "Give its command again, which continues it."
        raise ParameterError("runs", run_id, f"has not finished ({run.info.status.lower()})", fix)


def metric_of(parents: Sequence[Parent], asked: str) -> Metric:
    """Return the metric that is asked for; for ``auto`` the parents' own.

    Raises
    ------
    ParameterError
        If that differs.
    """
    if asked != "auto":
        return named(asked)
    own = list(dict.fromkeys(parent.metric for parent in parents))
    if len(own) > 1:
        listed = ", ".join(name or "none" for name in own)
        fix = "Name one, as in metric=accuracy."
        raise ParameterError("runs", _ids(parents), f"have different metrics ({listed})", fix)
    return named(own[0] if own[0] not in ("", "auto") else "f1_macro")


def by_task(parents: Sequence[Parent]) -> dict[str, dict[str, Parent]]:
    """Return task -> system -> parent, every system on every task.

    Raises
    ------
    ParameterError
        If not every system is there on every task.
    """
    named = dict(zip((parent.run_id for parent in parents), system_names(parents), strict=True))
    tasks: dict[str, dict[str, Parent]] = {}
    contents = list(dict.fromkeys(parent.content for parent in parents))
    for number, content in enumerate(contents):
        own = [parent for parent in parents if parent.content == content]
        same = [parent.task for parent in parents if parent.content != content]
        task = own[0].task if own[0].task not in same else f"{own[0].task} ({number + 1})"
        tasks[task] = {named[parent.run_id]: parent for parent in own}
    systems = [set(own) for own in tasks.values()]
    if any(each != systems[0] for each in systems) or len(systems[0]) < 2:
        listed = "; ".join(f"{task}: {', '.join(filter(None, own))}".rstrip(": ") for task, own in tasks.items())
        fix = "Compare on one task, or give every system on every task."
        raise ParameterError("runs", _ids(parents), f"are of different tasks ({listed})", fix)
    return {task: {name: own[name] for name in next(iter(tasks.values()))} for task, own in tasks.items()}


def system_names(parents: Sequence[Parent]) -> list[str]:
    """Return what each parent is called: by as few of its choices as tell those of one task apart."""
    choices = [parent.choices() for parent in parents]
    found: list[list[str]] = [[] for _ in parents]

    def alike() -> list[tuple[int, int]]:
        return [
            (i, j)
            for i in range(len(parents))
            for j in range(i)
            if found[i] == found[j] and parents[i].content == parents[j].content
        ]

    for name in dict.fromkeys(name for own in choices for name in own):
        if any(choices[i].get(name, "") != choices[j].get(name, "") for i, j in alike()):
            for words, own in zip(found, choices, strict=True):
                value = own.get(name, "")
                words.append(value if name in ("approach", "model") else f"{name}={value}" if value else "")
    lost = {at for pair in alike() for at in pair}
    return [
        " ".join(word for word in [*words, *([parent.run_id[:8]] if at in lost else [])] if word)
        for at, (words, parent) in enumerate(zip(found, parents, strict=True))
    ]


def _ids(parents: Sequence[Parent]) -> str:
    return ",".join(parent.run_id for parent in parents)


def requests(runs: object) -> list[object]:
    """Return what is compared: run ids, or parameters of `main` as mappings.

    Parameters
    ----------
    runs
        Run ids separated by commas, a list in JSON, or a list of run ids, mappings, and objects with a `run_id`.

    Raises
    ------
    ParameterError
        If it is anything else, or there are fewer than two.
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
    found = [each if isinstance(each, str | Mapping) else getattr(each, "run_id", None) for each in runs]
    if None in found:
        wrong = runs[found.index(None)]
        raise ParameterError("runs", wrong, "must hold run ids, investigations, or objects with the parameters of main")
    if len(found) < 2:
        listed = ", ".join(map(str, found)) or "(none)"
        raise ParameterError("runs", listed, "must be two or more parents, separated by commas")
    return found
