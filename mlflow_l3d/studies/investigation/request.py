"""One investigation, checked and complete: what `main` is asked to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import pandas as pd

from mlflow_l3d.analysis.importance.estimators.missing_cells import Missing
from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.cells.factors import OF_NO_APPROACH, TASK_FACTORS
from mlflow_l3d.designs import Design, design_named
from mlflow_l3d.designs.crossed import factor_members, joint_name
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.search_document import Searches, overlap_remarks, splits_of
from mlflow_l3d.parameters.setup import headline_metric, read_parameters, set_up
from mlflow_l3d.parameters.sources import PUBLISHED, as_published
from mlflow_l3d.parameters.values import check_names, names_of
from mlflow_l3d.report.source import Source, versions
from mlflow_l3d.studies.investigation import run_plan
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.request import CellRequest, context_of
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.resolve import ReadTask
from mlflow_l3d.tasks.settings import Split
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier import earlier_parent

MOST_CELLS: Final = 10_000_000


@dataclass(frozen=True, kw_only=True)
class InvestigationRequest(CellRequest):
    """One investigation.

    Attributes
    ----------
    factors
        Investigated factors; joint ones are joined with ``+``.
    plan
        Design, numbers of runs, mitigation strategies and stopping rule.
    missing
        How the corrected importance of a table that lacks cells is estimated: ``anova`` or ``reml``.
    """

    parameters = MAIN
    factors: tuple[str, ...]
    plan: run_plan.Plan
    missing: Missing

    @property
    def all_factors(self) -> tuple[str, ...]:
        """Factors that have an effect, and those of no approach that are investigated."""
        return (*self.setup.all_factors, *(name for name in self.factors if name in OF_NO_APPROACH))

    def design(self) -> Design:
        """Return the design of the cells."""
        plan = self.plan
        runs = (plan.investigation_runs, plan.mitigation_runs, plan.golden_runs, plan.root_seed, self.context_key)
        sets = {strategy.factor: strategy.configurations for strategy in plan.mitigation}
        return plan.design(self.factors, self.all_factors, *runs, mitigation=sets, product=plan.joint == "product")

    def truncate(self, rows: int) -> InvestigationRequest:
        """Return what was investigated where a stopping rule ended it after `rows` rows: their share of golden runs."""
        golden = -(-self.plan.golden_runs * rows // self.plan.mitigation_runs)
        most = self.plan.mitigation_runs if rows < self.plan.mitigation_runs else 0
        return replace(self, plan=replace(self.plan, mitigation_runs=rows, golden_runs=golden, most_rows=most))

    @property
    def title(self) -> str:
        """Name of the parent as people read it."""
        design = "" if (name := self.plan.design.name) == PUBLISHED else f" ({name})"
        return self.setup.title(self.factor_words) + design

    @property
    def final_runs(self) -> bool:
        """Whether the numbers of rows and golden runs are final before it begins."""
        return self.plan.stop == "none"

    @property
    def factor_words(self) -> str:
        """Names of one or two investigated factors, or how many they are."""
        return f"{len(self.factors)} factors" if len(self.factors) > 2 else ", ".join(self.factors)

    @property
    def mitigated_factors(self) -> tuple[str, ...]:
        """Factors with an effect that no investigated factor is, or joins."""
        investigated = {member for name in self.factors for member in factor_members(name, self.all_factors)}
        return tuple(name for name in self.all_factors if name not in investigated)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said before it begins."""
        return (*super().remarks, *self.offer)

    @property
    def offer(self) -> tuple[str, ...]:
        """Why several factors have this design, or what the radial one would save."""
        plan = self.plan
        radial = design_named(run_plan.CHEAPER)
        known = len(self.factors)
        if plan.why:
            return (plan.why,) if known > 1 else ()
        cells = len(self.design())
        fewer = radial.count(known, radial.auto_rows, 0, 0)
        own = plan.design.planning is not None and plan.design.mitigates and plan.stop == "none" and not plan.mitigation
        if known < 2 or not own or fewer >= cells:
            return ()
        return (
            f"{known} factors: with as many cells, design=radial distinguishes them as often or more often, and with "
            f"{radial.auto_rows} base runs takes {fewer:,} cells instead of {cells:,} (docs/evidence/simulations.md).",
        )

    def tags(self) -> dict[str, str]:
        """Return the tags of the parent."""
        return {names.FACTOR: ",".join(self.factors), names.DESIGN: self.plan.design.name, **self.searched()}

    def final(self) -> dict[str, str]:
        """Return parameters that may come out otherwise than they were typed, as text.

        If a stopping rule may end it, the numbers of rows and golden runs are final only then.
        """
        runs = self.run_numbers() if self.final_runs else {}
        split = self.split
        labelled = str(len(split.train) + len(split.validation))
        tested = str(len(split.scored))
        sizes = {"num_labelled": labelled, "test_size": tested} if len(self.setup.task) else {}
        return {"factor": ",".join(self.factors), "design": self.plan.design.name, **super().final(), **sizes, **runs}

    def source(self, run_id: str, address: str = "") -> Source:
        """Return the origin of the result; commands that continue several factors name their design."""
        source = super().source(run_id, address)
        design = {"design": self.plan.design.name} if len(self.factors) > 1 else {}
        return replace(source, given={**source.given, **design})

    @cached_property
    def split(self) -> Split:
        """Return the split of the first cell; those of the others have the same sizes."""
        return self.setup.task.split({**dict.fromkeys(TASK_FACTORS, 0), **next(iter(self.design().cells())).seeds})

    def notes(self, cells: pd.DataFrame) -> tuple[str, ...]:
        """Return what is to be known of the result: also sizes, and factors that were left out."""
        split = self.split
        parts = ((split.train, "training"), (split.validation, "validation"), (split.scored, "test"))
        sizes = ", ".join(f"{len(part):,} {what}" for part, what in parts if len(part))
        news = (pair for pair in self.setup.fixed_factors.items() if pair[0] not in self.setup.approach.on_request)
        left_out = (f"{name} has no effect and is left out: {why}" for name, why in news)
        each = (f"Each run: {sizes} examples.",) if sizes else ()
        if self.setup.approach.only_evaluates and self.setup.approach.default_model:
            each = (f"Each run: {len(split.scored):,} test examples; prompts draw from {len(split.train):,} others.",)
        overlap = overlap_remarks(self.setup.origin.searched, self.setup.task, self.design().cells())
        equal = self.setup.approach.equal_draws(self.setup.task, self.setup.hyperparameters, cells)
        strategy = f"Shares are of the variance under mitigation={self.given.get('mitigation')}."
        why = filter(None, [self.plan.why, strategy if self.plan.mitigation else ""])
        return (*each, *why, *equal, *super().notes(cells), *overlap, *left_out)

    def run_numbers(self) -> dict[str, str]:
        """Return the numbers of rows and golden runs as text."""
        golden = "" if self.plan.golden_pooled else str(self.plan.golden_runs)
        return {"mitigation_runs": str(self.plan.mitigation_runs), "golden_runs": golden}

    def searched_splits(self) -> tuple[dict[str, int], ...]:
        """Return the splits that the hyperparameters were searched on, by their seeds, where cells may have them."""
        task = self.setup.task
        return splits_of(self.setup.origin.searched, task.fingerprint, task.settings, self.setup.all_factors)

    def content(self) -> dict[str, Any]:
        """Return what the document holds in addition to the document of every study."""
        setup, task = self.setup, self.setup.task
        sizes = ("num_labelled", "test_size", "test_selection", "reference_size")
        return {
            "factors": list(self.factors),
            "mitigated_factors": list(self.mitigated_factors),
            "fixed_factors": dict(setup.fixed_factors),
            "task": self.of_task({"examples": len(task), **{name: getattr(task.settings, name) for name in sizes}}),
            "hyperparameters_from": {**setup.origin.document(), "searched_splits": list(self.searched_splits())},
            "notes": list(setup.origin.notes),
            "design": self.plan.document(),
            "missing": self.missing,
            "versions": versions(),
        }


