"""What is trained, on what and where: what an investigation and a search have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Final

from mlflow_l3d import registry
from mlflow_l3d.approaches.base import Approach, defect
from mlflow_l3d.approaches.callable import FunctionApproach
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.forms import form_of
from mlflow_l3d.metrics.known import check_installed, named, of_kind, registered
from mlflow_l3d.parameters.declaration import Parameters
from mlflow_l3d.parameters.execution import Execution, execution
from mlflow_l3d.parameters.search_document import Searches, Subject
from mlflow_l3d.parameters.sources import Origin, choose
from mlflow_l3d.parameters.table import MAIN, SEEDS
from mlflow_l3d.parameters.values import Choice, check_names, public_name
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.plan.factors import TASK_FACTORS, configuration_seed
from mlflow_l3d.privacy import public_value
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.files import is_data
from mlflow_l3d.tasks.kinds import Reading
from mlflow_l3d.tasks.predefined_split import NoParts
from mlflow_l3d.tasks.resolve import ReadTask, bind_task, inactive_factors, load_task, read_data
from mlflow_l3d.tasks.settings import SplitSettings

_OF_FILES: Final = ("text_column", "label_column", "task_kind", "choice_columns")
"""Parameters that say how a file or data set is read."""


@dataclass(frozen=True)
class Setup:
    """What is trained, on what and where.

    Attributes
    ----------
    approach, task, hyperparameters, origin, device
        The approach, the data with its split settings, the complete hyperparameters and where they came from, and where
        it is trained.
    model_reference, model_revision
        The model as it was typed (it may be a private path and is not logged), and what identifies its weights.
    numerics
        What decides the numbers beside the content.
    fixed_factors
        Factors of the approach without an effect under these choices, each with the reason.
    executor, workers
        Where cells run, and how many at a time; None leaves that to the executor.
    deterministic
        Whether the device computes the same way each time.
    cell_timeout, executor_options
        See :class:`mlflow_l3d.parameters.execution.Execution`.
    """

    approach: Approach
    task: Task
    hyperparameters: Mapping[str, Value]
    origin: Origin
    model_reference: str
    model_revision: str
    device: str
    numerics: Mapping[str, str]
    fixed_factors: Mapping[str, str]
    executor: str
    workers: int | None
    deterministic: bool = True
    cell_timeout: float | None = None
    executor_options: Mapping[str, Value] = field(default_factory=dict)

    @property
    def model(self) -> str:
        """The model as people see it."""
        return public_name(self.model_reference)

    @property
    def public_hyperparameters(self) -> dict[str, Value]:
        """The hyperparameters as they may be shown and logged: no credentials, of private folders only the names."""
        return {
            name: public_value(name, "|".join(map(public_name, value.split("|")))) if isinstance(value, str) else value
            for name, value in self.hyperparameters.items()
        }

    def title(self, first: str) -> str:
        """Return the name of a run: what is looked at, on which task, with which approach and other model."""
        approach = self.approach
        other = self.model if self.model != public_name(approach.default_model) else ""
        parts = (first, self.task.name, approach.label(self.hyperparameters), other.rpartition("/")[2])
        return " · ".join(part for part in parts if part)

    @property
    def all_factors(self) -> tuple[str, ...]:
        """Factors that have an effect."""
        return tuple(name for name in self.approach.factors if name not in self.fixed_factors)

    @property
    def subject(self) -> Subject:
        """What a search must have been of to be of use here."""
        return Subject.of(self.approach, self.model_reference, self.model_revision, self.task)


def given_texts(
    parameters: Mapping[str, object], known: Parameters, approach: Approach | None, task: Task | None
) -> tuple[dict[str, str], Approach]:
    """Return every parameter as text, defaults included, and the approach.

    Raises
    ------
    ParameterError
        If a parameter is unknown or has a value that the table does not allow, or the approach or the task is none.
    """
    check_names("parameter", parameters, known)
    given = {name: parameter.typed(parameters) for name, parameter in known.items()}
    if approach is None:
        name = known["approach"].parse(given)
        made = registry.load("approach", name)
        try:
            approach = made(**{each: given[each] for each in getattr(made, "parameters", ())})
        except TypeError as error:  # a class that lacks a method of the contract cannot be called
            raise L3DError(f"approach={name}: its entry point cannot be called ({error}).") from error
    _check_approach(approach)
    if callable(metric := parameters.get("metric")):
        if not isinstance(approach, FunctionApproach):
            why = f"is a function, which scores functions, and {approach.name} is none"
            raise ParameterError("metric", getattr(metric, "__name__", "function"), why, "Use the name of a metric.")
        approach = approach.scored_by(metric)
        given["metric"] = approach.metrics[-1]
    elif given["metric"] == "auto" and approach.brings_data and approach.metrics:
        given["metric"] = approach.metrics[0]
    of_project = dict.fromkeys(("uri", "entry_point", "project_parameters"), "project")
    for name, of in {"command": "command", **of_project}.items():
        if given.get(name, "") != known[name].default and name not in approach.parameters:
            raise ParameterError(name, given[name], "has no effect", f"Use approach={of}.")
    given["approach"] = approach.name
    if task is not None:
        _check_task(task, given)
        given["task"] = task.name if isinstance(task, Task) else type(task).__name__
    for parameter in known.values():
        if parameter.name != "approach":  # it may be an object, which no entry point names
            parameter.parse(given)
    every = (each for each in registered().values() if "seeds" in known or not each.secondary)
    allowed = [metric.name for metric in every if not metric.opt_in]
    auto = ["auto"] if known["metric"].default == "auto" else []
    Choice((*auto, *allowed, *approach.metrics)).parse("metric", given["metric"])
    return given, approach


def set_up(
    given: Mapping[str, str],
    approach: Approach,
    task: Task | None,
    *,
    root_seed: int,
    searches: Searches | None,
    predefined_split: bool = False,
    validation_fraction: float = 0.0,
    read: ReadTask | None = None,
) -> Setup:
    """Load what the parameters name.

    Parameters
    ----------
    given, approach
        From :func:`given_texts`.
    task
        An object in place of the name.
    root_seed
        Of the fixed test set, where there is one, and of what is drawn once from a task's own parts.
    searches
        Finds the search that ``hyperparameters=latest`` or a run id means; None where no tracking server can be asked.
    predefined_split, validation_fraction
        Whether the task's own train and validation parts are used where it has some, and which share of the train part
        is held out: see :class:`mlflow_l3d.tasks.settings.SplitSettings`.

    Raises
    ------
    ParameterError
        For the first parameter that is not allowed. Cheap checks come first, data and models last.
    """
    how = execution(given)
    if approach.brings_data:
        _refuse_data(given, approach)
    settings = _split_settings(given, root_seed, validation_fraction, predefined_split=predefined_split)
    device = _device(given["device"], approach, how)
    if approach.default_model:  # what others run may use a GPU of its own accord
        how.check_gpus(device)
    deterministic = _deterministic(given["deterministic"], device, approach)
    model = approach.default_model if given["model"] == "auto" else given["model"]

    @cache
    def loaded() -> tuple[str, Task]:
        """Load what takes long: only some sources of hyperparameters need it, and mistakes in others come first."""
        revision = approach.model_revision(model)
        try:
            return revision, bind(settings)
        except NoParts as error:
            if validation_fraction:
                allowed = f"is a share of a train part, and {error.name}={error.value} has no parts of its own"
                fix = "Leave it out: a fifth of the labelled examples is held out as it is."
                raise ParameterError("validation_fraction", validation_fraction, allowed, fix) from None
            once = bind(_split_settings(given, root_seed, 0.0, predefined_split=False))
            return revision, replace(once, notes=(_split_once(once, root_seed), *once.notes))

    def bind(settings: SplitSettings) -> Task:
        if approach.brings_data:
            return approach.own_task(hyperparameters, cache_folder())
        if isinstance(task, Task):
            return bind_task(task, settings)
        name = approach.default_task if given["task"] == "auto" else given["task"]
        own = None if task is None else partial(read_data, task)
        asked: dict[str, Any] = {name: given[name] for name in _OF_FILES if name in given}
        return load_task(name, Reading(**asked, numbered_choices=predefined_split), settings=settings, read=read or own)

    published = partial(approach.published, model=model)
    hyperparameters, origin = choose(
        given["hyperparameters"],
        approach,
        lambda: Subject.of(approach, model, *loaded()),
        searches,
        published=partial(approach.published_seeds, model) if predefined_split else published,
    )
    own = how.asked(approach.numerics, device) if device.startswith("cuda") else approach.numerics(device)
    numerics = {**own, **approach.dependencies(hyperparameters, model)}
    if not deterministic:
        # What the numerics say of cells that need not repeat; of others they say nothing.
        numerics["deterministic"] = "false"
    model_revision, bound = loaded()
    check_kind(bound, approach, hyperparameters, given.get("metric", ""))
    fixed_by_task = {name: why for name, why in inactive_factors(bound).items() if name in approach.factors}
    return Setup(
        approach=approach,
        task=bound,
        hyperparameters=hyperparameters,
        origin=origin,
        model_reference=model,
        model_revision=model_revision,
        device=device,
        numerics=numerics,
        fixed_factors={**fixed_by_task, **approach.inactive_on(bound, hyperparameters)},
        executor=how.executor,
        workers=how.workers,
        deterministic=deterministic,
        cell_timeout=how.cell_timeout,
        executor_options=how.options,
    )


def check_kind(task: Task, approach: Approach, hyperparameters: Mapping[str, Value], metric: str = "") -> None:
    """Raise if the approach does not take tasks of this kind, or the metric is not one of theirs."""
    under = approach.task_kinds_under(hyperparameters)
    # What an approach without predictions gives as a number may have the name of one of ours.
    its_own = approach.brings_data and not task.class_names and task.form.has_class_names
    theirs = {*approach.metrics, *([metric] if its_own else [])}
    kinds_of_metric = named(metric).kinds if metric in set(registered()) - theirs else (task.kind,)
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
        raise ParameterError("metric", metric, allowed, fix)
    if metric in (missing := approach.missing_metrics(hyperparameters)):
        raise ParameterError("metric", metric, f"has no value here: {missing[metric]}")
    if metric not in theirs:
        check_installed(named(metric))


def _taking(kind: str, approach: Approach, hyperparameters: Mapping[str, Value]) -> str:
    """Return one choice of a hyperparameter with which an approach takes a kind of task; empty where there is none."""
    for name, declaration in approach.hyperparameters.items():
        for value in declaration.choices or ():
            if kind in approach.task_kinds_under({**hyperparameters, name: value}):
                return f"hyperparameter {name}={value}"
    return ""


def headline_metric(asked: str, task: Task) -> Metric:
    """Return what `metric` means in an investigation: auto is F1 macro, or the task's own metric without classes."""
    usual = "f1_macro" if task.form.has_class_names else task.metric
    return named(usual if asked == "auto" else asked)


