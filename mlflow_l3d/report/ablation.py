"""An ablation as the paper's Table 3, as text and as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.strategies import GOLDEN_ROW
from mlflow_l3d.analysis.planning.subsets import NUMBERS
from mlflow_l3d.report.numbers import bracketed, points, shorten, signed
from mlflow_l3d.report.style import BLUE, GREY, INK, ORANGE, dress, new_figure, settings
from mlflow_l3d.report.table import Table
from mlflow_l3d.report.text import WIDTH, document, heading, wrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KEYS: Final = ["setting", "mitigation_runs", "investigation_runs", "test_examples", "share_of_baseline", "factor"]
_WORDS: Final = {
    "score_mean": "score (%)",
    "score_std": "score std",
    "contributed_std": "contributed std",
    "mitigated_std": "mitigated std",
    "importance": "importance",
    "importance_corrected": "corrected",
    "importance_ci_low": "  95 % from",
    "importance_ci_high": "  95 % to",
}
_HEAD: Final = ("mitigation runs", "investigation runs", "test size", "% of baseline")


def spread(frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean and range of every number over the random choices of a setting.

    Parameters
    ----------
    frame
        As :func:`mlflow_l3d.analysis.planning.subsets.ablate_tables` returns it.

    Returns
    -------
    pandas.DataFrame
        One row a setting, factor and number: ``setting``, ``mitigation_runs``, ``investigation_runs`` (missing in the
        radial design), ``test_examples`` (missing: all), ``share_of_baseline``, ``factor``, ``number``, ``mean``,
        ``low`` and ``high`` (5 and 95 % quantile), ``repeats`` (choices in which the number is defined).
    """
    lines = []
    for key, part in frame.groupby(_KEYS, dropna=False, sort=False):
        for name in NUMBERS[:2] if key[-1] == GOLDEN_ROW else NUMBERS:
            known = part[name].to_numpy(dtype=np.float64)
            known = known[np.isfinite(known)]
            # Repeats of a setting without a choice are equal, and their mean must be that number to the last digit.
            equal = bool(len(known)) and bool((known == known[0]).all())
            mean = math.nan if not len(known) else float(known[0] if equal else known.mean())
            low, high = np.percentile(known, [5, 95]) if len(known) else (math.nan, math.nan)
            lines.append((*key, name, mean, float(low), float(high), len(known)))
    result = pd.DataFrame(lines, columns=[*_KEYS, "number", "mean", "low", "high", "repeats"])
    return result.astype({"test_examples": "Int64", "investigation_runs": "Int64"})


