"""The baseline strategies that the published score is compared with (Pecher et al. 2024, Tables 1 and 5)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import population_std

Strategy = Literal["random", "fixed", "interactions", "golden"]
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

    strategy: Strategy
    factor: str
    std: float
    golden_std: float
    important: bool | None


def baseline_important(std: float, golden_std: float) -> bool | None:
    """Return whether ``std >= 0.5 golden_std``; None if one is unknown or the golden runs are all equal."""
    if math.isnan(std) or not golden_std > 0:
        return None
    return std >= IMPORTANT_SHARE * golden_std


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
        At most one a factor and strategy, as fractions.
    scale
        What they are multiplied by: 1 for a metric that is not read in percent.

    Returns
    -------
    pandas.DataFrame
        Texts; index `factor` with the golden runs first, columns ``random``, ``fixed``, ``interactions``. ``(*)`` marks
        factors that the strategy calls important; an empty text is a result that is not there, ``nan`` one without a
        number. The standard deviation of the golden runs stands in every column.
    """
    texts: dict[str, dict[str, str]] = {}
    for result in sorted(results, key=lambda each: each.strategy != "golden"):
        text = f"{scale * result.std:.3f}{' (*)' if result.important else ''}"
        columns: Sequence[str] = STRATEGIES if result.strategy == "golden" else (result.strategy,)
        texts.setdefault(result.factor, dict.fromkeys(STRATEGIES, "")).update(dict.fromkeys(columns, text))
    table = pd.DataFrame.from_dict(texts, orient="index", columns=list(STRATEGIES))
    return table.rename_axis(index="factor")
