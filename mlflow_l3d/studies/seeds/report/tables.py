"""The tables of a seeds study, as texts; fractions become percentage points."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.report.draw import Axis, dots_bar
from mlflow_l3d.report.numbers import (
    MISSING,
    POINTS,
    UNITS,
    between,
    cell_of,
    interval_of,
    plain,
    points,
    shorten,
    signed,
    unit_of,
    with_limits,
)
from mlflow_l3d.report.table import Drawn, Table
from mlflow_l3d.studies.seeds.numbers.better_seed import BetterSeed
from mlflow_l3d.studies.seeds.numbers.over_tasks import ModelOverTasks, table_7
from mlflow_l3d.studies.seeds.numbers.study import SeedsStudy
from mlflow_l3d.studies.seeds.report.over_words import task_rows

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
_COLUMNS: Final = {
    "mean": ("metric_mean", "mean"),
    "[[VAR|var]]": ("var", "std"),
    "[[two seeds agree|agree]]": ("con", "con"),
    "[[agree, right|right]]": ("ccon", "ccon"),
    "robust": ("robust_share", "robust"),
    "fragile": ("fragile_share", "fragile"),
}
"""Head of a column -> a number of a study, and what its interval is called."""
NOTE: Final = "In %, or in the unit of the metric. In brackets: 95 % intervals for all seeds."
PAIR_NOTE: Final = (
    "Over pairs of seeds, in %. CON: share of examples on which two seeds agree, or how much; CCON: and are "
    "right; CON-PEAR: Pearson of two seeds' numbers, blind to shift and scale; Lin's CCC: 1 only for equal numbers. "
    "Over all seeds: kappa, agreement beyond chance; robust, fragile, never right: examples right under every seed, "
    "some, none (of as many seeds as here). Intervals leave out one seed at a time, with all its pairs; those of a std "
    "are rough."
)


def in_unit(study: SeedsStudy, text: str) -> str:
    """Return a text about seeds as one about runs, if these differ in more than a seed."""
    return text if study.unit == "seed" else re.sub(r"\bseed(s?)\b", rf"{study.unit}\1", text)


def metric_table(study: SeedsStudy, most: int | None = None) -> Table | None:
    """Return mean and standard deviation of each metric of one study, the task's own first; a short form of `most`."""
    if study.own.runs < 2:
        return None
    rows = []
    for name in list(dict.fromkeys((study.metric.name, *study.spreads)))[:most]:
        one, shown = study.spreads[name], unit_of(study.spreads[name].metric).text
        worst, best = map(shown, [one.lowest, one.highest][:: int(one.metric.sign)])
        cells = {"metric": name, "mean": cell_of(vars(one), "mean", shown)}
        cells |= {"[[typically ±|std]]": cell_of(vars(one), "std", shown)}
        cells |= {f"worst {study.unit}": worst, f"best {study.unit}": best}
        rows.append(cells if most else cells | {"[[VAR|var]]": shown(one.var), f"{study.unit}s": str(one.runs)})
    return Table.of(rows, in_unit(study, NOTE))


def shares(study: SeedsStudy) -> list[tuple[str, float]]:
    """Return how many test examples are right under every seed, some and none; empty if there are too few."""
    votes, unit = study.examples, study.unit
    if votes is None or len(votes.frame) < FEWEST_EXAMPLES:
        return []
    names = f"right under every {unit}", f"depends on the {unit}", "right under none"
    return list(zip(names, (votes.robust_share, votes.fragile_share, votes.never_right_share), strict=True))


def tasks_table(models: Sequence[ModelOverTasks], most: int | None = None) -> Table | None:
    """Return each task, the largest spread first; a short form of `most`. None if no spread is known."""
    body, rows = [], task_rows(models)
    axis = Axis.over([value for row in rows if row["metric"].percent for value in row["around"]])
    scale = axis.head("points")
    for row in rows[:most]:
        around = row["around"] if row["metric"].percent else ()
        cells = {"task": shorten(row["name"], 40), "mean": "", scale: Drawn(dots_bar(around, axis, row["name"]))}
        for head, (value, start) in list(_COLUMNS.items())[: 3 if most else None]:
            shown = unit_of(row["metric"]).text if value in ("metric_mean", "var") else points
            cells[head] = with_limits(shown(row[value]), interval_of(row, start, shown), "({})").replace(MISSING, "-")
        size = {"training\nexamples": plain(row["training_size"], 0), "metric": row["metric"].name}
        body.append(cells if most else cells | size)
    if not body:
        return None
    return Table.of(body, f"Dots: each seed, in points around the mean of its task. {NOTE}", kind="bars")


