"""Where a plan has its numbers from: cost and variances of earlier cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.estimate import total_index_of
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import with_scores
from mlflow_l3d.analysis.importance.verdicts import Advice, Verdict
from mlflow_l3d.analysis.planning.assurance import Outlook
from mlflow_l3d.designs import Design, design_named
from mlflow_l3d.designs.analyse import analyse
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.investigation.evaluate import check_metric, planned_by
from mlflow_l3d.studies.investigation.request import InvestigationRequest
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import runs_named
from mlflow_l3d.tracking.connection import Client, Run
from mlflow_l3d.tracking.earlier import investigations, own_parameter, parents_of, similar_cells
from mlflow_l3d.tracking.earlier.reader import Recorded, read_investigation

MOST_PARENTS: Final = 5
"""How many earlier investigations are scored at most."""
_SCALED: Final = ", scaled to as many test examples"


@dataclass(frozen=True, slots=True)
class FactorPilot:
    """What an earlier investigation says about one factor.

    Attributes
    ----------
    outlook
        Variances, and the errors that the pilot has.
    low, high
        Interval of S_T; nan where the table was too small for one.
    run_id
        The earlier parent.
    same
        Whether it shares the context (task, approach, model, hyperparameters, numerics) of what is planned.
    settled_by
        Rows that its report recommends; None if it recommends none, or the plan has another design or fewer columns.
    doubt
        Why its interval cannot be believed, however many runs there are; empty if it can.
    """

    outlook: Outlook
    low: float
    high: float
    run_id: str
    same: bool
    settled_by: int | None = None
    doubt: str = ""


@dataclass(frozen=True)
class Pilot:
    """What is known before a run: cost and variances.

    Attributes
    ----------
    seconds
        Mean wall clock of a cell; nan where unknown.
    cost_source
        One line: which cells that is the mean of.
    factors
        Factor -> its variances, for those that an earlier investigation had.
    notes
        What is doubtful.
    run_id
        The largest investigation with the same settings, whatever its factors: its golden runs say how scores vary.
    equal
        A run whose scores are all equal, so that a factor has no variances; empty if there is none.
    """

    seconds: float = math.nan
    cost_source: str = "unknown: no cell of this task, approach and model has ended"
    factors: Mapping[str, FactorPilot] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    run_id: str | None = None
    equal: str = ""


def past_pilot(request: InvestigationRequest, client: Client, durations: Iterable[float]) -> Pilot:
    """Look for cost and variances among all that the tracking server holds (``pilot=auto``).

    Parameters
    ----------
    request
        What is planned.
    client
        The tracking server.
    durations
        Seconds of each finished cell of the same context.
    """
    similar = similar_cells(client, request.setup.similar)
    values = [*filter(math.isfinite, durations)]
    of = "finished cells with the same settings"
    if not values:
        values = _similar_seconds(request, client, similar)
        scaled = _SCALED if request.setup.approach.only_evaluates else ""
        of = f"cells of the same task, approach and model{scaled}; other settings differ"
    found: dict[str, FactorPilot] = {}
    equal = ""
    parents = investigations(client, request.context_key)[:MOST_PARENTS]
    known = [str(run.info.run_id) for run in parents]
    similar = [run for run in similar if run.data.tags.get(names.CONTEXT_KEY) != request.context_key]
    parents += [run for run in parents_of(client, similar)[:MOST_PARENTS] if run.info.run_id not in known]
    for run in parents:
        wanted = set(request.factors) - set(found)
        if not wanted & set(run.data.tags.get(names.FACTOR, "").split(",")):
            continue
        try:
            recorded = read_investigation(run.info.run_id, client)
            factors = _variances(request, recorded)
        except L3DError:  # a parent that cannot be scored is no pilot
            continue
        equal = equal or _all_equal(request, recorded)
        found |= {factor: each for factor, each in factors.items() if factor in wanted}
    return replace(_pilot(request, values, of, found, equal), run_id=next(iter(known), None))


def _similar_seconds(request: InvestigationRequest, client: Client, cells: list[Run]) -> list[float]:
    """Return the seconds of cells with other settings; if nothing is trained, for as many test examples as planned.

    Then cells count only if their study records how many they test; ``seeds`` with ``test_size=auto`` does not.
    """
    timed = [(str(run.data.tags.get(names.PARENT_RUN_ID)), run.data.metrics.get("duration_seconds")) for run in cells]
    seconds = [(parent, each) for parent, each in timed if each is not None and math.isfinite(each)]
    if not request.setup.approach.only_evaluates:
        return [each for _, each in seconds]
    parents = runs_named(client, list(dict.fromkeys(parent for parent, _ in seconds)))
    sizes = {str(run.info.run_id): size for run in parents if (size := _test_examples(run))}
    counted = [(each, sizes[parent]) for parent, each in seconds if parent in sizes]
    return _as_planned(request, [each for each, _ in counted], [size for _, size in counted])


def _as_planned(request: InvestigationRequest, seconds: list[float], sizes: Sequence[int]) -> list[float]:
    """Return the seconds of cells with so many test examples; if nothing is trained, for as many as planned."""
    if not (request.setup.approach.only_evaluates and any(sizes)):
        return seconds
    # By the mean size, so that small cells, which take most of their time to begin, do not count the most.
    scale = len(request.setup.task.first_split.test) / float(np.mean(sizes))
    return [each * scale for each in seconds]


def _test_examples(parent: Run) -> int:
    """Return how many examples a cell of a study predicts, those of the reference set included; 0 if not known."""
    sizes = own_parameter(parent, "test_size") or "", own_parameter(parent, "reference_size") or "0"
    return sum(map(int, sizes)) if all(map(str.isdigit, sizes)) else 0


def named_pilot(request: InvestigationRequest, client: Client, run_id: str, given: str) -> Pilot:
    """Take cost and variances from one parent.

    Parameters
    ----------
    request
        What is planned.
    client
        The tracking server.
    run_id
        The parent.
    given
        What the user typed, for the error.

    Raises
    ------
    ParameterError
        If there is no such parent, or its cells lack the metric.
    """
    try:
        recorded = read_investigation(run_id, client)
    except ParameterError as error:
        fix = "Use auto, none, run, or the id of a parent run."
        raise ParameterError("pilot", given, error.allowed, fix) from error
    durations = [float(value) for value in recorded.cells.get("duration_seconds", pd.Series(dtype=float)).dropna()]
    factors = _variances(request, recorded)
    durations = _as_planned(request, durations, [_test_examples(recorded.parent)])
    scaled = _SCALED if request.setup.approach.only_evaluates else ""
    differ = "" if _same(request, recorded) else f"{scaled}; its settings differ"
    return _pilot(request, durations, f"cells of run {run_id}{differ}", factors, _all_equal(request, recorded))


def pilot_parameters(request: InvestigationRequest) -> dict[str, Any]:
    """Return the parameters that make a small investigation of a plan; each of its cells is a cell of the plan.

    Three columns, the rows of the design's pilot, and their share of golden runs.
    """
    plan = request.plan
    rows = min(plan.design.pilot_rows, plan.mitigation_runs)
    columns = min(3, plan.investigation_runs)
    golden = "pooled" if plan.golden_pooled else str(min(rows * columns, plan.golden_runs))
    sizes = {"mitigation_runs": rows, "golden_runs": "auto" if plan.design.tables_are_golden else golden}
    if plan.design.has_columns:
        sizes["investigation_runs"] = columns
    return {"design": plan.design.name, **sizes, "stop": "none"}


def _variances(request: InvestigationRequest, recorded: Recorded) -> dict[str, FactorPilot]:
    check_metric(recorded.cells, request.metric)
    planned = planned_by(recorded.parent)
    analysis = analyse(planned.select(recorded.cells), replace(planned, classes=None), metric=request.metric)
    run_id, same = str(recorded.parent.info.run_id), _same(request, recorded)
    return {
        factor: FactorPilot(
            _outlook(planned.design, analysis.importances, factor),
            total_index_of(record.importance_corrected_ci_low),
            total_index_of(record.importance_corrected_ci_high),
            run_id,
            same,
            _recommended(request, record.design, analysis.advice.get(factor)),
            _doubt(analysis.verdict(factor)),
        )
        for factor, record in analysis.importances.items()
        if factor in request.factors and record.components is not None
    }


def _all_equal(request: InvestigationRequest, recorded: Recorded) -> str:
    """Return the run of an investigation whose scores are all equal, so that it has no variances; else nothing."""
    return str(recorded.parent.info.run_id) if recorded.cells[request.metric.name].nunique() == 1 else ""


def _doubt(verdict: Verdict) -> str:
    return "" if verdict.is_decided or verdict.needs_runs else verdict.reason


def _recommended(request: InvestigationRequest, design: str, advice: Advice | None) -> int | None:
    """Return the rows that a report recommends for a factor, if a plan is of that kind."""
    same = request.plan.design.name == design and advice is not None
    return advice.rows if same and advice and request.plan.investigation_runs >= (advice.columns or 0) else None


def _outlook(design: type[Design] | None, importances: Mapping[str, Importance], factor: str) -> Outlook:
    """Return what the table of a factor says; in the radial design the swaps of all factors come with it."""
    record = importances[factor]
    assert record.components is not None
    design = design or design_named(record.design)
    if design.planning is None or math.isnan(record.importance_corrected_ci_low):
        return Outlook(record.components)
    others = [each.table[:, 1:] for name, each in importances.items() if name != factor and design.tables_are_golden]
    estimate = design.planning.estimate(with_scores(np.column_stack([record.table, *others])))
    return Outlook.measured(record.components, design.planning, () if estimate is None else estimate.without)


def _same(request: InvestigationRequest, recorded: Recorded) -> bool:
    return recorded.parent.data.tags.get(names.CONTEXT_KEY) == request.context_key


def _pilot(
    request: InvestigationRequest, seconds: list[float], of: str, factors: Mapping[str, FactorPilot], equal: str
) -> Pilot:
    """Return how long the cells `of` something took, and the variances of factors.

    `equal` is a run whose scores are all equal, if there is one.
    """
    notes = []
    missing = ", ".join(factor for factor in request.factors if factor not in factors)
    if missing and equal:
        notes.append(f"All scores of run {equal} are equal, so a pilot shows nothing of {missing}.")
    elif missing:
        notes.append(f"No earlier investigation says how much {missing} matters.")
    other = [factor for factor, each in factors.items() if not each.same]
    if other:
        notes.append(f"The variances of {', '.join(other)} come from runs with other settings: similar at best.")
    for doubt in dict.fromkeys(each.doubt for each in factors.values() if each.doubt):
        doubtful = ", ".join(factor for factor, each in factors.items() if each.doubt == doubt)
        notes.append(f"More runs may not settle {doubtful}: in the pilot, {doubt}.")
    pilot = Pilot(factors=factors, notes=tuple(notes), equal=equal if missing else "")
    source = f"mean of {len(seconds):,} {of}"
    return replace(pilot, seconds=float(np.mean(seconds)), cost_source=source) if seconds else pilot
