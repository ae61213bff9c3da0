"""An ablation as the paper's Table 3, as text and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.verdicts import GOLDEN_ROW
from mlflow_l3d.analysis.intervals import with_interval
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import Unit, bracketed, shorten, signed, unit_of
from mlflow_l3d.report.style import BLUE, GREY, INK, ORANGE, Axes, Figure, dress, panels
from mlflow_l3d.report.table import Table, document
from mlflow_l3d.report.text import WIDTH
from mlflow_l3d.studies.ablation.numbers import NUMBERS

_KEYS: Final = ["setting", "mitigation_runs", "investigation_runs", "test_examples", "share_of_baseline", "factor"]
_WORDS: Final = {
    "score_mean": "score (%)",
    "score_std": "score std",
    "contributed_std": "contributed std",
    "mitigated_std": "mitigated std",
    "importance": "importance",
    "importance_corrected": "corrected",
    "importance_corrected_ci_low": "  95 % from",
    "importance_corrected_ci_high": "  95 % to",
}
_HEAD: Final = ("mitigation runs", "investigation runs", "test size", "% of baseline")


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


def ablation_table(frame: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Return the paper's Table 3 as texts: the mean over the choices, in percentage points where the metric is read so.

    Returns
    -------
    pandas.DataFrame
        Index ``factor`` and ``number``; a column for each setting, named by the table's header lines: mitigation runs,
        investigation runs, test size, share of the baseline.
    """
    columns, unit = {}, unit_of(metric)
    for _, part in spread(frame).groupby("setting", sort=True):
        first = part.iloc[0]
        runs = "-" if pd.isna(first["investigation_runs"]) else str(first["investigation_runs"])
        head = (str(first["mitigation_runs"]), runs, _size(first), f"{100 * first['share_of_baseline']:.3g}%")
        index = pd.MultiIndex.from_frame(part[["factor", "number"]].replace({"number": _WORDS}))
        texts = [_text(name, mean, unit) for name, mean in zip(part["number"], part["mean"], strict=True)]
        columns[head] = pd.Series(texts, index=index)
    return pd.DataFrame(columns).rename_axis(columns=list(_HEAD))


def ablation_text(title: str, frame: pd.DataFrame, metric: Metric, notes: Sequence[str] = ()) -> str:
    """Return table and ranges as text."""
    table = ablation_table(frame, metric)
    repeats = int(frame["repeat"].max()) + 1
    rows: list[tuple[str, ...]] = []
    for factor, part in table.groupby("factor", sort=False):
        rows.append(("golden model" if factor == GOLDEN_ROW else str(factor), *[""] * table.shape[1]))
        rows += [(f"  {number}", *texts) for (_, number), *texts in part.itertuples(name=None)]
    lines = [*Table(tuple(map("\n".join, [_HEAD, *table.columns])), tuple(rows)).lines(), ""]
    lines += _ranges(frame) if repeats > 1 else []
    legend = (
        f"Means over {repeats} random choices of rows, columns, golden runs and examples. Standard deviations in "
        f"{unit_of(metric).name}. The first column is all that was run. corrected: importance with its 95 % interval."
    )
    return document(title, (), [lines, legend, *[f"- {note}" for note in notes]])


def _size(row: Any) -> str:
    return "all" if pd.isna(row["test_examples"]) else str(row["test_examples"])


def _ranges(frame: pd.DataFrame) -> list[str]:
    """Return, factor by factor, where the importance lay in most of the choices."""
    means = spread(frame)
    means = means[means["number"] == "importance"]
    lines = []
    for factor, part in means.groupby("factor", sort=False):
        lines.append(shorten(f"importance of {factor}: mean and 5-95 % range over the choices", WIDTH))
        for row in part.to_dict("records"):
            runs = "base runs" if pd.isna(row["investigation_runs"]) else f"x {row['investigation_runs']}"
            setting = f"  {row['mitigation_runs']} {runs}, {_size(row)} examples"
            lines.append(f"{setting:38}{signed(row['mean'])}  {bracketed(row['low'], row['high'])}")
        lines.append("")
    return lines


def ablation_figure(frame: pd.DataFrame) -> Figure:
    """Return importance and corrected interval of every factor against the number of runs, one panel a factor."""
    means = spread(frame)
    radial = bool(means["investigation_runs"].isna().all())
    means = means.assign(investigation_runs=means["investigation_runs"].fillna(1).astype(int))
    means = means.assign(runs=(means["mitigation_runs"] * means["investigation_runs"]).astype(float))
    means = means[means["test_examples"].isna()]
    runs, fewer = ("base runs", "base runs") if radial else ("runs (rows x columns)", "rows")
    factors = [name for name in means["factor"].unique() if name != GOLDEN_ROW]
    with panels(0.6 + 2.3 * len(factors), len(factors)) as (figure, every):
        for axes, factor in zip(every, factors, strict=True):
            part = means[means["factor"] == factor]
            base = part.loc[part["setting"].idxmin()]
            by_rows = part[part["investigation_runs"] == base["investigation_runs"]]
            by_columns = part[part["mitigation_runs"] == base["mitigation_runs"]]
            dress(axes, x=runs, y="importance", title=shorten(str(factor), 60), grid="y")
            _line(axes, by_rows, BLUE, f"published score, fewer {fewer}")
            if not radial:
                _line(axes, by_columns, GREY, "published score, fewer columns")
            wide = by_rows.pivot(index="runs", columns="number", values="mean")
            corrected, *ends = (wide[name] for name in with_interval("importance_corrected"))
            axes.vlines(wide.index, *ends, color=ORANGE, linewidth=1.6)
            label = f"corrected, fewer {fewer}, 95 % interval"
            axes.plot(wide.index, corrected, "s", color=ORANGE, markersize=4, label=label)
            axes.axhline(0, color=INK, linewidth=1)
            axes.set_xscale("log")
            axes.set_xticks(ticks := _ticks(part["runs"]), map(str, ticks))
            axes.set_xticks([], minor=True)
        figure.legend(
            *every[0].get_legend_handles_labels(), loc="outside lower left", ncols=3, fontsize=8, frameon=False
        )
    return figure


def _ticks(runs: pd.Series) -> list[int]:
    """Return the numbers of runs, largest first, without those that are too close to a larger one for a label."""
    labelled: list[int] = []
    for number in sorted({int(each) for each in runs}, reverse=True):
        if not labelled or labelled[-1] / number > 1.15:
            labelled.append(number)
    return labelled


def _line(axes: Axes, part: pd.DataFrame, colour: str, label: str) -> None:
    line = part[part["number"] == "importance"].sort_values("share_of_baseline")
    axes.plot(line["runs"], line["mean"], "o-", color=colour, markersize=4, label=label)
    axes.fill_between(line["runs"], line["low"], line["high"], color=colour, alpha=0.15, linewidth=0)


def _text(name: str, value: float, unit: Unit) -> str:
    if name.startswith("importance"):
        return signed(value)
    return unit.text(value, 3 if name in ("contributed_std", "mitigated_std") else 2)
