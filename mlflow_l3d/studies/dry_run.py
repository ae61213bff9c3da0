"""What a study would train, counted before anything starts, and its budget: the most that is computed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final, TypeVar

import numpy as np
import pandas as pd

from mlflow_l3d.approaches.icl.endpoint.store import price_per_request, requests_per_example
from mlflow_l3d.approaches.icl.recipe import Recipe
from mlflow_l3d.cells.factors import TASK_FACTORS, configuration_seed
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.setup import Setup
from mlflow_l3d.report.numbers import counted, rough_duration
from mlflow_l3d.report.table import Table, document
from mlflow_l3d.studies.base import expected_workers
from mlflow_l3d.studies.request import CellRequest
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.children import finished_cells
from mlflow_l3d.tracking.connection import Client, Run
from mlflow_l3d.tracking.earlier import similar_cells
from mlflow_l3d.tracking.opening import spooled_cells

P = TypeVar("P", bound=OnOneScreen)
SENT: Final = "Only a few requests of one token were sent now, to learn which model answers and how."


@dataclass(frozen=True, repr=False)
class StudyPlan(OnOneScreen):
    """What a study would train; nothing was started.

    Attributes
    ----------
    title
        Of the study.
    parts
        One row per part of it: what tells it from the others, ``cells`` (seeds, trials), ``done``, ``to_compute``
        (cells that an earlier part has, too, are counted there) and ``hours``, nan if no earlier run shows how long a
        cell takes.
    workers
        Cells that run side by side.
    notes
        What was decided before, and what is doubtful.
    unit
        What is counted.
    requests
        What would be sent to endpoints; empty if models are here.
    """

    title: str
    parts: pd.DataFrame
    workers: int
    notes: tuple[str, ...] = ()
    unit: str = "run"
    requests: str = ""

    def to_frame(self) -> pd.DataFrame:
        """Return :attr:`parts`."""
        return self.parts

    @property
    def shared(self) -> pd.Series[int]:
        """How many cells of each part are to be computed at another place: of an earlier part, or of the same."""
        return self.parts["cells"] - self.parts["done"] - self.parts["to_compute"]

    @property
    def hours(self) -> float:
        """Hours of all cells that are not done; nan if the cost of one of them is unknown."""
        return float(self.parts["hours"].sum(skipna=False))

    def line(self) -> str:
        """Return what there is to do, in one line."""
        cells, done, left = (int(self.parts[name].sum()) for name in ("cells", "done", "to_compute"))
        time = "the time is not known before one of this task, approach and model has ended. "
        time += "Start the study: after the first ones the same dry run shows it"
        if math.isfinite(self.hours):
            time = f"about {rough_duration(self.hours)} with {counted(self.workers, 'worker')}"
        shared = f", {shared:,} shared with these" if (shared := int(self.shared.sum())) else ""
        return f"{counted(cells, self.unit)}, {done:,} done, {left:,} to compute{shared}: {time}"

    def summary(self) -> str:
        """Return the text that the command line prints."""
        texts = {name: [*map(_text, self.parts[name])] for name in self.parts.columns.drop("hours")}
        if self.shared.any():
            texts["shared"] = [*map(str, self.shared)]
        texts["time"] = [*map(rough_duration, self.parts["hours"])]
        heads = (f"{self.unit}s" if name == "cells" else name for name in texts)
        table = Table(tuple(heads), tuple(zip(*texts.values(), strict=True)))
        lines = [f"{self.line()}.", "Nothing was trained."]
        if self.requests:
            lines = [f"{self.requests}.", lines[0], SENT]
        return document(f"dry run: {self.title}", lines, [table, *self.notes])


def _text(value: object) -> str:
    return str(value) if not isinstance(value, float) else "" if math.isnan(value) else f"{value:.12g}"


def plan_cells(client: Client, title: str, requests: Mapping[str, CellRequest]) -> StudyPlan:
    """Count the cells of a study that has one part or several.

    Parameters
    ----------
    client
        The tracking server, which has the cells that are done.
    title
        Of the study.
    requests
        Name of each part -> its request.
    """
    finished_of = cache(partial(finished_cells, client))
    finished = [finished_of(request.context_key) for request in requests.values()]
    seconds = seconds_per_run(client, [each.setup for each in requests.values()], [each.values() for each in finished])
    seen: set[str] = set()
    rows = []
    for (part, request), found, each in zip(requests.items(), finished, seconds, strict=True):
        keys = [cell.key for cell in request.design().cells()]
        done = {*found, *spooled_cells(client, request.key)}.intersection(keys)
        new = set(keys) - done - seen
        seen |= new
        rows.append((part, len(keys), sum(key in done for key in keys), len(new), each))
    setup = next(iter(requests.values())).setup
    notes = dict.fromkeys(note for request in requests.values() for note in request.remarks)
    texts = (requests_text(request.setup, row[3]) for request, row in zip(requests.values(), rows, strict=True))
    asked = "; ".join(filter(None, texts))
    return replace(study_plan(title, rows, expected_workers(setup), tuple(notes)), requests=asked)


def requests_text(setup: Setup, cells: int) -> str:
    """Return how many requests so many cells send to an endpoint, and their price; empty if the model is here."""
    classes = setup.approach.classes(setup.task, setup.hyperparameters)
    each = requests_per_example(setup.numerics, classes)
    if not each:
        return ""
    texts = len(setup.task.split({name: configuration_seed(0, name, 0) for name in TASK_FACTORS}).test)
    recipe = Recipe.of(setup.hyperparameters)
    price = cells * each * texts * price_per_request(recipe, setup.task, setup.numerics, classes)
    judges = " and those to judges" if recipe.judges else ""
    size = f"{counted(cells, 'run')} x {texts:,} texts{f' x {each} classes' if each > 1 else ''}"
    about = f", about {price:.2g} by the given prices" if price > 0 else ""
    return f"{cells * each * texts:,} requests to {setup.model} ({size}){judges}{about}"


def study_plan(
    title: str, rows: Sequence[tuple[str, int, int, int, float]], workers: int, notes: tuple[str, ...] = ()
) -> StudyPlan:
    """Return the plan of parts: name, cells, cells that are done, cells to compute, and seconds of one."""
    frame = pd.DataFrame(rows, columns=["part", "cells", "done", "to_compute", "hours"])
    frame["hours"] = (frame["hours"] * frame["to_compute"] / 3600 / workers).where(frame["to_compute"] > 0, 0.0)
    return StudyPlan(title, frame, workers, notes)


def seconds_per_run(client: Client, setups: Sequence[Setup], finished: Sequence[Iterable[Run]]) -> list[float]:
    """Return for each setup how long earlier runs took: its own, else those of its task, approach and model."""
    similar = cache(lambda *same: mean_seconds(similar_cells(client, dict(same))))
    means = ((mean_seconds(runs), setup) for runs, setup in zip(finished, setups, strict=True))
    return [similar(*setup.similar.items()) if math.isnan(mean) else mean for mean, setup in means]


def mean_seconds(runs: Iterable[Run]) -> float:
    """Return the mean wall clock of some runs; nan if there are none."""
    values = [run.data.metrics["duration_seconds"] for run in runs if "duration_seconds" in run.data.metrics]
    return float(np.mean(values)) if values else math.nan


def record_plan(client: Client, run_id: str | None, plan: P, title: str, parameters: Mapping[str, str]) -> P:
    """Write a plan to the run that `mlflow run` made for it, if there is one, and return the plan."""
    if run_id is None:
        return plan
    with auxiliary_run(client, run_id, role="plan", title=f"plan: {title}", parameters=parameters) as run:
        text = f"```text\n{plan.summary()}```\n"
        (run.folder / "plan.md").write_text(text, encoding="utf-8")
        run.finish(metrics={}, tags={names.NOTE: text[:5000]})
    return plan


_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0}
_TIME: Final = re.compile(r"(?:\d+(?:\.\d+)?[hms]\s*)+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([hms])")


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that is computed; None for no bound.

    Attributes
    ----------
    cells
        Cells that are trained, those found done not counted.
    seconds
        Of a sweep, wall clock of the training, from the start of the workers; of a plan, time of one worker.
    requests
        Questions to a model, one for each test example of a cell.
    """

    cells: int | None = None
    seconds: float | None = None
    requests: int | None = None

    def __bool__(self) -> bool:
        """Return whether there is a bound."""
        return self != Budget()

    def __str__(self) -> str:
        if self.cells is not None:
            return counted(self.cells, "cell")
        if self.requests is not None:
            return counted(self.requests, "request")
        if self.seconds is None:
            return "none"
        unit, size = next((each for each in (("h", 3600.0), ("min", 60.0)) if self.seconds >= each[1]), ("s", 1.0))
        return f"{self.seconds / size:.3g} {unit}"

    @classmethod
    def parse(cls, given: Any, *, requests: bool = False) -> Budget:
        """Return the typed text: ``none``, ``5000``, ``5000 cells``, ``2h``, ``90m``, ``1h 30m``; ``900 requests``.

        Parameters
        ----------
        given
            As typed.
        requests
            Whether these may be counted.

        Raises
        ------
        ParameterError
            If it is none of these, or nothing could be computed.
        """
        text = str(given).strip().lower()
        if text == "none":
            return cls()
        unit = "requests" if requests and text.endswith(("request", "requests")) else "cells"
        counts = re.fullmatch(rf"([0-9]{{1,15}})\s*({unit[:-1]}s?)?", text)
        if counts and int(counts[1]) > 0:
            return cls(**{unit: int(counts[1])})
        if _TIME.fullmatch(text):
            seconds = sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))
            if seconds > 0:
                return cls(seconds=seconds)
        units = "cells or requests" if requests else "cells"
        raise ParameterError("budget", given, f"must be none, a time as in 2h, 90m or 1h30m, or a number of {units}")