def specify(
    parameters: Mapping[str, object],
    *,
    approach: Approach | None = None,
    task: Task | None = None,
    searches: Searches | None = None,
    read: ReadTask | None = None,
) -> InvestigationRequest:
    """Check the parameters of `main` and load what they name.

    Parameters
    ----------
    parameters
        Any of :data:`mlflow_l3d.studies.investigation.parameters.MAIN`; the others take their defaults. As text, or as
        Python has them: numbers, a list of factors, a mapping of hyperparameters.
    approach, task
        Objects in place of the names, for the Python API.
    searches
        Finds the search that ``hyperparameters=latest`` or a run id means; None where no tracking server can be asked.
    read
        See :func:`mlflow_l3d.tasks.resolve.load_task`.

    Raises
    ------
    ParameterError
        For the first parameter that is not allowed. Cheap checks come first, data and models last.
    """
    typed, approach = read_parameters(parameters, MAIN, approach, task)
    asked, remarks = as_published(typed, approach)
    wanted = _wanted_factors(names_of(asked["factor"]), asked.texts["factor"], approach)
    design, why = run_plan.choose_design(asked, wanted)
    if typed["design"] == "auto" != asked["design"]:
        why = f"design={design}, as in the paper."
    plan = run_plan.parse_plan(asked, approach.factors, design, why)
    setup = set_up(asked, approach, task, root_seed=plan.root_seed, searches=searches, read=read)
    metric = headline_metric(setup)
    factors = _effective(wanted, approach, setup.fixed_factors)
    run_plan.check_factors(plan, factors, metric)
    if plan.design.lists:
        run_plan.check_levels(plan, factors, approach.levels(setup.task, setup.hyperparameters))
    context = context_of(setup)
    may_continue = searches is not None and why and design == run_plan.CHEAPER
    if may_continue and (published := earlier_parent(context, factors, PUBLISHED, typed.texts)):
        other = f"design={run_plan.CHEAPER} starts again, with fewer trainings"
        why = f"design={PUBLISHED}, to continue run {published}; {other}."
        plan = run_plan.parse_plan(asked, approach.factors, PUBLISHED, why)
    identity = {"context": context, "metric": metric.name, **plan.identity()}
    layout = {**identity, "factors": list(factors), "all_factors": list(setup.all_factors)}
    request = InvestigationRequest(
        given=typed.texts,
        setup=replace(setup, origin=replace(setup.origin, notes=(*remarks, *setup.origin.notes))),
        metric=metric,
        context_key=context,
        key=content_key(layout),
        factors=factors,
        plan=plan,
        missing=asked["missing"],
    )
    cells = len(request.design())  # raises where cells would repeat
    if cells > MOST_CELLS:
        sizes = f"{plan.investigation_runs} x {plan.mitigation_runs}, {plan.golden_runs} golden runs"
        days = f"{cells / 8_640_000:,.1f} days of 10 ms each"
        allowed = f"make {cells:,} cells, {days}; {MOST_CELLS:,} are allowed"
        raise ParameterError("investigation_runs x mitigation_runs", sizes, allowed, "Ask for fewer.")
    return request


