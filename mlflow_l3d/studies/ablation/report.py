"""An ablation as the paper's Table 3, as text and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.verdicts import GOLDEN_ROW
from mlflow_l3d.report.numbers import between, counted, signed
from mlflow_l3d.report.page import Document, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table
from mlflow_l3d.report.text import Answer, Step
from mlflow_l3d.studies.ablation.numbers import NUMBERS

_KEYS: Final = ["setting", "mitigation_runs", "investigation_runs", "test_examples", "share_of_baseline", "factor"]

_FEWEST_CHOICES: Final = 10
"""Random choices below which it is not shown that nine of ten keep a sign."""


def spread(frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean and range of every number over the random choices of a setting.

    Parameters
    ----------
    frame
        As :func:`mlflow_l3d.studies.ablation.numbers.ablate_tables` returns it.

    Returns
    -------
    pandas.DataFrame
        One row per setting, factor and number: ``setting``, ``mitigation_runs``, ``investigation_runs`` (missing in the
        radial design), ``test_examples`` (missing: all), ``share_of_baseline``, ``factor``, ``number``, ``mean``,
        ``low`` and ``high`` (5 and 95 % quantile), ``repeats`` (choices in which the number is defined).
    """
    lines = []
    for key, part in frame.groupby(_KEYS, dropna=False, sort=False):
        for name in NUMBERS[:2] if key[-1] == GOLDEN_ROW else NUMBERS:
            values = part[name][np.isfinite(part[name])]
            # Repeats of a setting without a choice are equal, and their mean must be that number to the last digit.
            mean = np.clip(values.mean(), values.min(), values.max())
            lines.append((*key, name, mean, *values.quantile([0.05, 0.95]), len(values)))
    result = pd.DataFrame(lines, columns=[*_KEYS, "number", "mean", "low", "high", "repeats"])
    return result.astype({"test_examples": "Int64", "investigation_runs": "Int64"})


def ablation_document(title: str, frame: pd.DataFrame, notes: Sequence[str], source: Source) -> Document:
    """Return what fewer runs would have found as people read it; `source` is the investigation."""
    means = _importances(frame)
    # A part of the runs keeps the luck of all of them: no sign that those do not establish may be kept.
    of_all = frame[frame["setting"].eq(0)].groupby("factor")[["importance", *NUMBERS[-2:]]].first().apply(np.sign)
    signs = means["factor"].map(of_all["importance"].where(of_all.nunique(axis=1, dropna=False) == 1))
    means = means.assign(kept=(np.sign(means["low"]).eq(signs) & np.sign(means["high"]).eq(signs)))
    fewer = means[means["setting"].ne(0)].sort_values(["share_of_baseline", "setting"], kind="stable")
    choices = int(frame["repeat"].max()) + 1
    # An importance that a choice leaves undefined has no sign.
    is_defined = fewer["repeats"].eq(choices)
    whole = fewer[(fewer["kept"] & is_defined).groupby(fewer["setting"]).transform("all")]
    is_shown = whole.empty or choices >= _FEWEST_CHOICES
    answers = [
        Answer("How few runs are enough?", "", (_enough(whole, is_shown),)),
        Answer("Which factor needs most?", "", (_first_lost(fewer[~fewer["kept"]], fewer[~is_defined]),)),
        Answer("Do fewer test examples do?", "", (_fewer_examples(fewer),)),
    ]
    return Document(
        title=title,
        headline=_headline(fewer, whole, is_shown),
        place=source.place(),
        answers=answers,
        table=range_table(frame, [0, *fewer["setting"].drop_duplicates()[:2]]),
        steps=[] if fewer.empty else _steps(means, whole, is_shown, source),
        lines=[title],
        notes=notes,
        sections=[Section("The importance in each setting", [range_table(frame)])],
    )


