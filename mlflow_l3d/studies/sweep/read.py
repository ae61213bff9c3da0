"""The points of a sweep, or of any investigations, read back from what their parents hold: not from their cells."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.results import Consistency, PredictionImportance
from mlflow_l3d.analysis.importance.checks.shape import Collapse
from mlflow_l3d.analysis.importance.results import FURTHER_METRICS, IMPORTANCE_METRICS, Check, Importance
from mlflow_l3d.analysis.importance.tables import uncollapsed
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.intervals import FloatArray, with_interval
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.known import named
from mlflow_l3d.studies.sweep.numbers.point import Choice, SweptPoint
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import children_of
from mlflow_l3d.tracking.connection import Client, Run, error_line
from mlflow_l3d.tracking.earlier.past import own_parameter
from mlflow_l3d.tracking.earlier.reader import known_document, parent_run

_CORRECTED: Final = ("importance", *with_interval("importance_corrected"))
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
    top = parent_run(client, run_id)
    document = known_document(client, run_id, names.SWEEP_DOCUMENT)
    every = children_of(client, str(top.info.experiment_id), run_id)
    parents = [run for run in every if run.data.tags.get(names.ROLE) == "investigation"]
    parents = [run for run in parents if names.SUPERSEDED_BY not in run.data.tags]
    if not parents:
        raise ParameterError("parent_run_id", run_id, "is a sweep without points", "Run the same sweep again.")
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
        If there is no such run, or one is no investigation.
    """
    parents = [parent_run(client, run_id) for run_id in run_ids]
    for run in parents:
        if run.data.tags.get(names.ROLE) != "investigation":
            raise ParameterError("parent_run_id", run.info.run_id, "must be the parent run of an investigation")
    return points_of(client, parents)


def points_of(client: Client, parents: Sequence[Run]) -> ReadPoints:
    """Return one point a parent, in their order; one that was not scored says why."""
    with ThreadPoolExecutor(8) as pool:
        analyses = list(pool.map(partial(_analysis, client), parents))
    choices = choices_among(parents)
    alike = [
        (str(point_choices), () if each is None else tuple(each.importances))
        for point_choices, (each, _) in zip(choices, analyses, strict=True)
    ]
    if len(set(alike)) < len(alike):  # what tells them apart is only that they are two runs
        choices = [
            {**point_choices, "run": run.info.run_name} for point_choices, run in zip(choices, parents, strict=True)
        ]
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
    one_by_one = _under(run, "hyperparameter.")
    if not one_by_one:
        try:
            together = json.loads(own_parameter(run, "hyperparameters") or "")
            one_by_one = {
                name: value if isinstance(value, str) else json.dumps(value) for name, value in together.items()
            }
        except (ValueError, AttributeError):  # a name such as auto, or a stranger's
            one_by_one = {}
    yield from one_by_one.items()


def _under(run: Run, start: str) -> dict[str, str]:
    params: Mapping[str, str] = run.data.params
    return {name.removeprefix(start): value for name, value in params.items() if name.startswith(start)}


def _analysis(client: Client, run: Run) -> tuple[Analysis | None, str]:
    """Return what a parent says, or why it says nothing."""
    tags = run.data.tags
    document = known_document(client, str(run.info.run_id), names.IMPORTANCE)
    if not document:
        return None, tags.get(names.ERROR) or f"has no {names.IMPORTANCE}: it is {tags.get(names.STATE, 'not ours')}"
    try:
        return analysis_of(document), ""
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return None, f"its {names.IMPORTANCE} cannot be read ({error_line(error)}): evaluate it again"


