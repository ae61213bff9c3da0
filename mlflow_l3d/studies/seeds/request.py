"""One random-seeds study, checked and complete: what `seeds` is asked to do (Zhou et al. 2025)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import pandas as pd

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.icl.endpoint.store import MAY_CHANGE, is_endpoint
from mlflow_l3d.cells.cell import Cell, content_key
from mlflow_l3d.cells.factors import TASK_FACTORS, configuration_seed
from mlflow_l3d.designs.layout import PAPER_SEEDS, SEED, SeedsDesign
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.known import named
from mlflow_l3d.parameters import Arguments, Parameters
from mlflow_l3d.parameters.search_document import Searches, is_search_document
from mlflow_l3d.parameters.setup import Setup, read_parameters, set_up
from mlflow_l3d.parameters.sources import parse
from mlflow_l3d.parameters.values import Whole, as_text
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.request import CellRequest, context_of
from mlflow_l3d.studies.seeds.numbers.compared import check_seeds
from mlflow_l3d.studies.seeds.parameters import REPEATS, SEEDS
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import Split
from mlflow_l3d.tasks.sources.glue import benchmark_of
from mlflow_l3d.tracking import names

MOST_SEEDS: Final = 100_000


@dataclass(frozen=True, kw_only=True)
class SeedsRequest(CellRequest):
    """One random-seeds study.

    Attributes
    ----------
    seeds
        The seeds, in their order.
    split_seeds
        Seeds of the one split, of a task without parts of its own; else none.
    """

    parameters: ClassVar[Parameters] = SEEDS
    many: ClassVar[str] = "seeds"
    same_examples = True
    seeds: tuple[int, ...]
    split_seeds: Mapping[str, int]

    @classmethod
    def read(cls, asked: Arguments, approach: Approach) -> tuple[tuple[int, ...], Arguments]:
        """Return the seeds, and the arguments with what their hyperparameters stand for."""
        hyperparameters = _hyperparameters(asked["hyperparameters"], approach, asked["model"])
        return parse_seeds(asked["seeds"]), asked.changed(hyperparameters=hyperparameters)

    @property
    def tested_factors(self) -> tuple[str, ...]:
        """What the self-test redraws: the seed."""
        return (SEED,)

    def redrawn(self, cell: Cell, factor: str, attempt: int) -> Cell:
        """Return the cell of another seed: the second, then the third; one more if there are two."""
        if factor != SEED:
            return super().redrawn(cell, factor, attempt)
        other = (*self.seeds, max(self.seeds) + 1)[1 + attempt]
        return next(replace(self, seeds=(other,)).design().cells())

    @property
    def split(self) -> Split:
        """The split, the same for every seed."""
        return self.setup.task.split(self.split_seeds)

    @property
    def title(self) -> str:
        """Name of the parent as people read it."""
        return self.setup.title(f"{len(self.seeds)} {self.many}")

    def design(self) -> SeedsDesign:
        """Return the layout of the cells."""
        return SeedsDesign(self.seeds, self.setup.all_factors, self.context_key, self.split_seeds)

    def tags(self) -> dict[str, str]:
        """Return the tags of the parent."""
        return {names.FACTOR: "seed", names.DESIGN: "seeds", **self.searched()}

    def final(self) -> dict[str, str]:
        """Return parameters that may come out otherwise than they were typed, as text."""
        listed = {"seeds": ",".join(map(str, self.seeds))} if "seeds" in self.parameters else {}
        return {**super().final(), **listed}

    def source(self, run_id: str, address: str = "") -> Source:
        """Return the origin of the result, with what an investigation could change."""
        return with_other_luck(super().source(run_id, address), self.setup.approach, governed_factors(self.setup))

    def notes(self, cells: pd.DataFrame) -> tuple[str, ...]:
        """Return what to know of the result, and whether the code gets other numbers than the seeds of the report."""
        factors = [name for name in governed_factors(self.setup) if name != SEED]
        if not factors or not self.setup.approach.brings_data:
            return super().notes(cells)
        drawn = f"Numbers for {', '.join(factors)} are drawn from the seeds"
        itself = "A factor named seed gets the seeds themselves: {seed} in a command."
        return (f"{drawn}. {itself}", *super().notes(cells))

    def content(self) -> dict[str, Any]:
        """Return what the document holds in addition to the document of every study."""
        task, split = self.setup.task, self.split
        about = {
            "kind": task.kind,
            "benchmark": benchmark_of(task.name),
            "train_examples": len(split.train),
            "validation_examples": len(split.validation),
            "evaluated_examples": len(split.scored),
            "split": {"source": task.settings.source, "seeds": dict(self.split_seeds)},
        }
        return {
            "factors": ["seed"],
            "governed_factors": list(governed_factors(self.setup)),
            "seeds": list(self.seeds),
            "task": self.of_task(about),
        }


@dataclass(frozen=True, kw_only=True)
class RepeatsRequest(SeedsRequest):
    """One study of identical requests: its seeds number them and decide nothing."""

    parameters = REPEATS
    many = "identical requests"

    @classmethod
    def read(cls, asked: Arguments, approach: Approach) -> tuple[tuple[int, ...], Arguments]:
        """Return the numbers of the requests, and the arguments that ask for each of them again, in one worker.

        With one worker `concurrency` counts all requests.
        """
        if not is_endpoint(asked["model"]):
            fix = "Others: factor=replicate."
            raise ParameterError("model", asked["model"], "must be behind an endpoint, as openai:NAME", fix)
        stored = _hyperparameters(asked["hyperparameters"], approach, asked["model"])
        fresh = f"{stored},answers=fresh" if isinstance(stored, str) else {**stored, "answers": "fresh"}
        workers = 1 if asked["workers"] == "auto" else asked["workers"]
        return tuple(range(1, asked["repeats"] + 1)), asked.changed(hyperparameters=fresh, workers=workers)

    def design(self) -> SeedsDesign:
        """Return the layout of the cells."""
        return replace(super().design(), repeated=int(self.given["root_seed"]))

    def notes(self, cells: pd.DataFrame) -> tuple[str, ...]:
        """Return what to know of the result, without the advice to send identical requests."""
        return tuple(note for note in super().notes(cells) if note != MAY_CHANGE)

    def content(self) -> dict[str, Any]:
        """Return what the document holds in addition to the document of every study."""
        return {**super().content(), "governed_factors": [], "repeats": True}


def governed_factors(setup: Setup) -> tuple[str, ...]:
    """Return the factors that a seed decides: those of the task are not among them."""
    return tuple(name for name in setup.all_factors if name not in TASK_FACTORS)


def with_other_luck(source: Source, approach: Approach, governed: Sequence[str]) -> Source:
    """Return the origin of a study with what it takes to investigate the same training: factors, hyperparameters.

    Parameters
    ----------
    source
        Of the study.
    approach
        What was trained.
    governed
        Factors that a seed decides.
    """
    typed = source.given.get("hyperparameters", SEEDS["hyperparameters"].default)
    hyperparameters = _hyperparameters(typed, approach, source.given.get("model", SEEDS["model"].default))
    own = {} if hyperparameters == "default" else {"hyperparameters": str(hyperparameters)}
    factors = (*(() if approach.brings_data else TASK_FACTORS), *governed)
    return replace(source, factors=factors, given={**source.given, **own})


def specify_seeds(
    parameters: Mapping[str, object],
    *,
    approach: Approach | None = None,
    task: Task | None = None,
    searches: Searches | None = None,
    kind: type[SeedsRequest] = SeedsRequest,
) -> SeedsRequest:
    """Check the parameters of `seeds` and load what they name.

    Parameters
    ----------
    parameters
        Any of :data:`mlflow_l3d.studies.seeds.parameters.SEEDS`; the others take their defaults.
    approach, task
        Objects in place of the names, for the Python API.
    searches
        As for :func:`mlflow_l3d.studies.investigation.request.specify`.
    kind
        Its class, which names the parameters.

    Raises
    ------
    ParameterError
        For the first parameter that is not allowed. Cheap checks come first, data and models last.
    """
    asked, approach = read_parameters(parameters, kind.parameters, approach, task, secondary_metrics=True)
    root_seed = asked["root_seed"]
    seeds, changed = kind.read(asked, approach)
    setup = set_up(
        changed,
        approach,
        task,
        root_seed=root_seed,
        searches=searches,
        predefined_split=True,
        validation_fraction=asked.get("validation_fraction", 0.0),
    )
    if kind is SeedsRequest and not governed_factors(setup):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in setup.fixed_factors.items())
        allowed = f"no source of randomness of {approach.name} has an effect: every seed would be the same ({reasons})"
        raise ParameterError("seeds", asked.texts["seeds"], allowed)
    metric = setup.metric or named(setup.task.metric)
    context = context_of(setup)
    split_seeds = {}
    drawn: dict[str, Any] = {} if kind is SeedsRequest else {"repeated": root_seed}
    if setup.task.settings.source != "own":
        split_seeds = drawn["split"] = {name: configuration_seed(root_seed, name, 0) for name in TASK_FACTORS}
    return kind(
        given={name: asked.texts[name] for name in kind.parameters},
        setup=setup,
        metric=metric,
        context_key=context,
        key=content_key({"context": context, "seeds": list(seeds), "metric": metric.name, **drawn}),
        seeds=seeds,
        split_seeds=split_seeds,
    )


def parse_seeds(asked: int | str | Sequence[int]) -> tuple[int, ...]:
    """Return the seeds that are asked for: so many of 42, 52, 62, ..., or those of a list.

    Raises
    ------
    ParameterError
        If there are fewer than two, one is not a whole number, or one is repeated.
    """
    if isinstance(asked, list | tuple):
        return check_seeds([Whole(0).number("seeds", seed) for seed in asked])
    text = as_text("seeds", asked)
    parts = text.strip().strip("[]()").split(",")
    if len(parts) == 1:
        first, second = PAPER_SEEDS[:2]
        if text.strip() == "1":
            raise ParameterError("seeds", 1, "is too few: one run shows no luck", "Name two or more, or a list: 42,52.")
        count = Whole(2, MOST_SEEDS).number("seeds", parts[0].strip())
        return tuple(first + number * (second - first) for number in range(count))
    return check_seeds([Whole(0).number("seeds", part.strip() or text) for part in parts])


def _hyperparameters(asked: str | Mapping[str, Any], approach: Approach, model: str) -> str | Mapping[str, Any]:
    """Return what `auto`, or values without a source before them, stand for.

    ``seeds_defaults(model, given)`` of the approach says what differs from its defaults in a study of
    seeds; the values that were given come after it and win.
    """
    if isinstance(asked, str):
        asked = re.sub(r"^\s*auto\s*(,|$)\s*", "", asked)
    parsed = parse(asked or "default")
    if asked and (parsed.source != "inline" or is_search_document(parsed.values)):
        return asked
    values = {**parsed.values, **parsed.overrides}
    defaults = {name: value for name, value in approach.seeds_defaults(model, values).items() if name not in values}
    if not isinstance(asked, str) or asked.startswith("{"):
        return {**defaults, **values}
    return ",".join([*(f"{name}={value}" for name, value in defaults.items()), *filter(None, [asked])]) or "default"
