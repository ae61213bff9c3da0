"""One investigation, checked and complete: what `main` is asked to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from mlflow_l3d.approaches.base import Approach, Value, identity_of
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.parameters.search_document import Searches, Subject, splits_of
from mlflow_l3d.parameters.setup import check_choice, given_texts, set_up, subject_of
from mlflow_l3d.parameters.sources import Origin
from mlflow_l3d.parameters.table import MAIN
from mlflow_l3d.parameters.values import public_name
from mlflow_l3d.plan.cells import content_key
from mlflow_l3d.plan.designs import Design, factor_members, joint_name
from mlflow_l3d.studies.investigation.run_plan import Plan, parse_plan
from mlflow_l3d.tasks.base import SPLITS_VERSION, Task


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
    origin
        Where the hyperparameters came from.
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
    origin: Origin = field(default_factory=Origin)

    def design(self) -> Design:
        """Return the layout of the cells."""
        return self.plan.build(self.factors, self.all_factors, self.context_key)

    def truncate(self, rows: int) -> Specification:
        """Return what was investigated where a stopping rule ended it after `rows` rows."""
        return replace(self, plan=self.plan.truncate(rows))

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

    @property
    def subject(self) -> Subject:
        """What is trained on what, by which a search of the same is found."""
        return subject_of(self.approach, self.model_reference, self.model_revision, self.task)

    def searched_splits(self) -> tuple[dict[str, int], ...]:
        """Return the splits that the hyperparameters were searched on, by their seeds, where cells may have them."""
        return splits_of(self.origin.searched, self.task.fingerprint, self.task.settings, self.all_factors)

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
            "hyperparameters_from": {**self.origin.document(), "searched_splits": list(self.searched_splits())},
            "notes": list(self.origin.notes),
            "design": self.plan.document(),
            "metric": self.metric,
            "missing": self.missing,
            "numerics": dict(self.numerics),
            "versions": _versions(),
            "context_key": self.context_key,
            "investigation_key": self.investigation_key,
        }


def specify(
    parameters: Mapping[str, object],
    *,
    approach: Approach | None = None,
    task: Task | None = None,
    searches: Searches | None = None,
) -> Specification:
    """Check the parameters of `main` and load what they name.

    Parameters
    ----------
    parameters
        Any of :data:`mlflow_l3d.parameters.table.MAIN`; the others take their defaults. As text, or as Python
        has them: numbers, a list of factors, a mapping of hyperparameters.
    approach, task
        Objects in place of the names, for the Python API.
    searches
        Finds the search that ``hyperparameters=latest`` or a run id means; None where no tracking server can be asked.

    Raises
    ------
    ParameterError
        For the first parameter that is not allowed. Cheap checks come first, data and models last.
    """
    given, approach = given_texts(parameters, MAIN, approach, task)
    plan = parse_plan(given, approach.factors)
    check_choice("missing", given, ["drop", "reml"])
    wanted = _wanted_factors(given["factor"], approach)
    setup = set_up(given, approach, task, root_seed=plan.root_seed, searches=searches)
    specification = Specification(
        given=given,
        factors=_effective(wanted, approach, setup.fixed_factors),
        all_factors=setup.all_factors,
        fixed_factors=setup.fixed_factors,
        task=setup.task,
        approach=approach,
        hyperparameters=setup.hyperparameters,
        model=setup.model,
        model_reference=setup.model_reference,
        model_revision=setup.model_revision,
        device=setup.device,
        plan=plan,
        metric=given["metric"],
        missing="reml" if given["missing"] == "reml" else "drop",
        executor=setup.executor,
        workers=setup.workers,
        numerics=setup.numerics,
        origin=setup.origin,
    )
    specification = _with_keys(specification)
    specification.design()  # raises where cells would repeat
    return specification


def _versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that may matter, those that are installed."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from mlflow_l3d.version import __version__

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
            "settings": specification.task.settings.identity(),
            "approach": [specification.approach.name, specification.approach.version],
            "model": specification.model_revision,
            "hyperparameters": identity_of(specification.approach, specification.hyperparameters),
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
