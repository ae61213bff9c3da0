"""The runs to import, checked, what their groups say, and the content of their parent run."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mlflow_l3d.cells.cell import Cell, Outcome, content_key
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import typed_name
from mlflow_l3d.paths import public_parameter
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import class_words
from mlflow_l3d.studies.files import write_runs
from mlflow_l3d.studies.groups.numbers import GroupsStudy, groups_study
from mlflow_l3d.studies.groups.numbers.grouping import AUTO, NONE, Grouping, group_runs, params_of
from mlflow_l3d.studies.groups.numbers.settings import varying_settings
from mlflow_l3d.studies.groups.reading import bounded
from mlflow_l3d.studies.groups.run import with_agreement, write_groups
from mlflow_l3d.studies.importing import RecordedRun
from mlflow_l3d.studies.importing.formats import FORMATS
from mlflow_l3d.studies.seeds.numbers import SeedsStudy
from mlflow_l3d.studies.seeds.results import write_scores
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.parent import Card
from mlflow_l3d.tracking.records import CellRecord


@dataclass(frozen=True, kw_only=True)
class Import:
    """The runs to import, checked.

    Attributes
    ----------
    arguments
        The parameters as they were typed.
    runs
        At least two, of one set of examples.
    metric
        Their score.
    problems
        One line for each file or run that is left out until it is corrected.
    notes
        Further remarks.
    typed_tool
        The typed ``from``; that of `arguments` is the recognised tool.
    """

    arguments: Mapping[str, str]
    runs: Sequence[RecordedRun]
    metric: Metric
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    typed_tool: str

    @property
    def remarks(self) -> tuple[str, ...]:
        """The remarks that the user gets before the import begins."""
        return (*self.problems, *self.notes)

    @cached_property
    def task(self) -> str:
        """Name of the task, or of its variants."""
        return ",".join(sorted({run.task for run in self.runs}))

    @cached_property
    def settings(self) -> pd.DataFrame:
        """One row per run, one column per setting, missing if a run does not record it."""
        several = "," in self.task
        return pd.DataFrame([{**({"task": run.task} if several else {}), **run.settings} for run in self.runs])

    @cached_property
    def seeds(self) -> tuple[int, ...] | None:
        """The seeds if the runs differ in nothing else, else None."""
        return self._numbers_by("seed")

    def _numbers_by(self, word: str) -> tuple[int, ...] | None:
        """Return the numbers that a setting with this word in its name gives to runs that differ in nothing else.

        Longer ones do not fit into 64 bits.
        """
        numbered = self.settings.filter([FORMATS[self.arguments["from_"]].numbered]).fillna("")
        columns = self.grouped[0].seed_values.join(numbered)
        for name, values in columns.items() if not self.grouped[1] else ():
            if word in str(name).lower() and values.str.fullmatch("[0-9]{1,18}").all() and values.map(int).is_unique:
                return tuple(map(int, values))
        return None

    @cached_property
    def grouped(self) -> tuple[Grouping, tuple[str, ...]]:
        """How runs are grouped, and the names of the groups to compare; see :func:`groups_in`."""
        return groups_in(self.settings, FORMATS[self.arguments["from_"]].numbered, self.arguments)

    @property
    def given(self) -> dict[str, str]:
        """The parameters that are not their defaults, without the source."""
        typed = {**self.arguments, "source": AUTO, "from_": self.typed_tool}
        return {name: public_parameter(name, value) for name, value in typed.items() if value not in (AUTO, NONE)}

    @cached_property
    def shared(self) -> dict[str, str]:
        """Settings with the same value in all runs."""
        return {name: str(self.settings[name].iloc[0]) for name in varying_settings(self.settings)[1]}

    @cached_property
    def context_key(self) -> str:
        """Hash of the task and its examples."""
        return content_key({"imported": 2, "task": self.task, "examples": self.runs[0].examples})

    @cached_property
    def key(self) -> str:
        """Hash that two imports share if they differ only in their number of runs."""
        selected = ("from_", "only", "task_kind", "classes", "group_by", "seed")
        selection = {name: self.arguments[name] for name in selected}
        return content_key({"context": self.context_key, "metric": typed_name(self.metric), **selection})

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The runs as cells, with the seed of the run or a number that runs of equal settings share."""
        return tuple(
            Cell(
                phase="golden",
                factor=None,
                row=None,
                column=None,
                index=index,
                configurations={"seed": index},
                seeds={"seed": seed},
                key=content_key({"context": self.context_key, "run": run.key}),
            )
            for index, (run, seed) in enumerate(zip(self.runs, self.seeds or _numbers(self.runs), strict=True))
        )

    @property
    def title(self) -> str:
        """Name of the parent run for people."""
        what = f"{len(self.runs)} {'runs' if self.seeds is None else 'seeds'}"
        return ", ".join(word for word in (what, self.task, self.shared.get("model", "")) if word)

    def card(self) -> Card:
        """Return tags and parameters of the parent run."""
        typed = {name.rstrip("_"): public_parameter(name, value) for name, value in self.arguments.items()}
        typed = {name: value for name, value in typed.items() if name not in ("group_by", "seed") or value != AUTO}
        tags = {names.FACTOR: "seed", names.DESIGN: "seeds", names.CONTEXT_KEY: self.context_key}
        first = self.runs[0]
        resolved = {"task": self.task, "metric": typed_name(self.metric), "task_kind": first.kind}
        resolved |= {"classes": class_words(first.classes)} if first.classes else {}
        parameters = {names.metric_name(name): value for name, value in self.shared.items()} | typed
        parameters |= {f"resolved.{name}": value for name, value in resolved.items()}
        return Card("investigation", self.key, self.title, tags, {**parameters, "approach": self.arguments["from_"]})

    def tables(self, parent_run_id: str) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """Return the runs as cells that a parent run holds itself, and all their predictions, if they have some."""
        rows = []
        for number, (cell, run) in enumerate(zip(self.cells, self.runs, strict=True), 1):
            outcome = Outcome(cell.key, metrics=run.scores, duration_seconds=run.duration_seconds)
            rows.append(CellRecord.of(cell, outcome).to_row(f"{parent_run_id}/{number}"))
        cells = pd.DataFrame(rows).astype({"row": "Int64", "column": "Int64", "index": "Int64"})
        answers = [(run.ids, run.labels, run.predictions) for run in self.runs if run.ids is not None]
        if not answers:
            return cells, None
        columns = zip(("example_id", "label", "prediction"), zip(*answers, strict=True), strict=True)
        predictions = pd.DataFrame({name: np.concatenate(parts) for name, parts in columns})
        seeds, keys = (cells[name].to_numpy() for name in ("seed.seed", "cell_key"))
        at = np.repeat(cells.index, len(predictions) // len(cells))  # all have the same examples
        return cells, predictions.assign(seed=seeds[at], cell_key=keys[at])

    def document(self) -> dict[str, Any]:
        """Return the content of ``investigation.json`` for `evaluate` and `compare`, free of private paths."""
        numbers = self.seeds or self._numbers_by("") or tuple(range(len(self.runs)))
        recorded = [
            {
                "cell_key": cell.key,
                "number": number,
                "settings": {name: row[name] for name in row if row[name] == row[name]},
            }
            for cell, number, row in zip(self.cells, numbers, self.settings.to_dict("records"), strict=True)
        ]
        first = self.runs[0]
        about = {"kind": first.kind, "classes": list(first.classes)}
        about |= {"examples": content_key({**about, "examples": first.examples})} if first.examples else {}
        return {
            "schema": 1,
            "parameters": {name: public_parameter(name, value) for name, value in self.arguments.items()},
            "imported_from": self.arguments["from_"],
            "task": {"name": self.task, **about, "fingerprint": self.context_key},
            "model": {"name": self.shared.get("model", "")},
            "hyperparameters": {name: value for name, value in self.shared.items() if name != "model"},
            "metric": self.metric.name,
            "metrics": sorted({name for run in self.runs for name in run.scores}),
            "seeds": list(numbers),
            "by_settings": self.seeds is None,
            "groups": list(self.grouped[1]),
            "numbered": FORMATS[self.arguments["from_"]].numbered,
            "runs": recorded,
            "context_key": self.context_key,
            "investigation_key": self.key,
        }


def groups_in(settings: pd.DataFrame, numbered: str, arguments: Mapping[str, str]) -> tuple[Grouping, tuple[str, ...]]:
    """Return how runs with recorded settings are grouped, and the names of the groups to compare.

    There are none if all runs differ by luck alone, each with a seed of its own: they are a seeds study.

    Parameters
    ----------
    settings
        One row per run, one column per setting.
    numbered
        The setting that only names or numbers runs, see :class:`mlflow_l3d.studies.importing.formats.Format`.
    arguments
        May have ``group_by`` and ``seed``, as they were typed.
    """
    names = settings[numbered].fillna("") if numbered in settings else pd.Series("", settings.index)
    params = params_of(settings.drop(columns=numbered, errors="ignore"))
    options = {name: arguments.get(name, AUTO) for name in ("group_by", "seed")}
    grouping = group_runs(params, names, **options)
    return grouping, () if grouping.is_plain and options["group_by"] == AUTO else grouping.names


def _numbers(runs: Sequence[RecordedRun]) -> Iterator[int]:
    """Yield a number for each run: runs with equal settings, except the model, have the same number in every import."""
    times: Counter[str] = Counter()
    for run in runs:
        of_model = ("model", "backend", "model_args.")
        others = {name: value for name, value in run.settings.items() if not name.startswith(of_model)}
        text = json.dumps(others, sort_keys=True)
        times[text] += 1
        yield int(hashlib.sha256(f"{text}\n{times[text]}".encode()).hexdigest()[:12], 16)


def recorded_grouping(document: Mapping[str, Any], cells: pd.DataFrame) -> Grouping:
    """Return how imported runs are grouped, from ``investigation.json`` and the ``cell_key`` of each."""
    settings = {run["cell_key"]: run["settings"] for run in document["runs"]}
    recorded = pd.DataFrame([settings[key] for key in cells["cell_key"]])
    return groups_in(recorded, document.get("numbered", ""), document["parameters"])[0]


def grouped_runs(
    document: Mapping[str, Any], cells: pd.DataFrame, predictions: pd.DataFrame | None, metric: Metric
) -> tuple[GroupsStudy, pd.DataFrame | None, list[str]]:
    """Return the groups of imported runs, the examples on which runs of the best group differ most, and notes.

    Parameters
    ----------
    document
        The content of ``investigation.json``.
    cells
        One row per run: ``run_id``, ``cell_key`` and the metric.
    predictions
        One row per prediction, with the ``cell_key`` of its run; None without predictions.
    metric
        The score.
    """
    cells = cells[cells[metric.name].notna()].reset_index(drop=True)
    scores = cells[metric.name].to_numpy(dtype=np.float64)
    study = groups_study(cells["run_id"], scores, recorded_grouping(document, cells), bounded(metric, scores))
    notes: list[str] = []
    parts: dict[str, pd.DataFrame] = {}
    if predictions is not None:
        runs = dict(zip(cells["cell_key"], study.runs["group"].mask(study.runs["repeated"]), strict=True))
        parts = dict([*predictions.assign(seed=predictions["cell_key"]).groupby(predictions["cell_key"].map(runs))])
    kept = ((name, document["task"]["kind"], parts[name]) for name in study.several["group"] if name in parts)
    return *with_agreement(study, kept, notes, metric), notes


def write_study(
    folder: Path,
    study: SeedsStudy | GroupsStudy,
    cells: pd.DataFrame,
    predictions: pd.DataFrame | None,
    report: Document,
) -> None:
    """Write the tables and the report of imported runs, and the runs."""
    if isinstance(study, SeedsStudy):
        write_scores(folder, study, cells, predictions, report)
    else:
        write_runs(folder, cells, predictions)
        write_groups(folder, study, report)
