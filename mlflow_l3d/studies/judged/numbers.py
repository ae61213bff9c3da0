"""The numbers of one scorer: mean, sources of luck, agreement of judges, passes of k answers, and unstable rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import pandas as pd

from mlflow_l3d.analysis.comparison.results import BETTER, UNDECIDED, WORSE
from mlflow_l3d.analysis.comparison.system import MOST_LOST
from mlflow_l3d.analysis.intervals import known, with_interval
from mlflow_l3d.analysis.judged import Components, JudgedDifference, gain
from mlflow_l3d.analysis.judged.components import components
from mlflow_l3d.analysis.judged.difference import difference, differences
from mlflow_l3d.analysis.judged.repeated import judge_agreement, pass_table, unstable_rows
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import Unit, counted, listed, unit_of

_FEW: Final = 4
"""Numbers of answers, from 1, of which pass^k and pass@k are metrics, next to the largest."""


@dataclass(frozen=True)
class OfScorer:
    """Numbers of a scorer, with their unit.

    Attributes
    ----------
    scorer, is_binary
        Its name, and whether all of its values are 0 or 1: verdicts, whose mean is read in percent.
    """

    scorer: str
    is_binary: bool

    @property
    def unit(self) -> Unit:
        """Percentage points for verdicts, else the unit of the values."""
        return unit_of(Metric(self.scorer, percent=self.is_binary))

    def shown(self, value: float) -> str:
        """Return a score as people read it."""
        return f"{self.unit.text(value, 1)}{' %' if self.is_binary and not math.isnan(value) else ''}"


@dataclass(frozen=True)
class ScorerNumbers(OfScorer):
    """The numbers of one scorer.

    Attributes
    ----------
    components, gains
        Mean and sources of luck, and what one more row, answer, judge or judgement gains.
    agreement
        Pairs of judges; empty with one judge.
    passes
        pass^k and pass@k; empty unless every row has several answers and values are 0 or 1.
    unstable
        Rows whose verdict changes: ``number`` in the data if it is known; ``answer``, the id of one answer's trace.
    recorded_mean
        The mean that MLflow logged, over failed answers, too; nan if there is not just one.
    """

    components: Components
    gains: pd.DataFrame
    agreement: pd.DataFrame
    passes: pd.DataFrame
    unstable: pd.DataFrame
    recorded_mean: float

    @property
    def agreed(self) -> tuple[str, float]:
        """Name and value of the judges' agreement: Cohen's kappa of two, Krippendorff's alpha of more."""
        first = self.agreement.iloc[0]
        return "Krippendorff's alpha" if first["second"] == "all" else "Cohen's kappa", first["kappa"]

    @property
    def is_rated_once(self) -> bool:
        """Whether there is one judgement of each row and version, so that no verdict can change."""
        design = self.components.design  # means: some rows may be repeated if others miss a version
        return self.unstable.empty and all(design[part] <= 1 for part in ("repeat", "judge", "judgement"))

    def summary(self) -> dict[str, float]:
        """Return what a line of a table holds: the mean with its interval, and what counts."""
        one = self.components
        mean = dict(zip(with_interval("mean"), (one.mean, one.mean_low, one.mean_high), strict=True))
        counts = {"rows": one.rows, "answers": one.answers, "judgements": one.judgements}
        last = {**counts, "unstable_rows": math.nan if self.is_rated_once else len(self.unstable)}
        return {**mean, "mean_std": one.mean_std, "mlflow_mean": self.recorded_mean, **last}

    @property
    def changing(self) -> pd.DataFrame:
        """The rows whose verdict changes with numbers as people count them, from 1; `unstable` counts from 0."""
        if "number" not in self.unstable:
            return self.unstable
        return self.unstable.assign(number=[number + 1 for number in self.unstable["number"]])

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the run of the result: few, as each is a chart in MLflow; tables hold all numbers."""
        stds = self.components.frame.set_index("source")["std"].add_prefix("std/")
        values = {**self.summary(), **stds[~stds.index.str.contains(" x ")]}
        passes = self.passes.to_dict("records")
        for row in [*passes[:_FEW], *passes[_FEW:][-1:]]:
            values |= {f"pass_hat_{row['k']}": row["all_pass"], f"pass_at_{row['k']}": row["any_pass"]}
        if len(self.agreement):
            values[self.agreed[0].split()[-1]] = self.agreed[1]
        return {f"{self.scorer}/{name}": float(value) for name, value in known(values).items()}


@dataclass(frozen=True)
class Pair(OfScorer):
    """Two systems by one scorer, and the first less the second.

    Attributes
    ----------
    first, second, record
        Their names, and the difference.
    factor
        Of whose levels they are; else empty.
    is_lossy
        Whether too many answers are lost to decide anything.
    """

    first: str
    second: str
    record: JudgedDifference
    factor: str = ""
    is_lossy: bool = False

    @property
    def is_decided(self) -> bool:
        """Whether one system is better."""
        return self.record.verdict in (BETTER, WORSE)

    @property
    def sides(self) -> tuple[str, str]:
        """The system with the better mean, and the other one."""
        ahead = self.record.difference >= 0 if self.record.higher_is_better else self.record.difference <= 0
        return (self.first, self.second) if ahead else (self.second, self.first)

    @property
    def non_inferior(self) -> str:
        """Which system is not worse by more than the smallest effect; empty if neither or both are."""
        one, names = self.record, (self.first, self.second)
        limits = -one.joint_low, one.joint_high  # the most that the first, and the second, may be smaller by
        losses = limits if one.higher_is_better else limits[::-1]
        if one.verdict != UNDECIDED or one.obstacle or not min(losses) <= one.smallest_effect:
            return ""
        return names[0] if losses[0] < losses[1] else names[1]

    @property
    def not_worse(self) -> str:
        """The same in a sentence."""
        if not (which := self.non_inferior):
            return ""
        other = self.second if which == self.first else self.first
        most = self.unit.size(self.record.smallest_effect)
        return f" {which} is not worse than {other} by more than {most} on {self.scorer} (non-inferiority)."

    @property
    def rows_needed(self) -> float:
        """Rows that settle it with a power of 80 %."""
        return float(self.record.rows_needed.get(0.8, math.nan))

    @property
    def planned(self) -> str:
        """The true difference that `rows_needed` is about, as people read it."""
        effect = self.record.smallest_effect
        return "the one measured" if math.isnan(effect) else self.unit.size(effect)

    def change_text(self, value: float) -> str:
        """Return a difference as people read it: no digits that the interval leaves open."""
        return self.unit.change(value, digits=self.unit.digits(self.record.joint_high - self.record.joint_low))

    def summary(self) -> dict[str, Any]:
        """Return what a line of a table holds: all numbers."""
        left_out = {"needed", "notes", "rows_needed", "degrees", "level", "higher_is_better", "largest"}
        numbers = {name: value for name, value in vars(self.record).items() if name not in left_out}
        names = {"scorer": self.scorer, **({"factor": self.factor} if self.factor else {})}
        more = {"non_inferior": self.non_inferior, "rows_needed": self.rows_needed}
        return {**names, "first": self.first, "second": self.second, **numbers, **more}

    def metrics(self, *, several: bool = True) -> dict[str, float]:
        """Return the metrics of a run, with names for one of several pairs."""
        one, between = self.record, f"{self.first}-{self.second}"
        path = "/".join([self.scorer, *([self.factor] if self.factor else []), *([between] if several else [])])
        ends = {"difference_ci_low": one.joint_low, "difference_ci_high": one.joint_high}
        values = {"difference": one.difference, **ends, "p_value": one.p_adjusted, "rows_paired": float(one.rows)}
        return {f"{path}/{name}": value for name, value in known(values).items()}


def pair_of(first: str, second: str, tables: Sequence[pd.DataFrame], *, factor: str = "", **given: Any) -> Pair:
    """Return the difference of two systems by one scorer; ``smallest_effect`` in the unit that people read."""
    is_binary = is_zero_or_one(pd.concat(tables))
    if given.get("smallest_effect") is not None and is_binary:
        given["smallest_effect"] /= 100
    return Pair(str(tables[0]["scorer"].iloc[0]), is_binary, first, second, difference(*tables, **given), factor)


def without_verdict(pair: Pair, lost: Mapping[str, tuple[int, int]]) -> Pair:
    """Return a pair that nothing is decided about if a side lost more than :data:`MOST_LOST` of its answers.

    Lost answers are rarely any answers: those that take long, or are wrong, fail more often.

    Parameters
    ----------
    pair
        Two systems by one scorer.
    lost
        System -> answers that failed, are missing or were not judged, and all of them.
    """
    if not any(missing > MOST_LOST * whole for missing, whole in lost.values()):
        return pair
    said = [f"{missing} of {counted(whole, 'answer')} of {name}" for name, (missing, whole) in lost.items() if missing]
    return replace(pair, is_lossy=True, record=replace(pair.record, obstacle=f"{listed(said)} are lost"))


def level_pairs(table: pd.DataFrame, factors: Sequence[str], higher_is_better: bool) -> Iterator[Pair]:
    """Yield the differences of all levels of each factor by one scorer, other factors being what the sides share."""
    for factor in factors:
        others = [name for name in factors if name != factor]
        sides = {str(level): part.drop(columns=factor) for level, part in table.groupby(factor, sort=False)}
        for one, other in combinations(sides, 2):
            tables = _on_shared_cells(sides[one], sides[other], others)
            if all(len(part) for part in tables):
                pair = pair_of(one, other, tables, factor=factor, higher_is_better=higher_is_better)
                yield without_verdict(pair, dict(zip((one, other), map(_lost, tables), strict=True)))


def _on_shared_cells(one: pd.DataFrame, other: pd.DataFrame, factors: Sequence[str]) -> list[pd.DataFrame]:
    """Return two sides in the cells in which both were rated: a budget may leave out others, perhaps easier ones."""
    if not factors:
        return [one, other]
    cells = [pd.MultiIndex.from_frame(side[[*factors]]) for side in (one, other)]
    rated = [cell[side["value"].notna()] for cell, side in zip(cells, (one, other), strict=True)]
    shared = rated[0].unique().intersection(rated[1].unique())
    return [side[cell.isin(shared)] for cell, side in zip(cells, (one, other), strict=True)]


def _lost(table: pd.DataFrame) -> tuple[int, int]:
    """Return how many answers failed or were not judged, and of how many."""
    whole = table["answer"].nunique()
    return whole - table.loc[table["failed"].eq(""), "answer"].nunique(), whole


def adjusted(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return differences adjusted for their number."""
    records = differences([pair.record for pair in pairs])
    return tuple(replace(pair, record=record) for pair, record in zip(pairs, records, strict=True))


