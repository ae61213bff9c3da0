"""The result of `genai.investigate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pandas as pd

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.report.numbers import counted, share_text
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import Step
from mlflow_l3d.studies.about import heading
from mlflow_l3d.studies.genai.work import Work
from mlflow_l3d.studies.judged.numbers import ScorerNumbers, score_scorer
from mlflow_l3d.studies.judged.results import JudgedEvaluation
from mlflow_l3d.studies.shown import built_once
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.judged.table import COLUMNS

_MORE: Final = {
    "row": "add rows to the data; all rows are then asked again.",
    "repeat": 'raise "replicate": only the new answers are asked for.',
    "judge": 'add a "judge": nobody answers again.',
    "judgement": 'raise "judgement": nobody answers again.',
}


@dataclass(frozen=True, repr=False)
class GenaiInvestigation(JudgedEvaluation):
    """What :func:`mlflow_l3d.genai.investigate` found.

    Attributes
    ----------
    run_id, run_ids, title, scorers, notes, source
        As in :class:`mlflow_l3d.studies.judged.results.JudgedEvaluation`; `run_ids` are the runs of judgements.
    factors
        The logged parameters: factor -> names of its levels, or their number.
    computed, reused, missing
        Cells that were carried out by this call, that were found, and that the budget left out.
    table
        One row per judgement: ``row, answer, repeat, scorer, judge, judgement, value, failed, run_id`` and the factors
        of the app. ``failed`` is ``answer`` if the app raised, and nobody judged it, ``judge`` if the scorer did.
    """

    factors: Mapping[str, str] = field(default_factory=dict)
    computed: int = 0
    reused: int = 0
    missing: int = 0
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
        return replace(document, steps=[*self._steps(self.scorers[0])], lines=lines, settings=settings)

    def _steps(self, lead: ScorerNumbers) -> Iterator[Step]:
        """Yield what to do next."""
        if self.missing:
            yield Step("Call it again: the same call continues with the cells that the budget left out.")
        if self.factors["replicate"] == "1":
            yield Step('Set "replicate": 2 to see the luck of answers: only the second answers are asked for.')
        levels = self.to_frame().drop(columns=[*COLUMNS]).nunique()
        for name in levels.index[levels > 1]:
            yield Step(f"Compare two levels of {name}: genai.compare(result.runs({name}=...), result.runs({name}=...))")
        best = lead.gains.iloc[1:].nlargest(1, "gain").query("gain > 0").to_dict("records")
        for what, gain in ((each["design"].removeprefix("one more "), each["gain"]) for each in best):
            how = _MORE.get(what, f"add a level of {what}: only its answers are asked for.")
            yield Step(f"One more {what} lowers the standard error of {lead.scorer} most, by {share_text(gain)}: {how}")

    def runs(self, **levels: Any) -> list[str]:
        """Return the runs of judgements of some levels, as :func:`mlflow_l3d.genai.compare` takes them.

        Raises
        ------
        ParameterError
            If there is no such factor, or it has no such level.
        """
        table = self.to_frame()
        for factor, level in levels.items():
            if factor not in table:
                raise ParameterError("runs", factor, f"must be a column of the table: {', '.join(map(str, table))}")
            texts = table[factor].map(str)
            table = table[texts.eq(str(level))]
            if table.empty:
                raise ParameterError(f"runs={factor}", level, f"must be one of {', '.join(texts.unique())}")
        return [str(run_id) for run_id in table["run_id"].unique()]


def concluded(work: Work, table: pd.DataFrame, notes: Sequence[str], source: Source) -> GenaiInvestigation:
    """Return the result of a table of judgements and its notes: numbers for each scorer that gave one."""
    parts = [part for _, part in table.groupby("scorer", sort=False) if part["value"].notna().any()]
    if not parts:
        raise L3DError("scorers: none gave a number, yes or no. Return one of these, such as bool(...).")
    failed, answers = table[table["failed"].eq("answer")]["answer"].nunique(), table["answer"].nunique()
    if failed:
        notes = [f"{counted(failed, 'answer')} of {answers} failed (predict_fn raised): nobody judged them.", *notes]
    if again := sum(row["tags"][names.REPEAT] != "0" for row in work.request.rows):
        notes = [f"Equal inputs: {counted(again, 'row')} of the data counted as a repeat of an earlier row.", *notes]
    if work.missing:
        left_out = f"The budget ({work.budget}) left out {work.missing} of {work.total} cells"
        notes = [f"{left_out}: the same call continues with them.", *notes]
    return GenaiInvestigation(
        source.run_id,
        tuple(table["run_id"].unique()),
        f"genai: {work.request.app_name}",
        tuple(score_scorer(part) for part in parts),
        tuple(notes),
        source,
        work.request.parameters,
        work.computed,
        work.reused,
        work.missing,
        table,
    )
