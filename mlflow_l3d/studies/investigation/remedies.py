"""What would help, computed from the runs of an investigation while it is scored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from mlflow_l3d.analysis.consistency.choice import REGRESSION
from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.analysis.cure.predict import predict, predict_all
from mlflow_l3d.analysis.cure.remedy import ENSEMBLES, NAMED, SEVERAL, UNKNOWN, Foreseen, Prediction, Range, helping
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.designs import design_named
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import listed
from mlflow_l3d.report.remedies import factor_words, remedy_over
from mlflow_l3d.studies.investigation.members import MOST_PREDICTIONS, MemberRows

_NO_PREDICTIONS: Final = "The runs hold no predictions."


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
        if reason == _NO_PREDICTIONS and analysis.agreement not in (None, REGRESSION):
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
    if metric.function is None:
        return f"{metric.name} cannot be computed from stored predictions, so votes of runs have no score."
    if members.design.baseline:
        return f"The strategy {members.design.name} does not show what each factor causes."
    if not members.size:
        return _NO_PREDICTIONS
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
        reasons.insert(0, "All rows share their columns: design=nested predicts more exactly with as many runs.")
    return predictions, reasons


def _unknown(what: str, kinds: tuple[str, ...], every: list[Prediction], known: list[Prediction]) -> Iterator[str]:
    """Yield why nothing is known of remedies of some kinds over each factor: what the smallest of them lacks.

    A kind of ensemble that does not exist refers to the other kind, which has its own reason, and is left out.
    """
    named_over = {each.remedy.over for each in known if each.remedy.kind in kinds}
    reasons: dict[str, list[str]] = {}
    for each in sorted(every, key=lambda one: one.remedy.members):
        remedy, exists = each.remedy, not each.reason.endswith((": see vote", ": see mean"))
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
