"""The result of `genai.investigate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.judged.difference import difference, differences
from mlflow_l3d.report.numbers import counted, share_text
from mlflow_l3d.report.page import Document, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import Step
from mlflow_l3d.studies.about import heading
from mlflow_l3d.studies.genai.request import GenaiRequest
from mlflow_l3d.studies.judged.numbers import Pair, ScorerNumbers, score_scorer
from mlflow_l3d.studies.judged.report.evaluation import frame_table
from mlflow_l3d.studies.judged.results import JudgedEvaluation, write_judged
from mlflow_l3d.studies.shown import built_once
from mlflow_l3d.tracking import names

_MORE: Final = {
    "row": "add rows to the data. All rows are then asked again.",
    "repeat": 'raise "replicate": only the new answers are asked for.',
    "judge": 'add a "judge": nobody answers again.',
    "judgement": 'raise "judgement": nobody answers again.',
}
_OF_LEVELS: Final = ("scorer", "first", "second", "difference", "joint_low", "joint_high", "p_adjusted", "verdict")


@dataclass(frozen=True, repr=False)
class GenaiInvestigation(JudgedEvaluation):
    """What :func:`mlflow_l3d.genai.investigate` found.

    Attributes
    ----------
    run_id, run_ids, title, scorers, notes, source
        As in :class:`mlflow_l3d.studies.judged.results.JudgedEvaluation`; `run_ids` are the runs of judgements.
    factors
        The logged parameters: factor -> names of its levels, or their number.
    levels
        Each two levels of a factor of the app by each scorer, adjusted for their number.
    computed, reused
        Cells that were carried out by this call, and that were found.
    is_complete
        Whether the budget left nothing out.
    table
        One row per judgement: ``row, answer, repeat, scorer, judge, judgement, value, failed, run_id`` and the factors
        of the app. ``failed`` is ``answer`` if the app raised, and nobody judged it, ``judge`` if the scorer did.
    """

    factors: Mapping[str, str] = field(default_factory=dict)
    levels: tuple[Pair, ...] = ()
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
        frame = pd.DataFrame([{name: pair.summary().get(name) for name in _OF_LEVELS} for pair in self.levels])
        levels = frame_table(frame, "Paired by row, first less second; intervals and p-values for all together.")
        sections = [Section("Which level is better?", [levels]), *document.sections]
        steps = [*self._steps(self.scorers[0])]
        return replace(document, steps=steps, lines=lines, settings=settings, sections=sections)

    def _steps(self, lead: ScorerNumbers) -> Iterator[Step]:
        """Yield what to do next."""
        if not self.is_complete:
            yield Step("Call it again: the same call continues with the cells that the budget left out.")
        if self.factors["replicate"] == "1":
            yield Step('Set "replicate": 2 to see the luck of answers: only the second answers are asked for.')
            return
        gains = lead.gains.iloc[1:].sort_values("gain", ascending=False)
        if len(gains) and (best := gains.iloc[0])["gain"] > 0:
            what = best["design"].removeprefix("one more ")
            why = f"One more {what} lowers the standard error of {lead.scorer} most, by {share_text(best['gain'])}"
            yield Step(f"{why}: {_MORE.get(what, f'add a level of {what}; only its answers are asked for.')}")

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
    numbers = [score_scorer(part, {}) for part in parts]
    pairs = [
        Pair(one.scorer, one.is_binary, first, second, difference(*_sides(part, factor, first, second)))
        for one, part in zip(numbers, parts, strict=True)
        for factor in request.factors
        for first, second in combinations(part.dropna(subset="value")[factor].unique(), 2)
    ]
    adjusted = differences([pair.record for pair in pairs]) if pairs else []
    return GenaiInvestigation(
        run_id=source.run_id,
        run_ids=tuple(table["run_id"].unique()),
        title=f"genai: {request.app_name}",
        scorers=tuple(numbers),
        notes=(*([missing] if missing else []), *_left_out(table)),
        source=source,
        factors=request.parameters,
        levels=tuple(replace(pair, record=record) for pair, record in zip(pairs, adjusted, strict=True)),
        computed=counts[0],
        reused=counts[1],
        is_complete=not missing,
        table=table,
    )


def _sides(table: pd.DataFrame, factor: str, *levels: str) -> list[pd.DataFrame]:
    return [table[table[factor].eq(level)].drop(columns=factor) for level in levels]


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
