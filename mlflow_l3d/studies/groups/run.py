"""`evaluate_groups`: what the runs of an experiment say about luck, whoever logged them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.tables import usable
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.approaches.command.scores import Printed, chosen_score
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import is_share, named
from mlflow_l3d.parameters.values import Whole
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.about import About, heading
from mlflow_l3d.studies.files import save_report, temporary_folder, write_tables
from mlflow_l3d.studies.groups.numbers.grouping import group_runs
from mlflow_l3d.studies.groups.numbers.study import GroupsStudy, groups_study
from mlflow_l3d.studies.groups.predictions import agreement_of_groups
from mlflow_l3d.studies.groups.results import GroupsEvaluation
from mlflow_l3d.studies.result_file import write_result
from mlflow_l3d.studies.shown import shows_progress, under_way
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.connection import Client, connect
from mlflow_l3d.tracking.existing import RUN_NAME, ExistingRuns, histories, read_runs
from mlflow_l3d.tracking.pages import runs_page
from mlflow_l3d.tracking.parent import set_tags

_NO_METRIC: Final = re.compile(r"(?:^|[_/. ])(?:std|stderr|sem|rank|split\d+|time)(?:[_/. ]|$)")
"""Words in names of what scikit-learn's searches log with each score."""
_STEP: Final = Whole(0, words=("last", "best"))


def evaluate_groups(
    source: str | Sequence[str],
    *,
    group_by: str = "auto",
    seed: str = "auto",
    metric: str = "auto",
    step: str = "last",
    tag: bool = False,
    project_run: str | None = None,
    log: bool = True,
    progress: bool | None = None,
) -> GroupsEvaluation:
    """Group runs that differ by seeds alone, and return how much of the differences between groups is luck.

    Parameters
    ----------
    source
        ``experiment:NAME`` or ``experiment:ID``; an MLflow filter, which is searched in the current experiment; or run
        ids.
    group_by
        What distinguishes groups, as in ``params.learning_rate,tags.model``; ``auto`` takes all parameters that vary,
        except seeds and names of runs, folders and times.
    seed
        Which of them are seeds, as in ``params.random_state``; ``auto`` takes those with the name of one.
    metric
        The score; ``auto`` is the metric of all finished runs that sounds most like a score on test data.
    step
        ``last``, ``best``, or the number of a step.
    tag
        Whether to write what a difference may be by luck to the runs, as tags that begin with ``l3d.``.
    project_run
        The run that `mlflow run` opened, for the result.
    log
        Whether to write the result to a run of its own.
    progress
        Whether to report progress on stderr; None reports it in a notebook and on a terminal.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.
    """
    _STEP.read("step", step)
    if tag and not log:
        raise ParameterError("tag", "true", "writes to the runs, and log is false", "Leave one out.")
    client, shown = connect(), shows_progress(progress)
    with under_way("reading the runs", shown=shown):
        runs = read_runs(client, source)
        used, scores, chosen, counts, notes = _scored(client, runs, metric, str(step))
    frame = runs.frame[used].reset_index(drop=True)
    with under_way(f"comparing {len(frame):,} runs", shown=shown):
        params = runs.params[used].reset_index(drop=True)
        grouping = group_runs(params, RUN_NAME, group_by=group_by, seed=seed)
        study = groups_study(frame["run_id"], scores, grouping, chosen, runs.metrics[used])
    by_group = frame.assign(group=study.runs["group"])[~study.runs["repeated"]].groupby("group")
    members = {name: by_group.get_group(name) for name in study.several["group"].head(5)}
    agreement, examples, remarks = agreement_of_groups(client, members)
    typed = {"source": source if isinstance(source, str) else ",".join(source), "group_by": group_by, "seed": seed}
    typed |= {"metric": metric, "step": str(step)}
    title = f"luck in {typed['source'].removeprefix('experiment:')}"

    def result(run_id: str) -> GroupsEvaluation:
        address = runs_page(client, runs.experiment_id)
        date = heading(run_id)["date"][:10]
        given = {name: text for name, text in typed.items() if text not in ("auto", "last")}
        about = Source(task=typed["source"], run_id=run_id, address=address, given=given, date=date)
        said = About(title=title[:250], source=about, notes=(*notes, *remarks), settings=typed)
        return GroupsEvaluation(run_id, study, counts, agreement if len(agreement) else None, examples, said)

    if not log:
        return result("")
    with (
        temporary_folder() as folder,
        auxiliary_run(
            client, project_run, role="groups", title=title[:250], parameters=typed, experiment_id=runs.experiment_id
        ) as run,
    ):
        evaluation = result(run.run_id)
        report = evaluation.report()
        tables = {"groups.json": study.groups, "pairs.json": study.pairs, "settings.json": study.settings.frame}
        tables |= {"runs.json": study.runs, names.EXAMPLES: examples}
        finite = {name: table.replace([np.inf, -np.inf], np.nan) for name, table in tables.items() if table is not None}
        written = write_tables(folder, finite)
        save_report(folder, names.REPORT, report)
        write_result(folder, evaluation)
        tags = {names.NOTE: report.description(*report.notes)}
        run.finish(folder, metrics=study.metrics(), tags=tags, tables=written)
    if tag:
        _tag(client, study)
    return evaluation


