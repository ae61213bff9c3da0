"""One gate, checked and complete: what is compared and can be, by which bounds, within which budget."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.power import Noise, runs_for_power
from mlflow_l3d.analysis.comparison.predictions import check_effect
from mlflow_l3d.analysis.planning.spending import FEWEST, SequentialPlan, planned_looks
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import named, typed_name
from mlflow_l3d.parameters import read_arguments
from mlflow_l3d.parameters.shared import PLACE
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.studies.gate.golden import GoldenRequest
from mlflow_l3d.studies.gate.parameters import GATE
from mlflow_l3d.studies.gate.sides import Side, changed_side, recorded_side
from mlflow_l3d.tracking.connection import Client


@dataclass(frozen=True, kw_only=True)
class GateRequest:
    """One gate.

    Attributes
    ----------
    given
        Every parameter as it was typed, defaults included.
    baseline, candidate
        What is compared.
    metric
        By which.
    plan
        Looks and bounds; effects in the unit of the scores.
    examples
        ``fixed``: luck of the runs counts; ``random``: that of the test examples as well.
    paired
        Whether golden runs with equal numbers share what both draw.
    test_examples
        Test examples of a run; None if not known.
    noise
        What the difference of one run of each varies by, as runs of the baseline say: these share nothing.
    key, pair
        Equal for the same question, and for the same two.
    """

    given: Mapping[str, str]
    baseline: Side
    candidate: Side
    metric: Metric
    plan: SequentialPlan
    examples: Literal["fixed", "random"]
    paired: bool
    test_examples: int | None
    noise: Noise
    key: str
    pair: str

    @property
    def sides(self) -> tuple[Side, Side]:
        """Baseline and candidate."""
        return self.baseline, self.candidate

    @property
    def title(self) -> str:
        """Name of the run as people read it."""
        return f"gate: {self.candidate.title} against {self.baseline.title}"

    def wanting(self, side: Side) -> GoldenRequest | None:
        """Return the golden runs of a side where some may have to be trained; None where the budget is there."""
        runs = self.plan.looks[-1]
        have = int(np.isfinite(side.scores(self.metric.name, runs)).sum())
        if have == runs:
            return None
        if side.request is None:
            allowed = f"has {have} golden runs of {runs}, and no more can be trained here: {side.reason}"
            raise ParameterError(side.name, side.run_id, allowed, f"Use most_runs={have}, or investigate it again.")
        key = content_key({"runs": side.request.key, "pair": self.pair})  # two gates may share a baseline
        return replace(side.request, runs=runs, metric=self.metric, key=key)


def specify_gate(parameters: Mapping[str, Any], client: Client) -> GateRequest:
    """Check the parameters of `gate`, and read what they name.

    Raises
    ------
    ParameterError
        For the first that is not allowed.
    """
    typed = read_arguments(parameters, GATE)
    given = typed.texts
    machine = {name: given[name] for name in PLACE}
    baseline = recorded_side(client, "baseline", given["baseline"], **machine)
    candidate = changed_side(parameters.get("candidate", "none"), baseline, client, **machine)
    check_comparable(baseline, candidate)
    metric = metric_of(given["metric"], baseline, candidate)
    known = baseline.known_scores(metric.name)
    if len(known) < FEWEST:
        allowed = f"has {len(known)} golden runs, or seeds, with {metric.name}; a gate plans from {FEWEST} or more"
        raise ParameterError("baseline", baseline.run_id, allowed, "Train more of them.")
    run_std, effect = float(known.std(ddof=1)), typed["smallest_effect"]
    if effect == "auto" and not metric.percent:  # one unit may be more than any run scores
        fix = f"Name one in the unit of {metric.name}; runs of the baseline vary by {run_std:.3g}."
        raise ParameterError(
            "smallest_effect", "auto", f"is 1 percentage point, and {metric.name} has another unit", fix
        )
    effect = (1.0 if effect == "auto" else effect) / unit_of(metric).scale
    noise = Noise(math.sqrt(2) * run_std, degrees=len(known) - 1.0)
    predictions = next(baseline.predictions(client, 1), None)
    examples = baseline.task.get("test_size") if predictions is None else len(predictions)
    check_effect(effect, metric, known, examples or 0)

    def planned(most: int) -> SequentialPlan:
        return SequentialPlan(planned_looks(most, typed["looks"]), effect, typed["alpha"], typed["spending"])

    most = typed["most_runs"]
    if most == "auto":
        most = runs_for_power(typed["power"], planned, noise)
    identity = {
        "baseline": dict(baseline.identity),
        "candidate": dict(candidate.identity),
        "metric": typed_name(metric),
    }
    asked = ("smallest_effect", "alpha", "power", "most_runs", "looks", "spending", "examples")
    return GateRequest(
        given=given,
        baseline=baseline,
        candidate=candidate,
        metric=metric,
        plan=planned(most),
        examples=typed["examples"],
        paired=paired(baseline, candidate),
        test_examples=examples,
        noise=noise,
        key=content_key({**identity, **{name: given[name] for name in asked}}),
        pair=content_key(identity),
    )


def metric_of(asked: str, baseline: Side, candidate: Side) -> Metric:
    """Return the metric that is asked for, or that of both sides."""
    own = "f1_macro" if baseline.metric in (None, "auto") else str(baseline.metric)
    theirs = own if candidate.metric in (None, "auto") else str(candidate.metric)
    if asked == "auto" and own != theirs:
        allowed = f"the baseline is judged by {own} and the candidate by {theirs}"
        raise ParameterError("metric", "auto", allowed, "Name the metric.")
    name = own if asked == "auto" else asked
    if name.endswith("_seconds"):  # the time depends on the machine, which the two need not share
        raise ParameterError("metric", name, "is not a score: it depends on the machine", "Name a score or a loss.")
    metric = named(name)
    for side in (baseline, candidate):
        if len(side.cells) and metric.name not in side.cells:
            raise ParameterError("metric", name, f"the golden runs of {side.name} {side.run_id} do not have it")
    return metric


def check_comparable(baseline: Side, candidate: Side) -> None:
    """Raise ParameterError if two sides cannot be compared: they are one, or of other data or test sets."""
    the_baseline = f"{baseline.name} {baseline.run_id or baseline.title}"
    if candidate.run_id and candidate.run_id == baseline.run_id:
        raise ParameterError("candidate", candidate.run_id, "is the baseline itself")
    if dict(candidate.identity) == dict(baseline.identity):
        allowed = f"has the same runs as {the_baseline}"
        raise ParameterError("candidate", candidate.run_id or candidate.title, allowed, "Name what is to differ.")
    for side in (baseline, candidate):  # a study of seeds has no golden run
        if side.request is None and side.cells.index.max() < 0:
            allowed = f"is a seeds study, of which a gate trains golden runs; none can be trained here: {side.reason}"
            fix = (
                "Keep its files and libraries as they were, and give changed files other names. If both "
                f"versions have a seeds study, use mlflow-l3d compare --runs {baseline.run_id},RUN_ID."
            )
            raise ParameterError(side.name, side.run_id, allowed, fix)
    if not baseline.task or not candidate.task:
        return
    of_baseline = f"of {the_baseline}"
    if baseline.task.get("fingerprint") != candidate.task.get("fingerprint"):
        data, allowed_data = candidate.task.get("name"), baseline.task.get("name")
        typed = candidate.run_id or f"task={data}"
        also = ", of other content" if data == allowed_data else ""
        allowed = f"is of the data {data}{also}, and must be of those {of_baseline} ({allowed_data})"
        raise ParameterError("candidate", typed, allowed)
    for name in ("test_size", "test_selection", "reference_size"):
        if (baseline.task.get(name) or 0) != (candidate.task.get(name) or 0):  # none: auto, or an earlier version's
            typed = candidate.run_id or f"{name}={candidate.task.get(name)}"
            allowed = f"must have the test set {of_baseline} ({name}={baseline.task.get(name)})"
            raise ParameterError("candidate", typed, allowed)


def paired(baseline: Side, candidate: Side) -> bool:
    """Return whether golden runs with equal numbers share what both draw: they have the same root seed and data."""
    return bool(baseline.task) and baseline.root_seed is not None and baseline.root_seed == candidate.root_seed


def check_examples(baseline: Iterable[pd.DataFrame | None], first: pd.DataFrame | None, title: str) -> None:
    """Raise ParameterError if a candidate has other test examples than the baseline, whose runs all have the same.

    Parameters
    ----------
    baseline
        Predictions of two of its runs.
    first, title
        Predictions of a run of the candidate, and its title.
    """
    tables = [each for each in (first, *baseline) if each is not None]
    if first is None or len(tables) < 3:
        return
    own, *others = (frozenset(each["example_id"]) for each in tables)
    if len(set(others)) == 1 and own != others[0]:
        shared = f"{len(own & others[0])} of its {len(own)} are among the {len(others[0])} of the baseline"
        fix = "Evaluate both on the same ones. An example without an answer needs an empty prediction: it is wrong."
        raise ParameterError("candidate", title, f"has other test examples: {shared}", fix)
