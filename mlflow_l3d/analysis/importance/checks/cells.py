"""Checks of cells: those without a score, those on the split of a search, and the same cell again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.results import Check, Importance, counted_of, named, points
from mlflow_l3d.cells.factors import REPLICATE

OF_RUNS_THAT_END: Final = (
    "All numbers describe only runs that finished. If the failed runs would have scored low, the true spread is larger."
)
DRAWS: Final = 1999
"""Random placements of the failures that those seen are compared with."""


FAILURE_LEVEL: Final = 0.01
"""Failures whose concentration in rows or columns has this p-value, or a smaller one, are attributed to a cause."""
_AGAIN: Final = "See the errors of the failed runs, then run the same command again: only missing cells are computed."


def missing_cells(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D002: cells without a score, and what the numbers come from."""
    if not record.cells_missing:
        return
    missing = ~np.isfinite(record.table)
    rows = np.flatnonzero(missing.any(axis=1)).tolist()
    message = f"{counted_of(record.cells_missing, 'cell', record.table.size, 'has')} no score ({named('row', rows)}). "
    by_reml = record.components is not None and record.components.method == "reml"
    method = "restricted maximum likelihood" if by_reml else "an analysis of variance that allows for missing cells"
    if evidence.tables_are_golden:
        message += "What the factor contributes comes from the rows that have all their runs. "
    else:
        message += (
            "The importance uses the scores that each row has, as the authors' code does; the corrected importance "
            f"and its interval come from every cell, by {method}. "
        )
    if by_reml and math.isnan(record.importance_corrected_ci_low):
        message += "It has no interval here (a component is zero, or the table is small or very large). "
    elif evidence.plan.missing == "reml" and evidence.model.shared_columns and not by_reml:
        message += "Restricted maximum likelihood gave no estimate. "
    if empty := np.flatnonzero(missing.all(axis=0)).tolist():
        message += f"No row has a score in {named('column', empty)}. "
    yield Check("L3D002", "warning", "Cells missing", message + _AGAIN, record.factor)


def missing_runs(record: Importance, _: Evidence) -> Iterator[Check]:
    """L3D002 of a baseline strategy, whose runs do not form rows and columns."""
    if record.cells_missing:
        message = (
            f"{counted_of(record.cells_missing, 'run', record.table.size, 'has')} no score; the "
            f"standard deviation is computed from the others. {_AGAIN}"
        )
        yield Check("L3D002", "warning", "Cells missing", message, record.factor)


def selected_cells(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D012: the runs that have a score are those that did not fail."""
    message, missing, cause = OF_RUNS_THAT_END, ~np.isfinite(record.table), evidence.failing.get(record.factor)
    if cause is None and (evidence.tables_are_golden or not missing.any() or missing.all()):
        return
    if cause is not None:
        low, high = cause.corrected_interval
        ends = f" ({low:+.2f} to {high:+.2f})" if math.isfinite(low) else ""
        if math.isfinite(cause.importance_corrected):
            message += f" For which runs fail its importance is {cause.importance_corrected:+.2f}{ends}."
    else:
        columns = [(missing.T, "column", record.factor)] * evidence.model.shared_columns
        for lines, noun, factor in (*columns, (missing, "row", "the other factors")):
            if (p := at_random(lines)) <= FAILURE_LEVEL:
                message += (
                    f" Failures concentrate in {noun}s (p = {p:.3g}): they depend on the configurations of {factor}."
                )
    message += counted_at_chance(evidence.at_chance.get(record.factor))
    yield Check("L3D012", "warning", "Failures are a selection", message, record.factor)


def counted_at_chance(again: Importance | None) -> str:
    """Return what the numbers are with failures counted as guessing; empty if that is not known."""
    if again is None or not math.isfinite(again.importance):
        return ""
    return (
        f" If every failure counts as a score at chance, the importance is {again.importance:+.2f}, the "
        f"corrected one {again.importance_corrected:+.2f}, the golden standard deviation {points(again.golden_std)} "
        "points."
    )


def at_random(missing: npt.NDArray[np.bool_]) -> float:
    """Return how often random placements concentrate in rows as much; nan for one failure, which cannot concentrate."""
    counts = missing.sum(axis=1)
    total = int(counts.sum())
    if total < 2 or len(counts) < 2:
        return math.nan
    # From a generator of its own, so that the same table always has the same number.
    drawn = np.random.default_rng(0).multivariate_hypergeometric([missing.shape[1]] * len(counts), total, size=DRAWS)
    return float(1 + (np.square(drawn).sum(axis=1) >= np.square(counts).sum()).sum()) / (DRAWS + 1)


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


def searched_split(evidence: Evidence) -> Iterator[Check]:
    """L3D011: cells have a split that the hyperparameters were searched on.

    The search looked at the validation part of that split only, and early stopping looks at it again (Pecher et al.
    2024, appendix D, search on one fixed split and name it as a limit).
    """
    cells, splits = evidence.cells, evidence.plan.searched_splits
    if cells is None:
        return
    count = int(on_searched_split(cells, splits).sum())
    if not count:
        return
    if not all(splits):
        which = f"All {len(cells)} cells have the very split"
        fix = "No factor of the split has an effect here: lower num_labelled or test_size so that other splits exist."
    else:
        which = f"{count} of {len(cells)} cells {'has' if count == 1 else 'have'} the very split"
        fix = "Use another root_seed for the investigation or the search."
    message = (
        f"{which} (training, validation and test examples) that the hyperparameters were searched on. They were chosen "
        f"to suit its validation part, so these scores may be higher than those of other splits. {fix}"
    )
    yield Check("L3D011", "warning", "Searched and investigated on the same split", message)


_ROUNDING: Final = 1e-9
"""Of a mean of shares."""


def repeated_cells(evidence: Evidence) -> Iterator[Check]:
    """L3D014: whether cells that were computed again gave the same result.

    The cells of a row of the table of `replicate` are one cell, again and again. If results need not be the same,
    differences are expected, and the tables show them.
    """
    record, agreement = evidence.importances.get(REPLICATE), evidence.repeated_agreement
    if record is None:
        return
    rows = record.table[np.isfinite(record.table).sum(axis=1) >= 2]
    if not len(rows):
        return
    changed = int((np.nanmax(rows, axis=1) > np.nanmin(rows, axis=1)).sum())
    differ = 0.0 if agreement is None else 1 - agreement
    shares = f"{counted_of(changed, 'cell', len(rows), 'has')} another score when computed again"
    if differ > _ROUNDING:
        shares += f", {100 * differ:.2g} % of predictions differ"
    if not changed and differ <= _ROUNDING:
        compared = "score" if agreement is None else "score and predictions"
        message = f"All of {len(rows)} cells have the same {compared} when computed again."
        yield Check("L3D014", "info", "Cells repeat", message, record.factor)
    elif evidence.plan.deterministic:
        message = (
            f"{shares}, though their seeds are the same: something is drawn that no factor has, or the machine does "
            "not compute the same way twice. Look for a library's own "
            "generator, threads, a GPU's warnings of operations that are not deterministic, or an endpoint; or say "
            "deterministic=false, and take the importance of replicate as the machine's part."
        )
        title = "Cells do not repeat: the numbers of other factors include this variation"
        yield Check("L3D014", "warning", title, message, record.factor)
