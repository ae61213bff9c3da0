"""The report of a study of seeds: its document, tables and heat map; fractions become percentage points."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd
from markupsafe import Markup

from mlflow_l3d.report.draw import WIDTH, sheet, short, text
from mlflow_l3d.report.html import Snippet, fragile_examples, prose, shares_bar
from mlflow_l3d.report.numbers import (
    POINTS,
    UNITS,
    between,
    cell_of,
    counted,
    interval_of,
    plain,
    points,
    probability,
    shorten,
    unit_of,
    with_limits,
)
from mlflow_l3d.report.page import Document, Drawing, Section
from mlflow_l3d.report.plots import score_strip
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.seeds.numbers import SeedsStudy
from mlflow_l3d.studies.seeds.numbers.better_seed import BetterSeed, normalised
from mlflow_l3d.studies.seeds.report import words

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
NOTE: Final = "In %, or in the unit of the metric. In brackets: 95 % intervals for all seeds."
PAIR_NOTE: Final = (
    "Over pairs of seeds, in %. CON: share of examples on which two seeds agree, or how much; CCON: and are "
    "right; CON-PEAR: Pearson of two seeds' numbers, blind to shift and scale; Lin's CCC: 1 only for equal numbers. "
    "Over all seeds: kappa, agreement beyond chance; robust, fragile, never right: examples right under every seed, "
    "some, none (of as many seeds as here). Intervals leave out one seed at a time, with all its pairs; those of a std "
    "are rough."
)

SOURCES: Final = (
    "Zhou, Savova, Wang 2025: Assessing the Macro and Micro Effects of Random Seeds on Fine-Tuning Large Language "
    "Models."
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
        one = study.spreads[name]
        unit = unit_of(one.metric)
        shown = partial(unit.text, digits=max(2, unit.digits(one.std)))
        worst, best = map(shown, [one.lowest, one.highest][:: int(one.metric.sign)])
        cells = {"metric": name, "mean": cell_of(vars(one), "mean", shown)}
        cells |= {"[[typically ±|std]]": cell_of(vars(one), "std", shown)}
        cells |= {f"worst {study.unit}": worst, f"best {study.unit}": best}
        rows.append(cells if most else cells | {"[[VAR|var]]": shown(one.var), f"{study.unit}s": str(one.runs)})
    return Table.of(rows, in_unit(study, NOTE))


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
    frame = study.to_frame()
    score = partial(unit_of(study.metric).text, digits=max(2, words.digits(study)))
    settings = frame.filter(regex=r"^setting\.").nunique()
    rows = []
    for row in frame.to_dict("records"):
        cells = {study.unit: str(row["seed"]), study.metric.name: score(row[study.metric.name])}
        cells |= {str(name)[8:]: shorten(str(row[name]), 24) for name in settings.index[settings > 1]}
        cells |= {f"{short} with the others": points(row[name]) for name, short in NAMES.items() if name in row}
        if "collapsed" in row:
            cells[""] = "one prediction only" if row.get("constant") else "collapsed" if row["collapsed"] else ""
        rows.append(cells)
    return Table.of(rows)


def seed_frame(study: SeedsStudy, *, full: bool = False) -> pd.DataFrame:
    """Return one row per seed in the units of the report; `full` returns all, with scores as fractions."""
    frame = study.to_frame()
    if full:
        return frame
    for name, spread in study.spreads.items():
        frame = unit_of(spread.metric).heads(frame, {name: name}, {})
    return POINTS.heads(frame, {name: f"{NAMES[name]} with the others" for name in NAMES}, {})


def seeds_document(
    study: SeedsStudy,
    *,
    title: str,
    source: Source | None = None,
    runs: Sequence[str] = (),
    failed: int = 0,
    lines: Sequence[str] = (),
    notes: Sequence[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Document:
    """Return one study as people read it.

    Parameters
    ----------
    study
        The numbers.
    source, runs
        Where it comes from, and the MLflow run of each seed, if they are known.
    failed
        Seeds that failed, which are not in the study.
    title, lines, notes, settings
        As in :class:`mlflow_l3d.report.page.Document`.
    """
    source, unit = source or Source(), study.unit
    short = [*words.short_notes(study, failed)]
    every = None if study.examples is None else study.examples.frame
    fragile = fragile_examples(every, classes=source.classes, runs=f"{unit}s", are_rows=source.are_numbered)
    first_notes = [shorten(note, 200) for note in notes[:3]]
    if len(notes) > 3:
        first_notes.append(f"{counted(len(notes) - 3, 'more note')} in the report.")
    named = replace(source, task=source.task or study.task, model=study.model)
    behind = [run for run, score in zip(runs, study.scores[study.metric.name], strict=False) if math.isfinite(score)]
    return Document(
        title=title,
        headline=words.headline(study),
        about=named.about(study.metric),
        place=source.place(counted(len(study.seeds), unit)),
        answers=words.study_answers(study, source),
        drawing=_strip(study),
        table=metric_table(study, most=5),
        steps=[*words.steps(study, source, failed)][:2],
        lines=lines,
        remarks=[*short, *first_notes],
        notes=short,
        in_full=notes,
        sections=[
            Section(f"Each {unit}", [seed_table(study)]),
            Section("All metrics", [metric_table(study)]),
            Section("Single predictions", [passes_table(study), pair_table(study), fragile]),
            Section("Cite this", [Snippet("cite.html", {"parts": words.citation(study, source)})], name="cite"),
        ],
        settings=settings,
        sources=SOURCES,
        data={"golden": behind, "address": source.address},
    )


def _strip(study: SeedsStudy) -> Drawing | None:
    scores = words.scored(study)
    if len(scores) < 2:
        return None
    drawn = score_strip(
        scores.to_numpy(),
        study.metric,
        std=study.own.std,
        run=study.unit,
        names=[f"{study.unit} {seed}" for seed in scores.index],
        dot_labels=[str(seed) for seed in scores.index] if len(scores) <= 20 else (),
        collapsed=[at for at, seed in enumerate(scores.index) if seed in study.collapsed_seeds],
    )
    parts = [drawn.html, Markup('<p class="note">{}</p>').format(prose(drawn.caption))]
    names = (f"right under every {study.unit}", f"depends on the {study.unit}", "right under none")
    if bar := shares_bar(study.examples, names):
        parts += [Markup("<h3>Test examples</h3>"), bar]
    return Drawing(Markup("").join(parts))


HEAT_NOTE: Final = (
    "Colours: distance from the task's mean in its own standard deviations (z), blue better. Numbers: the same in "
    "percentage points, or in the unit of an error."
)
_LEFT: Final = 12.0
"""Room for the names of seeds, in per cent."""
_CELL: Final = Markup(
    '<rect x="{}%" y="{}" width="{}%" height="{}" fill="{}" fill-opacity="{:.3f}"><title>{}</title></rect>'
)
_TURNED: Final = Markup('<text transform="translate({} {}) rotate(-35)" text-anchor="end">{}</text>')


def seed_heatmap(matrix: pd.DataFrame, better: BetterSeed | None = None, *, title: str = "") -> Markup:
    """Return Figure 3 of Zhou et al. 2025: normalised scores of each seed (rows) on each task (columns).

    Parameters
    ----------
    matrix
        One row per task, one column per seed: fractions, hundredths if not in per cent, nan without a score (grey).
    better
        The test, for the line above the map.
    title
        The model.

    Notes
    -----
    Colours are z within a task: blue better than its mean, orange worse. Numbers are the distance from the task's mean
    in percentage points, or in the unit of an error, if there are at most 14 tasks and 40 seeds. Seed 42 is in bold.
    """
    scaled = normalised(matrix).to_numpy().T
    distance = 100 * matrix.sub(matrix.mean(axis=1), axis=0).to_numpy(dtype=np.float64).T
    seeds, tasks = scaled.shape
    has_numbers = tasks <= 14 and seeds <= 40
    decimals = [POINTS.digits(std) for std in matrix.std(axis=1)]
    lines = [shorten(title, 60)] if title else []
    if better is not None:
        limits = between(better.kendall_w_ci_low, better.kendall_w_ci_high, plain)
        lines.append(f"Friedman p {probability(better.p)}, Kendall's W {plain(better.kendall_w)} ({limits})")
    parts = [text(0, 16 + 18 * at, line, kind="strong", anchor="start") for at, line in enumerate(lines)]
    top = 12 + 18 * len(lines)
    row = 22 if has_numbers else 10
    width = (100 - _LEFT) / max(1, tasks)
    names = [shorten(str(name), 20) for name in matrix.index]
    for (at, task), z in np.ndenumerate(scaled):
        x, y = _LEFT + width * task, top + row * at
        where = f"{names[task]}, seed {matrix.columns[at]}"
        colour, depth, said = "#9aa3b0", 1.0, f"{where}: no score"
        if np.isfinite(z):  # of ten seeds none can be further than 3 from the mean
            colour, depth = "#0072b2" if z > 0 else "#d55e00", 0.75 * min(abs(z) / 2.5, 1.0)
            said = f"{where}: z {z:+.2f}"
        parts.append(_CELL.format(short(x), y, short(width), row, colour, depth, said))
        if has_numbers and np.isfinite(moved := distance[at, task]):
            digits = decimals[task] if abs(moved) < 99.95 else 0
            number = f"{round(float(moved), digits) + 0.0:+.{digits}f}"
            parts.append(text(x + width / 2, y + 15, number, kind="strong", anchor="middle"))
    for at in range(0, seeds, 1 if has_numbers else max(1, seeds // 30)):
        kind = "strong" if int(matrix.columns[at]) == 42 else ""  # the seed that people choose
        parts.append(text(_LEFT - 1, top + row * at + row / 2 + 4, str(matrix.columns[at]), kind=kind, anchor="end"))
    bottom = top + row * seeds + 14
    for task, name in enumerate(names):
        parts.append(_TURNED.format(short(WIDTH * (_LEFT + width * (task + 0.5)) / 100 + 4), bottom, name))
    return sheet(bottom + 80, "Normalised scores of seeds on tasks", *parts)
