"""Evaluation runs that exist: `evaluate` reads them with their luck, and `compare` decides which one is better."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any, TypeAlias, TypeVar

import pandas as pd

from mlflow_l3d.analysis.intervals import LEVEL
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.known import named, split_direction
from mlflow_l3d.studies.base import entry_point, origin
from mlflow_l3d.studies.files import read_result
from mlflow_l3d.studies.judged.numbers import adjusted, pair_of, score_scorer, without_verdict
from mlflow_l3d.studies.judged.results import JudgedComparison, JudgedEvaluation, finish_judged
from mlflow_l3d.studies.shown import shows_progress, under_way
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.children import found
from mlflow_l3d.tracking.connection import Client, connect
from mlflow_l3d.tracking.earlier.evaluations import is_evaluation, read_judged
from mlflow_l3d.tracking.earlier.judgements import Judged
from mlflow_l3d.tracking.pages import link_of

Runs: TypeAlias = str | Sequence[str]
"""The evaluation runs of a system."""
R = TypeVar("R", JudgedEvaluation, JudgedComparison)


def evaluate_judged(
    run_id: str, *, metric: str = "auto", project_run: str | None = None, log: bool = True, progress: bool | None = None
) -> JudgedEvaluation:
    """Determine how much of the scores of an evaluation is luck, and of which kind.

    Parameters
    ----------
    run_id
        A run of `mlflow.genai.evaluate` or `mlflow.evaluate`; or several, separated by commas, which are read together:
        judgements of the same answers come from several judges, and other answers are repeats.
    metric
        The scorer that leads the report; ``auto`` is the first by name.
    project_run
        The run that `mlflow run` opened, for the result.
    log
        Whether to write a run with the result, in the experiment of the evaluation.
    progress
        Whether to report progress on stderr; None reports it in a notebook and on a terminal.

    Raises
    ------
    ParameterError
        If there is no such run, or it has no judgements.
    """
    run_ids = tuple(dict.fromkeys(part.strip() for part in run_id.split(",") if part.strip())) or ("",)
    client = connect()
    with under_way("reading the judgements", shown=shows_progress(progress)):
        judged = read_system(client, run_ids)
    if not judged.scorers:
        fix = "Let a scorer return a number, true or false, or yes or no."
        raise ParameterError("run_id", run_id, "has no judgement that is a number, yes or no", fix)
    numbers = []
    for scorer in dict.fromkeys([*chosen(metric, judged.scorers), *judged.scorers]):
        recorded = [run.means[scorer] for run in judged.runs if scorer in run.means]
        numbers.append(score_scorer(judged.of(scorer), recorded))
    result = JudgedEvaluation("", run_ids, judged.title, tuple(numbers), judged.notes)
    typed = {"run_id": ",".join(run_ids), "metric": metric}
    return _written(client, result, judged, project_run, typed, "judged") if log else result


def compare_judged(
    *runs: Runs,
    smallest_effect: float | None = None,
    metric: str = "auto",
    level: float = LEVEL,
    project_run: str | None = None,
    log: bool = True,
) -> JudgedComparison:
    """Decide which of several evaluated systems is better, counting the luck of rows, answers and judges.

    Parameters
    ----------
    runs
        The evaluation runs of each system: one id, or several as a list or joined by ``+``, whose answers are repeats.
        Rows are matched by the tag ``l3d.row`` or their inputs, repeats are averaged.
    smallest_effect
        The largest difference that does not matter: percentage points for verdicts, else the unit of the scorer.
    metric
        Scorers, separated by commas; ``auto`` compares all that the systems share. Higher values are better, unless
        the name says error or loss; ``:lower`` or ``:higher`` after the name says it otherwise.
    level
        Confidence level of intervals and verdicts, for all comparisons together.
    project_run, log
        As in :func:`evaluate_judged`.

    Raises
    ------
    ParameterError
        If a run is not an evaluation, or the systems share neither rows nor scorers.
    """
    client = connect()
    ids = ["+".join(_judging_runs(client, [each] if isinstance(each, str) else each)) for each in runs]
    every = [run_id for each in ids for run_id in each.split("+")]
    if len(ids) < 2 or len(set(every)) < len(every):
        raise ParameterError("runs", ",".join(ids), "must be two or more different systems", "Name each run once.")
    sides = {each: read_system(client, each.split("+")) for each in ids}
    titles = [side.title for side in sides.values()]
    systems = {
        title if titles.count(title) == 1 else f"{title} {each[:8]}": each
        for title, each in zip(titles, sides, strict=True)
    }
    shared = sorted(set.intersection(*(set(side.scorers) for side in sides.values())))
    if not shared:
        listed = "; ".join(f"{each[:8]}: {', '.join(side.scorers) or 'no numbers'}" for each, side in sides.items())
        raise ParameterError("runs", ",".join(ids), f"share no scorer ({listed})", "Evaluate both with the same one.")
    pairs = []
    for (scorer, is_higher), (one, other) in product(chosen(metric, shared).items(), combinations(systems, 2)):
        tables = _paired_tables(scorer, sides[systems[one]], sides[systems[other]])
        given: dict[str, Any] = {"smallest_effect": smallest_effect, "higher_is_better": is_higher, "level": level}
        lost = {name: sides[systems[name]].lost(scorer) for name in (one, other)}
        pairs.append(without_verdict(pair_of(one, other, tables, **given), lost))
    if smallest_effect is not None and len({pair.is_binary for pair in pairs}) > 1:
        fix = f"Name one scorer, as in metric={pairs[0].scorer}."
        raise ParameterError("smallest_effect", smallest_effect, "would have several units, as the scorers have", fix)
    notes = [f"{name}: {note}" for name, each in systems.items() for note in sides[each].notes]
    if alone := sorted(set().union(*(side.scorers for side in sides.values())) - {*shared}):
        notes.append(f"Not compared, as not all systems have it: {', '.join(alone)}.")
    result = JudgedComparison("", systems, adjusted(pairs), tuple(notes))
    typed = {"runs": ",".join(ids), "metric": metric, "level": str(level)}
    typed |= {} if smallest_effect is None else {"smallest_effect": f"{smallest_effect:g}"}
    return _written(client, result, next(iter(sides.values())), project_run, typed, "compare") if log else result


def compare_evaluations(
    run_a: Runs, run_b: Runs, *, smallest_effect: float | None = None, metric: str = "auto"
) -> JudgedComparison:
    """Decide which of two evaluated systems is better; see :func:`compare_judged`, the same for any number."""
    with entry_point() as opened:
        return compare_judged(run_a, run_b, smallest_effect=smallest_effect, metric=metric, project_run=opened.take())


def are_evaluations(client: Client, systems: Sequence[str]) -> bool:
    """Return whether all named runs are evaluations, and none is a study of this package."""
    return all(
        run is not None and run.data.tags.get(names.ROLE, "cell") == "cell" and is_evaluation(client, run)
        for run in [found(client.get_run, run_id) for run_id in _judging_runs(client, systems)]
    )


def _judging_runs(client: Client, run_ids: Sequence[str]) -> list[str]:
    """Return evaluation runs; in place of a parent of `genai.investigate` those of its judgements."""
    listed: list[str] = []
    for run_id in "+".join(run_ids).split("+"):
        run = found(client.get_run, run_id)
        is_parent = run is not None and run.data.tags.get(names.ROLE) == "genai"
        listed += getattr(read_result(client, run_id), "run_ids", [run_id]) if is_parent else [run_id]
    return listed


def read_system(client: Client, run_ids: Sequence[str]) -> Judged:
    """Return the judgements of runs that must be of one app, as their answers are repeats."""
    judged = read_judged(client, *run_ids)
    if any(len({*apps} - {""}) > 1 for apps in zip(*(run.apps for run in judged.runs), strict=True)):
        fix = f"Compare them: mlflow-l3d compare --runs {','.join(run_ids)}."
        raise ParameterError("run_id", ",".join(run_ids), "are of different apps, no repeats of one", fix)
    answers = [set(run.answers["answer"]) for run in judged.runs]
    if set.union(*answers) == answers[0] or all(any(run.apps) for run in judged.runs):
        return judged
    note = "Nothing in the runs says that one app gave these answers: they count as repeats of one."
    return replace(judged, notes=(note, *judged.notes))


def chosen(metric: str, scorers: Sequence[str]) -> dict[str, bool]:
    """Return the named scorers, or all -> whether higher values are better."""
    chosen = {}
    for each in scorers if metric == "auto" else [metric] if metric in scorers else metric.split(","):
        text = each.strip()
        name, is_higher = (text, None) if text in scorers else split_direction(text)
        if name not in scorers:
            raise ParameterError("metric", text, f"must be a scorer of the evaluation: {', '.join(scorers)}")
        chosen[name] = named(name).greater_is_better if is_higher is None else is_higher
    return chosen


def _paired_tables(scorer: str, first: Judged, second: Judged) -> list[pd.DataFrame]:
    """Return the judgements of two systems by one scorer, of which some rows are known to be the same."""
    tables = [side.of(scorer) for side in (first, second)]
    ids = ",".join("+".join(run.run_id for run in side.runs) for side in (first, second))
    fix = "Evaluate both on the same data, or give their traces the tag l3d.row."
    if set(tables[0]["row"]).isdisjoint(tables[1]["row"]):
        raise ParameterError("runs", ids, "share no row: their inputs differ", fix)
    contents = [run.contents for side in (first, second) for run in side.runs if run.contents]
    if any(contents[0].items().isdisjoint(each.items()) for each in contents[1:]):
        raise ParameterError("runs", ids, "have tables of rows in which no column is the same", fix)
    return tables


def _written(
    client: Client, result: R, judged: Judged, project_run: str | None, typed: Mapping[str, str], role: str
) -> R:
    """Write a result to a run of its own, in the experiment of the evaluation; return it with its run."""
    experiment_id, title = judged.runs[0].experiment_id, result.title
    run_ids = re.split("[+,]", typed.get("runs") or typed["run_id"])
    with auxiliary_run(
        client, project_run, role=role, title=title, parameters=typed, experiment_id=experiment_id
    ) as opened:
        options = {name: text for name, text in typed.items() if text not in ("auto", str(LEVEL))}
        source = replace(origin(client, experiment_id, opened.run_id), given=options)
        result = replace(result, run_id=opened.run_id, source=source)
        links = "Evaluation runs: " + ", ".join(link_of(experiment_id, each) for each in run_ids)
        note = result.report().description(*result.report().notes, links)
        finish_judged(opened, result, {names.INVESTIGATIONS: ",".join(run_ids), names.NOTE: note})
    return result
