"""The protocol of an approach: what is trained, and which randomness factors it has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.plan.cells import Cell, Outcome
from mlflow_l3d.tasks.base import Task

Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Hyperparameter:
    """One hyperparameter: its type (that of `default`), what is allowed, and what it does.

    Attributes
    ----------
    default
        The value where the user gives none; its type is the type of the hyperparameter.
    low, high
        Inclusive bounds of a number, None where there is none.
    choices
        Allowed values of a text, empty where any is.
    log
        Whether orders of magnitude matter (a search then samples on a log scale).
    help
        One line, with the unit.
    """

    default: Value
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    log: bool = False

    def parse(self, name: str, value: object) -> Value:
        """Return `value` as this hyperparameter's type.

        Raises
        ------
        ParameterError
            If it has another type or lies outside the bounds.
        """
        kind = type(self.default)
        try:
            parsed = self._convert(kind, value)
        except (OverflowError, TypeError, ValueError):
            raise ParameterError(f"hyperparameters.{name}", value, f"must be a {kind.__name__}") from None
        if self.choices and parsed not in self.choices:
            raise unknown_name(f"hyperparameters.{name}", str(parsed), self.choices)
        if isinstance(parsed, int | float) and not isinstance(parsed, bool):
            below = self.low is not None and parsed < self.low
            above = self.high is not None and parsed > self.high
            if below or above or not math.isfinite(parsed):
                low = "-inf" if self.low is None else f"{self.low:g}"
                high = "inf" if self.high is None else f"{self.high:g}"
                raise ParameterError(f"hyperparameters.{name}", value, f"must lie in [{low}, {high}]")
        return parsed

    @staticmethod
    def _convert(kind: type, value: object) -> Value:
        if kind is bool:
            text = str(value).lower()
            if text not in {"true", "false"}:
                raise ValueError
            return text == "true"
        if kind is int:
            number = float(str(value))
            if isinstance(value, bool) or number != int(number):
                raise ValueError
            return int(number)
        if kind is float:
            if isinstance(value, bool):
                raise ValueError
            return float(str(value))
        return str(value)


class Session(Protocol):
    """A warm worker: the model is loaded, any number of cells can follow.

    Contract: a cell gives the same predictions in any session, alone or among others, in any order. Nothing is drawn
    from a global generator except through :mod:`mlflow_l3d.approaches.global_seeds`. A cell that raises ends with an
    Outcome whose `error` says why (the platform's executors catch what escapes, and then run the cells of the call that
    have no outcome once more, in smaller calls). A session is used by one thread of one process and is never pickled.

    A session may have the attribute ``cells_at_once``, a positive number that is fixed once it is prepared: how many
    cells it would like in one call, because it trains them side by side. Executors hand over up to that many, fewer
    near the end so that all workers have work; without the attribute each call has one cell. Scores and metrics may
    then differ with the other cells of the call, within a tolerance that the approach states; predictions may not.
    Each outcome should carry its cell's share of the time as ``duration_seconds``; where it has none, the time until
    then is divided by the cells of the call.

    A session that trains in epochs may have the attribute ``watch``, None until someone sets it. It then calls
    ``watch(cell.key, epoch, scores)`` after every epoch of a cell, the first being 0, with scores on the validation
    part such as ``{"validation_f1_macro": 0.7}``; see :mod:`mlflow_l3d.approaches.watching`. Where the answer is True
    it ends the training of that cell with what it has, as early stopping would, and the outcome is a whole one. To be
    watched and never told to end changes no prediction.
    """

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Train and evaluate the cells; yield an outcome for each, in any order, as soon as it is known."""
        ...

    def close(self) -> None:
        """Release memory and files; called once, also after an error."""
        ...


