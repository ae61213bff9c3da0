"""Parts of a finished investigation: fewer rows, columns and test examples (Pecher et al. 2024, Appendix C)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.analysis.importance.verdicts import GOLDEN_ROW
from mlflow_l3d.analysis.intervals import IntArray, with_interval
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.classification import F1_MACRO, occurring
from mlflow_l3d.metrics.known import registered, score

NUMBERS: Final = (
    *("score_mean", "score_std", "contributed_std", "mitigated_std", "importance"),
    *with_interval("importance_corrected"),
)
"""What is computed for every setting and factor; the golden model has the first two."""
_BOTH: Final = ["label", "prediction"]
ABLATION_COLUMNS: Final = (
    *("mitigation_runs", "investigation_runs", "test_examples", "repeat", "factor"),
    *NUMBERS,
    *("golden_runs", "share_of_baseline"),
)


class Setting(NamedTuple):
    """Numbers of rows, columns and test examples; None is all there are."""

    rows: int | None = None
    columns: int | None = None
    examples: int | None = None


def from_predictions() -> list[str]:
    """Return the metrics that can be computed again from fewer predictions."""
    return [metric.name for metric in registered().values() if metric.function is not None and not metric.secondary]


def rescored(answers: pd.DataFrame, metric: Metric, *, size: int | None = None, rank: IntArray) -> pd.Series[float]:
    """Return the metric of each cell, computed again on its examples of lowest rank.

    Parameters
    ----------
    answers
        Predictions: ``cell``, ``example`` (from 0), ``label`` and ``prediction``.
    metric
        One that can be computed again: see :func:`from_predictions`.
    size
        Examples of each cell; None means all.
    rank
        Shape (examples,): place of each example in a random order, the same for all cells, so that cells that share a
        test set share the smaller one.
    """
    kinds, classes = {answers[name].dtype.kind for name in _BOTH}, None
    if kinds <= {"i", "u"}:
        # Fewer examples may lack a class, which then counts as one that is missed.
        classes = occurring(*(answers[name].unique() for name in _BOTH))
    if "O" not in kinds:  # small whole numbers would overflow where metrics count
        answers = answers.astype(dict.fromkeys(_BOTH, np.float64 if classes is None else np.int64))

    def of_cell(cell: pd.DataFrame) -> float:
        labels, predictions = (cell[name].to_numpy() for name in _BOTH)
        if size is not None and size < len(cell):
            ranks = rank[cell["example"]]
            chosen = ranks < np.partition(ranks, size)[size]
            labels, predictions = labels[chosen], predictions[chosen]
        return score(metric, labels, predictions, classes)

    return answers.groupby("cell").apply(of_cell)


def part(scores: Tables, setting: Setting, seeds: Sequence[np.random.SeedSequence]) -> Tables:
    """Return the rows, columns and golden runs that a setting and the seeds choose, in their old order.

    Parameters
    ----------
    scores
        All there is. Golden runs are reduced in proportion to the cells of the tables, to two at least; in the radial
        design base and swaps of a row stay together.
    setting
        No number may be larger than what any factor has.
    seeds
        Of the choice of rows, columns and golden runs. Factors with equally many rows keep the same rows, and a smaller
        choice is part of every larger one.
    """
    tables = {}
    for name, table in scores.tables.items():
        columns = _chosen(table.shape[1], setting.columns, seeds[1])
        tables[name] = table[np.ix_(_chosen(len(table), setting.rows, seeds[0]), columns)]
    base = scores.base[_chosen(len(scores.base), setting.rows, seeds[0])]
    chosen = replace(scores, tables=tables, base=base)
    total = len(scores.golden) * (_cells(chosen) / _cells(scores))
    golden = scores.golden[_chosen(len(scores.golden), max(2, math.ceil(total - 1e-9)), seeds[2])]
    return replace(chosen, golden=golden)


def ablate_tables(
    scores: Tables,
    settings: Sequence[Setting],
    importances: Callable[[Tables], Mapping[str, Importance]],
    *,
    seed: int,
    repeats: int = 1,
    answers: pd.DataFrame | None = None,
    tables: Callable[[pd.Series[float]], Tables] | None = None,
    metric: Metric = F1_MACRO,
) -> pd.DataFrame:
    """Return what an investigation would have found in each setting.

    Parameters
    ----------
    scores
        The tables of the investigation.
    settings
        Numbers that the tables, and the cells of `answers`, have.
    importances
        Tables -> factor -> its record.
    seed
        Of the choice of rows, columns, golden runs and examples.
    repeats
        How many random choices of each setting, at least 1.
    answers, metric
        As for :func:`rescored`; needed where a setting has a number of examples.
    tables
        Returns the tables of the scores of cells, for that, too.

    Returns
    -------
    pandas.DataFrame
        Columns :data:`ABLATION_COLUMNS`, before them ``setting``, the place in `settings`; for every setting and repeat
        a row ``golden_model`` and one per factor. `score_mean` and `score_std` of ``golden_model`` are those of the
        golden runs. ``test_examples`` is missing for all, ``investigation_runs`` in the radial design, which has no
        columns. A setting without a number is the same in every repeat.
    """
    lines: list[dict[str, object]] = []
    most = 0 if answers is None else int(answers["cell"].value_counts().max())
    for repeat, child in enumerate(np.random.SeedSequence(seed).spawn(repeats)):
        seeds = child.spawn(4)
        by_size: dict[int | None, Tables] = {None: scores}
        for number, setting in enumerate(settings):
            size = setting.examples
            if size not in by_size and answers is not None and tables is not None:
                rank = np.random.default_rng(seeds[3]).permutation(answers["example"].max() + 1)
                by_size[size] = tables(rescored(answers, metric, size=size, rank=rank))
            chosen = part(by_size[size], setting, seeds)
            share = 1.0 if size is None or not most else size / most
            share *= _cells(chosen) / _cells(scores)
            place = {"setting": number, "test_examples": size, "repeat": repeat, "share_of_baseline": share}
            lines += [place | line for line in _lines(chosen, importances(chosen))]
    frame = pd.DataFrame(lines, columns=["setting", *ABLATION_COLUMNS])
    return frame.astype({"test_examples": "Int64", "investigation_runs": "Int64"})


def _lines(chosen: Tables, records: Mapping[str, Importance]) -> Iterator[dict[str, object]]:
    """Yield the golden model, then every factor."""
    first = next(iter(records.values()))
    finite_golden = first.golden[np.isfinite(first.golden)]
    mean = float(finite_golden.mean()) if len(finite_golden) else math.nan
    numbers = {GOLDEN_ROW: {"score_mean": mean, "score_std": first.golden_std}}
    numbers |= {factor: {name: getattr(record, name) for name in NUMBERS} for factor, record in records.items()}
    for factor, values in numbers.items():
        rows, columns = chosen.tables.get(factor, chosen.tables[first.factor]).shape
        size = {"mitigation_runs": rows, "investigation_runs": None if chosen.base.size else columns}
        yield {"factor": factor, "golden_runs": len(first.golden), **size, **values}


def _chosen(total: int, count: int | None, seed: np.random.SeedSequence) -> IntArray:
    """Return `count` of the numbers below `total`, sorted."""
    return np.sort(np.random.default_rng(seed).permutation(total)[:count])


def _cells(scores: Tables) -> int:
    return sum(table.size for table in scores.tables.values())
