"""The looks of a stopping rule."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.investigation.sections.table import Table, between
from mlflow_l3d.report.investigation.verdicts import MISSING, signed

INTERIM_SHOWN: Final = 12
"""Looks of one factor that are shown at most: the rule of Appendix B.3 looks after every row."""


def interim_table(analysis: Analysis) -> Table | None:
    """Return the looks of the stopping rule, those of one factor together; None without any."""
    interim_analyses = analysis.interim_analyses
    if interim_analyses is None or not len(interim_analyses):
        return None
    spends = bool(np.isfinite(interim_analyses["alpha"].to_numpy(dtype=np.float64)).any())
    middle = ("interval", "alpha spent") if spends else ("importance", "change")
    rows: list[tuple[str, ...]] = []
    left_out = 0
    for factor, own in interim_analyses.groupby("factor", sort=False):
        left_out += max(0, len(own) - INTERIM_SHOWN)
        for interim in own.tail(INTERIM_SHOWN).to_dict("records"):
            numbers = (
                (between(interim["low"], interim["high"]), _small(interim["alpha"]))
                if spends
                else (signed(interim["importance"]), _small(interim["change"]))
            )
            rows.append((str(factor), str(interim["rows"]), *numbers, str(interim["decision"]), str(interim["reason"])))
    note = "The interval of a look holds at the level 1 - alpha spent, so that all claims of all looks hold together."
    if not spends:
        note = "A change may be small by chance, so this rule says nothing about the error of the score."
    if left_out:
        note += f" {left_out} earlier looks are left out."
    return Table(("factor", "rows", *middle, "decision", "reason"), tuple(rows), note, frozenset({4, 5}))


def _small(value: float) -> str:
    return f"{value:.3g}" if pd.notna(value) and math.isfinite(value) else MISSING