def _check_approach(approach: object) -> None:
    """Check that an approach, from an entry point or from Python, is one."""
    if isinstance(approach, type):
        raise ParameterError("approach", approach.__name__, "must be an object, not its class", "Call the class first.")
    if wrong := defect(approach):
        fix = "Wrap a function in mlflow_l3d.FunctionApproach." if callable(approach) else ""
        raise ParameterError("approach", type(approach).__name__, f"is no approach: {wrong}", fix)


def _check_task(task: object, given: Mapping[str, str]) -> None:
    if is_data(task):
        return
    if not isinstance(task, Task):
        allowed = "must be a name, a data frame or set, or what mlflow_l3d.tasks.identity.make_task returned"
        raise ParameterError("task", type(task).__name__, allowed)
    for name in _OF_FILES:
        if given.get(name, SEEDS[name].default) != SEEDS[name].default:
            raise ParameterError(name, given[name], "has no effect on a task object", "Leave it out.")


def _refuse_data(given: Mapping[str, str], approach: Approach) -> None:
    """Raise for a choice of data where the approach brings its own."""
    for name in ("task", *_OF_FILES, "num_labelled", "test_size", "test_selection"):
        usual = "auto" if name == "task" else {**SEEDS, **MAIN}[name].default
        if given.get(name, usual) != usual:
            allowed = f"has no effect: approach={approach.name} has data of its own"
            raise ParameterError(name, given[name], allowed, "Leave it out.")


