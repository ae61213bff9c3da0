"""The entry point `compare`: whether one system is better than another, counting every kind of luck."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.compare import compare_systems
from mlflow_l3d.analysis.comparison.self_check import SelfCheck, halves, swapped
from mlflow_l3d.analysis.comparison.system import System, paired
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.parameters.declaration import Arguments, read_arguments, with_signature
from mlflow_l3d.parameters.values import check_names
from mlflow_l3d.studies.base import entry_point, say, specified
from mlflow_l3d.studies.comparison.artifacts import note, write_comparison
from mlflow_l3d.studies.comparison.parameters import COMPARE, CompareOptions
from mlflow_l3d.studies.comparison.parents import Parent, by_task, metric_of, read_parents, requests
from mlflow_l3d.studies.comparison.reading import read_runs, systems_of
from mlflow_l3d.studies.comparison.results import ComparedParent, ComparedRuns
from mlflow_l3d.studies.comparison.tables import importances_of_differences
from mlflow_l3d.studies.files import temporary_folder
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.studies.investigation.run import InvestigationStudy
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.parent import log_metrics, log_results

if TYPE_CHECKING:
    from mlflow import MlflowClient

_FEWEST_HALVED: Final = 6
"""Runs below which halves are no investigation."""


@with_signature(CompareOptions)
def compare(
    runs: object, *others: object, progress: bool | None = None, **options: Unpack[CompareOptions]
) -> ComparedRuns:
    """Say which of several systems is better, counting the luck of every factor and that of the test examples.

    Parameters
    ----------
    runs
        Parents: run ids separated by commas, or a list of run ids, of :class:`~mlflow_l3d.Investigation` objects, or of
        mappings with the parameters of `main`, which are then run (also as JSON).
    *others
        More of them, as in ``compare(a, b)``.
    progress
        Whether to show progress on stderr; None does in a notebook and on a terminal.
    **options
        `metric`: what systems are scored by; ``auto`` is the parents' own. `smallest_effect`: differences up to this
        count for nothing (percentage points, or the unit of a metric that is no percentage); systems whose difference
        lies within it for certain are called equivalent, and runs needed are those for it. `level`: of intervals and
        claims. `self_check`: how many comparisons of each system with itself, and of runs swapped within each pair.
        `root_seed`: the number that their random halves are derived from.

    Returns
    -------
    ComparedRuns
        Its run on the current tracking server has the role ``compare``.

    Raises
    ------
    L3DError
        With one line that says what to change.
    """
    given_runs = runs if not others else [*(runs if isinstance(runs, list | tuple) else [runs]), *others]
    with entry_point() as project_run:
        wanted = requests(given_runs)
        asked = read_arguments({**options, "runs": _as_typed(wanted)}, COMPARE)
        given, settings = asked.texts, Settings.of(asked)
        studies = {at: _study(each, progress) for at, each in enumerate(wanted) if isinstance(each, Mapping)}
        keys = [study.request.key for study in studies.values()]
        if len(set(keys)) < len(keys):
            raise ParameterError("runs", given["runs"], "names one investigation twice: it has no difference to itself")
        client = connect()
        parents = None if studies else matched(client, [str(each) for each in wanted], settings)
        with (
            temporary_folder() as folder,
            auxiliary_run(client, project_run.take(), role="compare", title="comparison", parameters=given) as opened,
        ):
            if parents is None:
                run_ids = [studies[at].run().run_id if at in studies else str(each) for at, each in enumerate(wanted)]
                parents = matched(client, run_ids, settings)
            found = compare_parents(client, parents, settings, opened.run_id)
            tables = write_comparison(folder, found)
            tags = {**_tags(found), names.RUN_NAME: found.comparison.title[:250]}
            opened.finish(folder, metrics=found.metrics(), tags=tags, tables=tables)
    return found


def compare_into(
    client: MlflowClient, run_id: str, run_ids: Sequence[str], options: Mapping[str, object]
) -> ComparedRuns:
    """Compare finished parents, and write the result to a run that is there.

    Parameters
    ----------
    client
        Where they are.
    run_id
        The run; none of the parents.
    run_ids
        Of the parents.
    options
        Those of :func:`compare`.

    Raises
    ------
    ParameterError
        If an option is none, the run is one of the parents, or these cannot be compared.
    """
    check_names("evaluator_config", options, COMPARE.keys() - {"runs"})
    if run_id in run_ids:
        fix = "Start another run: with mlflow.start_run()."
        raise ParameterError("runs", run_id, "is to hold the comparison, and is one of what is compared", fix)
    settings = Settings.of(read_arguments(options, COMPARE))
    found = compare_parents(client, matched(client, run_ids, settings), settings, run_id)
    with temporary_folder() as folder:
        tables = write_comparison(folder, found)
        log_metrics(client, run_id, {0: found.metrics()})
        tags = {names.ROLE: "compare", names.SCHEMA_TAG: names.SCHEMA, **_tags(found)}
        log_results(client, run_id, folder, tags, tables)
    return found


def _tags(found: ComparedRuns) -> dict[str, str]:
    run_ids = ",".join(each.run_id for each in found.parents)
    return {names.INVESTIGATIONS: run_ids, names.NOTE: note(found)}


@dataclass(frozen=True)
class Settings:
    """How parents are compared; see :func:`compare`."""

    metric: str = "auto"
    smallest_effect: float = math.nan
    level: float = 0.95
    self_check: int = 0
    root_seed: int = 0

    @classmethod
    def of(cls, asked: Arguments) -> Settings:
        """Return the settings that were asked for."""
        values: dict[str, Any] = {each.name: asked[each.name] for each in fields(cls)}
        return cls(**values | {"smallest_effect": float(str(values["smallest_effect"]).replace("none", "nan"))})


class Matched(NamedTuple):
    """Parents that can be compared: by which metric, and task -> system -> parent."""

    metric: Metric
    tasks: Mapping[str, Mapping[str, Parent]]


def matched(client: MlflowClient, run_ids: Sequence[str], settings: Settings) -> Matched:
    """Return the parents of these run ids, or raise a ParameterError where they cannot be compared."""
    parents = read_parents(client, run_ids)
    return Matched(metric_of(parents, settings.metric), by_task(parents))


def compare_parents(client: MlflowClient, parents: Matched, settings: Settings, run_id: str) -> ComparedRuns:
    """Compare finished parents.

    Parameters
    ----------
    client
        Where they are.
    parents
        What is compared.
    settings
        How.
    run_id
        Of the run that is to hold the result.
    """
    metric = parents.metric
    tasks: dict[str, Sequence[System]] = {}
    notes: list[str] = []
    compared, of_differences = [], []
    for task, own in parents.tasks.items():
        compared += [
            ComparedParent(task, name, parent.run_id, str(parent.run.info.experiment_id))
            for name, parent in own.items()
        ]
        read = {name: read_runs(client, parent, metric) for name, parent in own.items()}
        tasks[task], said = systems_of(read, metric)
        notes += said
        of_differences.append(importances_of_differences(task, read, metric, settings.level))
    comparison = compare_systems(
        tasks,
        metric,
        smallest_effect=settings.smallest_effect / (100 if metric.percent else 1),
        level=settings.level,
        notes=list(dict.fromkeys(notes)),
    )
    checks = _self_checks(tasks, settings) if settings.self_check else ()
    importances = pd.concat(of_differences, ignore_index=True)
    return ComparedRuns(run_id, tuple(compared), comparison, _scores(tasks), importances, tuple(checks))


def _scores(tasks: Mapping[str, Sequence[System]]) -> pd.DataFrame:
    parts = []
    for task, own in tasks.items():
        for system in own:
            pair = np.arange(system.runs, dtype=np.float64)
            if system is not own[0]:
                pairing = paired(own[0], system)
                pair = np.full(system.runs, math.nan)
                pair[pairing.second] = pairing.first
            parts.append(pd.DataFrame({"task": task, "system": system.name, "score": system.scores, "pair": pair}))
    return pd.concat(parts, ignore_index=True)


def _self_checks(tasks: Mapping[str, Sequence[System]], settings: Settings) -> Iterator[SelfCheck]:
    how: dict[str, Any] = {"seed": settings.root_seed, "level": settings.level}
    for task, own in tasks.items():
        ending = f" ({task})" if len(tasks) > 1 else ""
        for system in own:
            if system.runs >= _FEWEST_HALVED:
                yield halves(system, settings.self_check, what=system.name + ending, **how)
        for one, other in combinations(own, 2):
            pairing = paired(one, other)
            if len(pairing.first) >= _FEWEST_HALVED // 2:
                what = f"{one.name}-{other.name}{ending}"
                yield swapped(one, other, pairing, settings.self_check, what=what, **how)


def _study(parameters: Mapping[str, Any], progress: bool | None) -> InvestigationStudy:
    own = dict(parameters)
    request = specified(specify, own.pop("approach", None), own.pop("task", None), own)
    say(request.remarks)
    return InvestigationStudy(request, progress=progress)


def _as_typed(wanted: Sequence[object]) -> str:
    if all(isinstance(each, str) for each in wanted):
        return ",".join(map(str, wanted))
    return json.dumps([dict(each) if isinstance(each, Mapping) else each for each in wanted], default=str)