def published_tables(rows: pd.DataFrame) -> list[Table]:
    """Return Tables 7 and 8 of Zhou et al. 2025, for each model and benchmark; the std in a second line."""
    note = "Mean (and std with ddof=0) in %: over seeds; of CON and CCON over pairs. P, R, F1: macro averages."
    shown: list[Table] = []
    for names, part in table_7(rows).items():
        body = []
        for task, *values in part.itertuples(name=None):
            pairs = zip(values[::2], values[1::2], strict=True)
            texts = ["-" if math.isnan(mean) else f"{points(mean)}\n(±{points(std)})" for mean, std in pairs]
            body.append((shorten(str(task), 20), *texts))
        title = ", ".join(shorten(name, 60) for name in names if name) or "all tasks"
        shown.append(Table(("", *part.columns.get_level_values(0).unique()), tuple(body), note, title=title))
    return shown


def pair_table(study: SeedsStudy) -> Table | None:
    """Return agreement over pairs of seeds; None without predictions."""
    if not study.pairs:
        return None
    rows = []
    for name, one in study.pairs.items():
        mean, std = (interval_of(vars(one), number, points) for number in ("mean", "std"))
        rows.append((NAMES[name], points(one.mean), mean, points(one.std), std))
    for name in [name for name in TOGETHER if name in study.intervals]:
        shown = UNITS.text if name == "absolute_difference" else points
        rows.append((TOGETHER[name], shown(study.together[name]), between(*study.intervals[name], shown), "", ""))
    head = ("agreement (%)", "mean", "95 %", "std of pairs", "95 % of std")
    return Table(head, tuple(rows), in_unit(study, PAIR_NOTE))


def passes_table(study: SeedsStudy) -> Table | None:
    """Return pass^k and pass@k of repeats; None if the runs are none."""
    if (passes := study.passes) is None:
        return None
    shown, rows = partial(points, digits=1), []
    for row in passes.to_dict("records"):
        cells = {"k runs": str(row["k"])}
        for name, head in {"all": "all right: pass^k (%)", "any": "one right: pass@k (%)"}.items():
            limits = between(row[f"{name}_low"], row[f"{name}_high"], shown, "({} to {})")
            cells[head] = with_limits(shown(row[f"{name}_pass"]), limits)
        rows.append(cells)
    note = "Unbiased: over all choices of k runs. In brackets: 95 % intervals for other examples of the same kind."
    return Table.of(rows, note, title="How often are k runs all right?")


def seed_table(study: SeedsStudy) -> Table:
    """Return the own metric of each seed, and its mean agreement with the others; of runs their settings, too."""
    frame, score = study.to_frame(), unit_of(study.metric).text
    settings = frame.filter(regex=r"^setting\.").nunique()
    rows = []
    for row in frame.to_dict("records"):
        cells = {study.unit: str(row["seed"]), study.metric.name: score(row[study.metric.name])}
        cells |= {str(name)[8:]: shorten(str(row[name]), 24) for name in settings.index[settings > 1]}
        cells |= {f"{short} with the others": points(row[name]) for name, short in NAMES.items() if name in row}
        if "collapsed" in row:
            cells[""] = "one prediction only" if row.get("constant") else "collapsed" * row["collapsed"]
        rows.append(cells)
    return Table.of(rows)


def seed_frame(study: SeedsStudy) -> pd.DataFrame:
    """Return the frame of a study in the units of the report."""
    frame = study.to_frame()
    for name, spread in study.spreads.items():
        frame = unit_of(spread.metric).heads(frame, {name: name}, {})
    return POINTS.heads(frame, {name: f"{NAMES[name]} with the others" for name in NAMES}, {})


def rank_table(better: BetterSeed) -> Table:
    """Return the seeds, best mean rank first."""
    rows = [
        {"seed": str(seed), "mean rank": plain(rank), "mean z": signed(z), "best on tasks": str(first)}
        for seed, rank, z, first in better.of_seeds.itertuples(index=False)
    ]
    return Table.of(rows, "Rank 1 is the best seed of a task.")


def correlation_table(correlations: pd.DataFrame) -> Table:
    """Return the correlations of training size with VAR, CON and CCON."""
    rows = []
    for row in correlations.to_dict("records"):
        scale = "log size" if row["scale"] == "log" else "size"
        cells = [f"{row['measure'].upper()}, {scale}", str(row["tasks"])]
        for name in ("pearson", "spearman"):
            cells += [signed(row[name]), interval_of(row, name)]
        rows.append(tuple(cells))
    head = ("training size with", "tasks", "Pearson", "95 %", "Spearman", "95 %")
    return Table(head, tuple(rows), "Intervals by Fisher's z.")
