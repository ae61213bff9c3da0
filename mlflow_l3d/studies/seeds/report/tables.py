"""The tables of a seeds study, as texts; fractions become percentage points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.metrics.known import registered
from mlflow_l3d.report.numbers import between, bracketed, plain, points, probability, shorten, signed, unit_of
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.seeds.numbers.better_seed import BetterSeed
from mlflow_l3d.studies.seeds.numbers.over_tasks import table_1, table_7
from mlflow_l3d.studies.seeds.numbers.study import SeedsStudy
from mlflow_l3d.studies.seeds.report.words import in_unit

NAMES: Final = {
    "consistency": "CON",
    "correct_consistency": "CCON",
    "consistency_pearson": "CON-PEAR",
    "consistency_ccc": "Lin's CCC",
}
TOGETHER: Final = {
    "fleiss_kappa": "kappa",
    "robust_share": "robust",
    "fragile_share": "fragile",
    "never_right_share": "never right",
    "absolute_difference": "distance (own unit)",
}
MEASURES: Final = {"var": "VAR", "con": "CON", "ccon": "CCON"}
_INTERVALS: Final = {
    "score": ("metric_mean", "mean"),
    "VAR": ("var", "std"),
    "CON": ("con", "con"),
    "CCON": ("ccon", "ccon"),
    "robust": ("robust_share", "robust"),
    "fragile": ("fragile_share", "fragile"),
}
"""Head of a column -> a number of a study, and what its interval is called."""
METRIC_NOTE: Final = (
    "pp: percentage points ({}: their own unit). Intervals at 95 %, of what all seeds would give. VAR: standard "
    "deviation with ddof=0, as published; std: ddof=1, with an interval that does not take scores for normal."
)
SETTINGS_NOTE: Final = (
    "A linear mixed model with a random effect for each setting. std: of that effect; share: of all variance. "
    "p: of no effect beside the other settings (F test), p Holm: adjusted for the number of settings. A dash: it "
    "is not known."
)
PAIR_NOTE: Final = (
    "Over pairs of seeds, in %. CON: share of examples on which two seeds agree; CCON: and are right; CON-PEAR: "
    "Pearson of two seeds' numbers, blind to shift and scale; Lin's CCC: 1 only for equal numbers. Over all seeds: "
    "kappa, agreement beyond chance; robust, fragile, never right: examples right under every seed, some, none (of as "
    "many seeds as here). Intervals leave out one seed at a time, with all its pairs; those of a std are rough."
)
TABLE_1_NOTE: Final = (
    "In % and percentage points. score: mean of the task's own metric. VAR: its std (ddof=0). CON of numbers: CON-PEAR."
)
INTERVAL_NOTE: Final = (
    "In %, with 95 % intervals of what all seeds would give (of VAR: of the std). robust, fragile: examples right "
    "under every seed, under some."
)
TABLE_7_NOTE: Final = (
    "Mean (and std with ddof=0) in %: over seeds; of CON and CCON over pairs. P, R, F1: macro averages."
)


def metric_table(study: SeedsStudy) -> Table:
    """Return mean, VAR and standard deviation of every metric of one study, the task's own first."""
    rows = []
    for name in dict.fromkeys((study.metric.name, *study.spreads)):
        one, shown = study.spreads[name], unit_of(study.spreads[name].metric).text
        var, lowest, highest = map(shown, (one.var, one.lowest, one.highest))
        mean, std = _with_interval(one, "mean", shown), _with_interval(one, "std", shown)
        rows.append((name, str(one.runs), *mean, var, *std, lowest, highest))
    in_points = all(spread.metric.percent for spread in study.spreads.values())
    head = (
        "metric (pp)" if in_points else "metric",
        f"{study.unit}s",
        "mean",
        "95 %",
        "VAR",
        "std",
        "95 % of std",
        "lowest",
        "highest",
    )
    in_own_unit = ", ".join(each.name for each in registered().values() if not each.percent)
    return Table(head, tuple(rows), in_unit(study, METRIC_NOTE.format(in_own_unit)))


def _with_interval(one: object, name: str, shown: Callable[[float], str]) -> tuple[str, str]:
    """Return a number of a record of spread, and its interval."""
    low, high = getattr(one, f"{name}_ci_low"), getattr(one, f"{name}_ci_high")
    return shown(getattr(one, name)), between(low, high, shown)


def pair_table(study: SeedsStudy) -> Table | None:
    """Return agreement over pairs of seeds; None without predictions."""
    if not study.pairs:
        return None
    rows = [
        (NAMES[name], *_with_interval(one, "mean", points), *_with_interval(one, "std", points))
        for name, one in study.pairs.items()
    ]
    for name in [name for name in TOGETHER if name in study.intervals]:
        shown = partial(plain, digits=3) if name == "absolute_difference" else points
        rows.append((TOGETHER[name], shown(study.together[name]), between(*study.intervals[name], shown), "", ""))
    return Table(
        ("agreement (%)", "mean", "95 %", "std of pairs", "95 % of std"), tuple(rows), in_unit(study, PAIR_NOTE)
    )


def settings_table(study: SeedsStudy) -> Table | None:
    """Return what each recorded setting moves, largest first; None where there are none."""
    if study.settings is None or study.settings.frame.empty:
        return None
    shown = unit_of(study.metric).text
    rows = [
        {
            "setting": shorten(row["setting"], 40),
            "levels": str(row["levels"]),
            "std": shown(row["std"]),
            "share (%)": points(row["share"], 0),
            "p": probability(row["p"]),
            "p Holm": probability(row["p_holm"]),
            "lowest mean": f"{shown(row['lowest_mean'])}\n{shorten(row['lowest'], 24)}",
            "highest mean": f"{shown(row['highest_mean'])}\n{shorten(row['highest'], 24)}",
        }
        for row in study.settings.frame.to_dict("records")
    ]
    rest = {"setting": "the rest", "levels": "", "std": shown(study.settings.residual_std)}
    rows.append({**dict.fromkeys(rows[0], ""), **rest})
    return Table.of(rows, SETTINGS_NOTE, title="Which setting moves the score")


