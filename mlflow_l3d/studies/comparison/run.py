"""The entry point `compare`: whether one system is better than another, counting every kind of luck."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Unpack

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison import SelfCheck, compare_systems, halves, swapped
from mlflow_l3d.analysis.comparison.system import System, paired
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import assumed_direction
from mlflow_l3d.parameters import Arguments, read_arguments, with_signature
from mlflow_l3d.parameters.values import check_names
from mlflow_l3d.paths import kept_whole
from mlflow_l3d.studies.base import entry_point, origin, say, specified
from mlflow_l3d.studies.comparison.parameters import COMPARE, CompareOptions
from mlflow_l3d.studies.comparison.parents import Parent, by_task, metric_of, read_parents, requests
from mlflow_l3d.studies.comparison.reading import importances_of_differences, read_runs, systems_of
from mlflow_l3d.studies.comparison.results import ComparedRuns, finish_comparison
from mlflow_l3d.studies.files import temporary_folder
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.studies.investigation.run import InvestigationStudy
from mlflow_l3d.studies.judged.results import JudgedComparison
from mlflow_l3d.studies.judged.run import are_evaluations, compare_judged
from mlflow_l3d.studies.sweep.results import choices_among
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import AuxiliaryRun, auxiliary_run
from mlflow_l3d.tracking.connection import Client, connect

_Matched = tuple[Metric, Mapping[str, Mapping[str, Parent]]]


@with_signature(CompareOptions)
def compare(
    runs: object, *others: object, progress: bool | None = None, **options: Unpack[CompareOptions]
) -> ComparedRuns | JudgedComparison:
    """Determine which of several systems is better, counting the luck of every factor and of the test examples.

    Parameters
    ----------
    runs
        Parent runs: run ids separated by commas, or a list of run ids, of :class:`~mlflow_l3d.Investigation` objects,
        or of mappings with the parameters of `main`, which are then run (also as JSON). Or evaluation runs of MLflow,
        see :func:`mlflow_l3d.studies.judged.run.compare_judged`; several of one system are joined by ``+``.
    *others
        More parent runs, as in ``compare(a, b)``.
    progress
        Whether to show progress on stderr; None does in a notebook and on a terminal.
    **options
        `metric`: the score of the systems; ``auto`` is the metric of the parent runs. `smallest_effect`: the largest
        difference that does not matter (percentage points, or the unit of a metric without percentages); systems whose
        difference certainly lies within it are called equivalent, and the report gives the runs needed for it.
        `level`: confidence level of intervals and claims. `self_check`: how many comparisons of each system with
        itself, and of runs swapped within each pair. `root_seed`: the number that their random halves derive from.

    Returns
    -------
    ComparedRuns or JudgedComparison
        Its run on the current tracking server has the role ``compare``.

    Raises
    ------
    L3DError
        If something must be corrected; its one line names the fix.

    Examples
    --------
    >>> import mlflow_l3d
    >>> sizes = {"investigation_runs": 3, "mitigation_runs": 3, "golden_runs": 6, "executor": "inline"}
    >>> change = {"a_label_selection": 99, "a_model_initialisation": 99}
    >>> before = mlflow_l3d.investigate("synthetic", approach="synthetic", **sizes)
    >>> after = mlflow_l3d.investigate("synthetic", approach="synthetic", hyperparameters=change, **sizes)
    >>> compared = mlflow_l3d.compare(after, before)
    >>> compared.to_frame()[["mean of first (%)", "difference (pp)", "verdict"]].round(1)
       mean of first (%)  difference (pp) verdict
    0               67.5             28.0  better
    """
    every = runs if not others else [*(runs if isinstance(runs, list | tuple) else [runs]), *others]
    with entry_point() as project_run:
        systems = requests(every)
        arguments = read_arguments({**options, "runs": _as_typed(systems)}, COMPARE)
        typed = arguments.texts
        studies = {at: _study(each, progress) for at, each in enumerate(systems) if isinstance(each, Mapping)}
        keys = [study.request.key for study in studies.values()]
        if len(set(keys)) < len(keys):
            raise ParameterError("runs", typed["runs"], "names one investigation twice: it does not differ from itself")
        client = connect()
        run_ids = [str(each) for each in systems]
        if not studies and are_evaluations(client, run_ids):
            if arguments["self_check"]:
                allowed = "has no effect on evaluation runs"
                raise ParameterError("self_check", typed["self_check"], allowed, "Leave it out.")
            effect = None if typed["smallest_effect"] == "none" else float(typed["smallest_effect"])
            asked = {name: arguments[name] for name in ("metric", "level")}
            return compare_judged(*run_ids, smallest_effect=effect, **asked, project_run=project_run.take())
        parents = None if studies else matched(client, run_ids, arguments)
        with auxiliary_run(client, project_run.take(), role="compare", title="comparison", parameters=typed) as opened:
            if parents is None:
                run_ids = [studies[at].run().run_id if at in studies else str(each) for at, each in enumerate(systems)]
                parents = matched(client, run_ids, arguments)
            compared = compare_parents(client, parents, arguments, opened.run_id)
            finish_comparison(opened, compared, {names.RUN_NAME: compared.comparison.title[:250]})
    return compared


def compare_into(client: Client, run_id: str, run_ids: Sequence[str], options: Mapping[str, object]) -> ComparedRuns:
    """Compare finished parent runs, and write the result to an existing run.

    Parameters
    ----------
    client
        Client of their tracking server.
    run_id
        The run for the result, not one of the parent runs.
    run_ids
        The parent runs.
    options
        Options of :func:`compare`.

    Raises
    ------
    ParameterError
        If an option is unknown, the run is one of the parent runs, or these cannot be compared.
    """
    check_names("evaluator_config", options, COMPARE.keys() - {"runs"})
    if run_id in run_ids:
        fix = "Start another run: with mlflow.start_run()."
        raise ParameterError("runs", run_id, "is the run for the result and one of the compared runs", fix)
    arguments = read_arguments(options, COMPARE)
    compared = compare_parents(client, matched(client, run_ids, arguments), arguments, run_id)
    tags = {names.ROLE: "compare", names.SCHEMA_TAG: names.SCHEMA}
    with temporary_folder() as folder:
        finish_comparison(AuxiliaryRun(client, run_id, folder), compared, tags)
    return compared


def matched(client: Client, run_ids: Sequence[str], arguments: Arguments) -> _Matched:
    """Return the metric of parent runs, and task -> system -> parent run; raise a ParameterError if they do not fit."""
    parents = read_parents(client, run_ids)
    return metric_of(parents, arguments["metric"]), by_task(parents)


def compare_parents(client: Client, parents: _Matched, arguments: Arguments, run_id: str) -> ComparedRuns:
    """Compare finished parent runs.

    Parameters
    ----------
    client
        Client of their tracking server.
    parents
        As :func:`matched` returns them.
    arguments
        The parameters of `compare`.
    run_id
        The run for the result.
    """
    metric, systems_by_task = parents
    smallest_effect = float(str(arguments["smallest_effect"]).replace("none", "nan"))
    tasks: dict[str, Sequence[System]] = {}
    remarks = [assumed_direction(metric)]
    compared, of_differences = [], []
    for task, systems in systems_by_task.items():
        choices = choices_among([parent.run for parent in systems.values()])
        of_parents = zip(systems.items(), choices, strict=True)
        compared += [parent.compared(client, task, name, own_choices) for (name, parent), own_choices in of_parents]
        runs = {name: read_runs(client, parent, metric) for name, parent in systems.items()}
        tasks[task], task_notes = systems_of(runs, metric)
        remarks += [*task_notes, *_other_examples(tasks[task])]
        of_differences.append(importances_of_differences(task, runs, metric, arguments["level"]))
    comparison = compare_systems(
        tasks,
        metric,
        smallest_effect=smallest_effect / (100 if metric.percent else 1),
        level=arguments["level"],
        notes=list(dict.fromkeys(filter(None, remarks))),
    )
    checks = _self_checks(tasks, arguments) if arguments["self_check"] else ()
    importances = pd.concat(of_differences, ignore_index=True)
    typed = {name: text for name, text in arguments.texts.items() if text != COMPARE[name].default}
    typed["runs"] = ",".join(parent.run_id for parent in compared)
    source = origin(client, str(client.get_run(run_id).info.experiment_id), run_id)
    runs_of = [parent.run for systems in systems_by_task.values() for parent in systems.values()]
    whole = tuple(kept_whole(run.data.tags.get(names.CONTEXT_KEY)) for run in runs_of)
    source = replace(source, given=typed, whole=whole)
    return ComparedRuns(run_id, tuple(compared), comparison, _scores(tasks), importances, tuple(checks), source)


def _other_examples(systems: Sequence[System]) -> Iterator[str]:
    """Yield a note for two systems of which each has one test set in all its runs, if these differ."""
    fixed = [each for each in systems if each.units and each.seen.sum() == each.examples]
    for one, other in combinations(fixed, 2):
        if (one.seen != other.seen).any():
            shared = (one.seen & other.seen).sum()
            counts = f"{one.seen.sum()} and {other.seen.sum()}, {shared} of them in common"
            same = "" if shared else ", by equal ids (1 is not 1.0)"
            yield (
                f"{one.name} and {other.name} have different test examples ({counts}). If those of one are easier, it "
                f"looks better. Evaluate both on the same ones{same}."
            )


def _scores(tasks: Mapping[str, Sequence[System]]) -> pd.DataFrame:
    parts = []
    for task, systems in tasks.items():
        for system in systems:
            pair = np.arange(system.runs, dtype=np.float64)
            if system is not systems[0]:
                pairing = paired(systems[0], system)
                pair = np.full(system.runs, math.nan)
                pair[pairing.second] = pairing.first
            parts.append(pd.DataFrame({"task": task, "system": system.name, "score": system.scores, "pair": pair}))
    return pd.concat(parts, ignore_index=True)


def _self_checks(tasks: Mapping[str, Sequence[System]], arguments: Arguments) -> Iterator[SelfCheck]:
    """Yield the A/A comparisons of systems with six runs, and of pairs with three shared ones, or more."""
    times = arguments["self_check"]
    options = {"seed": arguments["root_seed"], "level": arguments["level"]}
    for task, systems in tasks.items():
        ending = f" ({task})" if len(tasks) > 1 else ""
        for system in systems:
            if system.runs >= 6:
                yield halves(system, times, what=system.name + ending, **options)
        for one, other in combinations(systems, 2):
            pairing = paired(one, other)
            if len(pairing.first) >= 3:
                yield swapped(one, other, pairing, times, what=f"{one.name}-{other.name}{ending}", **options)


def _study(parameters: Mapping[str, Any], progress: bool | None) -> InvestigationStudy:
    others = dict(parameters)
    request = specified(specify, others.pop("approach", None), others.pop("task", None), others)
    say(request.remarks)
    return InvestigationStudy(request, progress=progress)


def _as_typed(systems: Sequence[object]) -> str:
    if all(isinstance(each, str) for each in systems):
        return ",".join(map(str, systems))
    return json.dumps([dict(each) if isinstance(each, Mapping) else each for each in systems], default=str)
