"""Whether approach, task and metric go together, and fit what else was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlflow_l3d.approaches.base import Approach, defect
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.forms import form_of
from mlflow_l3d.metrics.known import check_installed, of_kind, registered
from mlflow_l3d.parameters.declaration import Arguments, declared
from mlflow_l3d.parameters.shared import Columns, Sizes
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.files import is_data

COLUMNS: Final = declared(Columns)
"""Parameters that say how a file or data set is read."""
_DATA: Final = {**COLUMNS, **declared(Sizes)}


def check_kind(
    task: Task, approach: Approach, hyperparameters: Mapping[str, Value], metric: Metric | None = None
) -> None:
    """Raise if the approach does not take tasks of this kind, or the metric is not one of theirs; None is any."""
    under = approach.task_kinds_under(hyperparameters)
    # What an approach without predictions gives as a number may have the name of one of ours.
    its_own = approach.brings_data and not task.class_names and task.form.has_class_names
    name = "" if metric is None else metric.name
    theirs = {*approach.metrics, *([name] if its_own else [])}
    kinds_of_metric = (task.kind,) if metric is None or name not in set(registered()) - theirs else metric.kinds
    what = task.kind.replace("_", " ")
    if task.kind not in under:
        taken = " and ".join(kind.replace("_", " ") for kind in under)
        limit = " under these hyperparameters" if task.kind in approach.task_kinds else ""
        other = _taking(task.kind, approach, hyperparameters) or f"other hyperparameters of {approach.name}"
        fix = f"Use {other if limit else 'another approach'}."
        raise ParameterError("task", task.name, f"is a {what} task, and {approach.name} takes {taken} only{limit}", fix)
    if task.kind not in kinds_of_metric:
        allowed = f"is a metric of {form_of(kinds_of_metric[0]).words}, and {task.name} is a {what} task"
        fix = f"Use {', '.join(each.name for each in of_kind(task.kind, secondary=False))}."
        raise ParameterError("metric", name, allowed, fix)
    if name in (missing := approach.missing_metrics(hyperparameters)):
        raise ParameterError("metric", name, f"has no value here: {missing[name]}")
    if metric is not None and name not in theirs:
        check_installed(metric)


def _taking(kind: str, approach: Approach, hyperparameters: Mapping[str, Value]) -> str:
    """Return one choice of a hyperparameter with which an approach takes a kind of task; empty where there is none."""
    for name, declaration in approach.hyperparameters.items():
        for value in declaration.choices or ():
            if kind in approach.task_kinds_under({**hyperparameters, name: value}):
                return f"hyperparameter {name}={value}"
    return ""


def check_approach(approach: object) -> None:
    """Check that an approach, from an entry point or from Python, is one."""
    if isinstance(approach, type):
        raise ParameterError("approach", approach.__name__, "must be an object, not its class", "Call the class first.")
    if wrong := defect(approach):
        fix = "Wrap a function in mlflow_l3d.FunctionApproach." if callable(approach) else ""
        raise ParameterError("approach", type(approach).__name__, f"is no approach: {wrong}", fix)


def check_task(task: object, asked: Arguments) -> None:
    """Raise if an object is not a task, or a choice of columns has no effect on it."""
    if is_data(task):
        return
    if not isinstance(task, Task):
        allowed = "must be a name, a data frame or set, or what mlflow_l3d.tasks.identity.make_task returned"
        raise ParameterError("task", type(task).__name__, allowed)
    for name, parameter in COLUMNS.items():
        if asked[name] != parameter.default:
            raise ParameterError(name, asked.texts[name], "has no effect on a task object", "Leave it out.")


def check_no_data(asked: Arguments, approach: Approach) -> None:
    """Raise for a choice of data if the approach brings its own."""
    for name, usual in {"task": "auto", **{each: parameter.default for each, parameter in _DATA.items()}}.items():
        if asked.get(name, usual) != usual:
            allowed = f"has no effect: approach={approach.name} has data of its own"
            raise ParameterError(name, asked.texts[name], allowed, "Leave it out.")
