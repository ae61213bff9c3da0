"""The looks of a stopping rule."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.sections.table import Table, between
from mlflow_l3d.report.verdicts import MISSING, signed

LOOKS_SHOWN: Final = 12
"""Looks of one factor that are shown at most: the rule of Appendix B.3 looks after every row."""


def look_table(analysis: Analysis) -> Table | None:
    """Return the looks of the stopping rule, those of one factor together; None without any."""
    looks = analysis.looks
    if looks is None or not len(looks):
        return None
    spends = bool(np.isfinite(looks["alpha"].to_numpy(dtype=np.float64)).any())
    middle = ("interval", "alpha spent") if spends else ("importance", "change")
    rows: list[tuple[str, ...]] = []
    left_out = 0
    for factor, own in looks.groupby("factor", sort=False):
        left_out += max(0, len(own) - LOOKS_SHOWN)
        for look in own.tail(LOOKS_SHOWN).to_dict("records"):
            numbers = (
                (between(look["low"], look["high"]), _small(look["alpha"]))
                if spends
                else (signed(look["importance"]), _small(look["change"]))
            )
            rows.append((str(factor), str(look["rows"]), *numbers, str(look["decision"]), str(look["reason"])))
    note = "The interval of a look holds at the level 1 - alpha spent, so that all claims of all looks hold together."
    if not spends:
        note = "A change may be small by chance, so this rule says nothing about the error of the score."
    if left_out:
        note += f" {left_out} earlier looks are left out."
    return Table(("factor", "rows", *middle, "decision", "reason"), tuple(rows), note, frozenset({4, 5}))


def _small(value: float) -> str:
    return f"{value:.3g}" if pd.notna(value) and math.isfinite(value) else MISSING