def _importances(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of :func:`spread` that are the importance of a factor."""
    means = spread(frame)
    return means[means["number"].eq("importance") & means["factor"].ne(GOLDEN_ROW)]


def range_table(frame: pd.DataFrame, settings: Sequence[int] | None = None) -> Table:
    """Return mean and range of the importance of each factor, in some settings or in all."""
    means = _importances(frame).sort_values("setting")
    if settings is not None:
        means = means[means["setting"].isin(settings)]
    choices = int(frame["repeat"].max()) + 1
    rows: dict[str, dict[str, str]] = {}
    for row in means.to_dict("records"):
        importance = f"{signed(row['mean'])}\n({between(row['low'], row['high'])})"
        importance += f"\nin {row['repeats']} of {choices}" if row["repeats"] < choices else ""
        rows.setdefault(row["factor"], {"factor": row["factor"]})[_setting(row).replace(" on ", "\n")] = importance
    note = f"Importance: mean and 5 to 95 % range over {counted(choices, 'random choice')}."
    if (means["repeats"] < choices).any():
        note += " Choices that define none, such as those whose golden runs have equal scores, are left out."
    return Table.of([*rows.values()], note)


def _steps(means: pd.DataFrame, whole: pd.DataFrame, is_shown: bool, source: Source) -> list[Step]:
    """Return the investigation that is enough next time, or a larger one; more choices if that is not shown."""
    if not is_shown:
        command = source.on_runs("ablation", parent_run_id=source.run_id, repeats=_FEWEST_CHOICES)
        return [Step("More choices show it, without new runs:", command)]
    row = means.iloc[0] if whole.empty else whole.iloc[0]
    sizes = {"mitigation_runs": row["mitigation_runs"] * (2 if whole.empty else 1)}
    sizes |= {"investigation_runs": row["investigation_runs"], "test_size": row["test_examples"]}
    command = source.command(**{name: str(size) for name, size in sizes.items() if not pd.isna(size)})
    text = "Enough for the signs next time:"
    if whole.empty:
        text = "No smaller part is sure. More rows narrow the intervals:"
    return [Step(text, command)] if command else []


def _headline(fewer: pd.DataFrame, whole: pd.DataFrame, is_shown: bool) -> str:
    if fewer.empty:
        return "Nothing smaller than all runs was tried."
    if not is_shown:
        return "The random choices are too few to show that fewer runs keep the signs."
    if whole.empty:
        return "Fewer runs may give an importance of the other sign."
    return f"With {100 * whole['share_of_baseline'].iloc[0]:.3g} % of the work, every importance has the same sign."


def _enough(whole: pd.DataFrame, is_shown: bool) -> str:
    if not is_shown:
        return f"**Not shown:** that takes {_FEWEST_CHOICES} or more random choices (repeats)."
    if whole.empty:
        return "**None of the smaller parts:** with each, the sign of an importance is not sure."
    return f"**{_setting(whole.iloc[0])}:** every importance keeps its sign in nine of ten choices."


def _first_lost(lost: pd.DataFrame, undefined: pd.DataFrame) -> str:
    lost = lost.dropna(subset="mean")
    if lost.empty and not undefined.empty:
        row = undefined.iloc[-1]
        share = "some choices" if row["repeats"] else "any choice"
        return f"**{row['factor']}**: with {_setting(row)} it has no importance in {share}."
    if lost.empty:
        return "No factor changes its sign."
    row = lost.iloc[-1]
    return f"**{row['factor']}**: with {_setting(row)} its importance is **{between(row['low'], row['high'])}**."


def _fewer_examples(fewer: pd.DataFrame) -> str:
    part = fewer[fewer["test_examples"].notna() & fewer["mitigation_runs"].eq(fewer["mitigation_runs"].max())]
    if part.empty:
        return "Not tried."
    row = part.assign(width=part["high"] - part["low"]).nlargest(1, "width").iloc[0]
    limits = between(row["low"], row["high"])
    return f"With {_size(row)} examples the importance of {row['factor']} varies most: **{limits}**."


def _setting(row: Any) -> str:
    columns = "base runs" if pd.isna(row["investigation_runs"]) else f"x {row['investigation_runs']} runs"
    return f"{row['mitigation_runs']} {columns} on {_size(row)} examples"


def _size(row: Any) -> str:
    return "all" if pd.isna(row["test_examples"]) else str(row["test_examples"])
