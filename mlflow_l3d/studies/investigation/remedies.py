"""What would help, computed while an investigation is scored from the predictions of runs that share their examples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.choice import REGRESSION
from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.analysis.cure import ENSEMBLES, NAMED, NO_PREDICTIONS, SEVERAL, Foreseen, Prediction, helping
from mlflow_l3d.analysis.cure.ensembles import Members, RunPredictions, joined
from mlflow_l3d.analysis.cure.examples import jackknifed
from mlflow_l3d.analysis.cure.predict import predict, predict_all
from mlflow_l3d.analysis.importance.checks.evidence import Answers
from mlflow_l3d.analysis.intervals import UNKNOWN, FloatArray, Range
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.cells.factors import OF_NO_APPROACH, TASK_FACTORS
from mlflow_l3d.designs import Design, design_named
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import pseudo_values, registered
from mlflow_l3d.report.numbers import listed
from mlflow_l3d.report.remedies import factor_words, remedy_over

MOST_PREDICTIONS: Final = 50_000_000
"""More are not held at once: an investigation then says nothing of remedies."""


def foresee(members: MemberRows, analysis: Analysis, classes: int) -> Foreseen:
    """Return what would help by the votes, or mean predictions, of several runs: the same as `cure`.

    Parameters
    ----------
    members
        The runs.
    analysis
        Their analysis.
    classes
        How many are distinguished; 0 of numbers.
    """
    spread, metric = spread_of(analysis), analysis.metric
    if reason := why_not(members, metric, spread.value):
        if reason == NO_PREDICTIONS and analysis.agreement not in (None, REGRESSION):
            reason = "Type mlflow-l3d cure RUN: it predicts what votes of such answers leave."
        return Foreseen((), reason=reason)  # there is nothing to predict from
    golden = next(iter(analysis.importances.values())).golden
    predictions, reasons = predicted(members, metric, classes, spread, golden)
    best = tuple(helping(predictions, spread.value, metric.sign)[:NAMED])
    return Foreseen(best, spread.value, "" if best else nothing_helps(predictions, reasons, analysis))


def spread_of(analysis: Analysis) -> Range:
    """Return the standard deviation of a run, as all sentences name it, with its interval."""
    if not (records := [*analysis.importances.values()]):
        return UNKNOWN
    std = design_named(analysis.design).run_spread(records)[1]
    return Range(std, records[0].golden_std_ci_low, records[0].golden_std_ci_high)


def why_not(members: MemberRows, metric: Metric, std: float) -> str:
    """Return why nothing can be predicted, in one line; empty if something can."""
    if not std > 0:
        return "The scores do not vary." if std == 0 else "There are too few independent runs."
    if metric.function is None and members.size:
        fix = "For votes of runs, name a metric of their predictions, such as metric=accuracy."
        return f"Runs report {metric.name} as a number. {fix}"
    if members.design.baseline:
        return f"The strategy {members.design.name} does not show what each factor causes."
    if not members.size:
        return NO_PREDICTIONS
    return "" if members.is_whole else f"The runs hold more than {MOST_PREDICTIONS:,} predictions and class scores."


def predicted(
    members: MemberRows, metric: Metric, classes: int, spread: Range, golden: FloatArray, *, most_members: int = 10
) -> tuple[list[Prediction], list[str]]:
    """Return what is predicted of ensembles, and in one line each what is not.

    Parameters
    ----------
    members, metric, classes
        As for :func:`foresee`.
    spread, golden
        Standard deviation of independent runs, and their scores.
    most_members
        Most runs behind one prediction.
    """
    if reason := why_not(members, metric, spread.value):
        return [], [reason]
    shared: dict[str, Any] = {"metric": metric, "classes": classes or None}
    shared |= {"golden_std": spread, "most_members": most_members}
    every: list[Prediction] = []
    lacking = []
    for factor in members.factors:
        if len(rows := members.rows(factor)) > 1:
            tests = members.test_size * members.draw_tests
            every += predict(rows, over=factor.split("+"), test_size=tests, golden=golden, **shared)
        else:
            lacking.append(factor)
    if (independent := members.independent()) is not None:
        drawn = not (independent.test is None or independent.test.any())
        shared |= {"test_size": members.test_size, "test_is_drawn": drawn}
        every += predict_all(independent, over=members.over, **shared)
    elif not members.factors:
        lacking = [factor_words("+".join(members.over))]
    predictions = [each for each in every if each.basis != "unknown" and each.remedy.kind in SEVERAL]
    if not classes:
        for at, each in enumerate(predictions):
            words = f"mean prediction of {each.remedy.members} runs over {remedy_over(each.remedy)}"
            if each.remedy.kind == "mean":
                predictions[at] = replace(each, remedy=replace(each.remedy, words=words))
    reasons = [*_unknown("Ensembles", ENSEMBLES, every, predictions)]
    if lacking:
        few = f"share too few test examples (less than half of a run's, or fewer than {FEWEST_EXAMPLES})"
        shares = "reference_size=200 gives them some, test_selection=fixed the same; a script does so itself"
        reasons.append(f"Runs that differ in {listed(lacking)} {few}: {shares}.")
    reasons += _unknown("The best of several runs", ("choose",), every, predictions)
    if untrained := [remedy_over(each.remedy) for each in predictions if not each.is_trainable]:
        why = "their members draw test examples of their own. Use test_selection=fixed."
        reasons.insert(0, f"Ensembles over {listed(list(dict.fromkeys(untrained)), 'or')} cannot be verified: {why}")
    if members.factors and predictions and members.design.name == "crossed":
        # Ten columns are ten draws of the members, however many rows there are.
        reasons.insert(0, "All base runs try the same seeds: design=nested predicts more exactly with as many runs.")
    return predictions, reasons


def _unknown(what: str, kinds: tuple[str, ...], every: list[Prediction], known: list[Prediction]) -> Iterator[str]:
    """Yield why nothing is known of remedies of some kinds over each factor: what the smallest of them lacks.

    A kind of ensemble that does not exist refers to the other kind, which has its own reason, and is left out.
    """
    named_over = {each.remedy.over for each in known if each.remedy.kind in kinds}
    reasons: dict[str, list[str]] = {}
    for each in sorted(every, key=lambda one: one.remedy.members):
        remedy = each.remedy
        exists = not each.reason.endswith((": see vote", ": see mean"))
        if remedy.kind in kinds and exists and remedy.over not in named_over:
            named_over.add(remedy.over)
            reasons.setdefault(each.reason, []).append(remedy_over(remedy))
    for reason, factors in reasons.items():
        yield f"{what} over {listed(list(dict.fromkeys(factors)), 'or')}: {reason}."


def nothing_helps(predictions: list[Prediction], reasons: list[str], analysis: Analysis) -> str:
    """Return why no ensemble is named, in at most two sentences: what was tried, and what the others lack."""
    said = []
    if tried := list(dict.fromkeys(name for each in predictions for name in each.remedy.over)):
        said = [f"No ensemble over {listed(tried, 'or')} is established to leave clearly less spread."]
    causes = [
        name
        for name, record in analysis.importances.items()
        if {*TASK_FACTORS} & {*name.split("+")} and (record.importance_corrected > 0 or not (tried or reasons))
    ]
    if causes:
        said.append(f"Ensembles over {listed(causes)} need several times the labels.")
    return " ".join([*said, *reasons][:2]) or "No runs differ in one factor alone."


@dataclass
class MemberRows:
    """The runs of each row of each factor's table, and independent runs.

    Attributes
    ----------
    design
        How they were laid out.
    over
        The factors in which independent runs differ: all of the approach.
    size
        How many predictions are held; none are once they are more than :data:`MOST_PREDICTIONS`.
    """

    design: type[Design]
    over: tuple[str, ...] = ()
    size: int = 0
    _runs: dict[tuple[str, int], list[RunPredictions]] = field(default_factory=dict)

    def add(self, cell: Any, run: RunPredictions | None) -> None:
        """Add a run; `cell` has its phase, factor and row. Base runs are independent, and belong to all factors."""
        if run is None:
            return
        self.size += len(run.ids) if run.scores is None else run.scores.size
        if not self.is_whole:
            self._runs.clear()
            return
        independent = cell.phase in ("golden", "base")
        place = ("", 0) if independent else (str(cell.factor), int(cell.row))
        runs = self._runs.setdefault(place, [])
        if runs and np.array_equal(runs[-1].ids, run.ids):
            run.ids, run.labels = runs[-1].ids, runs[-1].labels
        if run.predictions.dtype.kind == "i":
            run.predictions = run.predictions.astype(np.min_scalar_type(-1 - run.predictions.max(initial=0)))
        run.column = int(cell.row) if cell.phase == "base" else run.column
        runs.append(run)

    @property
    def is_whole(self) -> bool:
        """Whether all predictions are held."""
        return self.size <= MOST_PREDICTIONS

    @property
    def has_scores(self) -> bool:
        """Whether a run holds class scores."""
        return any(run.scores is not None for runs in self._runs.values() for run in runs)

    @property
    def factors(self) -> list[str]:
        """The factors of which there are rows."""
        return list(dict.fromkeys(factor for factor, _ in self._runs if factor))

    def rows(self, factor: str) -> list[Members]:
        """Return the rows of a factor's table in which two or more runs share examples enough to be compared."""
        base = {run.column: run for run in self._runs.get(("", 0), [])} if self.design.tables_are_golden else {}
        shared = self.design.model.shared_columns
        of_factor = {row: runs for (name, row), runs in self._runs.items() if name == factor}
        rows = ([*([base[row]] if row in base else []), *runs] for row, runs in of_factor.items())
        return [members for runs in rows if (members := joined(runs, columns=shared)) is not None]

    def independent(self) -> Members | None:
        """Return the golden or base runs on the examples that all of them share; None if these are too few."""
        return joined(self._runs.get(("", 0), []))

    def luck_of_tests(self, metric: Metric, classes: int | None) -> float:
        """Return the variance of a score that the choice of its test examples causes; nan if runs draw none."""
        runs = self._runs.get(("", 0), [])
        if not runs or not self.draw_tests:
            return math.nan
        if metric.of_each is None:
            return self.luck_of_any_tests(metric, classes) ** 2
        each = [metric.of_each(run.labels[run.test], run.predictions[run.test]) for run in runs]
        return float(np.mean([scores.var() / len(scores) for scores in each]))

    def luck_of_any_tests(self, metric: Metric, classes: int | None) -> float:
        """Return the standard deviation of a score that a choice of as many test examples causes (jackknife)."""
        # The test examples of the first 20 runs are left out one by one: more runs take long and change little.
        runs = [run for runs in self._runs.values() for run in runs if run.test.sum() >= FEWEST_EXAMPLES][:20]
        if metric.function is None or not runs:
            return math.nan
        tested = [(run.labels[run.test], run.predictions[run.test]) for run in runs]
        if runs[0].predictions.dtype == object and "classification" in metric.kinds:
            return math.nan
        if metric.of_each is None and runs[0].predictions.dtype.kind not in "iu":
            return math.sqrt(np.mean([jackknifed(metric, classes, labels, one[None])[0, 0] for labels, one in tested]))
        each = [pseudo_values(metric, labels, predictions, classes) for labels, predictions in tested]
        return math.sqrt(np.mean([values.var() / len(values) for values in each]))

    def answers(self, classes: int | None) -> Answers | None:
        """Return what the runs predict; None if that is not classes, or is not held."""
        runs = [run for runs in self._runs.values() for run in runs if run.test.any()]
        if not runs or not classes or runs[0].predictions.dtype.kind != "i":
            return None
        named = [each[run.test & (each >= 0)] for run in runs for each in (run.labels, run.predictions)]
        counts = [np.bincount(each, minlength=classes)[:classes] for each in named]
        tested, predicted = np.array(counts[::2]), np.array(counts[1::2])
        constant = int((predicted.max(axis=1) == [run.test.sum() for run in runs]).sum())
        return Answers(len(runs), constant, tested.mean(axis=0), predicted.mean(axis=0))

    @property
    def draw_tests(self) -> bool:
        """Whether independent runs have test examples of their own; else their luck is in no spread."""
        runs = self._runs.get(("", 0)) or [run for runs in self._runs.values() for run in runs]
        tests = {id(run.ids): run.ids[run.test] for run in runs}
        return any(not np.array_equal(each, next(iter(tests.values()))) for each in tests.values())

    @property
    def test_size(self) -> int:
        """Test examples of an independent run, the fewest."""
        golden = self._runs.get(("", 0)) or next(iter(self._runs.values()), [])
        return min((int(run.test.sum()) for run in golden), default=0)


def drawn_factors(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return the factors whose seeds the cells of a frame have, those of no approach left out."""
    drawn = (str(name).removeprefix("seed.") for name in cells if str(name).startswith("seed."))
    return tuple(name for name in drawn if name not in OF_NO_APPROACH)


def chosen_by_other(cells: pd.DataFrame, metric: Metric) -> str:
    """Return the metric by whose validation score the best of several runs is chosen, if it is another one."""
    usual = (name for name, each in registered().items() if not (each.secondary or each.opt_in))
    first = next((name for name in usual if f"validation_{name}" in cells), metric.name)
    return "" if first == metric.name else first
