"""Agreement of runs whose test sets differ: each pair is compared on the examples that both saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.stability.pairs import mean_and_std, mean_of_each_run, pair_tables, shares
from mlflow_l3d.analysis.stability.prediction_matrix import PredictionMatrix
from mlflow_l3d.analysis.typing import FloatArray


@dataclass(frozen=True, slots=True)
class OverlapAgreement:
    """Agreement between runs that saw different examples, which happens where the data split is investigated.

    Attributes
    ----------
    runs, examples
        Runs, and examples that any of them saw.
    pairs, pairs_without_common
        Pairs of runs with a common example, and without one; the latter are in no mean.
    common_min, common_median
        Common examples of a pair, over all pairs; a mean over pairs that share a handful is worth little.
    consistency, correct_consistency
        CON and CCON (Zhou et al. 2025, equations 2 and 3): each pair counts the same, however many examples it shares.
    consistency_std, correct_consistency_std
        Population standard deviation over pairs (ddof=0).
    consistency_pooled, correct_consistency_pooled
        Each comparison of two predictions counts the same: the rule of
        :class:`~mlflow_l3d.analysis.stability.consistency.VoteCounter`. Equal to the above where all runs share one
        test set.
    unparsed_share
        Share of predictions that name no class (-1); they agree with nothing.
    run_names, per_run, per_run_correct
        Shape (S,): mean over the pairs of a run; nan where it has none.
    """

    runs: int
    examples: int
    pairs: int
    pairs_without_common: int
    common_min: int
    common_median: float
    consistency: float
    correct_consistency: float
    consistency_std: float
    correct_consistency_std: float
    consistency_pooled: float
    correct_consistency_pooled: float
    unparsed_share: float
    run_names: tuple[Any, ...]
    per_run: FloatArray
    per_run_correct: FloatArray

    def to_frame(self) -> pd.DataFrame:
        """Return one row a run."""
        return pd.DataFrame(
            {
                "run": pd.Series(list(self.run_names), dtype=object),
                "consistency": self.per_run,
                "correct_consistency": self.per_run_correct,
            }
        )


def consistency_on_common(frame: pd.DataFrame, run: str | Sequence[str] = "run") -> OverlapAgreement:
    """Compare every pair of runs on the examples that both saw.

    Parameters
    ----------
    frame
        One row a prediction: ``example_id``, ``label``, ``prediction`` and what tells runs apart.
    run
        The column, or columns, that tell runs apart.

    Raises
    ------
    ParameterError
        If a column is missing, a run holds an example twice, or an example has two labels.

    Notes
    -----
    Time S^2 n and memory S^2 + S n, for n examples that any run saw.
    """
    matrix = PredictionMatrix.from_frame(frame, run)
    tables = pair_tables(matrix)
    runs = len(matrix.run_names)
    above = np.triu_indices(runs, k=1)
    common = tables.common[above]
    equal, correct = shares(tables.equal, tables.common), shares(tables.correct, tables.common)
    (con, con_std), (ccon, ccon_std) = mean_and_std(equal), mean_and_std(correct)
    compared = float(common.sum())
    return OverlapAgreement(
        runs=runs,
        examples=len(matrix.example_ids),
        pairs=int((common > 0).sum()),
        pairs_without_common=int((common == 0).sum()),
        common_min=int(common.min()) if len(common) else 0,
        common_median=float(np.median(common)) if len(common) else 0.0,
        consistency=con,
        correct_consistency=ccon,
        consistency_std=con_std,
        correct_consistency_std=ccon_std,
        consistency_pooled=float(tables.equal[above].sum()) / compared if compared else float("nan"),
        correct_consistency_pooled=float(tables.correct[above].sum()) / compared if compared else float("nan"),
        unparsed_share=matrix.unparsed_share,
        run_names=matrix.run_names,
        per_run=mean_of_each_run(equal),
        per_run_correct=mean_of_each_run(correct),
    )
