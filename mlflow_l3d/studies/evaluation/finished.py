"""What is done with a finished study: `load` reads its result, comment and badge show it, `delete` deletes it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.analysis.comparison.results import Difference
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.errors import L3DError, ParameterError, logger
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import counted, duration, metric_text, percent, shorten, unit_of
from mlflow_l3d.report.page import badge_svg, comment_markdown, histogram
from mlflow_l3d.studies.base import entry_point
from mlflow_l3d.studies.comparison.report.words import change, judged, limits
from mlflow_l3d.studies.comparison.results import ComparedRuns
from mlflow_l3d.studies.files import read_result
from mlflow_l3d.studies.gate import report as gate_report
from mlflow_l3d.studies.gate.record import Gate
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.investigation.results import Analysed
from mlflow_l3d.studies.seeds.numbers import SeedsStudy
from mlflow_l3d.studies.seeds.report.words import scored
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import children_of
from mlflow_l3d.tracking.connection import Client, Run, connect, own_settings
from mlflow_l3d.tracking.earlier import cells_in_other_studies
from mlflow_l3d.tracking.earlier.reader import parent_run


def load(run_id: str) -> Any:
    """Return the result of a finished study from what its run holds; nothing is computed.

    Parameters
    ----------
    run_id
        The parent run.

    Returns
    -------
    Investigation, SeedsRun, Sweep, Gate, ...
        What the study returned, without its `request`; after `evaluate` with the numbers of that.

    Raises
    ------
    ParameterError
        If there is no such run, or it has no result yet.

    Examples
    --------
    >>> import mlflow_l3d
    >>> run = mlflow_l3d.investigate(
    ...     "synthetic", approach="synthetic",
    ...     investigation_runs=3, mitigation_runs=3, golden_runs=6, executor="inline",
    ... )
    >>> mlflow_l3d.load(run.run_id).to_frame().equals(run.to_frame())
    True
    """
    with entry_point():
        return result_of(connect(), run_id, "run_id")


def result_of(client: Client, run_id: str, parameter: str) -> Any:
    """Return what :func:`load` does, for a `parameter` that errors name."""
    run = parent_run(client, run_id, parameter)
    if (result := read_result(client, str(run.info.run_id), files=True)) is None:
        is_search = run.data.tags.get(names.ROLE) == "search"
        fix = "give its command again: finished trials count." if is_search else "first use mlflow-l3d evaluate."
        raise ParameterError(parameter, run.info.run_id, "holds no result", f"If it has ended, {fix}")
    return result


_PARENTS: Final = ("investigation", "sweep", "gate", "golden_runs")


@dataclass(frozen=True)
class Deletion:
    """The result of :func:`delete`.

    Attributes
    ----------
    runs
        Number of deleted runs, the parent run included.
    """

    runs: int

    def summary(self) -> str:
        """Return the text that the command line prints."""
        if not self.runs:
            return "nothing was deleted"
        return (
            f"{counted(self.runs, 'run')} deleted. Until `mlflow gc` they can be restored: in MLflow's list of "
            "runs under State: Deleted, or one by one with mlflow.MlflowClient().restore_run(RUN_ID)."
        )


def delete(parent_run_id: str, *, ask: bool = False) -> Deletion:
    """Delete a parent run, sweep or gate, and all runs below it; MLflow keeps deleted runs until its own `mlflow gc`.

    Parameters
    ----------
    parent_run_id
        The parent run.
    ask
        Whether to ask on the terminal first.

    Raises
    ------
    ParameterError
        If there is no such run, or nobody can be asked.
    L3DError
        If it is neither a parent run of cells nor a sweep or gate.

    Examples
    --------
    >>> import mlflow_l3d
    >>> run = mlflow_l3d.seeds("synthetic", approach="synthetic", seeds=[4, 5, 6], executor="inline")
    >>> mlflow_l3d.delete(run.run_id)
    Deletion(runs=4)
    """
    if not isinstance(parent_run_id, str):
        raise ParameterError("parent_run_id", type(parent_run_id).__name__, "must be the id of a run")
    with own_settings():
        client = connect()
        parent = parent_run(client, parent_run_id)
        if parent.data.tags.get(names.ROLE) not in _PARENTS:
            raise L3DError(
                f"parent_run_id={parent_run_id}: is not the parent of an investigation; nothing was deleted."
            )
        runs = [*_below(client, parent), parent]
        shared = _shared_words(client, runs)
        if ask and not _agreed(f"{len(runs):,} runs: {parent.info.run_name}, and all below it{shared}"):
            return Deletion(0)
        if shared and not ask:
            logger.warning("Deleting %s%s.", parent.info.run_name, shared)
        for run in runs:
            client.delete_run(run.info.run_id)
    return Deletion(len(runs))


def _agreed(what: str) -> bool:
    """Return whether the user agrees; raise a ParameterError without a terminal."""
    if not sys.stdin.isatty():
        raise ParameterError("yes", "false", f"would delete {what}; nobody can be asked here", "Add --yes.")
    return input(f"Delete {what}? [y/N] ").strip().lower() in ("y", "yes")


def _shared_words(client: Client, runs: Sequence[Run]) -> str:
    """Return how many cells of other finished studies are among some runs; empty if there are none."""
    parents = [str(run.info.run_id) for run in runs if run.data.tags.get(names.ROLE) in _PARENTS]
    others = cells_in_other_studies(client, {str(run.info.run_id) for run in runs}, parents)
    cells = counted(len(set().union(*others.values())), "cell")
    return f"; other finished studies lose {cells} (run {', '.join(others)})" if others else ""


def _below(client: Client, parent: Run) -> Iterator[Run]:
    """Yield the child runs of a run, each after its own child runs."""
    for child in list(children_of(client, str(parent.info.experiment_id), str(parent.info.run_id))):
        if child.data.tags.get(names.ROLE) in _PARENTS:
            yield from _below(client, child)
        yield child


@dataclass(frozen=True, slots=True)
class Facts:
    """What comment and badge show of a result in addition to its report.

    Attributes
    ----------
    label, text
        Left and right part of the badge.
    verdict
        In one word; of several pairs each that occurs; empty if nothing was compared.
    rows
        Numbers for the comment.
    """

    label: str
    text: str
    verdict: str = ""
    rows: tuple[Mapping[str, str], ...] = ()


def write_comment(client: Client, run_id: str, comment: str, badge: str) -> str:
    """Write comment and badge of a study, each unless it is ``none``; return the verdict and what was written.

    Raises
    ------
    ParameterError
        If no study is named, its run holds no result, or a file cannot be written.
    """
    if run_id == "all":
        raise ParameterError("parent_run_id", run_id, "must be one study", "Name it: mlflow-l3d view RUN_ID --comment")
    result = result_of(client, run_id, "parent_run_id")
    info = parent_run(client, run_id).info
    document, facts = result.report(), facts_of(result)
    footer = f"MLflow run {run_id}, {duration((info.end_time or math.nan) / 1000 - info.start_time / 1000)}"
    every = {"comment": (comment, comment_markdown(document, facts.rows, footer))}
    every |= {"badge": (badge, badge_svg(facts.label, facts.text, facts.verdict))}
    files = {name: file for name, file in every.items() if file[0] != "none"}
    for name, (path, content) in files.items():
        try:
            Path(path).write_text(content, encoding="utf-8")
        except OSError as error:
            raise ParameterError(name, path, f"cannot be written: {error.strerror}", "Name another file.") from None
    return f"{facts.verdict or 'no verdict'}: {', '.join(path for path, _ in files.values())}"


def facts_of(result: Any) -> Facts:
    """Return what to show of a result; of a kind that has neither a verdict nor scores of its own its headline."""
    if isinstance(result, Gate) and result.answer.looks:
        return _of_gate(result)
    if isinstance(result, ComparedRuns):
        return _of_pairs(result)
    studies = getattr(result, "studies", None) or (getattr(result, "study", None),)
    if len(studies) == 1 and isinstance(study := studies[0], SeedsStudy) and study.own.runs > 1:
        return _of_scores(study.metric, scored(study).to_numpy(), study.own.std, study.unit)
    if isinstance(result, Analysed) and len((shown := Shown(result.analysis)).golden_scores) > 1:
        return _of_scores(shown.analysis.metric, shown.golden_scores, shown.golden_deviation, "run")
    document = result.report()
    rows = result.comment_rows() if hasattr(result, "comment_rows") else ()
    return Facts("mlflow-l3d", document.headline or document.title, rows=tuple(rows))


def _of_gate(gate: Gate) -> Facts:
    answer, look, unit = gate.answer, gate.answer.looks[-1], unit_of(gate.answer.metric)
    level, low, high = gate_report.interval_of(answer, look)
    means = [unit.text(mean, answer.digits) for mean in answer.means]
    difference = unit.change(look.difference, answer.digits)
    runs = counted(2 * look.runs, "run")
    interval = f"{difference} ({gate_report.limits(answer, low, high, answer.digits)})"
    cost = f"{runs}, {gate.computed} of them trained now"
    pair = (answer.candidate, answer.baseline)
    row = _row(answer.metric, pair, means, level, interval, look.decision, cost)
    return Facts(str(answer.metric), f"{look.decision}, {difference}{unit.behind}, {runs}", look.decision, (row,))


def _of_pairs(compared: ComparedRuns) -> Facts:
    comparison, rows = compared.comparison, []
    metric, level, pairs = comparison.metric, comparison.level, judged(comparison)[:10]
    written = change(comparison)
    for pair in pairs:
        difference, low, high = map(written, limits(pair))
        of_task = pair if isinstance(pair, Difference) else None
        means = [unit_of(metric).text(mean) for mean in reversed(of_task.means)] if of_task else ["", ""]
        cost = counted(sum(of_task.runs) if of_task else len(compared.scores), "run")
        interval = f"{difference} ({low} to {high})"
        rows.append(_row(metric, (pair.first, pair.second), means, level, interval, pair.verdict, cost))
    verdict = ", ".join(dict.fromkeys(pair.verdict for pair in pairs))
    text = f"{verdict}, {difference}{unit_of(metric).behind}, {cost}" if len(pairs) == 1 else verdict
    return Facts(str(metric), text, verdict, tuple(rows))


def _row(
    metric: Metric, pair: Sequence[str], means: Sequence[str], level: float, interval: str, verdict: str, cost: str
) -> dict[str, str]:
    """Return a difference as a row: the first of a pair against the second, whose mean comes first."""
    first, second = (shorten(name, 60) for name in pair)
    numbers = {"before": means[0], "after": means[1], f"difference ({percent(level)})": interval}
    return {metric_text(metric): f"{first} against {second}", **numbers, "verdict": verdict, "cost": cost}


def _of_scores(metric: Metric, scores: FloatArray, std: float, run: str) -> Facts:
    unit, runs = unit_of(metric), counted(len(scores), run)
    ends = [unit.scale * scores.mean(), unit.scale * scores.min(), unit.scale * scores.max()]
    mean, low, high = (unit.written(float(end), unit.digits(std)) for end in ends)
    text = f"{mean} {unit.typical(std)}"
    row = {metric_text(metric): f"{text} (standard deviation)", "scores": f"{low} {histogram(scores)} {high}"}
    return Facts(str(metric), f"{text}, {runs}", "", ({**row, "cost": runs},))
