"""The points of a sweep, or of any investigations, read back from what their parents hold: not from their cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.result_file import read_result
from mlflow_l3d.studies.sweep.numbers.point import Choice, SweptPoint, without_votes
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import children_of
from mlflow_l3d.tracking.connection import Client, Run
from mlflow_l3d.tracking.earlier.past import own_parameter
from mlflow_l3d.tracking.earlier.reader import known_document, parent_run

_CHOICE: Final = "choice."
_HOW: Final = ("device", "executor", "workers", "cell_timeout", "executor_options")
_NO_CHOICES: Final = (*_HOW, "factor", "hyperparameters", "stop", "half_width", "epsilon")
"""Parameters of an investigation in which points may differ without being another system; factors have columns."""


@dataclass(frozen=True)
class ReadPoints:
    """Points, and where their runs are.

    Attributes
    ----------
    points
        In their order.
    experiments
        Run id -> id of its experiment.
    """

    points: tuple[SweptPoint, ...]
    experiments: Mapping[str, str]


def points_of_sweep(client: Client, run_id: str) -> ReadPoints:
    """Return the points of a sweep in its own order, those that failed before they had a run included.

    Parameters
    ----------
    client
        The tracking server.
    run_id
        The run on top.

    Raises
    ------
    ParameterError
        If there is no such run, or it has no points.
    """
    top = parent_run(client, run_id, "source")
    document = known_document(client, run_id, names.SWEEP_DOCUMENT)
    every = children_of(client, str(top.info.experiment_id), run_id)
    parents = [run for run in every if run.data.tags.get(names.ROLE) == "investigation"]
    parents = [run for run in parents if names.SUPERSEDED_BY not in run.data.tags]
    if not parents:
        raise ParameterError("source", run_id, "is a sweep without points", "Run the same sweep again.")
    planned = document.get("points", [])
    place = {point.get("investigation_key"): at for at, point in enumerate(planned)}
    ordered = sorted(parents, key=lambda run: place.get(run.data.tags.get(names.INVESTIGATION_KEY), len(place)))
    begun_points = points_of(client, ordered)
    unbegun: list[SweptPoint] = []
    begun = {run.data.tags.get(names.INVESTIGATION_KEY) for run in parents}
    for point, end in zip(planned, document.get("ends", []), strict=False):
        if point.get("investigation_key") not in begun:
            choices = point.get("choices", {})
            task = str(choices.get("task", point.get("parameters", {}).get("task", "")))
            unbegun.append(SweptPoint("", choices, task, None, str(end.get("error") or "was not begun")))
    return ReadPoints((*begun_points.points, *unbegun), begun_points.experiments)


def points_of_runs(client: Client, run_ids: Sequence[str]) -> ReadPoints:
    """Return investigations as points, also such as were never swept; their choices are what they differ in.

    Raises
    ------
    ParameterError
        If there is no such run, or one is not an investigation.
    """
    parents = [parent_run(client, run_id, "source") for run_id in run_ids]
    for run in parents:
        if run.data.tags.get(names.ROLE) != "investigation":
            raise ParameterError("source", run.info.run_id, "must be the parent run of an investigation")
    return points_of(client, parents)


def points_of(client: Client, parents: Sequence[Run]) -> ReadPoints:
    """Return one point a parent, in their order; one that was not scored says why."""
    with ThreadPoolExecutor(8) as pool:
        analyses = list(pool.map(partial(_analysis, client), parents))
    choices, factors = choices_among(parents), [tuple(getattr(each, "importances", ())) for each, _ in analyses]
    if len({*zip(map(str, choices), factors, strict=True)}) < len(parents):  # they differ only in being two runs
        choices = [{**each, "run": run.info.run_name} for each, run in zip(choices, parents, strict=True)]
    points = [
        SweptPoint(str(run.info.run_id), point_choices, own_parameter(run, "task") or "", analysis, error)
        for run, point_choices, (analysis, error) in zip(parents, choices, analyses, strict=True)
    ]
    return ReadPoints(tuple(points), {str(run.info.run_id): str(run.info.experiment_id) for run in parents})


def choices_among(parents: Sequence[Run]) -> list[dict[str, Choice]]:
    """Return for each parent in what it differs from the others.

    If all say what was chosen for them (``choice.*``), that; else of the parameters and hyperparameters those with
    several values.
    """
    chosen = [_under(run, _CHOICE) for run in parents]
    parameters = chosen if all(chosen) else [dict(_parameters(run)) for run in parents]
    values = {name: {each[name] for each in parameters if name in each} for each in parameters for name in each}
    return [{name: each[name] for name in values if name in each and len(values[name]) > 1} for each in parameters]


def _parameters(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the parameters of an investigation, and its hyperparameters one by one."""
    for name in run.data.params:
        if "." not in name and name not in _NO_CHOICES and (value := own_parameter(run, name)) is not None:
            yield name, value
    yield from _under(run, "hyperparameter.").items()


def _under(run: Run, start: str) -> dict[str, str]:
    params: Mapping[str, str] = run.data.params
    return {name.removeprefix(start): value for name, value in params.items() if name.startswith(start)}


def _analysis(client: Client, run: Run) -> tuple[Analysis | None, str]:
    """Return what a parent says, or why it says nothing."""
    tags = run.data.tags
    analysis = getattr(read_result(client, str(run.info.run_id)), "analysis", None)
    if analysis is None:
        why = f"holds no result: it is {tags.get(names.STATE, 'not ours')}; if it has ended, evaluate it"
        return None, tags.get(names.ERROR) or why
    return without_votes(analysis), ""
