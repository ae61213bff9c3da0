"""A sweep, and what terminal, page and figures need to know about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.importance.estimate import total_index_of
from mlflow_l3d.analysis.intervals import with_interval
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.report.numbers import MISSING, Unit, counted, plain, shorten, signed, unit_of
from mlflow_l3d.studies.investigation.report import SHARES
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.sweep.numbers import OF_CHOICE, Sweep
from mlflow_l3d.studies.sweep.numbers.interactions import Interaction
from mlflow_l3d.studies.sweep.numbers.point import GOLDEN_STD, TASK, is_numeric, value_text
from mlflow_l3d.studies.sweep.numbers.trends import Trend

FAILED: Final = "failed"
"""Verdict of a point without a score."""
_LONGEST: Final = 24
_LARGEST: Final = 10.0  # growth of a standard deviation beyond which its size says nothing


@dataclass(frozen=True)
class ShownSweep:
    """A sweep as it is shown."""

    sweep: Sweep

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Its table with ``verdict``, ``failed`` without a score, ``run_mean`` and ``run_std``: as a point's report."""
        rows = self.sweep.rows
        shown = {at: Shown(each.analysis) for at, each in enumerate(self.sweep.points) if each.analysis is not None}
        verdicts = [
            shown[at].verdict(shown[at].analysis.importances[factor]) if factor else FAILED
            for at, factor in zip(rows["point"], rows["factor"], strict=True)
        ]
        means = {at: each.golden_scores.mean() for at, each in shown.items() if each.golden_scores.size}
        stds = {at: each.golden_deviation for at, each in shown.items()}
        return rows.assign(verdict=verdicts, run_mean=rows["point"].map(means), run_std=rows["point"].map(stds))

    @property
    def frame(self) -> pd.DataFrame:
        """Its main columns in the units of the report, shares and their ends in %; choices by their plain names."""
        rows, shares = self.rows, 100 * self.shares
        chosen = {OF_CHOICE + name: name for name in self.sweep.choices if name != TASK}
        heads = {"moves_by_std": "moves score by", "run_std": "std of golden runs"}
        columns = [TASK, *chosen, "factor", "verdict", *heads, "importance", "error"]
        frame = self.unit.heads(rows[columns].rename(columns=chosen), {}, heads)
        for at, name in enumerate(SHARES):
            frame.insert(3 + len(chosen) + at, name, shares[at])
        return frame

    @property
    def unit(self) -> Unit:
        """What scores are written in; that of the first metric where points have several."""
        return unit_of(next((each.metric for each in self.analyses), F1_MACRO))

    @property
    def behind(self) -> str:
        """The unit after a number, if scores are read in percent: in full, as a point is one of the sweep."""
        return f" {self.unit.name}" if self.unit.behind else ""

    @cached_property
    def labels(self) -> pd.DataFrame:
        """Choices of every row of the table, as texts."""
        labels = {}
        for choice in self.sweep.choices:
            values = self.rows[TASK if choice == TASK else OF_CHOICE + choice]
            labels[choice] = values.map(lambda value: MISSING if pd.isna(value) else value_text(value)).astype(object)
        return pd.DataFrame(labels, index=self.rows.index)

    @cached_property
    def lines(self) -> dict[str, dict[str, int]]:
        """Values of the choices -> factor -> number of the row of the table; points without a score have no factor."""
        lines: dict[str, dict[str, int]] = {}
        names = self.labels.agg(", ".join, axis=1) if self.sweep.choices else self.rows[TASK]
        for at, (name, factor) in enumerate(zip(names, self.rows["factor"], strict=True)):
            lines.setdefault(name, {}).update({factor: at} if factor else {})
        return lines

    @cached_property
    def shares(self) -> pd.DataFrame:
        """Share of the variance (0..1) of every row of the table, and its interval: columns 0, 1 and 2."""
        return pd.DataFrame(
            {at: self.rows[name].map(total_index_of) for at, name in enumerate(with_interval("importance_corrected"))}
        )

    @cached_property
    def factors(self) -> list[str]:
        """The factors, that with the largest mean share first; those without one last."""
        means = self.shares[0].groupby(self.rows["factor"]).mean()
        return sorted(self.sweep.factors, key=lambda name: -means[name] if math.isfinite(means[name]) else 1.0)

    @cached_property
    def luck(self) -> pd.DataFrame:
        """One row for each point with a golden standard deviation, the largest first."""
        rows = self.rows.dropna(subset=["run_std"]).drop_duplicates("point")
        return rows.sort_values("run_std", ascending=False, kind="stable")

    @cached_property
    def analyses(self) -> list[Analysis]:
        """Those of the points that have one."""
        return [point.analysis for point in self.sweep.points if point.analysis is not None]

    @property
    def runs(self) -> int:
        """How many runs of all points have a score."""
        return sum(Shown(analysis).runs for analysis in self.analyses)

    @cached_property
    def metrics(self) -> list[str]:
        """Names of their metrics."""
        return sorted({each.metric.name for each in self.analyses})

    @cached_property
    def names(self) -> list[str]:
        """The points in few words: the values of their choices."""
        if not self.sweep.choices:
            return [point.task for point in self.sweep.points]
        first = ~self.rows["point"].duplicated().to_numpy()
        parts = {
            name: [f"{name}={text}" if is_numeric(values) else short(text) for text in self.labels[name][first]]
            for name, values in self.sweep.choices.items()
        }
        return [", ".join(each) for each in zip(*parts.values(), strict=True)]

    @property
    def names_head(self) -> str:
        """What the parts of :attr:`names` are."""
        return ", ".join(self.sweep.choices) or TASK

    def what(self, of: str) -> str:
        """Return what a number is called in a sentence."""
        return "the golden standard deviation" if of == GOLDEN_STD else f"the importance of {of}"

    def change(self, of: str, value: float, sign: str = "+") -> str:
        """Return a difference: of importance as it is, of the golden standard deviation in per cent."""
        if of != GOLDEN_STD or not math.isfinite(value):
            return plain(round(value, 2), sign=sign)
        if value > math.log1p(_LARGEST):
            return f">{sign}{100 * _LARGEST:,.0f} %"
        return f"{round(100 * math.expm1(value)) + 0.0:{sign}.0f} %"

    def level(self, of: str, value: float) -> str:
        """Return a mean: of importance as it is, of the log of a standard deviation as it is written."""
        return self.unit.text(math.exp(value)) if of == GOLDEN_STD else signed(value)

    def claimed(self, one: Trend | Interaction) -> bool:
        """Return whether a test is a claim, by its adjusted p-value."""
        return one.p_holm <= 1 - self.sweep.level

    @cached_property
    def trends(self) -> list[Trend]:
        """The trends, the surest first."""
        return sorted(self.sweep.trends, key=lambda one: (math.isnan(one.p_holm), one.p_holm, one.p))

    @cached_property
    def moves(self) -> list[Interaction]:
        """The tests of choices, the surest first."""
        return sorted(self.sweep.interactions, key=lambda one: (math.isnan(one.p_holm), one.p_holm, one.test.p))

    @property
    def every_test(self) -> list[Trend | Interaction]:
        """The trends, then the tests of choices."""
        return [*self.trends, *self.moves]

    @property
    def tests(self) -> str:
        """How many tests p-values are adjusted for: those of trends and of choices together."""
        count = sum(math.isfinite(one.p_holm) for one in self.every_test)
        return f"adjusted for {counted(count, 'test')}" if count else "(there is none)"


def short(part: str) -> str:
    """Return a value of a choice in few letters: of a model what follows the last slash, with its end."""
    text = shorten(part.rstrip("/").rpartition("/")[2] or part)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 11]}...{text[-8:]}"