def score_scorer(
    table: pd.DataFrame, recorded: Sequence[float] = (), numbers: Mapping[str, int] | None = None
) -> ScorerNumbers:
    """Return the numbers of one scorer.

    Parameters
    ----------
    table
        Its judgements, at least one with a value that counts.
    recorded
        The means that MLflow logged, one per run.
    numbers
        Row -> its number in the data, if that is known.
    """
    is_binary, parts = is_zero_or_one(table), components(table)
    passes = pass_table(table) if is_binary else pd.DataFrame()
    unstable = unstable_rows(table).merge(table.drop_duplicates("row")[["row", "answer"]], on="row")
    if numbers:
        unstable.insert(0, "number", unstable["row"].map(numbers))
    return ScorerNumbers(
        scorer=str(table["scorer"].iloc[0]),
        is_binary=is_binary,
        components=parts,
        gains=gain(parts),
        agreement=judge_agreement(table) if parts.design["judge"] > 1 else pd.DataFrame(),
        passes=passes if len(passes) > 1 else pd.DataFrame(),
        unstable=unstable,
        recorded_mean=recorded[0] if len(recorded) == 1 else math.nan,
    )


def is_zero_or_one(table: pd.DataFrame) -> bool:
    """Return whether all values are 0 or 1."""
    return bool(table["value"].dropna().isin([0.0, 1.0]).all())