def seed_table(study: SeedsStudy) -> Table:
    """Return the own metric of each seed, and its mean agreement with the others; of runs their settings, too."""
    frame, score = study.to_frame(), unit_of(study.metric).text
    differ = (
        [] if study.recorded is None else [str(name) for name in study.recorded if study.recorded[name].nunique() > 1]
    )
    agreement = [name for name in NAMES if name in frame]
    rows = []
    for row in frame.to_dict("records"):
        cells = {study.unit: str(row["seed"]), study.metric.name: score(row[study.metric.name])}
        cells |= {name: shorten(str(row[f"setting.{name}"]), 24) for name in differ}
        cells |= {f"{NAMES[name]} with the others": points(row[name]) for name in agreement}
        if "collapsed" in frame:
            constant = "constant" in frame and row["constant"]
            cells[""] = "one prediction only" if constant else "collapsed" if row["collapsed"] else ""
        rows.append(cells)
    return Table.of(rows)


def published_table_1(rows: pd.DataFrame) -> list[Table]:
    """Return Table 1 of Zhou et al. 2025, for each model and benchmark."""
    tables = {}
    for names, part in table_1(rows).items():
        body = tuple((str(name), *map(points, values)) for name, values in part.astype(np.float64).iterrows())
        tables[names] = Table(("", *[shorten(str(task), 16) for task in part.columns]), body)
    return _published(tables, TABLE_1_NOTE)


def published_table_7(rows: pd.DataFrame) -> list[Table]:
    """Return Tables 7 and 8, for each model and benchmark; the std in a second line."""
    tables = {}
    for names, part in table_7(rows).items():
        body = []
        for task, *values in part.itertuples(name=None):
            pairs = zip(values[::2], values[1::2], strict=True)
            texts = ["-" if math.isnan(mean) else f"{points(mean)}\n(±{points(std)})" for mean, std in pairs]
            body.append((shorten(str(task), 20), *texts))
        tables[names] = Table(("", *part.columns.get_level_values(0).unique()), tuple(body))
    return _published(tables, TABLE_7_NOTE)


def _published(tables: Mapping[tuple[str, str], Table], note: str) -> list[Table]:
    """Return tables under the names of model and benchmark, the note below the last one."""
    shown: list[Table] = []
    for names, table in tables.items():
        title = ", ".join(shorten(part, 60) for part in names if part) or "all tasks"
        shown.append(replace(table, title=title, note=note if len(shown) == len(tables) - 1 else ""))
    return shown


def interval_table(rows: pd.DataFrame, title: str = "") -> Table:
    """Return every study of one model with its 95 % intervals, and robust and fragile examples."""
    body = []
    for row in rows.to_dict("records"):
        cells = {"": shorten(str(row["task"]), 20)}
        for head, (value, start) in _INTERVALS.items():
            limits = bracketed(row[f"{start}_ci_low"], row[f"{start}_ci_high"], lambda end: points(end, 1))
            cells[head] = "-" if math.isnan(row[value]) else f"{points(row[value], 1)}\n{limits}"
        body.append(cells)
    return Table.of(body, INTERVAL_NOTE, title=title)


def rank_table(better: BetterSeed) -> Table:
    """Return the seeds, best mean rank first."""
    rows = tuple(
        (str(int(row["seed"])), plain(row["mean_rank"]), signed(row["mean_z"]), str(int(row["first"])))
        for row in better.of_seeds.to_dict("records")
    )
    return Table(("seed", "mean rank", "mean z", "best on tasks"), rows, "Rank 1 is the best seed of a task.")


def difference_table(better: BetterSeed, count: int = 10) -> Table | None:
    """Return the pairs of seeds that differ for certain; None where the test found nothing, or no pair holds."""
    frame = better.differences
    frame = frame[frame["p_holm"] <= 1 - better.level] if len(frame) else frame
    if frame.empty:
        return None
    rows = tuple(
        (f"{row['better']} before {row['other']}", plain(row["difference"]), probability(row["p_holm"]))
        for row in frame.head(count).to_dict("records")
    )
    note = f"{len(frame)} of {len(better.differences)} pairs; p adjusted for all pairs (Holm)."
    return Table(("seeds", "ranks apart", "p Holm"), rows, note, title="Seeds that differ")


def correlation_table(correlations: pd.DataFrame) -> Table:
    """Return the correlations of training size with VAR, CON and CCON."""
    rows = []
    for row in correlations.to_dict("records"):
        scale = "log size" if row["scale"] == "log" else "size"
        cells = [f"{MEASURES.get(row['measure'], row['measure'])}, {scale}", str(row["tasks"])]
        for name in ("pearson", "spearman"):
            cells += [signed(row[name]), between(row[f"{name}_ci_low"], row[f"{name}_ci_high"])]
        rows.append((*cells, plain(row["detectable"])))
    head = ("training size with", "tasks", "Pearson", "95 %", "Spearman", "95 %", "detectable")
    note = (
        "Intervals by Fisher's z. detectable: the smallest correlation that so many tasks would have told from 0 in "
        "80 % of studies."
    )
    return Table(head, tuple(rows), note)
