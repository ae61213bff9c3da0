"""The verdict on a factor, by one rule that everything reads, and by the strategies that papers compare with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.results import Check, Importance
from mlflow_l3d.analysis.importance.shape import Collapse
from mlflow_l3d.analysis.importance.tables import population_std, with_scores

Word = Literal["dominates", "minor", "undecided"]
Doubt = (
    Literal["", "no_interval", "contains_0", "few_rows", "boundary", "repeats", "collapse", "no_effect", "lost_level"]
    | Literal["L3D006", "L3D009", "L3D010", "L3D013"]
)
Action = Literal["none", "more_rows", "larger_table", "other_design", "unaffordable", "look_at_runs", "unknown"]

DECIDED: Final[tuple[Word, ...]] = ("dominates", "minor")
FEWEST_ROWS: Final = 5
"""With fewer rows there is no verdict."""
FEWEST_OF_LEVELS: Final = 20
"""The same of a complete list of levels: its interval rests on the row means alone, whose tails few rows hide."""
FEWEST_AT_BOUNDARY: Final = 10
"""With fewer rows there is none either if the estimated variance of all other factors is 0."""
DOUBTS: Final[Mapping[Doubt, str]] = MappingProxyType(
    {
        "": "",
        "no_interval": "there is no interval",
        "lost_level": "a level has no score, so the interval is about the others alone",
        "contains_0": "the interval contains 50 %",
        "collapse": "runs collapse (L3D005), so the interval does not hold",
        "L3D013": "the scores have long tails (L3D013), so the interval covers less than it claims",
        "L3D006": "golden runs may vary so much more that it makes up less than half (L3D006)",
        "L3D009": "columns share configurations (L3D009), so the interval is too narrow",
        "no_effect": "all columns have equal scores (L3D010): no score depends on it",
        "L3D010": "rows or columns have equal scores (L3D010), so the interval is too narrow",
        "few_rows": "rows are too few for a verdict",
        "boundary": f"rows differ no more than by chance, and are fewer than {FEWEST_AT_BOUNDARY}",
        "repeats": "every cell that was computed again has the same result",
    }
)
"""Why a verdict is not that of the interval, by its code."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the investigation decides about one factor.

    Attributes
    ----------
    word
        Whether the factor, with its interactions, makes up more than half of the variance of the score (``dominates``),
        less (``minor``), or whether that is not established (``undecided``).
    doubt
        A key of :data:`DOUBTS`; empty if the interval excludes 0 and can be believed.
    """

    word: Word
    doubt: Doubt = ""

    @property
    def is_decided(self) -> bool:
        """Whether the factor dominates or is minor."""
        return self.word in DECIDED

    @property
    def dominates(self) -> bool:
        """Whether the factor makes up more than half of the variance."""
        return self.word == "dominates"

    @property
    def reason(self) -> str:
        """Why the verdict is not that of the interval, in words; empty if it is."""
        return DOUBTS[self.doubt]

    @property
    def needs_runs(self) -> bool:
        """Whether it is undecided only because there are too few runs."""
        return self.doubt in ("few_rows", "boundary", "no_interval", "contains_0", "L3D006")


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about a factor that is undecided.

    Attributes
    ----------
    action
        ``none`` if the factor is decided.
    text
        The same as sentences; empty for ``none``.
    rows, columns
        Size of the investigation that settles the verdict if the estimate is right; None if the action has none.
    """

    action: Action = "none"
    text: str = ""
    rows: int | None = None
    columns: int | None = None


def joint_level(level: float, factors: int) -> float:
    """Return the level of single intervals at which those of all factors hold together at `level` (Bonferroni)."""
    return 1 - (1 - level) / max(1, factors)


def fewest_rows(record: Importance) -> int:
    """Return how many rows a verdict takes."""
    return FEWEST_OF_LEVELS if record.design == "levels" else FEWEST_ROWS


def verdict_of(record: Importance, checks: Iterable[Check] = (), collapse: Collapse | None = None) -> Verdict:
    """Return the verdict on one factor.

    Parameters
    ----------
    record
        The factor; its interval holds for all factors, and all interim analyses, together.
    checks
        Of the whole investigation.
    collapse
        The two parts of the score, if runs collapsed.

    Notes
    -----
    The corrected importance is above 0 exactly if S_T, the factor's share of the variance, is above one half. So the
    interval decides: ``dominates`` above 0, ``minor`` below, ``undecided`` if it contains 0. It is not believed, and
    the factor stays undecided, if runs collapse (golden runs, too), scores have long tails, columns share
    configurations, rows or columns are equal, rows are few, or, of a complete list of levels, one has no score or
    golden runs may vary more.
    """
    about = {(check.code, check.severity) for check in checks if check.factor in (None, record.factor)}
    low, high = record.corrected_interval
    if ("L3D014", "info") in about:
        return Verdict("minor", "repeats")
    # First come the doubts that no number of rows settles.
    doubts: dict[Doubt, bool] = {
        "lost_level": record.design == "levels" and not np.isfinite(record.table).any(axis=0).all(),
        "collapse": collapse is not None,
        "L3D013": ("L3D013", "warning") in about,
        "L3D009": ("L3D009", "warning") in about,
        "no_effect": ("L3D010", "warning") in about and not np.ptp(with_scores(record.table), axis=1).any(),
        "L3D010": ("L3D010", "warning") in about,
        "no_interval": not (math.isfinite(low) and math.isfinite(high)),
        "contains_0": low <= 0 <= high,
        "L3D006": ("L3D006", "info") in about,
        "few_rows": record.rows_used < fewest_rows(record),
        "boundary": record.rows_used < FEWEST_AT_BOUNDARY
        and record.components is not None
        and not record.components.mitigated > 0,
    }
    for doubt, holds in doubts.items():
        if holds:
            return Verdict("undecided", doubt)
    return Verdict("dominates" if low > 0 else "minor")