def ablation_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the paper's Table 3 as texts: the mean over the choices, standard deviations in percentage points.

    Returns
    -------
    pandas.DataFrame
        Index ``factor`` and ``number``; a column for each setting, named by the table's header lines: mitigation runs,
        investigation runs, test size, share of the baseline.
    """
    means = spread(frame)
    columns, heads = {}, []
    for _, part in means.groupby("setting", sort=True):
        first = part.iloc[0]
        size = "all" if pd.isna(first["test_examples"]) else str(first["test_examples"])
        share = f"{100 * first['share_of_baseline']:.3g}%"
        columns_of = "-" if pd.isna(first["investigation_runs"]) else str(first["investigation_runs"])
        heads.append((str(first["mitigation_runs"]), columns_of, size, share))
        index = pd.MultiIndex.from_frame(part[["factor", "number"]].replace({"number": _WORDS}))
        texts = [_text(name, mean) for name, mean in zip(part["number"], part["mean"], strict=True)]
        columns[len(heads) - 1] = pd.Series(texts, index=index)
    table = pd.DataFrame(columns)
    table.columns = pd.MultiIndex.from_tuples(heads, names=_HEAD)
    return table


def ablation_text(title: str, frame: pd.DataFrame, notes: Sequence[str] = ()) -> str:
    """Return table and ranges as text."""
    table = ablation_table(frame)
    repeats = int(frame["repeat"].max()) + 1
    rows: list[tuple[str, ...]] = []
    for factor, part in table.groupby("factor", sort=False):
        rows.append(("golden model" if factor == GOLDEN_ROW else str(factor), *[""] * table.shape[1]))
        rows += [
            (f"  {number}", *map(str, texts)) for (_, number), texts in zip(part.index, part.to_numpy(), strict=True)
        ]
    lines = [*heading(title), *Table(tuple(map("\n".join, [_HEAD, *table.columns])), tuple(rows)).lines(), ""]
    lines += _ranges(frame) if repeats > 1 else []
    legend = (
        f"Means over {repeats} random choices of rows, columns, golden runs and examples. Standard deviations in "
        "percentage points. The first column is all that was run. corrected: importance with its 95 % interval."
    )
    return document([*lines, *wrap(legend), *[line for note in notes for line in wrap(f"- {note}", "  ")]])


def _ranges(frame: pd.DataFrame) -> list[str]:
    """Return, factor by factor, where the importance lay in most of the choices."""
    means = spread(frame)
    means = means[means["number"] == "importance"]
    lines = []
    for factor, part in means.groupby("factor", sort=False):
        lines.append(shorten(f"importance of {factor}: mean and 5-95 % range over the choices", WIDTH))
        for row in part.to_dict("records"):
            size = "all" if pd.isna(row["test_examples"]) else str(row["test_examples"])
            runs = "base runs" if pd.isna(row["investigation_runs"]) else f"x {row['investigation_runs']}"
            setting = f"  {row['mitigation_runs']} {runs}, {size} examples"
            lines.append(f"{setting:38}{signed(row['mean'])}  {bracketed(row['low'], row['high'])}")
        lines.append("")
    return lines


def ablation_figure(frame: pd.DataFrame) -> Figure:
    """Return importance and corrected interval of every factor against the number of runs, one panel a factor."""
    means = spread(frame)
    radial = bool(means["investigation_runs"].isna().all())
    means = means.assign(investigation_runs=means["investigation_runs"].fillna(1).astype(int))
    full = means[means["setting"] == means["setting"].min()].iloc[0]
    means = means[means["test_examples"].isna()]
    runs, fewer = ("base runs", "base runs") if radial else ("runs (rows x columns)", "rows")
    factors = [name for name in means["factor"].unique() if name != GOLDEN_ROW]
    with settings():
        figure = new_figure(0.6 + 2.3 * len(factors))
        for place, factor in enumerate(factors):
            axes = figure.add_subplot(len(factors), 1, place + 1)
            own = means[means["factor"] == factor]
            base = own[own["setting"] == full["setting"]].iloc[0]
            by_rows = own[own["investigation_runs"] == base["investigation_runs"]]
            by_columns = own[own["mitigation_runs"] == base["mitigation_runs"]]
            dress(axes, x=runs, y="importance", title=shorten(str(factor), 60), grid="y")
            _line(axes, by_rows, BLUE, f"published score, fewer {fewer}")
            if not radial:
                _line(axes, by_columns, GREY, "published score, fewer columns")
            _interval(axes, by_rows, f"corrected, fewer {fewer}, 95 % interval")
            axes.axhline(0, color=INK, linewidth=1)
            axes.set_xscale("log")
            axes.set_xticks(ticks := _ticks(own["mitigation_runs"] * own["investigation_runs"]), map(str, ticks))
            axes.set_xticks([], minor=True)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=3, fontsize=8, frameon=False)
    return figure


def _ticks(runs: pd.Series) -> list[int]:
    """Return the numbers of runs, largest first, without those that are too close to a larger one for a label."""
    kept: list[int] = []
    for number in sorted({int(each) for each in runs}, reverse=True):
        if not kept or kept[-1] / number > 1.15:
            kept.append(number)
    return kept


def _line(axes: Axes, part: pd.DataFrame, colour: str, label: str) -> None:
    own = part[part["number"] == "importance"].sort_values("share_of_baseline")
    runs = (own["mitigation_runs"] * own["investigation_runs"]).to_numpy(dtype=float)
    axes.plot(runs, own["mean"].to_numpy(), "o-", color=colour, markersize=4, label=label)
    axes.fill_between(runs, own["low"].to_numpy(), own["high"].to_numpy(), color=colour, alpha=0.15, linewidth=0)


def _interval(axes: Axes, part: pd.DataFrame, label: str) -> None:
    own = part.pivot(index=["mitigation_runs", "investigation_runs"], columns="number", values="mean").reset_index()
    runs = (own["mitigation_runs"] * own["investigation_runs"]).to_numpy(dtype=float)
    axes.vlines(runs, own["importance_ci_low"], own["importance_ci_high"], color=ORANGE, linewidth=1.6)
    axes.plot(runs, own["importance_corrected"], "s", color=ORANGE, markersize=4, label=label)


def _text(name: str, value: float) -> str:
    if name.startswith("importance"):
        return signed(value)
    return points(value, 3 if name in ("contributed_std", "mitigated_std") else 2)
