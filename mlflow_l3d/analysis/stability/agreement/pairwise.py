"""CON and CCON with any scoring function, over all pairs of runs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.jackknife import share_interval
from mlflow_l3d.analysis.stability.agreement.base import Scoring, matrix_of_pairs, matrix_with_truth
from mlflow_l3d.analysis.stability.pairs import mean_and_std, mean_of_each_run, shares
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.errors import ParameterError

Examples = Mapping[Any, Any] | Sequence[Any]


@dataclass(frozen=True, slots=True)
class PairwiseConsistency:
    """Agreement of predictions of any kind between S runs (Zhou et al. 2025, equations 2 and 3, Table 2).

    Attributes
    ----------
    scoring
        Name of the scoring function.
    runs, examples
        S, and examples that any run has.
    pairs, common_min, common_median
        Pairs of runs that share an example, and how many a pair shares, over all pairs.
    consistency, correct_consistency
        CON and CCON: mean over pairs of the mean over the examples both have; the latter is nan without truth. For a
        scoring function of the half-sum kind CCON is the runs' mean quality.
    consistency_std, correct_consistency_std
        Population standard deviation over pairs (ddof=0).
    consistency_ci_low, consistency_ci_high
        95 % jackknife interval over runs: what other runs would give on these examples. nan where pairs share no
        example, or there are fewer than three runs.
    consistency_pooled, correct_consistency_pooled
        The same, with each comparison of two predictions counted once.
    unparsed_share
        Share of predictions that are None; they agree with nothing.
    per_run, per_run_correct
        Shape (S,): mean over the pairs of a run.
    per_example
        One row an example that at least two runs have, least agreement first: ``example_id``, ``runs``, ``distinct``
        (different predictions), ``consistency``, ``correct_consistency``.
    """

    scoring: str
    runs: int
    examples: int
    pairs: int
    common_min: int
    common_median: float
    consistency: float
    correct_consistency: float
    consistency_std: float
    correct_consistency_std: float
    consistency_ci_low: float
    consistency_ci_high: float
    consistency_pooled: float
    correct_consistency_pooled: float
    unparsed_share: float
    per_run: FloatArray
    per_run_correct: FloatArray
    per_example: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        """Return one row a run."""
        columns = {"consistency": self.per_run, "correct_consistency": self.per_run_correct}
        return pd.DataFrame({"run": np.arange(self.runs), **columns})


def pairwise_consistency(runs: Iterable[Examples], truth: Examples | None, scoring: Scoring) -> PairwiseConsistency:
    """Compare every pair of runs on the examples that both have.

    Parameters
    ----------
    runs
        For each run its predictions: a mapping of example id to prediction, or a sequence, whose places are then the
        ids. None is an answer that could not be read. What a prediction is, the scoring function says.
    truth
        True answers in the same form, for every example that occurs; None where they are not known.
    scoring
        A scoring function, for instance ``scoring("rougeL")`` of :mod:`mlflow_l3d.analysis.stability.agreement.names`.

    Raises
    ------
    ParameterError
        If an example has no truth, sequences differ in length, or a prediction is of the wrong kind.
    L3DError
        If a library is missing, or the scoring function leaves [0, 1].

    Notes
    -----
    Different predictions for an example are compared once, however many runs make them: with d of them, d (d + 1) / 2
    calls of the scoring function, and S^2 additions.
    """
    tables = _aligned(list(runs))
    answers = None if truth is None else _as_mapping(truth)
    count = len(tables)
    common, agreed, correct = (np.zeros((count, count)) for _ in range(3))
    rows = []
    by_example: dict[Hashable, list[tuple[int, Any]]] = {}
    for place, table in enumerate(tables):
        for key, prediction in table.items():
            by_example.setdefault(key, []).append((place, prediction))
    for key, entries in by_example.items():
        forms: dict[Hashable, int] = {}
        codes = [
            forms.setdefault(None if prediction is None else scoring.prepare(prediction), len(forms))
            for _, prediction in entries
        ]
        where = np.ix_(*[[place for place, _ in entries]] * 2)
        take = np.ix_(codes, codes)
        parts = [matrix_of_pairs(scoring, list(forms))[take]]
        if answers is not None:
            if key not in answers:
                raise ParameterError("truth", f"no entry for example {key}", "must hold every example")
            parts.append(matrix_with_truth(scoring, list(forms), scoring.prepare_truth(answers[key]))[take])
        common[where] += 1
        agreed[where] += parts[0]
        if len(parts) > 1:
            correct[where] += parts[1]
        if len(entries) > 1:
            means = [_off_diagonal_mean(part) for part in parts] + [math.nan]
            rows.append((key, len(entries), len(forms), means[0], means[1]))
    return _record(scoring.name, tables, (common, agreed, correct), rows, known=answers is not None)


def _record(
    name: str,
    tables: Sequence[Mapping[Any, Any]],
    sums: tuple[FloatArray, FloatArray, FloatArray],
    rows: Sequence[tuple[Any, ...]],
    *,
    known: bool,
) -> PairwiseConsistency:
    common, agreed, correct = sums
    above = np.triu_indices(len(tables), k=1)
    shared = common[above]
    equal = shares(agreed, common)
    right = shares(correct, common) if known else np.full(common.shape, math.nan)
    (con, con_std), (ccon, ccon_std) = mean_and_std(equal), mean_and_std(right)
    low, high = share_interval(con, _without_one_run(equal))
    total = float(shared.sum())
    predictions = sum(len(table) for table in tables)
    unparsed = sum(prediction is None for table in tables for prediction in table.values())
    columns = ["example_id", "runs", "distinct", "consistency", "correct_consistency"]
    frame = pd.DataFrame(list(rows), columns=columns).sort_values("consistency", kind="stable", ignore_index=True)
    return PairwiseConsistency(
        scoring=name,
        runs=len(tables),
        examples=len(set().union(*tables)),
        pairs=int((shared > 0).sum()),
        common_min=int(shared.min()) if len(shared) else 0,
        common_median=float(np.median(shared)) if len(shared) else 0.0,
        consistency=con,
        correct_consistency=ccon,
        consistency_std=con_std,
        correct_consistency_std=ccon_std,
        consistency_ci_low=low,
        consistency_ci_high=high,
        consistency_pooled=float(agreed[above].sum()) / total if total else math.nan,
        correct_consistency_pooled=float(correct[above].sum()) / total if total and known else math.nan,
        unparsed_share=unparsed / predictions if predictions else math.nan,
        per_run=mean_of_each_run(equal),
        per_run_correct=mean_of_each_run(right),
        per_example=frame,
    )


def _aligned(runs: Sequence[Examples]) -> list[Mapping[Any, Any]]:
    lengths = {len(run) for run in runs if not isinstance(run, Mapping)}
    if len(lengths) > 1:
        fix = "Give mappings of example id to prediction where runs have different examples."
        raise ParameterError("runs", f"lengths {sorted(lengths)}", "sequences must be equally long", fix)
    return [_as_mapping(run) for run in runs]


def _as_mapping(values: Examples) -> Mapping[Any, Any]:
    return values if isinstance(values, Mapping) else dict(enumerate(values))


def _off_diagonal_mean(values: FloatArray) -> float:
    count = len(values)
    return float((values.sum() - np.trace(values)) / (count * (count - 1)))


def _without_one_run(values: FloatArray) -> FloatArray:
    """Return shape (S,): the mean over pairs without a run; nan where a pair has no value."""
    count = len(values)
    if count < 3:
        return np.full(count, math.nan)
    filled = values.copy()
    np.fill_diagonal(filled, 0.0)
    of_run = filled.sum(axis=1)
    left: FloatArray = (of_run.sum() - 2 * of_run) / ((count - 1) * (count - 2))
    return left
