"""The result of `genai.investigate`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from mlflow_l3d.report.numbers import counted
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import Step
from mlflow_l3d.studies.about import heading
from mlflow_l3d.studies.genai.request import GenaiRequest
from mlflow_l3d.studies.judged.numbers import score_scorer
from mlflow_l3d.studies.judged.results import JudgedEvaluation, write_judged
from mlflow_l3d.studies.shown import built_once
from mlflow_l3d.tracking import names


@dataclass(frozen=True, repr=False)
class GenaiInvestigation(JudgedEvaluation):
    """What :func:`mlflow_l3d.genai.investigate` found.

    Attributes
    ----------
    run_id, run_ids, title, scorers, notes, source
        As in :class:`mlflow_l3d.studies.judged.results.JudgedEvaluation`; `run_ids` are the runs of judgements.
    factors
        Factor -> names of its levels; those of ``replicate`` and ``judgement`` are numbers.
    computed, reused
        Cells that were carried out by this call, and that were found.
    is_complete
        Whether the budget left nothing out.
    table
        One row per judgement: ``row, answer, repeat, scorer, judge, judgement, value, failed, run_id`` and the factors
        of the app. ``failed`` is ``answer`` if the app raised, and nobody judged it, ``judge`` if the scorer did.
    """

    factors: dict[str, str] = field(default_factory=dict)
    computed: int = 0
    reused: int = 0
    is_complete: bool = True
    table: pd.DataFrame | None = field(default=None, metadata={"file": names.JUDGEMENTS})

    def to_frame(self) -> pd.DataFrame:
        """Return the table of judgements."""
        assert self.table is not None
        return self.table

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        document = super().report()
        lines = [f"{self.computed} cells computed, {self.reused} taken from earlier runs", *document.lines]
        settings = {**heading(self.run_id), **self.factors}
        return replace(document, steps=[*self._steps()], lines=lines, settings=settings)

    def _steps(self) -> Iterator[Step]:
        """Yield what to do next."""
        if not self.is_complete:
            yield Step("Call it again: the same call continues with the cells that the budget left out.")
        if self.factors["replicate"] == "1":
            yield Step('Add "replicate": 2 to the factors: only the second answers are asked for.')

    def note(self) -> str:
        """Return headline and answers as Markdown, for the description of the run."""
        return self.report().description(*self.notes)


def concluded(
    request: GenaiRequest, table: pd.DataFrame, source: Source, counts: tuple[int, int], missing: str
) -> GenaiInvestigation:
    """Return the result of a table of judgements: numbers for each scorer that gave one.

    Parameters
    ----------
    request, table, source
        What was asked for, the judgements, and the run of the result.
    counts
        Cells that were computed, and that were found.
    missing
        What the budget left out.
    """
    parts = [part for _, part in table.groupby("scorer", sort=False) if part["value"].notna().any()]
    return GenaiInvestigation(
        run_id=source.run_id,
        run_ids=tuple(table["run_id"].unique()),
        title=f"genai: {request.app_name}",
        scorers=tuple(score_scorer(part, {}) for part in parts),
        notes=(*([missing] if missing else []), *_left_out(table)),
        source=source,
        factors=request.parameters,
        computed=counts[0],
        reused=counts[1],
        is_complete=not missing,
        table=table,
    )


def _left_out(table: pd.DataFrame) -> Iterator[str]:
    """Yield what does not count."""
    answers = table.drop_duplicates("answer")
    if failed := int(answers["failed"].eq("answer").sum()):
        yield f"{counted(failed, 'answer')} of {len(answers)} failed (predict_fn raised): nobody judged them."
    for (scorer, judge), part in table[table["failed"].ne("answer")].groupby(["scorer", "judge"], sort=False):
        who = scorer if judge == scorer else f"{judge} on {scorer}"
        raised, texts = int(part["failed"].eq("judge").sum()), int((part["failed"].eq("") & part["value"].isna()).sum())
        if raised:
            yield f"{who} raised on {counted(raised, 'answer')} of {len(part)}; these are left out."
        if texts:
            yield f"{counted(texts, 'judgement')} of {who} are not numbers, yes or no; these are left out."


def write_investigation(folder: Path, result: GenaiInvestigation) -> list[str]:
    """Write the files of a result; return the names of those that MLflow's UI shows as tables."""
    result.to_frame().to_parquet(folder / names.JUDGEMENTS, index=False)
    return write_judged(folder, result)
