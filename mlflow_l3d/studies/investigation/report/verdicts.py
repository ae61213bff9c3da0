"""What all parts of a report say of an analysis alike, and what they say about one factor."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mlflow_l3d.analysis.consistency.results import PredictionImportance
from mlflow_l3d.analysis.importance.estimate import total_index_of
from mlflow_l3d.analysis.importance.results import Check, Importance
from mlflow_l3d.analysis.importance.verdicts import baseline_important
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import Design, design_named
from mlflow_l3d.report.numbers import MISSING, Unit, percent, share_texts, shorten, unit_of


@dataclass(frozen=True)
class Shown:
    """An analysis, and what terminal, page and figures need to know about it."""

    analysis: Analysis

    @property
    def design(self) -> type[Design]:
        """Its design."""
        return design_named(self.analysis.design)

    @property
    def unit(self) -> Unit:
        """What its scores are written in."""
        return unit_of(self.analysis.metric)

    @cached_property
    def records(self) -> list[Importance]:
        """The factors, largest corrected importance first; those without one last, by the published importance.

        Baseline strategies have neither: there the factor whose runs vary most comes first.
        """

        def place(record: Importance) -> list[float]:
            judged = [record.importance_corrected, record.importance]
            return [
                -each if math.isfinite(each) else math.inf
                for each in (*([record.score_std] if baseline else []), *judged)
            ]

        baseline = self.design.baseline

        return sorted(self.analysis.importances.values(), key=place)

    @property
    def level(self) -> float:
        """Level of the intervals, which the factors share."""
        return self.records[0].level if self.records else 0.95

    @property
    def together(self) -> str:
        """What the intervals allow for in addition to their own factor; empty if that is nothing."""
        if self.level <= self.analysis.level:
            return ""
        looks = self.analysis.interim_analyses
        rule = looks is not None and bool(looks["alpha"].notna().any())
        every = f"{'all interim analyses and ' if rule else ''}all factors"
        return f" (so that the intervals of {every} hold together with {percent(self.analysis.level)})"

    @cached_property
    def golden(self) -> Importance | None:
        """The record with the fullest set of golden scores; the factors share them."""
        records = self.analysis.importances.values()
        return max(records, key=lambda record: int(np.isfinite(record.golden).sum()), default=None)

    @cached_property
    def golden_scores(self) -> FloatArray:
        """The golden scores that there are."""
        return np.empty(0) if self.golden is None else self.golden.golden[np.isfinite(self.golden.golden)]

    @property
    def runs(self) -> int:
        """How many runs have a score; those that stand for golden runs are cells of the tables, too."""
        if self.design.tables_are_golden or self.golden_word == "pooled":
            return len(self.golden_scores)
        return len(self.golden_scores) + sum(int(np.isfinite(record.table).sum()) for record in self.records)

    @property
    def golden_deviation(self) -> float:
        """The standard deviation of a run that all sentences name."""
        return self.design.run_spread(self.records)[1] if self.records else math.nan

    @property
    def golden_word(self) -> str:
        """The word before ``std``: golden, or pooled."""
        return "pooled" if self.golden is not None and self.golden.golden_pooled else "golden"

    @property
    def golden_runs(self) -> str:
        """What the golden scores are: golden runs only where they were run."""
        is_pooled = self.golden is None or self.golden_word == "pooled"
        return f"{self.golden_word} runs" if is_pooled else self.design.words.golden

    @property
    def graded(self) -> bool:
        """Whether predictions may agree in part, so that CON is a mean and CCON says how good they are."""
        return self.analysis.agreement not in (None, "exact_match", "regression")

    def prediction_importance(self, factor: str) -> PredictionImportance | None:
        """Return the importance of a factor for single predictions; None where too few examples were compared."""
        is_reported = None not in map(self.analysis.reported_agreement, (factor, "golden"))
        return self.analysis.prediction_importances.get(factor) if is_reported else None

    def say(self, text: str) -> str:
        """Return a sentence of the design with the words in braces filled in."""
        return text.format(
            design=self.analysis.design,
            metric=shorten(self.analysis.metric.name, 40),
            unit=self.unit.name,
            pp=self.unit.short,
            level=percent(self.level),
            golden=self.golden_word,
            runs=self.golden_runs,
        )

    def verdict(self, record: Importance) -> str:
        """Return the verdict on a factor in one word; none for a baseline strategy, which has no such rule."""
        return MISSING if self.design.baseline else self.analysis.verdict(record.factor).word

    def is_important(self, record: Importance) -> bool | None:
        """Return whether the published rule, or a baseline strategy, calls a factor important; None if it cannot."""
        if self.design.baseline:
            return baseline_important(record.score_std, record.golden_std)
        return record.importance > 0 if math.isfinite(record.importance) else None

    def shares(self, record: Importance) -> tuple[float, float, float]:
        """Return the factor's share of the variance and its interval, cut at 0 and 1."""
        low, high = record.corrected_interval
        return total_index_of(record.importance_corrected), total_index_of(low), total_index_of(high)

    def share_text(self, record: Importance, form: str = "{} % ({} to {} %)", alone: str = "{} %") -> str:
        """Return these numbers in per cent, with the decimals that the verdict needs; `alone` if there are no ends."""
        texts = share_texts(*self.shares(record))
        return (alone if MISSING in texts[1:] else form).format(*texts)


def golden_share(record: Importance) -> float:
    """Return the std of a factor's runs as a share of the golden std, which is what a baseline strategy judges by."""
    has_golden = record.golden_std > 0 and math.isfinite(record.golden_std)
    return record.score_std / record.golden_std if has_golden else math.nan


class Paragraph(NamedTuple):
    """Checks of one code, severity and title; `message` says once what all have in common."""

    code: str
    severity: str
    title: str
    factors: tuple[str, ...]
    message: str


def by_code(checks: Iterable[Check]) -> list[Paragraph]:
    """Return a paragraph for each code, severity and title, in the order in which they come."""
    groups: dict[tuple[str, str, str], list[Check]] = {}
    for check in checks:
        groups.setdefault((check.code, check.severity, check.title), []).append(check)
    paragraphs = []
    for head, group in groups.items():
        sentences = [check.message.split(". ") for check in group]
        common = [each for each in sentences[0] if all(each in other for other in sentences)]
        # A check of the whole investigation has no name to stand before what it says alone.
        single = [
            (f"{check.factor}: " if check.factor and len(group) > 1 else "")
            + ". ".join(each for each in parts if each not in common).rstrip(".")
            for check, parts in zip(group, sentences, strict=True)
            if not set(parts) <= set(common)
        ]
        factors = tuple(dict.fromkeys(check.factor for check in group if check.factor))
        paragraphs.append(Paragraph(*head, factors, ". ".join([*single, *common]).rstrip(".") + "."))
    return paragraphs