def _scored(
    client: Client, runs: ExistingRuns, metric: str, step: str
) -> tuple[Any, FloatArray, Metric, dict[str, int], list[str]]:
    """Return which runs count, their scores, the metric, what became of the others, and notes."""
    frame = runs.frame
    theirs = frame["role"].eq("") & frame["status"].ne("PARENT")
    finished = theirs & frame["status"].eq("FINISHED")
    others = f"{int((~theirs).sum())} are of mlflow-l3d, and {int((theirs & ~finished).sum())} did not finish"
    if not finished.any():
        raise ParameterError("source", "(runs)", f"has no finished runs of other code: {others}")
    chosen, notes = _metric(runs.metrics[finished], metric.removeprefix("metrics."))
    values = usable(runs.metrics[chosen.name])
    if step != "last":
        values = _at_step(client, frame["run_id"], values, chosen, step)
    scored = (finished & np.isfinite(values)).to_numpy()
    up, parents, above = frame["parent"].to_numpy(), set(), frame["parent"].to_numpy()[scored]
    while len(above := above[above >= 0]):
        parents |= {*above.tolist()}
        above = up[above]
    is_parent = frame.index.isin(parents)
    used = scored & ~is_parent
    if used.sum() < 2:
        allowed = f"{int(used.sum())} finished runs have it, and at least 2 are needed"
        raise ParameterError("metric", chosen.name, allowed, "Name another metric, or more runs.")
    statuses = frame.loc[theirs & ~finished, "status"].str.lower().value_counts()
    counts = {"found": int(theirs.sum()), "used": int(used.sum()), **{str(k): int(v) for k, v in statuses.items()}}
    counts |= {"without a score": int((finished & ~scored & ~is_parent).sum())}
    counts |= {
        "parents of others": int((finished & is_parent).sum()),
        "of mlflow-l3d": int((frame["role"] != "").sum()),
    }
    open_runs = frame.loc[theirs & frame["status"].eq("RUNNING"), "name"].head(3)
    if len(open_runs):
        notes.append(f"Still running, and left out: {', '.join(open_runs)}.")
    if step == "best":
        notes.append("The best step of each run was chosen by its own score, which is too good: hold out other data.")
    return used, _in_fractions(values[used], chosen, frame["run_id"][used]), chosen, counts, notes


def _metric(metrics: pd.DataFrame, asked: str) -> tuple[Metric, list[str]]:
    """Return the score, and how it was chosen."""
    there = usable(metrics.to_numpy())
    counts = dict(zip(metrics, np.isfinite(there).sum(axis=0).tolist(), strict=True))
    if asked != "auto":
        if not counts.get(asked):
            raise unknown_name("metric", asked, [name for name in counts if counts[name]], "one that the runs have:")
        return named(asked), []
    medians = {name: Printed(float(np.nanmedian(there[:, at]))) for at, name in enumerate(metrics) if counts[name]}
    likely = {name: value for name, value in medians.items() if not _NO_METRIC.search(name)}
    most = max((counts[name] for name in likely if chosen_score({name: likely[name]})), default=0)
    name = chosen_score({name: value for name, value in likely.items() if counts[name] == most})
    if not name:
        listed = ", ".join([name for name in counts if counts[name]][:20]) or "none"
        raise ParameterError("metric", "auto", f"no metric of the runs sounds like a score ({listed})", "Name one.")
    rest = ", ".join([other for other in medians if other != name][:10])
    return named(name), [f"The metric {name} was chosen by its name." + (f" Others: {rest}." if rest else "")]


def _at_step(client: Client, run_ids: pd.Series, last: FloatArray, metric: Metric, step: str) -> FloatArray:
    """Return the value of each run at a step, or its best; nan if it has none."""
    asked = [run_id for run_id, value in zip(run_ids, last, strict=True) if not math.isnan(value)]
    points = pd.DataFrame(histories(client, asked, metric.name), columns=["run_id", "step", "time", "value"])
    points["value"] = usable(points["value"])
    if step != "best":
        points = points[points["step"].eq(int(step))]
    points["rank"] = metric.sign * points["value"] if step == "best" else points["time"]
    chosen = points.dropna(subset="value").sort_values("rank", kind="stable").groupby("run_id")["value"].last()
    values: FloatArray = run_ids.map(chosen).to_numpy(dtype=np.float64)
    return values


def _in_fractions(scores: FloatArray, metric: Metric, run_ids: pd.Series) -> FloatArray:
    """Return scores that were logged in per cent as fractions.

    Raises
    ------
    ParameterError
        If some runs logged per cent and others fractions, or a score is outside of the range of its metric.
    """
    sizes = np.abs(scores)
    if is_share(metric.name) and 1.5 < sizes.max() <= 100:
        small = np.flatnonzero((sizes > 0) & (sizes <= 1))
        if small.size:
            allowed = f"{small.size} runs have a fraction, as {run_ids.iloc[small[0]]}, and others a number in per cent"
            raise ParameterError("metric", metric.name, allowed, "Choose runs of one kind by a filter.")
        scores = scores / 100
    low, high = metric.range
    if not (scores.min() >= low - 1e-9 and scores.max() <= high + 1e-9):
        allowed = f"lies between {low:g} and {high:g}, and the runs have {scores.min():g} to {scores.max():g}"
        raise ParameterError("metric", metric.name, allowed, "Name another metric.")
    return scores


def _tag(client: Client, study: GroupsStudy) -> None:
    """Write the group, its spread, and what a difference may be by luck to the runs of groups with several runs."""
    shown = unit_of(study.metric)
    for row in study.several.to_dict("records"):
        tags = {names.GROUP: row["group"], names.GROUP_RUNS: str(row["runs"]), names.GROUP_STD: f"{row['std']:.6g}"}
        tags[names.LUCK] = f"{study.metric}: a difference of two runs below {shown.amount(row['luck'])} may be luck"
        for run_id in study.runs.loc[study.runs["group"].eq(row["group"]), "run_id"]:
            set_tags(client, run_id, tags)
