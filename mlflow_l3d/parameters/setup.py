"""What is trained, on what and where: what an investigation and a search have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

from mlflow_l3d import registry
from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.cured import Cured
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.cells.factors import TASK_FACTORS, configuration_seed
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import named, registered, split_direction
from mlflow_l3d.parameters import Arguments, Parameters, checks, read_arguments
from mlflow_l3d.parameters.cures import cured, text_of
from mlflow_l3d.parameters.search_document import Origin, Searches, Subject
from mlflow_l3d.parameters.shared import OWN_PARAMETERS
from mlflow_l3d.parameters.sources import choose
from mlflow_l3d.parameters.values import Choice
from mlflow_l3d.paths import cache_folder, public_name
from mlflow_l3d.privacy import public_value
from mlflow_l3d.tasks.base import NoParts, Task
from mlflow_l3d.tasks.kinds import Reading
from mlflow_l3d.tasks.resolve import ReadTask, bind_task, load_task
from mlflow_l3d.tasks.settings import SplitSettings


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
        What decides the numbers in addition to the content.
    fixed_factors
        Factors of the approach without an effect under these choices, each with the reason.
    how, deterministic
        How cells are run, and whether the same way each time.
    metric, store_scores
        The metric that is asked for, None for the usual one; whether class scores are stored with predictions.
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
    how: checks.Execution
    deterministic: bool = True
    metric: Metric | None = None
    store_scores: bool = True

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

    @property
    def similar(self) -> dict[str, str]:
        """The parameters that cells of about the same cost share: a hyperparameter such as `trainable`, too."""
        label = self.approach.label(self.hyperparameters)
        variant = {name: label for name, value in self.hyperparameters.items() if value == label}
        return {"task": self.task.name, "approach": self.approach.name, "model": self.model or "none", **variant}

    def title(self, first: str) -> str:
        """Return the name of a run: what is looked at, on which task, with which approach, options and other model."""
        other = self.model if self.model != public_name(self.approach.default_model) else ""
        label, options = self.approach.label(self.hyperparameters), self.approach.options
        parts = (first, self.task.name, label, options, other.rpartition("/")[2])
        return " · ".join(filter(None, dict.fromkeys(parts)))

    @property
    def all_factors(self) -> tuple[str, ...]:
        """Factors that have an effect."""
        return tuple(name for name in self.approach.factors if name not in self.fixed_factors)

    @property
    def subject(self) -> Subject:
        """What a search must have been of to be of use here."""
        return Subject.of(self.approach, self.model_reference, self.model_revision, self.task)


def read_parameters(
    parameters: Mapping[str, object],
    known: Parameters,
    approach: Approach | None,
    task: Task | None,
    *,
    secondary_metrics: bool = False,
) -> tuple[Arguments, Approach]:
    """Return the arguments and the approach; the metric may be a secondary one if `secondary_metrics`.

    Raises
    ------
    ParameterError
        If a parameter is unknown or has a value that is not allowed, or the approach or the task is none.
    """
    objects = () if approach is None else ("approach",)  # an object has a name that no entry point needs to have
    scorer = parameters.get("metric")
    if isinstance(scorer, Metric):
        if registered().get(scorer.name) != scorer:
            fix = "Give its function, or declare it as an entry point of the group mlflow_l3d.metrics."
            raise ParameterError("metric", scorer.name, "is an object that no entry point names", fix)
        parameters = {**parameters, "metric": scorer.name}
    asked = read_arguments(parameters, known, objects)
    if approach is None:
        made = registry.load("approach", name := asked["approach"])
        try:
            approach = made(**{each: asked.texts[each] for each in getattr(made, "parameters", ())})
        except TypeError as error:  # a class that lacks a method of the contract cannot be called
            raise L3DError(f"approach={name}: its entry point cannot be called ({error}).") from error
    checks.check_approach(approach)
    if isinstance(approach, Cured) and asked.get("cure") == "none":  # recorded like the parameter, for commands
        asked, approach = asked.changed(cure=text_of(approach.remedy)), approach.approach
    changed = {"approach": approach.name}
    if callable(scorer):
        if not isinstance(approach, FunctionApproach):
            why = f"is a function, which scores functions, and {approach.name} is none"
            raise ParameterError("metric", getattr(scorer, "__name__", "function"), why, "Use the name of a metric.")
        approach = approach.scored_by(scorer)
        changed["metric"] = approach.metrics[-1]
    elif asked["metric"] == "auto" and approach.brings_data and approach.metrics:
        changed["metric"] = approach.metrics[0]
    for name, declaration in OWN_PARAMETERS.items():
        if asked.get(name, declaration.default) != declaration.default and name not in approach.parameters:
            raise ParameterError(name, asked.texts[name], "has no effect", f"Use approach={declaration.approach}.")
    if asked.get("cure", "none") != "none":
        approach = cured(approach, asked["cure"])
        changed["cure"] = text_of(approach.remedy)
    if task is not None:
        checks.check_task(task, asked)
        changed["task"] = task.name if isinstance(task, Task) else type(task).__name__
    asked = asked.changed(**changed)
    allowed = [one.name for one in registered().values() if not one.opt_in and (secondary_metrics or not one.secondary)]
    auto = ["auto"] if known["metric"].default == "auto" else []
    if split_direction(asked["metric"])[0] not in approach.metrics:
        Choice((*auto, *allowed, *approach.metrics)).read("metric", asked["metric"])
    return asked, approach


def set_up(
    asked: Arguments,
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
    asked, approach
        From :func:`read_parameters`.
    task
        An object in place of the name.
    root_seed
        Of the fixed test set, the reference set, and the examples drawn once from a task's own parts.
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
    how = checks.execution(asked)
    if approach.brings_data:
        checks.check_no_data(asked, approach)
    settings = _settings_of(asked, root_seed, validation_fraction, predefined_split=predefined_split)
    if asked["device"] != "auto":
        checks.device_of(asked["device"], approach, how)
    model = approach.default_model if asked["model"] == "auto" else asked["model"]

    @cache
    def loaded() -> tuple[str, Task]:
        """Load what takes long: only some sources of hyperparameters need it, and mistakes in others come first."""
        revision = approach.model_revision(model) if approach.brings_data else ""
        try:
            bound = bind(settings)
        except NoParts as error:
            if validation_fraction:
                allowed = f"is a share of a train part, and {error.name}={error.value} has no parts of its own"
                fix = "Leave it out: a fifth of the labelled examples is held out as it is."
                raise ParameterError("validation_fraction", validation_fraction, allowed, fix) from None
            once = bind(_settings_of(asked, root_seed, 0.0, predefined_split=False))
            bound = replace(once, notes=(_split_once(once, root_seed), *once.notes))
        return revision or approach.model_revision(model), bound

    def bind(settings: SplitSettings) -> Task:
        if approach.brings_data:
            return approach.own_task(hyperparameters, cache_folder())
        if isinstance(task, Task):
            return bind_task(task, settings)
        name = approach.default_task if asked["task"] == "auto" else asked["task"]
        reading = Reading(**checks.columns_of(asked), numbered_choices=predefined_split)
        return load_task(name, reading, settings=settings, read=read, data=task)

    published = partial(approach.published, model=model)
    hyperparameters, origin = choose(
        asked["hyperparameters"],
        approach,
        lambda: Subject.of(approach, model, *loaded()),
        searches,
        published=partial(approach.published_seeds, model) if predefined_split else published,
    )
    model_revision, bound = loaded()
    # To choose one imports torch, and mistakes in data come first.
    device = checks.device_of(asked["device"], approach, how)
    asks = [name for name in how.gpu_options if name in how.options]
    if asks and approach.default_model and not device.startswith("cuda"):  # what others run may use a GPU
        allowed = f"asks for GPUs, and device={device} uses none"
        raise ParameterError(f"executor_options.{asks[0]}", how.options[asks[0]], allowed, "Use device=cuda.")
    if not asked["deterministic"] and device == "cpu" and approach.default_model:
        allowed = f"has no effect: {approach.name} runs on the cpu"
        raise ParameterError("deterministic", "false", allowed, "Leave it out.")
    if how.ask is not None and device.startswith("cuda"):
        numerics: Mapping[str, str] = how.ask(approach.numerics, "cuda:0", options=how.options)
    else:
        numerics = approach.numerics(device)
    numerics = {name: on for name, on in {**numerics, **approach.dependencies(hyperparameters, model)}.items() if on}
    if not asked["deterministic"]:
        numerics["deterministic"] = "false"  # of cells that need not repeat; others lack it
    of_task = approach.metrics if approach.brings_data and asked["metric"] == "auto" else ()
    metric_name = next(iter(of_task), asked["metric"])
    metric = None if metric_name == "auto" else named(metric_name)
    checks.check_kind(bound, approach, hyperparameters, metric)
    return Setup(
        approach=approach,
        task=bound,
        hyperparameters=hyperparameters,
        origin=origin,
        model_reference=model,
        model_revision=model_revision,
        device=device,
        numerics=numerics,
        fixed_factors=approach.fixed_factors(bound, hyperparameters),
        how=how,
        deterministic=asked["deterministic"],
        metric=metric,
        store_scores=asked.get("store_scores", True),
    )


def headline_metric(setup: Setup) -> Metric:
    """Return the metric of an investigation: as asked for; F1 macro; or the task's own, if it has no classes."""
    task = setup.task
    return setup.metric or named("f1_macro" if task.form.has_class_names else task.metric)


