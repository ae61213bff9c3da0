"""`import`: results of other tools become the children of one parent, which `evaluate` and `compare` read."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from mlflow_l3d.analysis.seeds.settings import JOINED, varying_settings
from mlflow_l3d.analysis.seeds.study import SeedsStudy, seeds_study
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.parameters.values import public_parameter
from mlflow_l3d.plan.cells import Cell, Outcome, content_key
from mlflow_l3d.studies.base import Study, entry_point, say
from mlflow_l3d.studies.files import temporary_folder, write_json
from mlflow_l3d.studies.importing.checking import checked, chosen, read_runs
from mlflow_l3d.studies.importing.formats import FORMATS
from mlflow_l3d.studies.importing.recorded import ImportedRecord, RecordedRun, pairs
from mlflow_l3d.studies.progress import shows_progress, under_way
from mlflow_l3d.studies.seeds.artifacts import write_scores
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.studies.specification import heading, version_words
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, search
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.ledger import Ledger, Work
from mlflow_l3d.tracking.opening import open_ledger
from mlflow_l3d.tracking.parent import Card, current_experiment_id
from mlflow_l3d.tracking.reader import fetch_document
from mlflow_l3d.tracking.records import measured

if TYPE_CHECKING:
    from mlflow import MlflowClient

_OF_MODEL = ("model", "backend", "model_args.")


@dataclass(frozen=True, kw_only=True)
class Import:
    """What is imported, read and checked.

    Attributes
    ----------
    given
        The parameters as they were typed.
    runs
        At least two, of one set of examples.
    metric
        What they are scored by.
    problems
        One line for each file or run that is left out and should not be.
    notes
        What else is to be known.
    """

    given: Mapping[str, str]
    runs: Sequence[RecordedRun]
    metric: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said before it begins."""
        return (*self.problems, *self.notes)

    @cached_property
    def task(self) -> str:
        """Name of the task, or of its variants."""
        return ",".join(sorted({run.task for run in self.runs}))

    @cached_property
    def settings(self) -> pd.DataFrame:
        """One row a run, one column a setting, missing where a run does not record it."""
        several = "," in self.task
        return pd.DataFrame([{**({"task": run.task} if several else {}), **run.settings} for run in self.runs])

    @cached_property
    def seeds(self) -> tuple[int, ...] | None:
        """The seeds, where nothing else tells the runs apart; else None."""
        varying, _ = varying_settings(self.settings)
        if len(varying) != 1:
            return None
        for name in next(iter(varying)).split(JOINED):
            values = [str(value) for value in self.settings[name]]
            whole = all(value.isascii() and value.isdigit() for value in values)
            if "seed" in name.lower() and whole and len(set(map(int, values))) == len(values):
                return tuple(map(int, values))
        return None

    @cached_property
    def shared(self) -> dict[str, str]:
        """Settings that all runs have alike."""
        _, constant = varying_settings(self.settings)
        return {name: str(self.settings[name].iloc[0]) for name in constant}

    @cached_property
    def context_key(self) -> str:
        """Hash of what the runs were evaluated on."""
        return content_key({"imported": 1, "task": self.task, "examples": self.runs[0].examples})

    @cached_property
    def key(self) -> str:
        """Hash that says whether two parents are the same import, of however many runs."""
        wanted = {name: self.given[name] for name in ("from_", "only")}
        return content_key({"context": self.context_key, "metric": self.metric, **wanted})

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The runs as cells; their seed is that of the run, or a number that runs of equal settings share."""
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
        """Name of the parent as people read it."""
        model = self.shared.get("model", "")
        what = f"{len(self.runs)} {'runs' if self.seeds is None else 'seeds'}"
        return ", ".join(word for word in (what, self.task, model) if word)

    def card(self) -> Card:
        """Return what the parent says of itself."""
        typed = {name.rstrip("_"): public_parameter(name, value) for name, value in self.given.items()}
        tags = {names.FACTOR: "seed", names.DESIGN: "seeds", names.CONTEXT_KEY: self.context_key}
        resolved = {"resolved.task": self.task, "resolved.metric": self.metric, "approach": self.given["from_"]}
        shared = {names.metric_name(name): value for name, value in self.shared.items()}
        return Card("investigation", self.key, self.title, tags, {**shared, **typed, **resolved})

    def records(self) -> Iterator[tuple[Cell, ImportedRecord, Outcome]]:
        """Yield each run as it is written."""
        differ = [str(name) for name in self.settings if name not in self.shared]
        for cell, run in zip(self.cells, self.runs, strict=True):
            outcome = Outcome(
                cell.key,
                run.ids,
                run.labels,
                run.predictions,
                metrics={names.metric_name(name): value for name, value in run.scores.items()},
                duration_seconds=run.duration_seconds,
            )
            settings = {names.metric_name(name): value for name, value in run.settings.items()}
            own = ", ".join(f"{name} {run.settings.get(name, 'none')}" for name in differ if name != "task")
            place = {name: getattr(cell, name) for name in Cell.__slots__}
            name = (own or cell.name)[:100]
            yield cell, ImportedRecord(**place, name=name, settings=settings, **measured(outcome)), outcome

    def study(self) -> tuple[SeedsStudy, pd.DataFrame, pd.DataFrame | None]:
        """Return scores and agreement, one row a run, and all predictions."""
        rows, tables = [], []
        for number, cell, run in zip(self.numbers, self.cells, self.runs, strict=True):
            rows.append({"seed": number, "cell_key": cell.key, "index": cell.index, "status": "FINISHED", **run.scores})
            if run.ids is not None:
                columns = {"example_id": run.ids, "label": run.labels, "prediction": run.predictions}
                tables.append(pd.DataFrame({"seed": number, "cell_key": cell.key, **columns}))
        frame, predictions = pd.DataFrame(rows), pd.concat(tables, ignore_index=True) if tables else None
        study = seeds_study(
            frame,
            predictions,
            metric=self.metric,
            kind=self.runs[0].kind,  # type: ignore[arg-type]
            task=self.task,
            model=self.shared.get("model", ""),
            recorded=self.settings if self.seeds is None else None,
        )
        return study, frame, predictions

    @property
    def numbers(self) -> tuple[int, ...]:
        """The seeds; else 0, 1, ...."""
        return self.seeds or tuple(range(len(self.runs)))

    def document(self) -> dict[str, Any]:
        """Return what `evaluate` and `compare` need to know, free of private paths."""
        recorded = [
            {
                "cell_key": cell.key,
                "number": number,
                "settings": {name: value for name, value in row.items() if value == value},
            }
            for cell, number, row in zip(self.cells, self.numbers, self.settings.to_dict("records"), strict=True)
        ]
        others = {name: value for name, value in self.shared.items() if name != "model"}
        return {
            "schema": 1,
            "parameters": {name: public_parameter(name, value) for name, value in self.given.items()},
            "imported_from": self.given["from_"],
            "task": {"name": self.task, "kind": self.runs[0].kind, "fingerprint": self.context_key},
            "model": {"name": self.shared.get("model", "")},
            "hyperparameters": others,
            "metric": self.metric,
            "seeds": list(self.numbers),
            "by_settings": self.seeds is None,
            "runs": recorded,
            "context_key": self.context_key,
            "investigation_key": self.key,
        }


def _numbers(runs: Sequence[RecordedRun]) -> Iterator[int]:
    """Yield a number for each run: runs with equal settings, the model aside, have the same in every import."""
    times: Counter[str] = Counter()
    for run in runs:
        others = {name: value for name, value in run.settings.items() if not name.startswith(_OF_MODEL)}
        text = json.dumps(others, sort_keys=True)
        times[text] += 1
        yield int(hashlib.sha256(f"{text}\n{times[text]}".encode()).hexdigest()[:12], 16)


@dataclass(frozen=True, kw_only=True, repr=False)
class ImportedRuns(OnOneScreen):
    """What :func:`import_runs` wrote.

    Attributes
    ----------
    run_id
        The parent.
    study
        Scores, agreement, and which settings move the score.
    written, known
        How many runs are new, and how many were there before.
    problems
        One line for each file or run that is left out until it is mended.
    notes
        What else is to be known.
    """

    run_id: str
    study: SeedsStudy
    written: int
    known: int
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """Status of the command: 1 where something is left out."""
        return int(bool(self.problems))

    def summary(self) -> str:
        """Return the text that the command line prints."""
        from mlflow_l3d.report.seeds.text import study_text

        left = len(self.problems)
        mend = f"{left} left out, see above: the same command after the fix writes only what is missing"
        lines = [
            f"{self.written} runs written, {self.known} there before{f'; {mend}' if left else ''}",
            f"MLflow run {self.run_id}; report.html is among its artifacts",
        ]
        return study_text(self.study, title=f"Imported: {len(self.study.seeds)} runs, {self.study.task}", lines=lines)


def import_runs(
    path: str | Path,
    *,
    from_: str = "none",
    task: str = "auto",
    metric: str = "auto",
    only: str = "none",
    columns: str = "none",
    progress: bool | None = None,
) -> ImportedRuns:
    """Import results that exist: each run becomes a child of one parent, which is scored as a study of seeds is.

    Parameters
    ----------
    path
        A file, or a folder that is searched for files.
    from_
        The tool that wrote them: ``lm-eval``, ``inspect``, ``promptfoo``, ``csv`` or ``huggingface-trainer``.
    task
        The task that is imported; several, separated by commas, are variants of one with the same examples.
    metric
        What runs are scored by; ``auto`` is the first that the tool has.
    only
        ``name=value`` pairs, separated by commas: only runs with these settings.
    columns
        Of CSV files: which column is what, as ``example_id=id,prediction=answer,settings=seed+shots``.
    progress
        Whether to say on stderr what is under way; None does in a notebook and on a terminal.

    Raises
    ------
    L3DError
        With one line that says what to change, where fewer than two runs can be imported. Where some cannot, the others
        are, and `problems` has a line for each.
    """
    shown = shows_progress(progress)
    given = {"path": str(path), "from_": from_, "task": task, "metric": metric, "only": only, "columns": columns}
    with entry_point() as project_run:
        if from_ not in FORMATS:
            raise unknown_name("from", from_, FORMATS)
        with under_way("reading", shown=shown):
            asked = _read(Path(path), given)
        say(asked.remarks)
        found = _there(asked, connect())
        return found or _Importing(asked, progress=progress).run(project_run.take())


def _read(path: Path, given: Mapping[str, str]) -> Import:
    columns, only = ({} if given[name] == "none" else pairs(given[name]) for name in ("columns", "only"))
    read, problems = read_runs(path, given["from_"], columns)
    wanted = chosen(read, given["task"], only) if read else []
    runs, metric, broken, notes = checked(wanted, given["metric"])
    problems += broken
    if len(runs) < 2:
        if problems:
            raise L3DError(f"{problems[0]} ({len(problems)} such lines in all.)" if problems[1:] else problems[0])
        allowed = f"holds {len(runs)} run; luck shows in two or more"
        raise ParameterError("path", path, allowed, "Name a folder with more of them.")
    return Import(given=given, runs=runs, metric=metric, problems=tuple(problems), notes=tuple(notes))


def _there(asked: Import, client: MlflowClient) -> ImportedRuns | None:
    """Return the import of the very same runs, where it is complete already."""
    wanted = {names.INVESTIGATION_KEY: asked.key, names.STATE: "complete"}
    keys = {cell.key for cell in asked.cells}
    for parent in search(client, [current_experiment_id(client)], condition(wanted, "FINISHED")):
        document = fetch_document(client, parent.info.run_id, names.INVESTIGATION) or {}
        if {run["cell_key"] for run in document.get("runs", ())} == keys and not asked.problems:
            study, *_ = asked.study()
            run_id, number = str(parent.info.run_id), len(keys)
            return ImportedRuns(run_id=run_id, study=study, written=0, known=number, problems=(), notes=asked.notes)
    return None


class _Importing(Study[Import, ImportedRecord, ImportedRuns]):
    """One import under way."""

    def open(self, project_run: str | None) -> Ledger[ImportedRecord]:
        """Open the parent, and find the runs that are there already."""
        asked = self.specification
        shared = {"task": asked.task, "approach": asked.given["from_"]}
        return open_ledger(
            Work(asked.card(), ImportedRecord, asked.context_key, shared, lambda: asked.cells), project_run
        )

    def how_far(self) -> str:
        """Return how many runs are written."""
        done = {*self.ledger.recovered.metrics, *self.ledger.spool}
        cells = self.specification.cells
        return f"with {sum(cell.key in done for cell in cells)} of {len(cells)} runs written"

    def carry_out(self) -> ImportedRuns:
        """Write what is missing, and score all."""
        from mlflow_l3d.report.seeds.words import study_answers

        asked, ledger = self.specification, self.ledger
        known = set(ledger.recovered.metrics)
        for cell, record, outcome in asked.records():
            if cell.key not in known:
                ledger.add(record, outcome)
        study, frame, predictions = asked.study()
        with temporary_folder() as folder, under_way("writing", shown=self.progress):
            ledger.wait()
            run_ids = ledger.run_ids()
            cells = frame.assign(
                phase="golden", run_id=frame["cell_key"].map(run_ids), **{"seed.seed": [*self._seeds()]}
            ).drop(columns="seed")
            notes = [*asked.problems, *asked.notes]
            settings = {**heading(ledger.parent.run_id), "task": asked.task, "from": asked.given["from_"]}
            settings |= {**asked.shared, "versions": version_words()}
            write_scores(folder, study, cells, predictions, title=asked.title, notes=notes, settings=settings)
            write_json(folder / names.INVESTIGATION, asked.document(), indent=2)
            left_out = float(len(asked.problems))
            ledger.log_metrics({**study.metrics(), "cells_failed": left_out}, len(study.seeds))
            said = [f"**{each.question}** {each.short}. {' '.join(each.sentences)}" for each in study_answers(study)]
            text = "\n\n".join([*said, *notes])[:5000]
            ledger.finish(folder, complete=not asked.problems, description=text)
        return ImportedRuns(
            run_id=ledger.parent.run_id,
            study=study,
            written=len(asked.cells) - len(known),
            known=len(known),
            problems=asked.problems,
            notes=asked.notes,
        )

    def _seeds(self) -> Iterator[int]:
        return (cell.seeds["seed"] for cell in self.specification.cells)
