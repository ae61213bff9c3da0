"""The results of evaluation runs: numbers with their reports, and the files of their run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.files import save_result, write_tables
from mlflow_l3d.studies.judged.numbers import Pair, ScorerNumbers
from mlflow_l3d.studies.judged.report import comparison_document, evaluation_document
from mlflow_l3d.studies.shown import OnOneScreen, built_once
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import AuxiliaryRun


@dataclass(frozen=True, repr=False)
class JudgedEvaluation(OnOneScreen):
    """Evaluation runs that exist, read together.

    Attributes
    ----------
    run_id
        The run of the result; empty if it was not logged.
    run_ids, title
        The evaluation runs, and what they are called.
    scorers
        Numbers of each scorer, the one that leads the report first.
    notes
        Sentences: what does not count, and why.
    source
        The run of the result, its page and its command.
    pairs
        Differences of all levels of each factor, by each scorer, adjusted for their number; none of runs that exist.
    """

    run_id: str
    run_ids: tuple[str, ...]
    title: str
    scorers: tuple[ScorerNumbers, ...]
    notes: tuple[str, ...]
    source: Source = field(default_factory=Source)
    pairs: tuple[Pair, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """Return one row per scorer: mean, interval, and what counts."""
        return pd.DataFrame([{"scorer": one.scorer, **one.summary()} for one in self.scorers])

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the run."""
        parts = [*(one.metrics() for one in self.scorers), *(pair.metrics() for pair in self.pairs)]
        return {name: value for part in parts for name, value in part.items()}

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        return evaluation_document(self.scorers, self.title, self.run_ids, self.notes, self.source)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables that MLflow's UI shows."""
        parts = [one.components.frame.assign(scorer=one.scorer) for one in self.scorers]
        rows = [one.unstable.assign(scorer=one.scorer) for one in self.scorers]
        tables = {"scorers.json": self.to_frame(), "components.json": pd.concat(parts), "rows.json": pd.concat(rows)}
        pairs = pd.DataFrame([pair.summary() for pair in self.pairs])
        return tables if pairs.empty else {**tables, "differences.json": pairs}


@dataclass(frozen=True, repr=False)
class JudgedComparison(OnOneScreen):
    """Evaluation runs that were compared, row by row.

    Attributes
    ----------
    run_id
        The run of the result; empty if it was not logged.
    systems
        Name of each system -> its runs, joined by ``+`` if there are several.
    pairs
        The differences, adjusted for their number.
    notes, source
        As in :class:`JudgedEvaluation`.
    """

    run_id: str
    systems: Mapping[str, str]
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...]
    source: Source = field(default_factory=Source)

    @property
    def title(self) -> str:
        """The compared systems."""
        return " vs ".join(self.systems)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per scorer and pair of systems."""
        return pd.DataFrame([pair.summary() for pair in self.pairs])

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the run."""
        parts = [pair.metrics(several=len(self.systems) > 2) for pair in self.pairs]
        return {name: value for part in parts for name, value in part.items()}

    @built_once
    def report(self) -> Document:
        """Return the comparison as people read it."""
        return comparison_document(self.pairs, self.systems, self.notes, self.source)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables that MLflow's UI shows."""
        return {"differences.json": self.to_frame()}


def finish_judged(
    opened: AuxiliaryRun,
    result: JudgedEvaluation | JudgedComparison,
    tags: Mapping[str, str],
    judgements: pd.DataFrame | None = None,
) -> None:
    """Write a result to its run, with the tables that MLflow's UI shows, and the judgements if they are of our own."""
    save_result(opened.folder, result)
    if judgements is not None:
        judgements.to_parquet(opened.folder / names.JUDGEMENTS, index=False)
    opened.finish(metrics=result.metrics(), tags=tags, tables=write_tables(opened.folder, result.tables()))
