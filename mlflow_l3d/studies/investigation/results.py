"""Results that hold the analysis of an investigation: what they give as tables, and the files of their run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from mlflow_l3d.analysis.importance.results import FURTHER_METRICS, IMPORTANCE_METRICS
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.designs import design_named
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.parameters.checks import read_again
from mlflow_l3d.parameters.verbs import verbs
from mlflow_l3d.report.html import fragile_frame
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import About
from mlflow_l3d.studies.cells import CellStudyResult
from mlflow_l3d.studies.files import save_report, write_json, write_tables
from mlflow_l3d.studies.investigation.report import factor_frame, investigation_document
from mlflow_l3d.studies.investigation.report.details import citations
from mlflow_l3d.studies.investigation.report.runs import Runs
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.investigation.request import InvestigationRequest
from mlflow_l3d.studies.investigation.scoring import Scored
from mlflow_l3d.studies.shown import OnOneScreen, built_once
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier.predictions import read_rows
from mlflow_l3d.tracking.records import CellRecord
from mlflow_l3d.tracking.spool import Spool

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, repr=False)
class Analysed(OnOneScreen):
    """A result with an analysis.

    Attributes
    ----------
    run_id
        The parent run.
    analysis
        Importance, consistency and checks.
    about
        Title, origin, notes and settings.
    cells, predicted
        The runs behind it, see :class:`mlflow_l3d.studies.investigation.report.runs.Runs`.
    """

    run_id: str
    analysis: Analysis
    about: About
    cells: pd.DataFrame = field(default_factory=pd.DataFrame, metadata={"file": names.CELLS})
    predicted: Mapping[str, list[list[str]]] = field(default_factory=dict)

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per factor as in the report, in its order and units.

        Parameters
        ----------
        full
            Whether to return every number instead, as the runs have them: scores as fractions.
        """
        return self.analysis.to_frame() if full else factor_frame(Shown(self.analysis))

    @property
    def line(self) -> str:
        """What the terminal says of the runs."""
        raise NotImplementedError

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        paths = partial(design_named(self.analysis.design).paths, self.analysis.importances)
        runs = Runs(self.cells, self.predicted)
        return investigation_document(self.analysis, **vars(self.about), runs=runs, paths=paths, lines=[self.line])

    def cited(self) -> str:
        """Return what a paper says of it: a sentence, a LaTeX table and the literature."""
        return "\n\n".join(text for _, text in citations(Shown(self.analysis), self.about.source))

    def cure(self, **options: Any) -> Any:
        """Return what would leave less luck, see :func:`mlflow_l3d.cure`; `options` are its parameters."""
        verb = verbs()["cure"]
        return getattr(import_module(verb.module), verb.function)(self, **options)

    def description(self, *more: str) -> str:
        """Return what MLflow's UI shows of its run: first of all which luck it is."""
        return self.report().description(*self.about.notes, *more, first=1)

    def fragile(self, task: Task | str | pd.DataFrame | None = None, count: int = 20) -> pd.DataFrame:
        """Return the examples on which runs differ most, with their texts and the names of their classes.

        Parameters
        ----------
        task
            Holds the texts, which no run does: a task, its name or a data frame; by default what was investigated.
        count
            How many examples at most.

        Raises
        ------
        ParameterError
            If there is no task, or the given one has other classes or examples.
        """
        votes = self.analysis.examples
        if task is not None:
            data = read_again(task, self.about.source.given, self.about.source.classes, votes)
        elif (request := getattr(self, "request", None)) is not None:
            data = request.setup.task
        else:
            fix = "Give the file or name that was investigated, or the data as mlflow_l3d.make_task returns them."
            raise ParameterError("task", "none", "must hold the texts of the examples, which runs do not", fix)
        return fragile_frame(votes, data.texts_by_id(), data.class_names, count)


@dataclass(frozen=True, kw_only=True, repr=False)
class Investigation(CellStudyResult[InvestigationRequest], Analysed):
    """A finished investigation: ``summary()`` is its text, ``to_frame()`` has one row per factor.

    Attributes
    ----------
    analysis
        Importance, consistency and checks.
    cells
        One row per cell: coordinates, metrics, run id.
    predicted
        What the runs predict for fragile examples, see
        :func:`mlflow_l3d.studies.investigation.report.runs.read_predicted`.
    """

    @property
    def line(self) -> str:
        """What the terminal says of the runs."""
        return self.of_cells(f"{counted(self.computed, 'run')} computed")


class Evaluation(Analysed):
    """What the runs of an investigation say that were scored again.

    Attributes
    ----------
    run_id
        The parent run.
    analysis
        Importance, consistency and checks.
    about
        Title, origin, notes and settings.
    cells, predicted
        As in :class:`Analysed`.
    """

    @property
    def line(self) -> str:
        """What the terminal says of the runs."""
        return f"Evaluation of run {self.run_id}"


def write_artifacts(
    folder: Path, scored: Scored, cells: pd.DataFrame, *, document: Mapping[str, Any], report: Document
) -> None:
    """Write the artifacts of the parent run into `folder`: tables, report and pictures.

    Parameters
    ----------
    folder
        An existing folder.
    scored
        The result of :func:`score`.
    cells
        One row per cell, with run ids.
    document
        Content of ``investigation.json``.
    report
        Its page.
    """
    analysis = scored.analysis
    public = cells.drop(columns=["artifact_uri", "experiment_id"], errors="ignore")
    public = public.assign(agreement=list(scored.agreement))
    public.to_parquet(folder / names.CELLS, index=False)
    first = ["phase", "factor", "row", "column", analysis.metric.name, "index"]  # the UI shows the first few columns
    tables = {
        names.CELLS_TABLE: public[[*first, *(name for name in public if name not in first)]],
        # The UI shows no longer tables well; the rest is in the predictions.
        names.EXAMPLES: None if analysis.examples is None else analysis.examples.frame.head(2000),
        names.INTERIM_ANALYSES: analysis.interim_analyses,
    }
    write_tables(folder, tables)
    write_json(folder / names.IMPORTANCE, importance_document(analysis))
    if document:
        write_json(folder / names.INVESTIGATION, document)
    save_report(folder, names.REPORT, report)


