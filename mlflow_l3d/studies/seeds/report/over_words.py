"""What several seeds studies answer over tasks, in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mlflow_l3d.analysis.intervals import LEVEL
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.numbers import between, plain, probability, signed, unit_of
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import Answer, Step
from mlflow_l3d.studies.seeds.numbers.better_seed import BetterSeed
from mlflow_l3d.studies.seeds.numbers.over_tasks import ModelOverTasks
from mlflow_l3d.studies.seeds.report.words import investigate_command


def over_headline(models: Sequence[ModelOverTasks]) -> str:
    """Return the main finding over tasks: whether a seed is better, else where seeds differ most."""
    tests, rows = _tests(models), task_rows(models)
    better = sum(test.found for test in tests)
    if tests:
        several = f"for {better or 'any'} of {len(tests)} models"
        over = several if len(tests) > 1 else f"over {len(tests[0].tasks)} tasks"
        return f"{'Some seeds are' if better else 'No seed is found to be'} better than others {over}."
    if not rows:
        return "Too few seeds have a score to compare tasks."
    most = " most" if len(rows) > 1 else ""
    return f"The seed moves the score{most} on {rows[0]['name']}: VAR {rows[0]['size']}."


def _tests(models: Sequence[ModelOverTasks]) -> list[BetterSeed]:
    """Return the tests of the models that have one."""
    return [test for test in (model.better_seed for model in models) if test is not None and not math.isnan(test.p)]


def task_rows(models: Sequence[ModelOverTasks]) -> list[dict[Any, Any]]:
    """Return the tasks of all models whose spread is known, the largest first, errors in their own unit last.

    A row is one of :func:`~mlflow_l3d.studies.seeds.numbers.over_tasks.study_rows`, with the metric as an object,
    a name, the scores of the seeds around their mean, in per cent, and the size of VAR as text.
    """
    rows: list[dict[Any, Any]] = []
    for model in models:
        for row, (label, scores) in zip(model.rows.to_dict("records"), model.matrix.iterrows(), strict=True):
            name = f"{label}, {model.model}" if len(models) > 1 and model.model else str(label)
            around, metric = 100 * (scores - scores.mean()).dropna(), named(row["metric"])
            size = unit_of(metric).size(row["var"])
            rows.append({**row, "name": name, "metric": metric, "around": around, "size": size})
    rows = [row for row in rows if not math.isnan(row["var"])]
    return sorted(rows, key=lambda row: (not row["metric"].percent, -row["var"]))


def over_answers(models: Sequence[ModelOverTasks]) -> tuple[Answer, Answer, Answer]:
    """Return what the tasks say: where the seed matters most, whether one is better, whether training size helps."""
    rows, tests = task_rows(models), _tests(models)
    where = "Too few seeds have a score."
    if rows:
        least = f" Least: **{rows[-1]['name']}**, {rows[-1]['size']}." if len(rows) > 1 else ""
        where = f"On **{rows[0]['name']}**: [[VAR|var]] is **{rows[0]['size']}**.{least}"
    better, size, falls = [], [], set()
    for model in models:
        name = f"{model.model}: " if len(models) > 1 and model.model else ""
        better += [name + " ".join(better_sentences(model))] if _tests([model]) else []
        slope = model.correlations.query("measure == 'var' and scale == 'log'").iloc[0]
        low, high = float(slope["pearson_ci_low"]), float(slope["pearson_ci_high"])
        if not math.isnan(low):
            falls.add("Yes" if high < 0 else "No" if low > 0 else "Undecided")
            numbers = f"{signed(slope['pearson'])} ({between(low, high)}), over {slope['tasks']} tasks"
            size.append(f"{name}VAR correlates with the log of the size at {numbers}.")
    settled = "It depends on the model" if "Yes" in falls else "Undecided"
    settled = falls.pop() if len(falls) == 1 else settled
    unknown = ("Too few tasks have a known training size.",)
    return (
        Answer("Where does the seed matter most?", "", (where,)),
        Answer("Is there a better seed?", "", (_better(tests), *better)),
        Answer("Do larger training sets make it matter less?", settled if size else "", tuple(size) or unknown),
    )


def _better(tests: Sequence[BetterSeed]) -> str:
    """Return in a sentence or two whether a seed is better."""
    if not tests:
        return "One task alone cannot show it."
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
        return ("A better seed can be looked for on two tasks or more that share two seeds or more.",)
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
