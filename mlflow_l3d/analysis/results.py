"""What an analysis returns: frozen records that neither compute nor log.

Scores and standard deviations are in the unit of the table they came from (MLflow holds fractions, 0..1); importance
has no unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.variances import Layout, VarianceComponents

if TYPE_CHECKING:
    from mlflow_l3d.analysis.examples import ExampleVotes
    from mlflow_l3d.analysis.multiplicity import Ranking
    from mlflow_l3d.analysis.prediction_importance import PredictionImportance
    from mlflow_l3d.analysis.strategies import StrategyResult

FloatArray = npt.NDArray[np.float64]

IMPORTANCE_METRICS = (
    "importance",
    "contributed_std",
    "mitigated_std",
    "golden_std",
    "importance_corrected",
    "importance_ci_low",
    "importance_ci_high",
    "score_mean",
    "score_std",
    "collapsed_share",
)
"""Metrics of one factor that a parent has, by their plain names; all are fields of :class:`Importance`."""


@dataclass(frozen=True, slots=True)
class Check:
    """A numbered warning: what is doubtful, and what to do.

    Attributes
    ----------
    code
        ``L3D001`` and so on; explained in docs/statistics.md.
    severity
        ``info`` or ``warning``.
    title
        A few words.
    message
        One or two sentences with the numbers, and what to do.
    factor
        The factor it is about; None for the whole investigation.
    """

    code: str
    severity: Literal["info", "warning"]
    title: str
    message: str
    factor: str | None = None


@dataclass(frozen=True, slots=True)
class Importance:
    """The importance score of one factor (Pecher et al. 2024, Algorithm 1), and what stands beside it.

    Attributes
    ----------
    factor
        The investigated factor.
    importance
        ``(contributed_std - mitigated_std) / golden_std``, the published score; important if above 0.
    contributed_std, mitigated_std, golden_std
        Population standard deviations (ddof=0): mean over rows of the std within a row, std of the row means, std of
        the golden runs.
    importance_corrected, importance_ci_low, importance_ci_high
        Bias-corrected estimate from the analysis of variance, and its jackknife interval.
    score_mean, score_std
        Over all cells of the factor's table (ddof=0).
    collapsed_share
        Share of the table's cells with a score below 1 / classes; nan where the number of classes is not known.
    table
        Shape (M, N): rows are mitigation runs, columns investigation runs; nan where a cell is missing.
    golden
        Shape (L,): golden scores, nan where missing.
    rows_used
        Rows without a missing cell: the rows behind the numbers above.
    cells_missing, golden_missing
        How many cells of the table, and golden runs, have no score.
    design
        How the cells are laid out. In the ``radial`` design the table has two columns, base and swap, and the golden
        runs are all base and swap runs; see :func:`mlflow_l3d.analysis.importance.radial_importance`. A baseline
        strategy (``random``, ``fixed``) has one row and no importance.
    level
        Confidence level of the interval.
    components
        The variances behind the corrected score, not cut at zero; None where there are none.
    importance_p
        One-sided p-value of "not important" (corrected importance at most 0); nan where there is no interval.
    score_iqr, golden_iqr
        Distance of the quartiles of all cells, and of the golden runs: spread that a few collapsed runs do not move.
    golden_pooled
        Whether `golden` is not golden runs but the pooled cells of all tables, because there are none.
    """

    factor: str
    importance: float
    contributed_std: float
    mitigated_std: float
    golden_std: float
    importance_corrected: float
    importance_ci_low: float
    importance_ci_high: float
    score_mean: float
    score_std: float
    collapsed_share: float
    table: FloatArray
    golden: FloatArray
    rows_used: int
    cells_missing: int
    golden_missing: int
    design: Layout = "crossed"
    level: float = 0.95
    components: VarianceComponents | None = None
    importance_p: float = math.nan
    score_iqr: float = math.nan
    golden_iqr: float = math.nan
    golden_pooled: bool = False

    def metrics(self) -> dict[str, float]:
        """Return the parent metrics of this factor, by their plain names; those that are nan are left out."""
        return _known({name: float(getattr(self, name)) for name in IMPORTANCE_METRICS})

    def details(self) -> dict[str, float]:
        """Return the further metrics that a finished parent has; those that are nan are left out.

        ``score_iqr``, and the variances behind the corrected score as ``variance_main``, ``variance_interaction``,
        ``variance_mitigated``, ``variance_contributed``, ``variance_total``: squared units of the score, not cut at 0.
        """
        values = {"score_iqr": self.score_iqr}
        if self.components is not None:
            names = ("main", "interaction", "mitigated", "contributed", "total")
            values |= {f"variance_{name}": float(getattr(self.components, name)) for name in names}
        return _known(values)


@dataclass(frozen=True, slots=True)
class Consistency:
    """Agreement of single predictions between runs (Zhou et al. 2025, equations 2 and 3).

    Attributes
    ----------
    group
        A factor (runs of one row, averaged over rows: only that factor differs), or ``golden`` (every factor differs).
    consistency, correct_consistency
        CON and CCON: share of pairs of runs that agree on an example, and that agree and are right.
    runs, groups, pairs_of_predictions
        Runs counted, groups averaged over, and comparisons behind the numbers.
    unparsed_share
        Share of predictions that name no class (-1); they agree with nothing.
    common_examples
        Mean number of examples that a pair of runs shares: all of them where runs have one test set.
    fleiss_kappa
        Agreement beyond chance, whose observed agreement is CON; nan where all predict one class.
    accuracy_std
        Standard deviation of the accuracy within a group: root of the mean over groups of the variance (ddof=1).
    accuracy_std_population
        The same without the noise of a finite test set (:mod:`mlflow_l3d.analysis.noise`); 0 where the test set alone
        explains the spread, nan where runs of a group have different test sets.
    """

    group: str
    consistency: float
    correct_consistency: float
    runs: int
    groups: int
    pairs_of_predictions: int
    unparsed_share: float
    common_examples: float = math.nan
    fleiss_kappa: float = math.nan
    accuracy_std: float = math.nan
    accuracy_std_population: float = math.nan

    @property
    def agreement_on_wrong(self) -> float:
        """CON - CCON: share of pairs that give the same wrong answer."""
        return self.consistency - self.correct_consistency

    def metrics(self) -> dict[str, float]:
        """Return the parent metrics of this group, by their plain names; those that are nan are left out."""
        return _known({"consistency": self.consistency, "correct_consistency": self.correct_consistency})

    def details(self) -> dict[str, float]:
        """Return the further metrics that a finished parent has; those that are nan are left out."""
        names = ("fleiss_kappa", "accuracy_std", "accuracy_std_population", "unparsed_share")
        return _known({name: float(getattr(self, name)) for name in names})


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
        Factor or ``golden`` -> consistency; empty where there are no predictions.
    checks
        What is doubtful.
    cells_failed
        Cells of the plan that have no score, golden runs included.
    design
        How the cells are laid out.
    p_holm
        Factor -> p-value of "not important", adjusted for the number of factors (Holm); nan where there is none.
    ranking
        Factors by corrected importance, and which can be told apart; None for one factor, or where designs have none.
    prediction_importances
        Factor -> importance for single predictions; empty where there are none.
    examples
        Which examples of the golden runs (radial: of all base runs) are robust and which fragile; None where there are
        no predictions.
    regression
        Factor or ``golden`` -> ``consistency_pearson`` and ``consistency_ccc``, where predictions are numbers.
    agreement
        How predictions were compared: ``regression``, or a scoring function with its options; None for class numbers,
        and where there are no predictions.
    strategies
        Factor -> result of the baseline strategy, for the designs ``random`` and ``fixed``; else empty.
    looks
        One row for each look of each factor at the investigation while it ran (:mod:`mlflow_l3d.analysis.stopping`),
        with a column ``factor``; None without a stopping rule.
    """

    metric: str
    importances: Mapping[str, Importance]
    consistencies: Mapping[str, Consistency] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    cells_failed: int = 0
    design: Layout = "crossed"
    p_holm: Mapping[str, float] = field(default_factory=dict)
    ranking: Ranking | None = None
    prediction_importances: Mapping[str, PredictionImportance] = field(default_factory=dict)
    examples: ExampleVotes | None = None
    strategies: Mapping[str, StrategyResult] = field(default_factory=dict)
    regression: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    agreement: str | None = None
    looks: pd.DataFrame | None = None

    def metrics(self, *, details: bool = True) -> dict[str, float]:
        """Return the parent metrics: ``<name>/<factor>``, and the plain name too where there is one factor only.

        Parameters
        ----------
        details
            Whether to give all metrics of a finished parent, or only those that are shown while it runs.
        """
        values: dict[str, float] = {}
        for factor in self.importances:
            own = self._of_factor(factor, details=details)
            values.update({f"{name}/{factor}": value for name, value in own.items()})
            if len(self.importances) == 1:
                values.update(own)
        golden = self.consistencies.get("golden")
        if golden is not None:
            own = {**golden.metrics(), **(golden.details() if details else {})}
            values.update({f"{name}/golden": value for name, value in own.items()})
        if details:
            values.update({f"{name}/golden": value for name, value in self.regression.get("golden", {}).items()})
        if details and self.examples is not None:
            shares = ("robust_share", "fragile_share", "never_right_share")
            values.update(_known({name: float(getattr(self.examples, name)) for name in shares}))
        values["cells_failed"] = float(self.cells_failed)
        return values

    def _of_factor(self, factor: str, *, details: bool) -> dict[str, float]:
        record, agreement = self.importances[factor], self.consistencies.get(factor)
        own = {**record.metrics(), **(agreement.metrics() if agreement else {})}
        if not details:
            return own
        own |= record.details()
        if agreement is not None:
            own |= agreement.details()
        if factor in self.prediction_importances:
            own |= self.prediction_importances[factor].metrics()
        own |= self.regression.get(factor, {})
        if factor in self.strategies:
            result = self.strategies[factor]
            share = result.std / result.golden_std if result.golden_std > 0 else math.nan
            own |= _known({"golden_share": share})
        return own | _known({"importance_p_holm": self.p_holm.get(factor, math.nan)})

    def to_frame(self) -> pd.DataFrame:
        """Return one row a factor: the metrics, rows used and cells missing, most important first."""
        rows = [
            {
                "factor": factor,
                **self._of_factor(factor, details=True),
                "rows_used": record.rows_used,
                "cells_missing": record.cells_missing,
            }
            for factor, record in self.importances.items()
        ]
        frame = pd.DataFrame(rows)
        if "importance" not in frame:
            frame["importance"] = math.nan
        return frame.sort_values("importance", ascending=False, na_position="last", ignore_index=True)


def _known(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if not math.isnan(value)}
