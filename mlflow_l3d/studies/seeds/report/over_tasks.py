"""Several seeds studies over tasks as people read them: document, sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.intervals import LEVEL, with_interval
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.draw import Axis, dots_bar
from mlflow_l3d.report.numbers import (
    MISSING,
    POINTS,
    between,
    counted,
    interval_of,
    plain,
    points,
    probability,
    shorten,
    signed,
    unit_of,
    with_limits,
)
from mlflow_l3d.report.page import Document, Drawing, Item, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Drawn, Table
from mlflow_l3d.report.text import Answer, Step
from mlflow_l3d.studies.seeds.numbers.better_seed import BetterSeed
from mlflow_l3d.studies.seeds.numbers.over_tasks import (
    TABLE_7,
    ModelOverTasks,
    rows_of_one_unit,
    scales_of,
    table_7,
    task_rows,
)
from mlflow_l3d.studies.seeds.report import HEAT_NOTE, NOTE, SOURCES, seed_heatmap
from mlflow_l3d.studies.seeds.report.words import investigate_command

_COLUMNS: Final = {
    "mean": ("metric_mean", "mean"),
    "[[typically ±|std]]": ("std", "std"),
    "[[two seeds agree|agree]]": ("con", "con"),
    "[[agree, right|right]]": ("ccon", "ccon"),
    "robust": ("robust_share", "robust"),
    "fragile": ("fragile_share", "fragile"),
}
"""Head of a column -> a number of a study, and what its interval is called."""


def over_tasks_document(
    models: Sequence[ModelOverTasks],
    *,
    title: str,
    source: Source | None = None,
    sources: Mapping[tuple[str, str], Source] = MappingProxyType({}),
    lines: Sequence[str] = (),
) -> Document:
    """Return several studies as people read them, model by model: the papers' tables, heat map and test, training size.

    Parameters
    ----------
    models
        The numbers.
    source, sources
        The origin of the comparison; (model, task) -> that of its study.
    title, lines
        As in :class:`mlflow_l3d.report.page.Document`.
    """
    rows = pd.concat([model.rows for model in models], ignore_index=True)
    sections = [
        Section("All tasks", [tasks_table(models)]),
        Section("All metrics (Tables 7 and 8)", published_tables(rows)),
    ]
    files = []
    for number, model in enumerate(models):
        name = f" ({model.model})" if model.model else ""
        ending = f"-{number}" if models[1:] else ""
        matrix = model.matrix.mul(scales_of(model.rows), axis=0)
        heat = Drawing(seed_heatmap(matrix, model.better_seed, title=model.model), HEAT_NOTE, f"seed_by_task{ending}")
        tested = (heat, rank_table(model.better_seed)) if model.better_seed else ()
        files += [] if tested else [heat]
        notes = [Item(note) for note in model.notes]
        sections += [
            Section(f"Is there a better seed{name}?", [*better_sentences(model), *tested]),
            Section(f"Does training size help{name}?", [correlation_table(model.correlations), notes or None]),
        ]
    return Document(
        title=title,
        headline=over_headline(models),
        about=" · ".join(filter(None, (model.model for model in models))),
        place=(source or Source()).place(counted(len(rows), "task")),
        answers=over_answers(models),
        table=tasks_table(models, most=8),
        steps=over_steps(models, sources),
        lines=lines,
        sections=sections,
        sources=SOURCES,
        files=files,
    )


def over_headline(models: Sequence[ModelOverTasks]) -> str:
    """Return the main finding over tasks: whether a seed is better, else where seeds differ most."""
    tests, rows = _tests(models), rows_of_one_unit(models)
    better = sum(test.found for test in tests)
    if tests:
        several = f"for {better or 'any'} of {len(tests)} models"
        over = several if len(tests) > 1 else f"over {len(tests[0].tasks)} tasks"
        return f"{'Some seeds are' if better else 'No seed is found to be'} better than others {over}."
    if not rows:
        return "Too few seeds have a score to compare tasks."
    if not rows[0]["std"]:
        return f"All seeds score the same on {rows[0]['name'] if len(rows) == 1 else f'{len(rows)} tasks'}."
    most = " most" if len(rows) > 1 else ""
    return f"The seed moves the score{most} on {rows[0]['name']}: typically {rows[0]['size']}."


def _tests(models: Sequence[ModelOverTasks]) -> list[BetterSeed]:
    """Return the tests of the models that have one."""
    return [test for test in (model.better_seed for model in models) if test is not None and not math.isnan(test.p)]


def over_answers(models: Sequence[ModelOverTasks]) -> tuple[Answer, Answer, Answer]:
    """Return what the tasks say: where the seed matters most, whether one is better, whether training size helps."""
    rows, tests = rows_of_one_unit(models), _tests(models)
    where, others = "Too few seeds have a score.", len(task_rows(models)) - len(rows)
    if rows:
        least = f" Least: **{rows[-1]['name']}**, {rows[-1]['size']}." if len(rows) > 1 else ""
        where = f"On **{rows[0]['name']}**: [[typically|std]] **{rows[0]['size']}**.{least}"
        where = where if rows[0]["std"] else "**Nowhere:** all seeds score the same."
        where += f" Not compared, for other units: {counted(others, 'task')}." if others else ""
    better, size, falls = [], [], set()
    for model in models:
        name = f"{model.model}: " if len(models) > 1 and model.model else ""
        if _tests([model]):
            better.append(name + " ".join(better_sentences(model)))
        slope = model.correlations.query("measure == 'var' and scale == 'log'").iloc[0]
        low, high = float(slope["pearson_ci_low"]), float(slope["pearson_ci_high"])
        if not math.isnan(low):
            falls.add("Yes" if high < 0 else "No" if low > 0 else "Undecided")
            numbers = f"{signed(slope['pearson'])} ({between(low, high)}), over {slope['tasks']} tasks"
            size.append(f"{name}[[VAR|var]] correlates with the log of the size at {numbers}.")
    settled = "It depends on the model" if "Yes" in falls else "Undecided"
    settled = falls.pop() if len(falls) == 1 else settled
    unknown = ("Too few tasks with scores in one unit have a known training size.",)
    return (
        Answer("Where does the seed matter most?", "", (where,)),
        Answer("Is there a better seed?", "", (_better(tests), *better)),
        Answer("Do larger training sets make it matter less?", settled if size else "", tuple(size) or unknown),
    )


def _better(tests: Sequence[BetterSeed]) -> str:
    """Return in a sentence or two whether a seed is better."""
    if not tests:
        return "It takes two tasks or more on which seeds differ in score."
    better = sum(test.found for test in tests)
    if len(tests) > 1:
        return f"**For {better} of {len(tests)} models**, by Friedman's test." if better else "**Not found.**"
    first, p = tests[0].of_seeds["seed"].iloc[0], f"p {probability(tests[0].p)}"
    verdict, luck = ("Yes", "") if better else ("Not found", ", which may be luck")
    return f"**{verdict}** ({p}). Seed {first} [[ranks best|rank]]{luck}."


def over_steps(models: Sequence[ModelOverTasks], sources: Mapping[tuple[str, str], Source]) -> list[Step]:
    """Return what to do next: see which other luck there is on the task with the largest spread."""
    for row in task_rows(models)[:1]:
        if command := investigate_command(sources.get((row["model"], row["task"]), Source())):
            return [Step(f"Seeds are one kind of luck. Which others move {row['name']}?", command)]
    return []


def better_sentences(model: ModelOverTasks) -> tuple[str, ...]:
    """Return what the tasks say together about better seeds, effect sizes first."""
    better = model.better_seed
    if better is None or math.isnan(better.p):
        return ("A better seed can be looked for on two tasks or more whose shared seeds differ in score.",)
    verdict = "some seed is better than others" if better.found else "no seed is found to be better than others"
    limits = between(better.kendall_w_ci_low, better.kendall_w_ci_high, plain)
    sentences = [
        f"Over {len(better.tasks)} tasks and {len(better.seeds)} seeds, {verdict} (Friedman's test, p "
        f"{probability(better.p)}).",
        f"Effect size: Kendall's W {plain(better.kendall_w)} (95 %: {limits}); chance alone gives "
        f"{plain(1 / len(better.tasks))}. The rankings of two tasks correlate with {signed(better.rank_correlation)} "
        "on average.",
    ]
    orders = (len(better.tasks) - 1) * math.lgamma(len(better.seeds) + 1)
    if orders < -math.log(1 - LEVEL):  # the smallest p-value there is
        sentences.append("So few tasks and seeds cannot show a better seed, however good it is.")
    return tuple(sentences)


def tasks_table(models: Sequence[ModelOverTasks], most: int | None = None) -> Table | None:
    """Return each task, the largest spread first; a short form of `most`. None if no spread is known."""
    body, rows = [], task_rows(models)
    axis = Axis.over([value for row in rows for value in row["around"]])
    scale = axis.head("points")
    for row in rows[:most]:
        cells = {"task": shorten(row["name"], 40), "mean": "", scale: Drawn(dots_bar(row["around"], axis, row["name"]))}
        for head, (value, start) in list(_COLUMNS.items())[: 3 if most else None]:
            shown = unit_of(row["metric"]).text if value in ("metric_mean", "std") else points
            cells[head] = with_limits(shown(row[value]), interval_of(row, start, shown), "({})").replace(MISSING, "-")
        size = {"training\nexamples": plain(row["training_size"], 0), "metric": row["metric"].name}
        body.append(cells if most else cells | size)
    if not body:
        return None
    return Table.of(body, f"Dots: each seed, in points around the mean of its task. {NOTE}", kind="bars")


def tasks_frame(models: Sequence[ModelOverTasks], *, full: bool = False) -> pd.DataFrame:
    """Return one row per task in the units of the report, see `unit`; `full` returns all, with scores as fractions."""
    rows = pd.concat([model.rows for model in models], ignore_index=True)
    if full:
        return rows
    scales = [unit_of(named(name)).scale for name in rows["metric"]]
    scores = ["metric_mean", *with_interval("mean")[1:], *with_interval("std")]
    shares = {"con": "CON", "ccon": "CCON", "robust_share": "robust", "fragile_share": "fragile"}
    frame = rows[["model", "task", "metric", "training_size", "seeds"]].join(rows[scores].mul(scales, axis=0))
    frame["unit"] = ["%" if scale > 1 else "units" for scale in scales]
    frame = POINTS.heads(frame.join(rows[[*shares]]), shares, {})
    return frame.rename(columns={"metric_mean": "mean", "training_size": "training examples"})


def published_tables(rows: pd.DataFrame) -> list[Table]:
    """Return Tables 7 and 8 of Zhou et al. 2025, for each model and benchmark; the std in a second line."""
    note = "Mean (and std with ddof=0) in %: over seeds; of CON and CCON over pairs. P, R, F1: macro averages."
    metrics = rows.set_index(["model", "benchmark", "task"])["metric"].to_dict()
    note += "" if all(named(name).percent for name in rows["metric"]) else " Scores that are errors: in their own unit."
    tables: list[Table] = []
    for names, part in table_7(rows).items():
        body = []
        for task, row in part.iterrows():
            own, texts = unit_of(named(metrics[(*names, task)])).text, []
            for head in TABLE_7:
                shown, (mean, std) = own if head == "score" else points, row[head]
                texts.append("-" if math.isnan(mean) else f"{shown(mean)}\n(±{shown(std)})")
            body.append((shorten(str(task), 20), *texts))
        title = ", ".join(shorten(name, 60) for name in names if name) or "all tasks"
        tables.append(Table(("", *TABLE_7), tuple(body), note, title=title))
    return tables


def rank_table(better: BetterSeed) -> Table:
    """Return the seeds, best mean rank first."""
    rows = [
        {"seed": str(seed), "mean rank": plain(rank), "mean z": signed(z), "best on tasks": str(first)}
        for seed, rank, z, first in better.of_seeds.itertuples(index=False)
    ]
    return Table.of(rows, "Rank 1 is the best seed of a task.")


def correlation_table(correlations: pd.DataFrame) -> Table | None:
    """Return the correlations of training size with VAR, CON and CCON; None if too few tasks have a size."""
    rows = []
    for row in correlations.to_dict("records"):
        scale = "log size" if row["scale"] == "log" else "size"
        cells = [f"{row['measure'].upper()}, {scale}", str(row["tasks"])]
        for name in ("pearson", "spearman"):
            cells += [signed(row[name]), interval_of(row, name)]
        rows.append(tuple(cells))
    head = ("training size with", "tasks", "Pearson", "95 %", "Spearman", "95 %")
    return Table(head, tuple(rows), "Intervals by Fisher's z.") if correlations["pearson"].notna().any() else None
