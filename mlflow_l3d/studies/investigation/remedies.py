"""What would help, computed from the runs of an investigation while it is scored."""

from __future__ import annotations

import math

from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.analysis.cure.ensembles import predict, predict_all
from mlflow_l3d.analysis.cure.foreseen import NAMED, Foreseen, helps, simplest
from mlflow_l3d.analysis.cure.rank import ranked
from mlflow_l3d.analysis.cure.remedy import Prediction
from mlflow_l3d.analysis.intervals import LEVEL
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import listed
from mlflow_l3d.studies.investigation.members import MemberRows


def foresee(members: MemberRows, analysis: Analysis, classes: int) -> Foreseen:
    """Return what would help by the votes, or mean predictions, of several runs.

    Parameters
    ----------
    members
        The runs.
    analysis
        Their analysis.
    classes
        How many are distinguished; 0 of numbers.
    """
    record = next(iter(analysis.importances.values()), None)
    std, metric = math.nan if record is None else record.golden_std, analysis.metric
    if reason := why_not(members, metric, std):
        return Foreseen((), std, reason)
    predictions, lacking = predicted(members, metric, classes, std)
    named = [each for each in simplest(predictions, std) if helps(each, std, metric.sign)]
    best = tuple(ranked(named)[:NAMED])
    return Foreseen(best, std, "" if best else nothing_helps(predictions, lacking, analysis))


def why_not(members: MemberRows, metric: Metric, std: float) -> str:
    """Return why nothing can be predicted, in one line; empty if something can."""
    if not std > 0:
        return "The scores do not vary." if std == 0 else "There are too few independent runs."
    if metric.function is None:
        return f"{metric.name} is not computed from predictions, so votes of runs have no score."
    if members.design.baseline:
        return f"The strategy {members.design.name} does not show what each factor causes."
    if not members.size:
        return "The runs hold no predictions as classes or numbers."
    return "" if members.is_whole else "There are too many predictions for a first look."


def predicted(
    members: MemberRows, metric: Metric, classes: int, std: float, *, over: str = "", most_members: int = 10
) -> tuple[list[Prediction], list[str]]:
    """Return what is predicted of ensembles, and the factors whose runs share too few examples.

    Parameters
    ----------
    members, metric, classes
        As for :func:`foresee`.
    std
        Standard deviation of independent runs.
    over
        The factor in which independent runs differ, if that is known to be one.
    most_members
        Most runs behind one prediction.
    """
    shared = {"metric": metric, "classes": classes, "golden_std": std, "level": LEVEL, "most_members": most_members}
    found: list[Prediction] = []
    lacking = []
    for factor in members.factors:
        if len(rows := members.rows(factor)) > 1:
            found += predict(rows, over=tuple(factor.split("+")), **shared)
        else:
            lacking.append(factor)
    every = (over,) if over else tuple(name for factor in members.factors for name in factor.split("+"))
    if (independent := members.independent()) is None:
        lacking += [over] if over else []
    elif len(members.factors) != 1:
        found += predict_all(independent, over=every, **shared)
    return found, lacking


def nothing_helps(predictions: list[Prediction], lacking: list[str], analysis: Analysis) -> str:
    """Return why no ensemble helps, in one line."""
    if not predictions:
        return lacking_words(lacking)
    tried = list(dict.fromkeys(name for each in predictions for name in each.remedy.over))
    causes = [name for name, record in analysis.importances.items() if record.importance_corrected > 0]
    others = [name for name in causes if name in lacking] or [name for name in causes if name not in tried]
    said = f"No vote of runs that differ in {listed(tried, 'or')} leaves clearly less spread."
    if not others:
        return said
    return f"{said} {listed(others)} decide{'s' * (len(others) == 1)} most, which no vote over other seeds cures."


def lacking_words(factors: list[str]) -> str:
    """Return why nothing is predicted of ensembles over some factors."""
    return (
        f"Runs that differ in {listed(factors)} share fewer than {FEWEST_EXAMPLES} examples in a row: "
        "reference_size=200 gives them some."
    )