def importance_document(analysis: Analysis) -> dict[str, Any]:
    """Return the analysis for :func:`mlflow_l3d.studies.files.write_json`."""
    ranking = analysis.ranking
    records = analysis.importances.values()
    shape = analysis.golden_tails
    return {
        "schema": 1,
        "metric": analysis.metric.name,
        "greater_is_better": analysis.metric.sign > 0,
        "design": analysis.design,
        "factors": {factor: _factor_document(analysis, factor) for factor in analysis.importances},
        "golden": next((record.golden.tolist() for record in records), []),
        "golden_pooled": any(record.golden_pooled for record in records),
        "golden_shape": shape and shape.metrics(),
        "agreement": analysis.agreement,
        "consistency": {name: asdict(record) for name, record in analysis.consistencies.items()},
        "regression": analysis.regression,
        "ranking": ranking
        and {"level": ranking.level, "factors": ranking.to_frame(), "differences": ranking.differences_frame()},
        "looks": analysis.interim_analyses,
        "checks": [asdict(check) for check in analysis.checks],
        "collapse": analysis.collapse
        and {group: analysis.collapse.metrics(group) for group in (*analysis.importances, "golden")},
        "cells_failed": analysis.cells_failed,
    }


def _factor_document(analysis: Analysis, factor: str) -> dict[str, Any]:
    record = analysis.importances[factor]
    verdict = None if factor in analysis.strategies else analysis.verdict(factor)
    parts = {
        "advice": analysis.advice.get(factor),
        "prediction_importance": analysis.prediction_importances.get(factor),
        "strategy": analysis.strategies.get(factor),
    }
    numbers = (*FURTHER_METRICS, "level", "golden_iqr", "rows_used", "cells_missing", "golden_missing")
    return {
        **{name: getattr(record, name) for name in (*IMPORTANCE_METRICS, *numbers)},
        **({} if verdict is None else {"verdict": verdict.word, "verdict_doubt": verdict.doubt}),
        **{name: part and asdict(part) for name, part in parts.items()},
        "components": record.components and {**asdict(record.components), **record.components.derived()},
        "table": record.table.tolist(),
    }


def cells_frame(
    cells: Iterable[Cell], metric: Metric, spool: Spool[CellRecord], run_ids: Mapping[str, str]
) -> pd.DataFrame:
    """Return one row per cell; all of them are in the spool."""
    first = [*names.COORDINATES, "run_id", "cell_key", "status"]
    rows = []
    for cell in cells:
        record = spool.record(cell.key)
        row = {name: getattr(cell, name) for name in names.COORDINATES}
        row |= {"run_id": run_ids.get(cell.key), "cell_key": cell.key, "status": record.status}
        row |= {} if record.error else {name: each for name, each in record.metrics.items() if math.isfinite(each)}
        row |= {f"factor.{factor}": number for factor, number in cell.configurations.items()}
        rows.append(row | {f"seed.{factor}": seed for factor, seed in cell.seeds.items()})
    frame = pd.DataFrame(rows)
    rest = sorted(
        {*map(str, frame)} - {*first}, key=lambda name: (name.startswith("seed."), name.startswith("factor."), name)
    )
    frame = frame.reindex(columns=[*first, *rest])
    if metric.name not in frame:
        frame[metric.name] = math.nan
    return frame.astype(dict.fromkeys(("row", "column", "index"), "Int64"))


def spooled_predictions(frame: pd.DataFrame, spool: Spool[CellRecord]) -> Iterator[pa.Table | None]:
    """Yield the predictions of each cell of a frame; None for a cell without any."""
    for key, status in zip(frame["cell_key"], frame["status"], strict=True):
        path = spool.predictions(key) if status == "FINISHED" else None
        yield None if path is None else read_rows(path, scores=True, reference=True)


def settings_of(request: InvestigationRequest) -> dict[str, str]:
    """Return what a report says of an investigation in addition to what it says of every study."""
    task, plan = request.setup.task, request.plan
    examples = f"{len(task)} examples" if len(task) else "data of its own"
    rule = f"half-width {plan.half_width:g}, or 0 outside" if plan.stop == "interval" else f"{plan.epsilon:g}"
    stop = f"{plan.stop} ({rule}), {plan.most_rows or plan.mitigation_runs} rows at most"
    return {
        "task": f"{task.name} ({examples}, {f'{len(task.class_names)} classes' if task.class_names else task.kind})",
        "model": request.setup.model or "none",
        "design": plan.words(),
        "mitigated factors": ", ".join(request.mitigated_factors) or "none",
        "mitigation strategies": ", ".join(
            f"{each.name} ({each.factor}: {', '.join(map(str, each.configurations))})" for each in plan.mitigation
        ),
        "joint factors": f"columns {plan.joint}" if any("+" in name for name in request.factors) else "",
        "stopping rule": "" if plan.stop == "none" else stop,
        "root seed": str(plan.root_seed),
    }
