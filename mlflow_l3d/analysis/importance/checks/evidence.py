"""What the checks of one investigation look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.estimators import CROSSED, TableModel
from mlflow_l3d.analysis.importance.estimators.missing_cells import Missing
from mlflow_l3d.analysis.importance.results import Check, Importance
from mlflow_l3d.analysis.importance.shape import Collapse
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.metrics.base import Metric


class Answers(NamedTuple):
    """What runs predict of their test examples: `constant` of `runs` name one class for everything.

    The others have shape (C,): test examples of each class, and how often it is predicted, in a run on average.
    """

    runs: int
    constant: int
    tested: FloatArray
    predicted: FloatArray


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """What checks need to know of the plan behind some cells.

    Attributes
    ----------
    missing
        How the corrected importance of a crossed table that lacks cells is estimated: ``anova`` or ``reml``.
    mitigated
        Whether a mitigation strategy holds in the tables, so that golden runs vary more than they do.
    product
        Whether the columns of joint factors are the product of their configurations.
    classes
        Number of classes, for the chance level and the share of collapsed runs; None if it is not known.
    class_names, label_column
        What they are called, and the column of the data that names them; empty if that is not known.
    answers
        What the runs predict; None if that is not known, or they predict no classes.
    deterministic
        Whether the same cell again must give the same result, as the factor `replicate` tries.
    searched_splits
        Splits that the hyperparameters were searched on, see :func:`on_searched_split`.
    """

    missing: Missing = "anova"
    mitigated: bool = False
    product: bool = False
    classes: int | None = None
    class_names: Sequence[str] = ()
    label_column: str = ""
    answers: Answers | None = None
    deterministic: bool = True
    searched_splits: Sequence[Mapping[str, int]] = ()


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that is known of one investigation before it is checked.

    Attributes
    ----------
    importances
        Factor -> its record.
    golden
        Shape (L,): scores that stand for independent draws of every factor, nan if missing.
    golden_runs
        What the runs behind `golden` are called.
    metric
        The metric whose spread is investigated.
    plan
        The plan behind the cells.
    model
        How the columns of a table belong together.
    tables_are_golden
        Whether the runs of the tables are the golden runs, so that there are no others to check.
    collapse
        The two parts of the score; None if no run collapsed.
    unread
        Shares of answers that nothing could be read from, by reason.
    cells
        One row per run.
    repeated_agreement
        Share of equal predictions among runs of one and the same cell; None if it is not known.
    failing, at_chance
        Factor -> record of "the run failed" (0 or 1) in place of the score, for a design whose runs do not form rows
        and columns, and of the scores with every failure counted as guessing. Empty if no run failed.
    """

    importances: Mapping[str, Importance]
    golden: FloatArray
    golden_runs: str = "golden runs"
    metric: Metric = field(default_factory=lambda: Metric("score"))
    plan: PlanFacts = field(default_factory=PlanFacts)
    model: TableModel = CROSSED
    tables_are_golden: bool = False
    collapse: Collapse | None = None
    unread: str = ""
    cells: pd.DataFrame | None = None
    repeated_agreement: float | None = None
    failing: Mapping[str, Importance] = field(default_factory=dict)
    at_chance: Mapping[str, Importance] = field(default_factory=dict)

    @property
    def chance(self) -> float | None:
        """Chance level of the metric; None if it has none."""
        return self.metric.chance_level(self.plan.classes)


def on_searched_split(cells: pd.DataFrame, splits: Sequence[Mapping[str, int]]) -> npt.NDArray[np.bool_]:
    """Return which cells have one of some splits.

    Parameters
    ----------
    cells
        One row per cell, n rows, with the columns ``seed.<factor>``.
    splits
        Seed of each factor that decides the split, one mapping a split. An empty mapping is the split of every cell.

    Returns
    -------
    ndarray of bool, shape (n,)
        True where all seeds of a split equal those of the cell.
    """
    has_split = np.zeros(len(cells), dtype=bool)
    for split in splits:
        seeds = cells.reindex(columns=[f"seed.{factor}" for factor in split])
        has_split |= seeds.eq(list(split.values())).fillna(value=False).all(axis=1).to_numpy(dtype=bool)
    return has_split


WholeCheck: TypeAlias = Callable[[Evidence], Iterator[Check]]
"""A check of the whole investigation."""
FactorCheck: TypeAlias = Callable[[Importance, Evidence], Iterator[Check]]
"""A check of one factor, by its record."""
