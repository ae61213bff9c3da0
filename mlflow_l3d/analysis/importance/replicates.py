"""The same cell again: what of the spread is the machine's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from mlflow_l3d.analysis.importance.check_words import counted_of
from mlflow_l3d.analysis.importance.results import Check, Importance

_ROUNDING: Final = 1e-9
"""Of a mean of shares."""


def replicate_checks(record: Importance, agreement: float | None, *, deterministic: bool) -> Iterator[Check]:
    """Yield L3D014: whether cells that were computed again gave the same result.

    Parameters
    ----------
    record
        Of the factor `replicate`: the cells of a row of its table are one cell, again and again.
    agreement
        Share of predictions that are the same within rows; None where they are not known.
    deterministic
        Whether results must be the same; else differences are what was asked for, and the tables show them.
    """
    known = np.isfinite(record.table)
    rows = record.table[known.sum(axis=1) >= 2]
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
    elif deterministic:
        message = (
            f"{shares}, though their seeds are the same: something is drawn that no factor has, or the machine does "
            "not compute the same way twice. Every other factor's numbers hold this, too. Look for a library's own "
            "generator, threads and a GPU's warnings of operations that are not deterministic; or say "
            "deterministic=false, and take the importance of replicate as the machine's part."
        )
        yield Check("L3D014", "warning", "Cells do not repeat", message, record.factor)