def analysis_of(document: Mapping[str, Any]) -> Analysis:
    """Return the analysis that :func:`mlflow_l3d.studies.investigation.artifacts.importance_document` was made of.

    Without the ranking, the votes of examples and the results of strategies, which it holds as tables only.

    Raises
    ------
    KeyError, TypeError, ValueError
        If it is not such a document.
    """
    golden, pooled = _numbers(document["golden"]), bool(document.get("golden_pooled"))
    importances = {
        factor: _importance(factor, own, golden, str(document["design"]), pooled)
        for factor, own in document["factors"].items()
    }
    looks = document.get("looks")
    parts = {factor: own.get("prediction_importance") for factor, own in document["factors"].items()}
    return Analysis(
        metric=named(str(document["metric"])),
        importances=importances,
        consistencies={
            name: Consistency(**{key: _known(value) for key, value in own.items()})
            for name, own in document.get("consistency", {}).items()
        },
        checks=tuple(Check(**check) for check in document.get("checks", [])),
        cells_failed=int(document.get("cells_failed", 0)),
        design=str(document["design"]),
        prediction_importances={
            factor: PredictionImportance(**{key: _known(value) for key, value in part.items()})
            for factor, part in parts.items()
            if part
        },
        agreement=document.get("agreement"),
        regression=document.get("regression") or {},
        interim_analyses=pd.DataFrame(looks) if looks else None,
        collapse=_collapse(document.get("collapse"), importances),
    )


def _importance(factor: str, own: Mapping[str, Any], golden: FloatArray, design: str, pooled: bool) -> Importance:
    parts = own.get("components")
    fields = VarianceComponents.__dataclass_fields__
    component_values = {name: _known(value) for name, value in (parts or {}).items() if name in fields}
    return Importance(
        factor=factor,
        **{name: _known(own.get(name)) for name in (*IMPORTANCE_METRICS, *FURTHER_METRICS, "golden_iqr")},
        table=_numbers(own["table"]),
        golden=golden,
        rows_used=int(own["rows_used"]),
        cells_missing=int(own["cells_missing"]),
        golden_missing=int(own["golden_missing"]),
        design=design,
        level=float(own.get("level", 0.95)),
        components=VarianceComponents(**component_values) if parts else None,
        golden_pooled=pooled,
    )


def _collapse(groups: Mapping[str, Any] | None, importances: Mapping[str, Importance]) -> Collapse | None:
    """Return the two parts of the score; the scores of runs that collapsed are the lowest ones."""
    if not groups or not importances:
        return None
    whole, first = groups.get("golden", {}), next(iter(importances.values()))
    down = float(whole.get("collapsed_share") or 0.0)
    independent = first.table[:, 0] if design_named(first.design).tables_are_golden else first.golden
    chance = min(
        _lowest_other(independent, down),
        *(_lowest_other(record.table, record.collapsed_share) for record in importances.values()),
    )
    causes, rest = {}, {}
    for factor, record in importances.items():
        group = groups[factor]
        others = replace(record, table=uncollapsed(record.table, chance), golden=uncollapsed(record.golden, chance))
        golden_std = _known(whole.get("golden_std_uncollapsed"))
        numbers = {name: _known(group.get(f"{name}_uncollapsed")) for name in _CORRECTED}
        rest[factor] = replace(others, **numbers, golden_std=golden_std, collapsed_share=0.0)
        numbers = {name: _known(group.get(f"collapse_{name}")) for name in _CORRECTED[1:]}
        causes[factor] = replace(record, **numbers)
    runs = int(np.isfinite(independent).sum())
    return Collapse(runs, round(runs * down), causes, rest, first.level)


def _lowest_other(scores: FloatArray, share: float) -> float:
    """Return the lowest score of a run that did not collapse, if a share did; infinite if all did."""
    finite_scores = np.sort(scores[np.isfinite(scores)])
    down = round((0.0 if math.isnan(share) else share) * len(finite_scores))
    return float(finite_scores[down]) if down < len(finite_scores) else math.inf


def _numbers(values: Any) -> FloatArray:
    """Return numbers at any depth, nan for null."""
    return np.array(values, dtype=object).astype(np.float64)


def _known(value: Any) -> Any:
    return math.nan if value is None else value
