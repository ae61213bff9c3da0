"""The tables of a seeds study, as texts; fractions become percentage points."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.seeds.better_seed import BetterSeed
from mlflow_l3d.analysis.seeds.study import SeedsStudy
from mlflow_l3d.analysis.seeds.tables import table_1, table_7
from mlflow_l3d.analysis.stability.examples import ExampleVotes
from mlflow_l3d.metrics.known import named, registered
from mlflow_l3d.report.numbers import MISSING, between, bracketed, plain, points, probability, shorten, signed
from mlflow_l3d.report.table import Table

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
METRIC_NOTE: Final = (
    "pp: percentage points ({}: their own unit). Intervals at 95 %, of what all seeds would give. VAR: standard "
    "deviation with ddof=0, as published; std: ddof=1, with an interval that does not take scores for normal."
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
    for name in dict.fromkeys((study.metric, *study.spreads)):
        one, shown = study.spreads[name], plain_or_points(name)
        mean_interval = between(one.mean_ci_low, one.mean_ci_high, shown)
        std_interval = between(one.std_ci_low, one.std_ci_high, shown)
        ends = shown(one.lowest), shown(one.highest)
        rows.append(
            (name, str(one.runs), shown(one.mean), mean_interval, shown(one.var), shown(one.std), std_interval, *ends)
        )
    head = ("metric (pp)", "seeds", "mean", "95 %", "VAR", "std", "95 % of std", "lowest", "highest")
    in_own_unit = ", ".join(each.name for each in registered().values() if not each.percent)
    return Table(head, tuple(rows), METRIC_NOTE.format(in_own_unit))


def pair_table(study: SeedsStudy) -> Table | None:
    """Return agreement over pairs of seeds; None without predictions."""
    if not study.pairs:
        return None
    rows = [
        (
            NAMES[name],
            points(one.mean),
            between(one.mean_ci_low, one.mean_ci_high, points),
            points(one.std),
            between(one.std_ci_low, one.std_ci_high, points),
        )
        for name, one in study.pairs.items()
    ]
    for name in TOGETHER:
        if name not in study.intervals:
            continue
        shown = _fine if name == "absolute_difference" else points
        rows.append((TOGETHER[name], shown(study.together[name]), between(*study.intervals[name], shown), "", ""))
    return Table(("agreement (%)", "mean", "95 %", "std of pairs", "95 % of std"), tuple(rows), PAIR_NOTE)


def seed_table(study: SeedsStudy) -> Table:
    """Return the own metric of each seed, and its mean agreement with the others."""
    frame = study.to_frame()
    agreement = [name for name in NAMES if name in frame]
    rows = []
    for row in frame.to_dict("records"):
        cells = [str(row["seed"]), plain_or_points(study.metric)(float(row[study.metric]))]
        cells += [points(float(row[name])) for name in agreement]
        if agreement:
            cells.append("one prediction only" if row["constant"] else "")
        rows.append(tuple(cells))
    head = ("seed", study.metric, *[f"{NAMES[name]} with the others" for name in agreement])
    return Table((*head, "") if agreement else head, tuple(rows))


def fragile_examples(examples: ExampleVotes, count: int = 10) -> Table | None:
    """Return the examples about which seeds differ most; None where they differ about none."""
    frame = examples.most_fragile(count)
    if frame.empty:
        return None
    rows = tuple(
        (
            shorten(str(row["example_id"]), 24),
            str(row["label"]),
            " / ".join(map(str, row["votes"])),
            points(float(row["share_right"]), 0),
            plain(float(row["entropy"])),
        )
        for row in frame.to_dict("records")
    )
    head = ("example", "class", "votes for class 0 / 1 / ...", "right (%)", "entropy (bits)")
    return Table(head, rows, "Examples on which the answer depends on the seed most.")


def published_table_1(rows: pd.DataFrame) -> list[Table]:
    """Return Table 1 of Zhou et al. 2025, for each model and benchmark."""
    tables = []
    for names, part in table_1(rows).items():
        head = ("", *[shorten(str(task), 16) for task in part.columns])
        body = tuple((str(name), *map(points, map(float, values))) for name, values in part.iterrows())
        tables.append(Table(head, body, title=_title(*names)))
    return [*tables[:-1], replace(tables[-1], note=TABLE_1_NOTE)]


def published_table_7(rows: pd.DataFrame) -> list[Table]:
    """Return Tables 7 and 8, for each model and benchmark; the std in a second line."""
    tables = []
    for names, part in table_7(rows).items():
        groups = part.columns.get_level_values(0).unique().tolist()
        body = []
        for task, values in zip(part.index, part.to_numpy(dtype=np.float64), strict=True):
            pairs = values.reshape(-1, 2).tolist()
            body.append((shorten(str(task), 20), *[_mean_and_std(mean, std) for mean, std in pairs]))
        tables.append(Table(("", *groups), tuple(body), title=_title(*names)))
    return [*tables[:-1], replace(tables[-1], note=TABLE_7_NOTE)]


def interval_table(rows: pd.DataFrame, title: str = "") -> Table:
    """Return every study of one model with its 95 % intervals, and robust and fragile examples."""
    measures = {"metric_mean": "mean", "var": "std", "robust_share": "robust", "fragile_share": "fragile"}
    body = []
    for row in rows.to_dict("records"):
        cells = [shorten(str(row["task"]), 20)]
        for value in ("metric_mean", "var", "con", "ccon", "robust_share", "fragile_share"):
            start = measures.get(value, value)
            limits = bracketed(row[f"{start}_ci_low"], row[f"{start}_ci_high"], lambda end: points(end, 1))
            cells.append("-" if math.isnan(row[value]) else f"{points(row[value], 1)}\n{limits}")
        body.append(tuple("-" if cell == MISSING else cell for cell in cells))
    head = ("", "score", "VAR", "CON", "CCON", "robust", "fragile")
    return Table(head, tuple(body), INTERVAL_NOTE, title=title)


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
    return Table(("seeds", "ranks apart", "p Holm"), rows, note)


def correlation_table(correlations: pd.DataFrame) -> Table:
    """Return the correlations of training size with VAR, CON and CCON."""
    rows = []
    for row in correlations.to_dict("records"):
        scale = "log size" if row["scale"] == "log" else "size"
        rows.append(
            (
                f"{MEASURES.get(row['measure'], row['measure'])}, {scale}",
                str(row["tasks"]),
                signed(row["pearson"]),
                between(row["pearson_ci_low"], row["pearson_ci_high"]),
                signed(row["spearman"]),
                between(row["spearman_ci_low"], row["spearman_ci_high"]),
                plain(row["detectable"]),
            )
        )
    head = ("training size with", "tasks", "Pearson", "95 %", "Spearman", "95 %", "detectable")
    note = (
        "Intervals by Fisher's z. detectable: the smallest correlation that so many tasks would have told from 0 in "
        "80 % of studies."
    )
    return Table(head, tuple(rows), note)


def plain_or_points(metric: str) -> Callable[[float], str]:
    """Return how a metric is written: in percentage points, or in its own unit."""
    return points if named(metric).percent else _fine


def _fine(value: float) -> str:
    return plain(value, 3)


def _mean_and_std(mean: float, std: float) -> str:
    return "-" if math.isnan(mean) else f"{points(mean)}\n(±{points(std)})"


def _title(model: str, benchmark: str) -> str:
    return ", ".join(shorten(part, 60) for part in (model, benchmark) if part) or "all tasks"