def _wanted_factors(parts: Sequence[str], text: str, approach: Approach) -> tuple[str, ...]:
    """Return the factors that are wanted, checked against those of the approach; ``all`` stays as it is."""
    if tuple(parts) == ("auto",):
        # One that brings its data has the factors alone that the user wrote, each to be measured.
        parts = ["all" if approach.brings_data or "data_order" not in approach.factors else "data_order"]
    apart = {"all", *OF_NO_APPROACH}
    if "all" in parts and set(parts) - apart:
        allowed = f"must be `all`, {', '.join(f'`all,{name}`' for name in OF_NO_APPROACH)}, or names without it"
        raise ParameterError("factor", text, allowed)
    known = (*approach.factors, "all", *OF_NO_APPROACH)
    names = []
    for part in parts:
        members = (part,) if part in known else tuple(name.strip() for name in part.split("+"))
        check_names("factor", members, known, f"a factor of {approach.name}:")
        if len(members) > 1 and not apart.isdisjoint(members):
            raise ParameterError("factor", part, "joins factors of the approach only", "Name the others by themselves.")
        names.append(part if len(members) == 1 else joint_name(members, approach.factors))
    if len(set(names)) < len(names):
        raise ParameterError("factor", text, "must name each factor once")
    return tuple(names)


def _effective(wanted: tuple[str, ...], approach: Approach, fixed_factors: Mapping[str, str]) -> tuple[str, ...]:
    """Return the factors to investigate; each must have an effect, and another one that is mitigated meanwhile."""
    active = tuple(name for name in approach.factors if name not in fixed_factors)
    named = tuple(name for name in wanted if name not in {"all", *OF_NO_APPROACH})
    added = tuple(name for name in wanted if name in OF_NO_APPROACH)
    members = [member for name in named for member in factor_members(name, approach.factors)]
    if fixed := next((member for member in members if member in fixed_factors), None):
        raise ParameterError("factor", fixed, f"has no effect here: {fixed_factors[fixed]}")
    if len(active) + len(added) < 2:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in fixed_factors.items())
        which = f"{f'only {active[0]}' if active else 'none'} has{f' ({reasons})' if reasons else ''}"
        allowed = f"needs two factors with an effect, one to investigate and one to mitigate, and {which}"
        fix = "" if reasons else "For a training with one seed: mlflow-l3d seeds."
        raise ParameterError("factor", ",".join(wanted), allowed, fix)
    if whole := next((name for name in named if {*factor_members(name, active)} == {*active}), None):
        raise ParameterError("factor", whole, "joins every factor that has an effect: none is left to mitigate")
    return (*active, *added) if "all" in wanted else wanted
