"""What three strategies say about the same factors: where the simpler ones differ from the published method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mlflow_l3d.analysis.importance.verdicts import GOLDEN_ROW, StrategyResult, strategy_table
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.numbers import bracketed, metric_text, signed, unit_of
from mlflow_l3d.report.page import Document, Item, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table
from mlflow_l3d.report.text import Answer
from mlflow_l3d.studies.investigation.report.page import golden_strip
from mlflow_l3d.studies.investigation.report.runs import Runs
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.investigation.report.words import steps

_WORDS: Final = {True: "important", False: "not important", None: "without a verdict"}
_WHY: Final = {"random": "in its runs all factors vary.", "fixed": "in its runs the other factors never change."}
_Verdicts = Mapping[str, Mapping[str, bool | None]]
"""Factor -> strategy -> whether it calls the factor important."""


def strategies_document(
    analysis: Analysis, results: Sequence[StrategyResult], *, title: str, source: Source, lines: Sequence[str] = ()
) -> Document:
    """Return what three strategies say about the same factors as people read it.

    Parameters
    ----------
    analysis
        Of the published method.
    results
        Of every factor and strategy.
    source
        The investigation by the published method.
    title, lines
        As in :class:`mlflow_l3d.report.page.Document`.
    """
    verdicts: dict[str, dict[str, bool | None]] = {factor: {} for factor in analysis.importances}
    for each in results:
        verdicts.get(each.factor, {})[each.strategy] = each.important
    opening = [Answer("What does the published method say?", "", (_said(verdicts, "interactions"),))]
    for strategy, why in _WHY.items():
        differing = _differing(verdicts, strategy)
        said = f"By {strategy}, {_said(differing, strategy)[:-1]}: {why}" if differing else "**Nowhere.**"
        opening.append(Answer(f"Where does {strategy} differ?", "", (said,)))
    unit = unit_of(analysis.metric)
    frame = strategy_table(results, scale=unit.scale).rename(index={GOLDEN_ROW: "golden model"})
    note = (
        f"std in {unit.name}; (*) important: random and fixed from half of the golden std on, interactions if the "
        "importance is above 0."
    )
    table = Table(("factor", *frame.columns), tuple(map(tuple, frame.itertuples(name=None))), note)
    numbers = [
        Item(
            f"importance {signed(record.importance)}, corrected {signed(record.importance_corrected)} "
            f"{bracketed(*record.corrected_interval)}",
            factor,
        )
        for factor, record in analysis.importances.items()
    ]
    shown = Shown(analysis)
    return Document(
        title=title,
        headline=_headline(verdicts),
        about=source.about(metric_text(analysis.metric)),
        place=source.place(),
        answers=opening,
        drawing=golden_strip(shown, Runs()),
        table=table,
        steps=steps(shown, source)[:1],
        lines=lines,
        sections=[Section("What the published method measures", [numbers])],
    )


def _differing(verdicts: _Verdicts, strategy: str) -> _Verdicts:
    return {name: by for name, by in verdicts.items() if by[strategy] is not by["interactions"]}


def _headline(verdicts: _Verdicts) -> str:
    if all(important is None for by in verdicts.values() for important in by.values()):
        return "No strategy gives a verdict: the golden runs do not differ."
    count = len(_differing(verdicts, "random").keys() | _differing(verdicts, "fixed").keys())
    every = f"all {len(verdicts)} factors" if len(verdicts) > 1 else "the factor"
    which = f"{count} of {len(verdicts)} factors" if 0 < count < len(verdicts) else every
    return f"Simpler strategies judge {which} {'otherwise than' if count else 'like'} the published method."


def _said(verdicts: _Verdicts, strategy: str) -> str:
    """Return which of some factors a strategy calls important, and which not."""
    parts = []
    for important, word in _WORDS.items():
        called = [name for name, by in verdicts.items() if by[strategy] is important]
        if called:
            more = f" and {len(called) - 4} more" if len(called) > 4 else ""
            parts.append(f"**{', '.join(called[:4])}{more}** {'is' if len(called) == 1 else 'are'} {word}")
    return f"{'; '.join(parts)}."
