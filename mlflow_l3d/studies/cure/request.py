"""One cure, checked and complete: what is predicted of each remedy, and which ones are verified."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from mlflow_l3d.analysis.cure import MEASURED, MOST_PAIRS, Prediction, Range, Remedy, helping
from mlflow_l3d.analysis.cure.predict import fixed, pairs, report_mean
from mlflow_l3d.analysis.importance.estimate import total_index_of
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.approaches.cured import Cured
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters import Arguments, read_arguments
from mlflow_l3d.parameters.checks import execution
from mlflow_l3d.parameters.cures import read_remedy
from mlflow_l3d.parameters.shared import PLACE
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.report.remedies import remedy_words
from mlflow_l3d.studies.base import expected_workers
from mlflow_l3d.studies.cure.gather import Gathered, gather
from mlflow_l3d.studies.cure.parameters import CURE
from mlflow_l3d.studies.cure.remedies import cured_key, data_remedies, labels_remedy, predict_changed
from mlflow_l3d.studies.dry_run import Budget
from mlflow_l3d.studies.gate.golden import GoldenRequest
from mlflow_l3d.studies.gate.sides import Side, recorded_side
from mlflow_l3d.studies.investigation.remedies import predicted
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, search, whole_id
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.earlier import latest_investigation, own_parameter


@dataclass(frozen=True, kw_only=True)
class CureRequest:
    """One cure.

    Attributes
    ----------
    client
        The tracking server.
    arguments
        Every parameter.
    gathered
        What the parent run shows.
    side
        The golden runs of the parent.
    golden
        Those that remedies are compared with, if more can be trained.
    budget
        The most that is trained.
    """

    client: Client
    arguments: Arguments
    gathered: Gathered
    side: Side
    golden: GoldenRequest | None
    budget: Budget

    @property
    def title(self) -> str:
        """Name of the run."""
        parent = self.gathered.parent
        return f"cure: {parent.info.run_name or parent.info.run_id}"

    @property
    def stored(self) -> int:
        """Golden runs of the parent, if more can be trained."""
        return 0 if self.golden is None else _planned_runs(self.side)

    @property
    def each(self) -> int:
        """Trainings behind one run of the parent: more than one if it is cured."""
        if self.golden is not None:
            approach = self.golden.setup.approach
            remedy = approach.remedy if isinstance(approach, Cured) else Remedy("training")
        else:
            text = own_parameter(self.gathered.parent, "cure") or ""
            remedy = read_remedy(text) if text.startswith("{") else Remedy("training")
        return 2 if remedy.kind == "active" else remedy.members

    @property
    def workers(self) -> int:
        """How many cells are trained at a time."""
        return 1 if self.golden is None else expected_workers(self.golden.setup)

    @property
    def smallest_effect(self) -> float:
        """The smallest effect in the unit of the scores."""
        effect = self.arguments["smallest_effect"]
        return self.gathered.spread.value / 2 if effect == "auto" else effect / unit_of(self.gathered.metric).scale

    @property
    def predictions(self) -> tuple[Prediction, ...]:
        """All remedies, best first."""
        return self._predicted[0]

    @property
    def reasons(self) -> tuple[str, ...]:
        """What could not be predicted, one line each."""
        return self._predicted[1]

    @cached_property
    def _predicted(self) -> tuple[tuple[Prediction, ...], tuple[str, ...]]:
        """What is predicted of each remedy, best first, and in one line each what is not."""
        gathered = self.gathered
        golden = self.golden
        most_members = self.arguments["most_members"]
        spread, metric, members, each_run = gathered.spread, gathered.metric, gathered.members, self.each
        plain = self.side.scores(metric.name, 0 if golden is None else golden.runs)
        shown = members, metric, gathered.classes, spread, gathered.golden
        predictions, reasons = predicted(*shown, most_members=most_members)
        if spread.value > 0:
            predictions += report_mean(spread, over=members.over, most_members=most_members)
            predictions += [fixed(name, spread, _main_share(each)) for name, each in gathered.importances.items()]
        if gathered.chosen_by:
            reasons.append(f"Runs report validation {gathered.chosen_by}, which would choose the best of several.")
        if each_run > 1:
            reasons.append(f"A run is {each_run} trainings already: the parent run is cured. They are counted.")
        labels = [*labels_remedy(self.client, gathered, golden, plain)]
        by_data = [*labels, *data_remedies(gathered, None if golden is None else golden.setup.task)]
        reasons += [f"{remedy_words(each.remedy)}: {each.reason}." for each in by_data if each.basis == "unknown"]
        predictions += [each for each in by_data if each.basis != "unknown" or (each in labels and golden is not None)]
        for at, each in enumerate(predictions):
            seconds = each.seconds if each.seconds > 0 else gathered.seconds * each.trainings
            predictions[at] = replace(each, seconds=seconds, trainings=each_run * each.trainings)
        predictions += pairs(predictions)
        if golden is not None:
            setup = golden.setup
            remedies = [*gathered.in_order(setup.approach.remedies(setup.task, setup.hyperparameters))]
            if members.has_scores and gathered.classes and "label_selection" in setup.all_factors:
                remedies.append(Remedy("active", trainings=2))
            for remedy in remedies:
                changed = predict_changed(self.client, gathered, golden, plain, remedy, most_members)
                trainings = each_run * remedy.trainings
                predictions += [replace(each, trainings=trainings * each.trainings) for each in changed]
        return tuple(predictions), tuple(reasons)

    @cached_property
    def tried(self) -> tuple[Prediction, ...]:
        """Those of which golden runs were trained before, to the end or not."""
        if (golden := self.golden) is None:
            return ()
        begun = search(self.client, None, condition({names.ROLE: golden.role}))
        keys = {run.data.tags.get(names.INVESTIGATION_KEY) for run in begun}
        alone = (each for each in self.predictions if each.remedy.can_be_trained and not each.also)
        return tuple(each for each in alone if cured_key(golden, each.remedy) in keys)

    def ranked(self) -> list[Prediction]:
        """Return the remedies that may be verified: those that were tried before, and the others.

        In both parts the best come first: if runs collapse, what is for it; then those that help and those of which
        nothing can be predicted, the best of either first. Those for which the user may lack labels come last.
        """
        best = helping(self.predictions, self.gathered.spread.value, self.gathered.metric.sign)
        trainable = (each for each in self.predictions if each.remedy.can_be_trained)
        unknown = [each for each in trainable if each.remedy.kind in MEASURED and each.basis != "exact"]
        unknown.sort(key=lambda each: each.remedy.needs_labels)  # before the first takes its turn
        first = 0 if self.gathered.collapsed else 1
        ranked = [*best[:first], *unknown[:1], *best[first:], *unknown[1:]]
        tried = [each for each in self.tried if each not in ranked]
        return sorted([*ranked, *tried], key=lambda each: (each not in self.tried, each.remedy.needs_labels))

    def chosen(self) -> list[Prediction]:
        """Return the remedies that may be verified, best first; if one is named, as reports name it, that alone."""
        if (name := self.arguments["remedy"]) == "auto":
            return self.ranked()
        alone = [each for each in self.predictions if each.remedy.can_be_trained and not each.also]
        named = [each for each in alone if remedy_words(each.remedy) == name]
        if len(named) != 1:
            count = f"{len(named)} have" if named else "none has"
            allowed = f"must be auto, or a remedy as reports call it; {count} this name"
            close = get_close_matches(name, [remedy_words(each.remedy) for each in alone], n=1, cutoff=0.4)
            fix = "".join(f"Did you mean {each!r}? " for each in close) + "Run cure without it to see all."
            raise ParameterError("remedy", name, allowed, fix)
        return named


def specify_cure(parent: object, options: Mapping[str, Any], client: Client) -> CureRequest:
    """Check the parameters of `cure`, and read what they name.

    Raises
    ------
    ParameterError
        For the first that is not allowed.
    """
    typed = read_arguments({**options, "parent_run_id": getattr(parent, "run_id", parent)}, CURE)
    latest = typed["parent_run_id"] == "latest"
    run_id = latest_investigation(client, status="FINISHED") if latest else whole_id(client, typed["parent_run_id"])
    budget = Budget.parse(typed["budget"])
    gathered = gather(client, run_id, typed["metric"])
    side = _side(client, gathered, getattr(parent, "request", None), typed)
    golden, stored = side.request, _planned_runs(side)
    if golden is not None:
        runs = min(stored, MOST_PAIRS) if typed["runs"] == "auto" else typed["runs"]
        golden = replace(golden, runs=runs, metric=gathered.metric)
    if typed["verify"]:
        if side.cells.empty:
            raise ParameterError("verify", typed["verify"], side.reason, "Use verify=0.")
        if golden is None:
            allowed = f"needs more golden runs of run {run_id}, which cannot be trained here: {side.reason}"
            fix = "Use verify=0, or in Python cure(result, verify=1)."
            raise ParameterError("verify", typed["verify"], allowed, fix)
        if golden.runs > stored:
            allowed = f"run {run_id} has {stored} golden runs to compare with"
            raise ParameterError("runs", golden.runs, allowed, "Name fewer, or investigate it with more golden_runs.")
    arguments = typed.changed(parent_run_id=run_id)
    request = CureRequest(
        client=client, arguments=arguments, gathered=gathered, side=side, golden=golden, budget=budget
    )
    request.chosen()  # before any run starts
    return request


def _side(client: Client, gathered: Gathered, request: Any, typed: Arguments) -> Side:
    """Return the golden runs of a parent, and with what more are trained; see :attr:`CureRequest.golden`.

    `request` belongs to a result in this process, whose approach and task may be objects, and whose device is decided.
    """
    try:
        machine = {name: typed.texts[name] for name in PLACE}
        side = recorded_side(client, "parent_run_id", str(gathered.parent.info.run_id), gathered.cells, **machine)
    except ParameterError as error:
        return Side("parent_run_id", "", {}, reason=str(error))
    if _planned_runs(side) == 0:  # runs of the only seed of a training are not golden runs
        reason = f"run {side.run_id} is a seeds study, and a remedy is compared with golden runs"
        return Side("parent_run_id", "", {}, reason=reason)
    if request is None or side.request is not None:
        return side
    asked = {name for name in PLACE if typed.texts[name] != CURE[name].default}
    for name in sorted(asked & {"device", "deterministic", "store_scores"}):
        allowed = "has no effect on the result of an object"
        raise ParameterError(name, typed.texts[name], allowed, "Leave it out, or investigate it so.")
    golden = GoldenRequest(
        given=request.given,
        setup=replace(request.setup, how=execution(typed)) if asked else request.setup,
        metric=request.metric,
        context_key=request.context_key,
        key=request.key,
        root_seed=int(request.given["root_seed"]),
        phase=side.phase,
    )
    return replace(side, request=golden)


def _planned_runs(side: Side) -> int:
    """Return how many golden runs the numbers of a side count: one that failed has a number, and shifts no other."""
    return 1 + max(map(int, side.cells.index), default=-1)


def _main_share(record: Importance) -> Range:
    """Return the share of the variance that a factor causes alone; if it is not known, at most its total share."""
    if math.isfinite(record.first_order_index):
        return Range(record.first_order_index, record.first_order_ci_low, record.first_order_ci_high)
    total = total_index_of(record.importance_corrected)
    return Range(total, 0.0, total)
