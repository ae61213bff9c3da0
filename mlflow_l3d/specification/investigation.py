"""One investigation, checked and complete: what `main` is asked to do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from mlflow_l3d import registry
from mlflow_l3d.approaches.base import Approach, Value, resolve_hyperparameters
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.plan.cells import content_key
from mlflow_l3d.plan.designs import Design, factor_members, joint_name
from mlflow_l3d.plan.factors import configuration_seed
from mlflow_l3d.specification.layout import Plan, parse_plan
from mlflow_l3d.specification.parameters import MAIN
from mlflow_l3d.specification.values import as_text, number_or_auto, parse_hyperparameters, public_name
from mlflow_l3d.tasks.base import SPLITS_VERSION, SplitSettings, Task

METRICS = ("f1_macro", "accuracy", "matthews_corrcoef")
"""Metrics that every approach with predictions has."""


@dataclass(frozen=True)
class Specification:
    """One investigation.

    Attributes
    ----------
    given
        Every parameter as it was typed, defaults included; what `mlflow run` logs.
    factors
        Investigated factors; joint ones are joined with ``+``.
    all_factors
        Factors of the approach that have an effect, investigated or mitigated.
    fixed_factors
        Factors of the approach without an effect under these choices, each with the reason.
    task, approach, hyperparameters, device
        What is trained, on what.
    model, model_reference, model_revision
        The model as people see it, as it was typed (it may be a private path and is not logged), and what identifies
        its weights.
    plan
        Design, numbers of runs, mitigation strategies and stopping rule.
    metric
        The metric whose spread is investigated.
    missing
        What to do with rows that lack cells: ``drop`` or ``reml``.
    context_key
        Hash of everything that the cells share: equal keys and equal seeds mean equal results.
    investigation_key
        Hash that says whether two parents are the same investigation, so that one can continue the other.
    """

    given: Mapping[str, str]
    factors: tuple[str, ...]
    all_factors: tuple[str, ...]
    fixed_factors: Mapping[str, str]
    task: Task
    approach: Approach
    hyperparameters: Mapping[str, Value]
    model: str
    model_reference: str
    model_revision: str
    device: str
    plan: Plan
    metric: str
    missing: Literal["drop", "reml"]
    executor: str
    workers: int | None
    numerics: Mapping[str, str]
    context_key: str = ""
    investigation_key: str = ""

    def design(self) -> Design:
        """Return the layout of the cells."""
        return self.plan.build(self.factors, self.all_factors, self.context_key)

    def cut(self, rows: int) -> Specification:
        """Return what was investigated where a stopping rule ended it after `rows` rows."""
        return replace(self, plan=self.plan.cut(rows))

    @property
    def investigation_runs(self) -> int:
        """N."""
        return self.plan.investigation_runs

    @property
    def mitigation_runs(self) -> int:
        """M."""
        return self.plan.mitigation_runs

    @property
    def golden_runs(self) -> int:
        """L."""
        return self.plan.golden_runs

    @property
    def root_seed(self) -> int:
        """Where every seed comes from."""
        return self.plan.root_seed

    @property
    def half_width(self) -> float:
        """Wanted half-width of the interval of the corrected score."""
        return self.plan.half_width

    @property
    def mitigated_factors(self) -> tuple[str, ...]:
        """Factors with an effect that no investigated factor is, or joins."""
        investigated = {member for name in self.factors for member in factor_members(name, self.all_factors)}
        return tuple(name for name in self.all_factors if name not in investigated)

    def resolved(self) -> dict[str, str]:
        """Return the parameters whose final value is not what was typed, as text.

        Where a stopping rule may end it, the numbers of rows and golden runs are final only then.
        """
        final = {
            "factor": ",".join(self.factors),
            "task": self.task.name,
            "model": self.model,
            **(self.resolved_runs() if self.plan.stop == "none" else {}),
            "device": self.device,
            "hyperparameters": json.dumps(dict(self.hyperparameters), sort_keys=True),
        }
        return {name: value for name, value in final.items() if value and value != self.given[name]}

    def resolved_runs(self) -> dict[str, str]:
        """Return the numbers of rows and golden runs as text."""
        golden = "" if self.plan.golden_pooled else str(self.golden_runs)
        runs = {"mitigation_runs": str(self.mitigation_runs), "golden_runs": golden}
        return {name: value for name, value in runs.items() if value and value != self.given[name]}

    def document(self) -> dict[str, Any]:
        """Return everything needed to repeat the investigation, as JSON types; free of private paths."""
        settings = self.task.settings
        return {
            "schema": 1,
            "parameters": {name: public_name(value) for name, value in self.given.items()},
            "factors": list(self.factors),
            "mitigated_factors": list(self.mitigated_factors),
            "fixed_factors": dict(self.fixed_factors),
            "task": {
                "name": self.task.name,
                "examples": len(self.task),
                "classes": list(self.task.class_names),
                "fingerprint": self.task.fingerprint,
                "num_labelled": settings.num_labelled,
                "test_size": settings.test_size,
                "test_selection": settings.test_selection,
                "notes": list(self.task.notes),
            },
            "approach": {"name": self.approach.name, "version": self.approach.version},
            "model": {"name": self.model, "revision": self.model_revision},
            "hyperparameters": dict(self.hyperparameters),
            "design": self.plan.document(),
            "metric": self.metric,
            "missing": self.missing,
            "numerics": dict(self.numerics),
            "versions": _versions(),
            "context_key": self.context_key,
            "investigation_key": self.investigation_key,
        }


def specify(
    parameters: Mapping[str, object], *, approach: Approach | None = None, task: Task | None = None
) -> Specification:
    """Check the parameters of `main` and load what they name.

    Parameters
    ----------
    parameters
        Any of :data:`mlflow_l3d.specification.parameters.MAIN`; the others take their defaults. As text, or as Python
        has them: numbers, a list of factors, a mapping of hyperparameters.
    approach, task
        Objects in place of the names, for the Python API.

    Raises
    ------
    ParameterError
        For the first parameter that is not allowed. Cheap checks come first, data and models last.
    """
    for name in parameters:
        if name not in MAIN:
            raise unknown_name("parameter", name, MAIN)
    given = {name: as_text(name, parameters.get(name, parameter.default)) for name, parameter in MAIN.items()}
    if approach is None:
        _check_choice("approach", given, registry.names("approach"))
        approach = registry.load("approach", given["approach"])()
    _check_approach(approach)
    given["approach"] = approach.name
    if task is not None:
        _check_task(task, given)
        given["task"] = task.name
    plan = parse_plan(given, approach.factors)
    _check_choice("missing", given, ["drop", "reml"])
    _check_choice("executor", given, registry.names("executor"))
    _check_choice("test_selection", given, ["label_selection", "fixed"])
    _check_choice("metric", given, [*METRICS, *approach.metrics])
    wanted = _wanted_factors(given["factor"], approach)
    workers = number_or_auto("workers", given["workers"], 1)
    if given["executor"] == "inline" and workers not in {None, 1}:
        raise ParameterError("workers", workers, "executor=inline has one", "Use executor=processes.")
    settings = SplitSettings(
        num_labelled=number_or_auto("num_labelled", given["num_labelled"], 2),
        test_size=number_or_auto("test_size", given["test_size"], 2),
        test_selection=given["test_selection"],
        fixed_seed=configuration_seed(plan.root_seed, "test_selection", 0) if given["test_selection"] == "fixed" else 0,
    )
    hyperparameters = resolve_hyperparameters(approach, parse_hyperparameters(given["hyperparameters"]))
    if hasattr(approach, "complete"):
        hyperparameters = approach.complete(hyperparameters)
    device = _device(given["device"], approach)
    model = approach.default_model if given["model"] == "auto" else given["model"]
    dependencies = approach.dependencies(hyperparameters, model) if hasattr(approach, "dependencies") else {}
    model_revision = approach.model_revision(model)
    task = _load_task(given, approach, settings) if task is None else _bind_task(task, settings)
    fixed_factors = _factors_without_effect(approach, hyperparameters, task)
    specification = Specification(
        given=given,
        factors=_effective(wanted, approach, fixed_factors),
        all_factors=tuple(name for name in approach.factors if name not in fixed_factors),
        fixed_factors=fixed_factors,
        task=task,
        approach=approach,
        hyperparameters=hyperparameters,
        model=public_name(model),
        model_reference=model,
        model_revision=model_revision,
        device=device,
        plan=plan,
        metric=given["metric"],
        missing="reml" if given["missing"] == "reml" else "drop",
        executor=given["executor"],
        workers=workers,
        numerics={**approach.numerics(device), **dependencies},
    )
    specification = _with_keys(specification)
    specification.design()  # raises where cells would repeat
    return specification


def _versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that may matter, those that are installed."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from mlflow_l3d import __version__

    found = {"python": platform.python_version(), "mlflow-l3d": __version__}
    for name in ("mlflow", "numpy", "pandas", "pyarrow", "torch", "transformers", "tokenizers", "datasets"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _with_keys(specification: Specification) -> Specification:
    context = content_key(
        {
            "task": specification.task.fingerprint,
            "splits": [SPLITS_VERSION, ".".join(np.__version__.split(".")[:2])],
            "settings": asdict(specification.task.settings),
            "approach": [specification.approach.name, specification.approach.version],
            "model": specification.model_revision,
            "hyperparameters": dict(specification.hyperparameters),
            "numerics": dict(specification.numerics),
        }
    )
    layout = {
        "context": context,
        "factors": list(specification.factors),
        "all_factors": list(specification.all_factors),
        "metric": specification.metric,
        **specification.plan.identity(),
    }
    return replace(specification, context_key=context, investigation_key=content_key(layout))


def _check_choice(name: str, given: Mapping[str, str], known: Sequence[str]) -> None:
    if given[name] not in known:
        raise unknown_name(name, given[name], known)


def _check_approach(approach: object) -> None:
    """Check that an approach, from an entry point or from Python, is one."""
    if isinstance(approach, type):
        raise ParameterError("approach", approach.__name__, "must be an object, not its class", "Call the class first.")
    if isinstance(approach, Approach):
        return
    wanted = [*Approach.__annotations__, *(name for name in vars(Approach) if not name.startswith("_"))]
    missing = ", ".join(name for name in wanted if not hasattr(approach, name))
    fix = "Wrap a function in mlflow_l3d.approaches.callable.Callable." if callable(approach) else ""
    raise ParameterError("approach", type(approach).__name__, f"is no approach: it lacks {missing}", fix)


def _check_task(task: object, given: Mapping[str, str]) -> None:
    if not isinstance(task, Task):
        allowed = "must be a name, or an object that mlflow_l3d.tasks.identity.make_task returned"
        raise ParameterError("task", type(task).__name__, allowed)
    for name in ("text_column", "label_column"):
        if given[name] != MAIN[name].default:
            raise ParameterError(name, given[name], "has no effect on a task object", "Leave it out.")


def _wanted_factors(text: str, approach: Approach) -> tuple[str, ...]:
    """Return the factors that `text` names, checked against those of the approach; all of them for `all`."""
    if text.strip() == "all":
        return ("all",)
    parts = [part.strip() for part in text.split(",")]
    if "all" in parts:
        raise ParameterError("factor", text, "must be `all`, or names without it")
    names = []
    for part in parts:
        members = (part,) if part in approach.factors else tuple(name.strip() for name in part.split("+"))
        for name in members:
            if name not in approach.factors:
                raise unknown_name("factor", name, [*approach.factors, "all"], f"a factor of {approach.name}:")
        names.append(part if len(members) == 1 else joint_name(members, approach.factors))
    if len(set(names)) < len(names):
        raise ParameterError("factor", text, "must name each factor once")
    return tuple(names)


def _effective(wanted: tuple[str, ...], approach: Approach, fixed_factors: Mapping[str, str]) -> tuple[str, ...]:
    """Return the factors to investigate; each must have an effect, and another one that is mitigated meanwhile."""
    active = tuple(name for name in approach.factors if name not in fixed_factors)
    for name in () if wanted == ("all",) else wanted:
        for member in factor_members(name, approach.factors):
            if member in fixed_factors:
                raise ParameterError("factor", member, f"has no effect here: {fixed_factors[member]}")
    if len(active) < 2:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in fixed_factors.items())
        which = f"only {active[0]} has" if active else "none has"
        allowed = f"needs two factors with an effect, one to investigate and one to mitigate, and {which}"
        raise ParameterError("factor", ",".join(wanted), f"{allowed} ({reasons})" if reasons else allowed)
    for name in () if wanted == ("all",) else wanted:
        if set(factor_members(name, active)) == set(active):
            raise ParameterError("factor", name, "joins every factor that has an effect: none is left to mitigate")
    return active if wanted == ("all",) else wanted


def _factors_without_effect(approach: Approach, hyperparameters: Mapping[str, Value], task: Task) -> dict[str, str]:
    from mlflow_l3d.tasks.resolve import inactive_factors

    of_task = {name: reason for name, reason in inactive_factors(task).items() if name in approach.factors}
    return {**of_task, **approach.inactive_factors(hyperparameters)}


def _load_task(given: Mapping[str, str], approach: Approach, settings: SplitSettings) -> Task:
    from mlflow_l3d.tasks.resolve import load_task

    name = approach.default_task if given["task"] == "auto" else given["task"]
    return load_task(name, text_column=given["text_column"], label_column=given["label_column"], settings=settings)


def _bind_task(task: Task, settings: SplitSettings) -> Task:
    from mlflow_l3d.tasks.resolve import bind_task

    return bind_task(task, settings)


def _device(device: str, approach: Approach) -> str:
    """Return the device to train on; torch is asked only where the answer depends on it."""
    if device == "cpu" or not approach.default_model:
        if device not in {"auto", "cpu"}:
            raise ParameterError("device", device, f"{approach.name} runs on the cpu only")
        return "cpu"
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
