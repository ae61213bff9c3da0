"""The result of `genai.investigate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pandas as pd

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.report.numbers import counted, listed, share_text
from mlflow_l3d.report.page import Document, Section
from mlflow_l3d.report.source import Source, heading
from mlflow_l3d.report.text import Answer, Step
from mlflow_l3d.studies.genai.work import Work
from mlflow_l3d.studies.judged.numbers import Pair, ScorerNumbers, adjusted, level_pairs, score_scorer
from mlflow_l3d.studies.judged.report import differences_table, sized_difference
from mlflow_l3d.studies.judged.results import JudgedEvaluation
from mlflow_l3d.studies.judged.run import chosen
from mlflow_l3d.studies.shown import built_once
from mlflow_l3d.tracking import names

_LEVELS: Final = (
    "Answers to one row count as repeats of it. Levels of other factors count if both sides have them. Verdicts (Holm) "
    "and intervals (Bonferroni, wider: they may contain 0 next to a verdict) hold for all comparisons of all factors "
    "and scorers at once."
)
_MORE: Final = {
    "row": "Add rows to the data; all rows are then asked again.",
    "repeat": 'Raise "replicate"; only the new answers are asked for.',
    "judge": 'Add a "judge"; nobody answers again.',
    "judgement": 'Raise "judgement"; nobody answers again.',
}


@dataclass(frozen=True, repr=False)
class GenaiInvestigation(JudgedEvaluation):
    """What :func:`mlflow_l3d.genai.investigate` found.

    Attributes
    ----------
    run_id, run_ids, title, scorers, notes, source, pairs
        As in :class:`mlflow_l3d.studies.judged.results.JudgedEvaluation`; `run_ids` are the runs of judgements.
    factors
        The logged parameters: factor -> names of its levels, or their number.
    computed, reused, missing
        Cells that were carried out by this call, that were found, and that the budget left out.
    table
        One row per judgement: ``row, answer, repeat, scorer, judge, judgement, value, failed, run_id`` and the factors
        of the app. ``failed`` is ``answer`` if the app raised, and nobody judged it, ``judge`` if the scorer raised or
        returned nothing.
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
        answers, sections = [], []
        for factor in dict.fromkeys(pair.factor for pair in self.pairs):
            pairs = [pair for pair in self.pairs if pair.factor == factor]
            by_scorer = [[pair for pair in pairs if pair.scorer == one.scorer] for one in self.scorers]
            best = " ".join(map(best_level, filter(None, by_scorer)))  # a budget may leave a scorer one level
            answers.append(Answer(question := f"Which {factor} is best?", "", (best,)))
            notes = dict.fromkeys(note for pair in pairs for note in pair.record.notes)
            sections.append(Section(question, [differences_table(pairs), _LEVELS, *notes], is_open=True))
        return replace(
            document,
            answers=[*answers, *document.answers],
            steps=[*self._steps(self.scorers[0])],
            lines=[f"{counted(self.computed, 'run')} computed, {self.reused} taken from earlier runs", *document.lines],
            sections=[*sections, *document.sections],
            settings={**heading(self.run_id), **self.factors},
        )

    def _steps(self, lead: ScorerNumbers) -> Iterator[Step]:
        """Yield what to do next."""
        if self.missing:
            yield Step("Call it again: the same call continues with the cells that the budget left out.")
        if self.factors["replicate"] == "1":
            yield Step('Set "replicate": 2 to see the luck of answers: only the second answers are asked for.')
        best = lead.gains.iloc[1:].nlargest(1, "gain").query("gain > 0").to_dict("records")
        for what, gain in ((each["design"].removeprefix("one more "), each["gain"]) for each in best):
            how = _MORE.get(what, f"Add a level of {what}; only its answers are asked for.")
            yield Step(f"One more {what} lowers the standard error of {lead.scorer} most, by {share_text(gain)}. {how}")

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


def concluded(work: Work, table: pd.DataFrame, notes: Sequence[str], metric: str, source: Source) -> GenaiInvestigation:
    """Return the result of a table of judgements and its notes: numbers for each scorer that gave one."""
    parts = {str(name): part for name, part in table.groupby("scorer", sort=False) if part["value"].notna().any()}
    if not parts:
        raise L3DError("scorers: none gave a number, yes or no. Return one of these, such as bool(...).")
    failed = table[table["failed"].eq("answer")]["answer"].nunique()
    answers = table["answer"].nunique()
    if failed:
        fix = "To ask their cells again, delete these traces."
        raised = f"{counted(failed, 'answer')} of {answers} failed (predict_fn raised): nobody judged them. {fix}"
        notes = [raised, *notes]
    if again := sum(row["tags"][names.REPEAT] != "0" for row in work.request.rows):
        notes = [f"Equal inputs: {counted(again, 'row')} of the data counted as a repeat of an earlier row.", *notes]
    if work.missing:
        left_out = f"The budget ({work.budget}) left out {work.missing} of {work.total} cells"
        notes = [f"{left_out}: the same call continues with them.", *notes]
    later = [each.rates for each in work.request.judgings] if work.missing else []  # the budget may leave out a scorer
    named = chosen(metric, [*dict.fromkeys([*parts, *later])])
    directions = {name: is_higher for name, is_higher in named.items() if name in parts}
    every = chosen("auto", [*parts])
    parts = {name: parts[name] for name in dict.fromkeys([*directions, *parts])}
    factors = [*work.request.factors]
    of_levels = [level_pairs(part, factors, {**every, **directions}[name]) for name, part in parts.items()]
    for factor, levels in work.request.factors.items():
        if len(levels) > 1 and all(level.is_prompt for level in levels):
            these = f"A difference of {factor} is one of these {len(levels)} prompts"
            notes = [*notes, f"{these}: how much another wording of the same idea changes is not part of it."]
    numbers = {row["tags"][names.ROW]: number for number, row in reversed([*enumerate(work.request.rows)])}
    return GenaiInvestigation(
        source.run_id,
        tuple(table["run_id"].unique()),
        work.request.title,
        tuple(score_scorer(part, numbers=numbers) for part in parts.values()),
        tuple(notes),
        source,
        adjusted([pair for pairs in of_levels for pair in pairs]),
        work.request.parameters,
        work.computed,
        work.reused,
        work.missing,
        table,
    )


def best_level(pairs: Sequence[Pair]) -> str:
    """Return which level of a factor is best by a scorer, from the differences of all of its levels."""
    if not any(pair.record.difference for pair in pairs):
        lost = next((f" ({pair.record.obstacle})" for pair in pairs if pair.is_lossy), "")
        return f"On {pairs[0].scorer}, all levels are equal{lost}."
    best = Counter(pair.sides[0] for pair in pairs).most_common(1)[0][0]
    rivals = {pair.second if pair.first == best else pair.first: pair for pair in pairs if best in pair.sides}
    won = [name for name, pair in rivals.items() if pair.is_decided and pair.sides[0] == best]
    rest = [name for name in rivals if name not in won]
    words = {f"**{best}** is better than": won, f"undecided between **{best}** and": rest}
    said = [f"{text} {listed(levels)}" for text, levels in words.items() if levels]
    near = min((rivals[name] for name in rest or won), key=lambda pair: abs(pair.record.difference))
    gain, interval = sized_difference(near, 1 if near.first == best else -1)
    sure = near.record.obstacle or f"{interval}, p = {near.record.p_adjusted:.2g}"
    return f"On {near.scorer}, {'; '.join(said)}: difference {gain} ({sure})."
