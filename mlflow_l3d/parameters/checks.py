"""How cells are run; whether approach, task, metric and device go together, and fit what else was asked for."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d import registry
from mlflow_l3d.approaches.base import Approach, defect
from mlflow_l3d.approaches.cured import Cured
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.errors import ParameterError, imported, renamed, unknown_name
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.forms import form_of
from mlflow_l3d.metrics.known import check_installed, of_kind, registered
from mlflow_l3d.parameters import Arguments, Parameters, declared
from mlflow_l3d.parameters.shared import Columns, Sizes
from mlflow_l3d.parameters.values import Choice, as_text, check_names, json_of, pairs
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.files import is_data, load_data
from mlflow_l3d.tasks.identity import shorten
from mlflow_l3d.tasks.kinds import Reading
from mlflow_l3d.tasks.resolve import read_task

if TYPE_CHECKING:
    import pandas as pd

    from mlflow_l3d.analysis.consistency.examples import ExampleVotes


@dataclass(frozen=True)
class Execution:
    """How cells are run.

    Attributes
    ----------
    executor, workers
        Its name, and how many cells it may run at a time; None leaves that to the executor.
    cell_timeout
        Seconds that a cell may take, infinite for no limit; None is ``auto``.
    options
        Those that only this executor has, the given ones.
    ask
        Calls a function on a worker and returns what it gives, where workers are on machines other than this one; else
        None. See :meth:`mlflow_l3d.execution.base.Executor.on_worker`.
    gpu_options
        Names of options that ask for GPUs.
    """

    executor: str
    workers: int | None
    cell_timeout: float | None
    options: Mapping[str, Value]
    ask: Callable[..., Any] | None
    gpu_options: Collection[str] = ()


def execution(asked: Mapping[str, Any]) -> Execution:
    """Return how cells are run.

    Raises
    ------
    ParameterError
        If the executor takes something else.
    """
    executor, timeout = asked["executor"], asked["cell_timeout"]
    workers = None if asked["workers"] == "auto" else asked["workers"]
    executor_class = registry.load("executor", executor)
    one_worker = getattr(executor_class, "one_worker", False)
    if one_worker and workers not in {None, 1}:
        raise ParameterError("workers", workers, f"executor={executor} has one", "Use executor=processes.")
    if not isinstance(timeout, str) and not getattr(executor_class, "stops_cells", False):
        allowed = f"executor={executor} cannot stop a cell"
        raise ParameterError("cell_timeout", f"{timeout:g}", allowed, "Use executor=processes, or none.")
    return Execution(
        executor,
        1 if one_worker else workers,
        {"none": math.inf, "auto": None}.get(timeout, timeout),
        _options(asked["executor_options"], executor, getattr(executor_class, "options", {})),
        getattr(executor_class, "on_worker", None),
        getattr(executor_class, "gpu_options", ()),
    )


def _options(options: str | Mapping[str, Any], executor: str, known: Mapping[str, Hyperparameter]) -> dict[str, Value]:
    """Return the options of an executor: a mapping, a JSON object, or name=value pairs separated by commas."""
    name, text = "executor_options", as_text("executor_options", options)
    if text in {"none", "", "{}"}:
        return {}
    if not known:
        raise ParameterError(name, text, f"executor={executor} has none", "Leave it out.")
    if not isinstance(options, Mapping):
        options = json_of(name, text, text) if text.lstrip().startswith("{") else pairs(text)
    check_names(name, options, known)
    read = {}
    for key, value in options.items():
        with renamed(f"{name}.{key}"):
            read[key] = known[key].parse(key, value)
    return read


_GPU_FILES: Final = ("nvidia*", "nvhost*", "nvmap", "nvgpu*", "kfd", "dxg")
"""In Linux, of each GPU that torch knows: without one, torch need not be imported to ask."""


def device_of(device: str, approach: Approach, how: Execution) -> str:
    """Return the device to train on; torch is asked only where the answer depends on it."""
    if device == "cpu" or not approach.default_model:
        if device not in {"auto", "cpu"}:
            raise ParameterError("device", device, f"{approach.name} runs on the cpu only")
        return "cpu"
    if how.ask is not None and device != "auto":
        return Choice(("cpu", "cuda")).read("device", device)
    may_have_gpu = sys.platform != "linux" or any(next(Path("/dev").glob(name), None) for name in _GPU_FILES)
    if device == "auto" and not (sys.modules.get("torch") or (may_have_gpu and find_spec("torch"))):
        return "cpu"
    torch = imported("torch", f"device={device}:", "models")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    kind = device.partition(":")[0]
    if kind not in {"cuda", "mps"}:
        raise unknown_name("device", device, ["auto", "cpu", "cuda", "cuda:N", "mps"])
    if not (torch.cuda.is_available() if kind == "cuda" else torch.backends.mps.is_available()):
        raise ParameterError("device", device, "no such device on this machine", "Use device=cpu or device=auto.")
    return device


COLUMNS: Final = declared(Columns)
"""Parameters that say how a file or data set is read."""
_DATA: Final = {**COLUMNS, **declared(Sizes)}


def columns_of(asked: Arguments) -> dict[str, Any]:
    """Return the parameters that say how a file is read: texts, or tuples of texts."""
    typed = {name: asked[name] for name in COLUMNS}
    return {
        name: tuple(map(str, columns)) or "" if isinstance(columns, list | tuple) else str(columns)
        for name, columns in typed.items()
    }


def read_again(
    data: Task | str | pd.DataFrame, given: Mapping[str, str], classes: Sequence[str], votes: ExampleVotes | None
) -> Task:
    """Return a task, a named one or that of a data frame, from the columns that a study with `given` parameters read.

    Raises
    ------
    ParameterError
        If it cannot be read, or has other classes than the study; none are known if `classes` is empty. Or if it has
        none of the examples that the study has votes on, or other labels.
    """
    fix = "Give the data that were investigated."
    if isinstance(data, Task):
        task = data
    else:
        columns: dict[str, Any] = {column: given[column] for column in COLUMNS if column in given}
        reading = Reading(**columns)
        task = read_task(data, reading) if isinstance(data, str) else load_data(data, type(data).__name__, reading)
        if classes and list(classes) != list(task.class_names):
            allowed = f"has other classes than the investigated one ({', '.join(map(shorten, classes))})"
            raise ParameterError("task", task.name, allowed, fix)
    if votes is None or not task.form.has_classes:
        return task
    labels = dict(zip(task.example_ids.tolist(), task.labels.tolist(), strict=True))
    both = zip(votes.frame["example_id"], votes.frame["label"], strict=True)
    agree = [labels[each] == label for each, label in both if each in labels]
    if not (agree and all(agree)):
        has = f"another class for {agree.count(False)} of {len(agree)}" if agree else "none"
        allowed = f"has {has} of the examples that the runs evaluated"
        raise ParameterError("task", task.name, allowed, fix)
    return task


def check_kind(
    task: Task, approach: Approach, hyperparameters: Mapping[str, Value], metric: Metric | None = None
) -> None:
    """Raise if the approach does not take tasks of this kind, or the metric is for tasks of other kinds; None is any.

    Also if the remedy of a cured approach has no effect on this task.
    """
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
    if isinstance(approach, Cured):
        approach.check_task(task, hyperparameters)


def _taking(kind: str, approach: Approach, hyperparameters: Mapping[str, Value]) -> str:
    """Return one choice of a hyperparameter with which an approach takes a kind of task; empty if there is none."""
    for name, declaration in approach.hyperparameters.items():
        for value in declaration.choices or ():
            if kind in approach.task_kinds_under({**hyperparameters, name: value}):
                return f"hyperparameter {name}={value}"
    return ""


def check_approach(approach: object) -> None:
    """Check that an approach, from an entry point or from Python, is one."""
    _refuse_class("approach", approach)
    if wrong := defect(approach):
        fix = "Wrap a function in mlflow_l3d.FunctionApproach." if callable(approach) else ""
        raise ParameterError("approach", type(approach).__name__, f"is not an approach: {wrong}", fix)


def _refuse_class(parameter: str, value: object) -> None:
    if isinstance(value, type):
        fix = f"Give an instance: {value.__name__}(...)."
        raise ParameterError(parameter, value.__name__, "must be an object, not its class", fix)


def check_task(task: object, asked: Arguments) -> None:
    """Raise if an object is not a task, or a choice of columns has no effect on it."""
    if is_data(task):
        return
    _refuse_class("task", task)
    if not isinstance(task, Task):
        allowed = "must be a name, a data frame or set, or a task of mlflow_l3d.make_task"
        raise ParameterError("task", type(task).__name__, allowed)
    check_unused(asked, COLUMNS, "a task object")


def check_unused(asked: Arguments, known: Parameters, what: str, used: Collection[str] = ()) -> None:
    """Raise for the first of some parameters, except the `used` ones, that was given: it has no effect on `what`."""
    for name, parameter in known.items():
        if name not in used and asked.texts[name] != parameter.default:
            raise ParameterError(name.rstrip("_"), asked.texts[name], f"has no effect on {what}", "Leave it out.")


def check_no_data(asked: Arguments, approach: Approach) -> None:
    """Raise for a choice of data if the approach brings its own."""
    defaults = {name: parameter.python_default for name, parameter in _DATA.items()}
    for name, usual in {"task": "auto", **defaults}.items():
        if asked.get(name, usual) != usual:
            allowed = f"has no effect: approach={approach.name} has data of its own"
            raise ParameterError(name, asked.texts[name], allowed, "Leave it out.")