@runtime_checkable
class Approach(Protocol):
    """Something that is trained or prompted and then predicts classes: entry-point group ``mlflow_l3d.approaches``.

    The entry point names a class (or any callable without arguments) that returns the approach; building it must be
    cheap: torch and transformers are imported in `prepare` and `model_revision` at the earliest.

    Attributes
    ----------
    name
        Name of the entry point.
    version
        Changed whenever the same cell would give other predictions; part of the cell's key.
    factors
        Every randomness factor of the approach, those of the task included.
    hyperparameters
        Name -> declaration.
    metrics
        Metrics of its own that may be investigated, beside those that every approach with predictions has.
    default_model, default_task
        What is used where the user names none; the empty text where the approach has no model.

    Notes
    -----
    An approach may also have ``complete(hyperparameters) -> hyperparameters``, called once they are resolved, where a
    default depends on another hyperparameter. And ``dependencies(hyperparameters, model) -> Mapping[str, str]``, which
    joins the numerics: what decides the numbers under these hyperparameters only, such as the version of a library.
    And ``search_space(hyperparameters) -> Mapping[str, Searched]`` (:mod:`mlflow_l3d.approaches.searching`): what a
    search of hyperparameters tries under these complete ones; every default lies within it. What it does not name stays
    as it is, and it should change no factor's being active. Without it everything is searched that is declared with
    both bounds, or with two or more choices.
    And ``task_kinds``, a tuple of kinds of tasks that it takes (:data:`mlflow_l3d.tasks.base.KINDS`); without it only
    classification. And ``task_kinds_under(hyperparameters)``, where these complete hyperparameters allow fewer.
    And ``identity(hyperparameters) -> Mapping[str, Value]``: what of complete hyperparameters belongs into a cell's
    key; hyperparameters that were added later are left out at their defaults, so that older cells are still found.
    And ``published(task, given) -> Mapping | None``: the values that the authors of a paper published for a task of
    that name, under the values that the user gives beside them; None where there are none.
    And, for studies of seeds, ``published_seeds(model, task) -> Mapping | None``, the same for a model and a task, and
    ``seeds_defaults(model, given) -> Mapping``: what differs from the defaults there, given what the user sets.
    """

    name: str
    version: str
    factors: tuple[str, ...]
    hyperparameters: Mapping[str, Hyperparameter]
    metrics: tuple[str, ...]
    default_model: str
    default_task: str

    def inactive_factors(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:
        """Return the factors that have no effect under these hyperparameters, each with the reason and the fix."""
        ...

    def model_revision(self, model: str) -> str:
        """Return what identifies the weights behind a model reference: a commit, or a hash of the files.

        Raises
        ------
        ParameterError
            If the reference leads to no model.
        """
        ...

    def numerics(self, device: str) -> Mapping[str, str]:
        """Return what decides the numbers beside the content: device class, dtype, versions of libraries."""
        ...

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> Session:
        """Load the model and whatever all cells share.

        Parameters
        ----------
        task
            The data, with its split settings.
        hyperparameters
            Complete and checked.
        model
            A model reference that :meth:`model_revision` accepted.
        device
            ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
        cache
            Folder for what is worth keeping between runs; shared by several processes at once.
        """
        ...


def identity_of(approach: Approach, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
    """Return what of complete hyperparameters belongs into a cell's key: all, or what the approach's own hook says."""
    own: Any = approach
    return dict(own.identity(hyperparameters) if hasattr(approach, "identity") else hyperparameters)


def resolve_hyperparameters(approach: Approach, given: Mapping[str, Any]) -> dict[str, Value]:
    """Return every hyperparameter of `approach`, those in `given` checked and the others at their defaults.

    Raises
    ------
    ParameterError
        If a name is unknown (with a did-you-mean) or a value is not allowed.
    """
    for name in given:
        if name not in approach.hyperparameters:
            raise unknown_name("hyperparameters", name, approach.hyperparameters, f"a name of {approach.name}:")
    return {
        name: declaration.parse(name, given[name]) if name in given else declaration.default
        for name, declaration in approach.hyperparameters.items()
    }
