"""Cells on the very split of a search of hyperparameters; the same cell again: what of the spread is the machine's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.checks.words import counted_of
from mlflow_l3d.analysis.importance.results import Check
from mlflow_l3d.cells.factors import REPLICATE

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd


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
        True where all seeds of a split are those of the cell.
    """
    has_split = np.zeros(len(cells), dtype=bool)
    for split in splits:
        same = np.ones(len(cells), dtype=bool)
        for factor, seed in split.items():
            column = f"seed.{factor}"
            same &= cells[column].eq(seed).fillna(value=False).to_numpy(dtype=bool) if column in cells else False
        has_split |= same
    return has_split


def searched_split(evidence: Evidence) -> Iterator[Check]:
    """L3D011: cells have a split that the hyperparameters were searched on.

    The search looked at the validation part of that split only, and early stopping looks at it again (Pecher et al.
    2024, appendix D, search on one fixed split and name it as a limit).
    """
    cells, splits = evidence.cells, evidence.searched_splits
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
    differences are what was asked for, and the tables show them.
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
    elif evidence.deterministic:
        message = (
            f"{shares}, though their seeds are the same: something is drawn that no factor has, or the machine does "
            "not compute the same way twice. Every other factor's numbers hold this, too. Look for a library's own "
            "generator, threads and a GPU's warnings of operations that are not deterministic; or say "
            "deterministic=false, and take the importance of replicate as the machine's part."
        )
        yield Check("L3D014", "warning", "Cells do not repeat", message, record.factor)