def _split_once(task: Task, root_seed: int) -> str:
    split = task.split({name: configuration_seed(root_seed, name, 0) for name in TASK_FACTORS})
    sizes = f"{len(split.train)} train, {len(split.validation)} held-out, {len(split.test)} evaluated examples"
    return f"{task.name}: has no parts of its own, and is split once, as main splits it first: {sizes}"


def _split_settings(
    given: Mapping[str, str], root_seed: int, validation_fraction: float, *, predefined_split: bool
) -> SplitSettings:
    num_labelled, test_size = MAIN["num_labelled"].parse(given), MAIN["test_size"].parse(given)
    if predefined_split:
        # The whole parts need no seed, and their cells have one key whatever the root seed is.
        drawn = num_labelled is not None or test_size is not None or validation_fraction > 0
        seed = configuration_seed(root_seed, "own_split", 0) if drawn else 0
        return SplitSettings(
            num_labelled, test_size, fixed_seed=seed, source="own", validation_fraction=validation_fraction
        )
    selection = given.get("test_selection", "label_selection")
    seed = configuration_seed(root_seed, "test_selection", 0) if selection == "fixed" else 0
    return SplitSettings(num_labelled, test_size, test_selection=selection, fixed_seed=seed)


def _deterministic(value: str, device: str, approach: Approach) -> bool:
    """Return whether results must repeat; what computes on the CPU with a model of ours always does."""
    if value == "false" and device == "cpu" and approach.default_model:
        raise ParameterError("deterministic", value, f"has no effect: {approach.name} runs on the cpu", "Leave it out.")
    return value == "true"


def _device(device: str, approach: Approach, how: Execution) -> str:
    """Return the device to train on; torch is asked only where the answer depends on it."""
    if device == "cpu" or not approach.default_model:
        if device not in {"auto", "cpu"}:
            raise ParameterError("device", device, f"{approach.name} runs on the cpu only")
        return "cpu"
    if how.ask is not None and device != "auto":
        return Choice(("cpu", "cuda")).parse("device", device)
    try:
        import torch
    except ModuleNotFoundError:
        if device == "auto":
            return "cpu"
        msg = f"device={device}: needs torch. Run: pip install 'mlflow-l3d[models]'"
        raise L3DError(msg) from None

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    kind = device.partition(":")[0]
    if kind not in {"cuda", "mps"}:
        raise unknown_name("device", device, ["auto", "cpu", "cuda", "cuda:N", "mps"])
    if not (torch.cuda.is_available() if kind == "cuda" else torch.backends.mps.is_available()):
        raise ParameterError("device", device, "no such device on this machine", "Use device=cpu or device=auto.")
    return device