STRATEGIES: Final = ("random", "fixed", "interactions")
"""Columns of the table, in the paper's order."""
GOLDEN_ROW: Final = "golden_model"
"""Row of the table that holds the standard deviation of the golden runs."""
IMPORTANT_SHARE: Final = 0.5
"""A baseline calls a factor important from this share of the golden standard deviation on."""


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """What one strategy says about one factor.

    Attributes
    ----------
    strategy
        ``random``: every factor varies in each run, the investigated one among them. ``fixed``: only the investigated
        factor varies, all others stand at one configuration. ``interactions``: the published method. ``golden``: the
        golden runs.
    factor
        The investigated factor; ``golden_model`` for the golden runs.
    std
        Population standard deviation (ddof=0) of the strategy's runs; of ``interactions`` the contributed one.
    golden_std
        Population standard deviation of the golden runs.
    important
        Whether the strategy calls the factor important; None if that cannot be said.
    """

    strategy: Literal["random", "fixed", "interactions", "golden"]
    factor: str
    std: float
    golden_std: float
    important: bool | None


def baseline_important(std: float, golden_std: float) -> bool | None:
    """Return whether ``std >= 0.5 golden_std``; None if one is unknown or the golden runs are all equal."""
    return None if math.isnan(std) or not golden_std > 0 else std >= IMPORTANT_SHARE * golden_std


def baseline_strategy(
    strategy: Literal["random", "fixed"], scores: npt.ArrayLike, golden_std: float, *, factor: str
) -> StrategyResult:
    """Return the result of a baseline's runs.

    Parameters
    ----------
    strategy
        Which one.
    scores
        Any shape: scores of the runs, nan if one is missing. For ``fixed`` a row of a crossed table serves as well.
    golden_std
        Population standard deviation of the golden runs.
    factor
        The investigated factor.
    """
    std = population_std(scores)
    return StrategyResult(strategy, factor, std, golden_std, baseline_important(std, golden_std))


def interactions_strategy(record: Importance) -> StrategyResult:
    """Return the published method's result: the contributed standard deviation, important iff importance > 0."""
    important = None if math.isnan(record.importance) else record.importance > 0
    return StrategyResult("interactions", record.factor, record.contributed_std, record.golden_std, important)


def golden_strategy(golden: npt.ArrayLike) -> StrategyResult:
    """Return the row of the golden runs."""
    std = population_std(golden)
    return StrategyResult("golden", GOLDEN_ROW, std, std, None)


def strategy_frame(results: Iterable[StrategyResult]) -> pd.DataFrame:
    """Return one row per result: factor, strategy, std, golden_std, important (None if it cannot be said)."""
    frame = pd.DataFrame(list(results), columns=["factor", "strategy", "std", "golden_std", "important"])
    return frame.astype({"std": "float64", "golden_std": "float64", "important": "boolean"})


def strategy_table(results: Iterable[StrategyResult], *, scale: int = 100) -> pd.DataFrame:
    """Return the table as the paper prints it: standard deviations in percentage points with three decimals.

    Parameters
    ----------
    results
        At most one per factor and strategy, as fractions.
    scale
        What they are multiplied by: 1 for a metric that is not read in percent.

    Returns
    -------
    pandas.DataFrame
        Texts; index `factor` with the golden runs first, columns ``random``, ``fixed``, ``interactions``. ``(*)`` marks
        factors that the strategy calls important; an empty text is a result that is not there, ``nan`` one without a
        number. The standard deviation of the golden runs is in every column.
    """
    texts: dict[str, dict[str, str]] = {}
    for result in sorted(results, key=lambda each: each.strategy != "golden"):
        text = f"{scale * result.std:.3f}{' (*)' if result.important else ''}"
        columns: Sequence[str] = STRATEGIES if result.strategy == "golden" else (result.strategy,)
        texts.setdefault(result.factor, dict.fromkeys(STRATEGIES, "")).update(dict.fromkeys(columns, text))
    return pd.DataFrame.from_dict(texts, orient="index", columns=list(STRATEGIES)).rename_axis(index="factor")