def _split_once(task: Task, root_seed: int) -> str:
    split = task.split({name: configuration_seed(root_seed, name, 0) for name in TASK_FACTORS})
    parts = f"{len(split.train)} to train on, {len(split.validation)} held out"
    sizes = f"{len(split.train) + len(split.validation)} labelled ({parts}) and {len(split.scored)} evaluated examples"
    return f"{task.name}: has no train and test parts, so all runs share one split, which root_seed draws: {sizes}"


def _settings_of(asked: Arguments, root_seed: int, held_out: float, *, predefined_split: bool) -> SplitSettings:
    num_labelled, test_size = (None if (n := asked[name]) == "auto" else n for name in ("num_labelled", "test_size"))
    reference = asked.get("reference_size", 0)
    sized = partial(SplitSettings, num_labelled, test_size, reference_size=reference)
    if predefined_split:
        # The whole parts need no seed, and their cells have one key whatever the root seed is.
        drawn = num_labelled is not None or test_size is not None or held_out > 0 or reference > 0
        seed = configuration_seed(root_seed, "own_split", 0) if drawn else 0
        return sized(fixed_seed=seed, source="own", validation_fraction=held_out)
    selection = asked.get("test_selection", "label_selection")
    seed = configuration_seed(root_seed, "test_selection", 0) if selection == "fixed" or reference else 0
    return sized(test_selection=selection, fixed_seed=seed)
