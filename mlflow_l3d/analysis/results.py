"""What an analysis returns: frozen records that neither compute nor log.

Scores and standard deviations are in the unit of the table they came from (MLflow holds fractions, 0..1); importance
has no unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES, ExampleVotes
from mlflow_l3d.analysis.consistency.results import Consistency, PredictionImportance
from mlflow_l3d.analysis.cure import Foreseen
from mlflow_l3d.analysis.importance.multiplicity import Ranking
from mlflow_l3d.analysis.importance.results import FURTHER_METRICS, Check, Importance
from mlflow_l3d.analysis.importance.shape import Collapse, Tails, tails
from mlflow_l3d.analysis.importance.verdicts import Advice, StrategyResult, Verdict, verdict_of
from mlflow_l3d.analysis.intervals import LEVEL, known, with_interval
from mlflow_l3d.metrics.base import Metric

OF_ALL_FACTORS: Final = with_interval("golden_std")
"""Numbers that do not depend on the factor."""
_IN_FILES: Final = frozenset(FURTHER_METRICS) | {"accuracy_std", "accuracy_std_population"}
_OF_FILES: Final = ("variance_", "prediction_importance")
"""Numbers of a factor, and how such names begin, that ``importance.json`` has, and no parent as metrics."""

_OF_AGREEMENT: Final = ("consistency", "correct_consistency", "fleiss_kappa")
_OF_BOTH: Final = ("prediction_share", "prediction_share_ci_low", "prediction_share_ci_high")
"""Ratios of the agreement within rows and that of the golden runs."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything that is computed from the cells of one investigation.

    Attributes
    ----------
    metric
        The metric whose spread is investigated.
    importances
        Factor -> importance, in the order of investigation.
    consistencies
        Factor or ``golden`` -> consistency; empty if there are no predictions.
    checks
        What is doubtful.
    cells_failed
        Cells of the plan that have no score, golden runs included.
    design
        Name of the design.
    advice
        Factor -> what to do where its verdict is undecided; empty if the design is a baseline strategy.
    ranking
        Factors by corrected importance, and which can be distinguished; None for one factor, or where designs have
        none.
    prediction_importances
        Factor -> importance for single predictions; empty if there are none.
    examples
        Which examples of the golden runs (radial: of all base runs) are robust and which fragile; None if there are
        no predictions.
    regression
        Factor or ``golden`` -> ``consistency_pearson`` and ``consistency_ccc``, where predictions are numbers.
    agreement
        How predictions were compared: ``regression``, or a scoring function with its options; None for class numbers,
        and if there are no predictions.
    strategies
        Factor -> result of the baseline strategy, for the designs ``random`` and ``fixed``; else empty.
    interim_analyses
        One row for each look of each factor at the investigation while it ran
        (:mod:`mlflow_l3d.analysis.planning.stopping`), with a column ``factor``; None without a stopping rule.
    collapse
        The two parts of the score; None if no run scored below chance.
    guessing
        Independent runs that are no better than guessing, if that comes before all luck; else 0.
    level
        Probability with which the verdicts of all factors hold together. The level of the intervals is higher: it
        allows for the number of factors, and with ``stop=interval`` for the interim analyses.
    cells_deleted
        Cells whose runs were deleted from the tracking server, as far as that is seen.
    remedies
        What would help, by the predictions of these runs; None if nobody asked.
    test_examples, luck_of_tests
        Test examples of a run, and the standard deviation of the score that a choice of so many causes alone; 0 and nan
        if predictions are not classes.
    tests_drawn
        Whether runs have test examples of their own, whose luck is then part of the spread; else it comes on top.
    """

    metric: Metric
    importances: Mapping[str, Importance]
    consistencies: Mapping[str, Consistency] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    cells_failed: int = 0
    design: str = "crossed"
    advice: Mapping[str, Advice] = field(default_factory=dict)
    ranking: Ranking | None = None
    prediction_importances: Mapping[str, PredictionImportance] = field(default_factory=dict)
    examples: ExampleVotes | None = None
    strategies: Mapping[str, StrategyResult] = field(default_factory=dict)
    regression: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    agreement: str | None = None
    interim_analyses: pd.DataFrame | None = None
    collapse: Collapse | None = None
    guessing: int = 0
    level: float = LEVEL
    cells_deleted: int = 0
    remedies: Foreseen | None = None
    test_examples: int = 0
    luck_of_tests: float = math.nan
    tests_drawn: bool = True

    @property
    def few_tests(self) -> bool:
        """Whether test examples are too few for any answer."""
        return 0 < self.test_examples < FEWEST_EXAMPLES

    @property
    def tests_share(self) -> float:
        """Part of the variance that the choice of test examples makes up, above 1 by sampling error; nan if unknown."""
        std = next((record.golden_std for record in self.importances.values()), math.nan)
        return (self.luck_of_tests / std) ** 2 if self.tests_drawn and std > 0 else math.nan

    def examples_behind(self, group: Consistency) -> int:
        """Return on how many test examples an agreement rests, or at most rests: comparisons, if that is known.

        Runs with too few test examples for any answer have no more, unless they share a reference set.
        """
        if self.few_tests and not group.common_examples >= FEWEST_EXAMPLES:
            return self.test_examples
        votes = self.examples if group.group == "golden" else None
        return group.pairs_of_predictions if votes is None or votes.frame.empty else len(votes.frame)

    def reported_agreement(self, name: str) -> Consistency | None:
        """Return how much runs agree if a factor, or `golden`, changes; None if no report shows that.

        So it is with fewer than :data:`FEWEST_EXAMPLES` examples, or if two runs share less than one on average. Then
        it is not logged either.
        """
        group = self.consistencies.get(name)
        too_few = group is None or self.examples_behind(group) < FEWEST_EXAMPLES or group.common_examples < 1
        return None if too_few else group

    def metrics(self, *, details: bool = True) -> dict[str, float]:
        """Return the parent metrics, each once: ``<name>/<factor>``.

        Those of the only factor have plain names, so that such parents compare in one chart; so has what no factor
        changes, :data:`OF_ALL_FACTORS`.

        Parameters
        ----------
        details
            Whether to give all metrics of a finished parent, or only those that are shown while it runs.
        """
        values: dict[str, float] = {}
        apart = {name for name, agreement in self.consistencies.items() if agreement.common_examples < 1}
        for group in (*self.importances, "golden"):
            withheld = {*(_OF_AGREEMENT if group in apart else ()), *(_OF_BOTH if apart & {group, "golden"} else ())}
            suffix = "" if [group] == list(self.importances) else f"/{group}"
            for name, value in self.numbers(group, details=details).items():
                if name in OF_ALL_FACTORS:
                    values[name] = value
                elif not (name in _IN_FILES or name in withheld or name.startswith(_OF_FILES)):
                    values[f"{name}{suffix}"] = value
            # One that is 0 for most approaches only above 0.
            if values.get(f"unparsed_share{suffix}") == 0:
                del values[f"unparsed_share{suffix}"]
        if details and self.examples is not None:
            values |= self.examples.shares()
        return values | {"cells_failed": float(self.cells_failed)}

    @property
    def golden_tails(self) -> Tails | None:
        """Moments of the runs that stand for independent draws of every factor; None if they are too few."""
        record = next(iter(self.importances.values()), None)
        return None if record is None or record.golden_pooled else tails(record.golden)

    def numbers(self, group: str, *, details: bool = True) -> dict[str, float]:
        """Return the numbers of a factor, or of ``golden``, by their plain names: also those that are not metrics."""
        records = [each for each in (self.importances.get(group), self.consistencies.get(group)) if each is not None]
        numbers = {name: value for record in records for name, value in record.metrics().items()}
        if not details:
            return numbers
        for each in records:
            numbers |= each.details()
        if group in self.prediction_importances:
            numbers |= self.prediction_importances[group].metrics()
        numbers |= self.regression.get(group, {})
        if self.collapse is not None:
            numbers |= self.collapse.metrics(group)
        if group in self.strategies:
            result = self.strategies[group]
            numbers |= known({"golden_share": result.std / result.golden_std if result.golden_std > 0 else math.nan})
        return numbers

    def verdict(self, factor: str) -> Verdict:
        """Return the verdict on a factor, by the one rule."""
        return verdict_of(self.importances[factor], self.checks, self.collapse)

    def warned(self, factor: str) -> set[str]:
        """Return the codes of the checks that warn of all factors, or of this one."""
        return {each.code for each in self.checks if each.severity == "warning" and each.factor in (None, factor)}

    def to_frame(self) -> pd.DataFrame:
        """Return one row per factor: verdict, numbers, rows used, cells missing; largest corrected importance first."""
        rows = []
        for name, record in self.importances.items():
            verdict = {} if name in self.strategies else {"verdict": self.verdict(name).word}
            counts = {"rows_used": record.rows_used, "cells_missing": record.cells_missing}
            rows.append({"factor": name, **verdict, **self.numbers(name), **counts})
        frame = pd.DataFrame(rows)
        for name in ("importance", "importance_corrected"):
            frame[name] = frame.get(name, math.nan)
        return frame.sort_values(
            ["importance_corrected", "importance"], ascending=False, na_position="last", ignore_index=True
        )
