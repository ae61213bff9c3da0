"""Checks of scores: of golden runs, of what golden runs and tables have alike, and of classes rarely tested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import numpy as np

from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.results import Check, Importance, counted, counted_of, in_unit, points
from mlflow_l3d.analysis.importance.shape import FEWEST, Tails, tails, tails_of_rows
from mlflow_l3d.analysis.importance.tables import constant, uncollapsed
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.errors import leave_out
from mlflow_l3d.metrics.numerical import hardly_tested

COLLAPSE_WARNING: Final = 0.05
"""From this share of collapsed runs on, L3D005 is a warning."""


def constant_scores(record: Importance | None, evidence: Evidence) -> Iterator[Check]:
    """L3D004: all cells of a factor, or all golden runs (None), score the same."""
    scores = evidence.golden if record is None else record.table
    finite_scores = scores[np.isfinite(scores)]
    if not are_equal(finite_scores):
        return
    title, runs, cause = "Constant scores", "cells", "Either every run predicts one class"
    if record is None:
        title, runs = "Constant golden scores", "golden runs"
        cause = "Either the model learns nothing and predicts one class"
    score = in_unit(finite_scores[0], percent=evidence.metric.percent)
    message = (
        f"All {len(finite_scores)} {runs} score {score}: importance is undefined. {cause}, or no factor has an effect; "
        "look at the predictions of one run."
    )
    if evidence.unread:
        message += f" Of all answers {evidence.unread}."
    yield Check("L3D004", "warning", title, message, None if record is None else record.factor)


def collapsed_runs(record: Importance | None, evidence: Evidence) -> Iterator[Check]:
    """L3D005: cells of a factor, or golden runs (None), that score below chance."""
    scores = evidence.golden if record is None else record.table
    finite_scores = scores[np.isfinite(scores)]
    if evidence.chance is None or not (count := int((finite_scores < evidence.chance).sum())):
        return
    runs, share = "golden runs" if record is None else "cells", count / len(finite_scores)
    message = (
        f"{count} of {len(finite_scores)} {runs} ({points(share)} %) are no better than guessing: they score below "
        f"1 / classes. Look at their predictions. For training try more epochs, a smaller learning rate, a longer "
        "warm-up or more labelled examples; for prompts another format, contextual calibration or a larger model."
    )
    if (answers := evidence.plan.answers) is not None:
        message += f" {answers.constant} of all {answers.runs} runs name one class for everything."
    severity: Literal["info", "warning"] = "warning" if share >= COLLAPSE_WARNING else "info"
    yield Check("L3D005", severity, "Guessing runs", message, None if record is None else record.factor)


def are_equal(scores: FloatArray) -> bool:
    """Return whether two scores or more are equal but for rounding."""
    return len(scores) >= 2 and constant(scores)


def missing_golden_runs(evidence: Evidence) -> Iterator[Check]:
    """L3D003: golden runs without a score."""
    scores = int(np.isfinite(evidence.golden).sum())
    missing = len(evidence.golden) - scores
    if scores < 2:
        message = (
            f"{scores} golden runs have a score; without at least 2 there is no golden standard deviation and no "
            "importance. Run the golden runs (golden_runs), or see why they failed and run the same command again."
        )
        yield Check("L3D003", "warning", "No golden runs to compare with", message)
    elif missing:
        message = (
            f"{counted_of(missing, 'golden run', len(evidence.golden), 'has')} no score; the golden standard deviation "
            f"comes from the other {scores}. See the errors of the failed runs, then run the same command again."
        )
        yield Check("L3D003", "warning", "Golden runs missing", message)


def pooled_golden_runs(evidence: Evidence) -> Iterator[Check]:
    """L3D008: no golden runs, all other runs take their place."""
    if not any(record.golden_pooled for record in evidence.importances.values()):
        return
    count = int(np.isfinite(evidence.golden).sum())
    message = (
        f"The golden standard deviation comes from the {count} pooled cells of all tables, as the paper allows and "
        "advises against: in a table each configuration occurs many times, so that the pooled runs vary less than "
        "independent ones, and nothing can show that a seed leaks. Report a score from golden runs (golden_runs=auto)."
    )
    yield Check("L3D008", "warning", "Golden standard deviation from pooled runs", message)


def golden_tails(evidence: Evidence) -> Iterator[Check]:
    """L3D013 of scores that stand for independent draws of every factor."""
    moments = tails(_uncollapsed(evidence.golden, evidence))
    if moments is None:
        return
    if moments.long:
        yield Check("L3D013", "warning", "Long tails", _long(moments, evidence.golden_runs))
    elif moments.two_groups:
        message = (
            f"The scores of {moments.size} {evidence.golden_runs} fall into two groups (bimodality "
            f"{moments.bimodality:.2f}; normal "
            f"scores have 0.33). Almost no run scores their mean: report both groups and how often each occurs."
        )
        yield Check("L3D013", "info", "Two groups of scores", message)


def row_tails(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D013 of the rows of one factor."""
    moments = tails_of_rows(_uncollapsed(record.table, evidence))
    if moments is not None and moments.long:
        message = _long(moments, "rows, each the mean of its cells,")
        yield Check("L3D013", "warning", "Long tails", message, record.factor)


def _uncollapsed(scores: FloatArray, evidence: Evidence) -> FloatArray:
    """Return scores without those of runs that collapsed, which L3D005 tells of."""
    chance = None if evidence.collapse is None else evidence.chance
    return scores if chance is None else uncollapsed(scores, chance)


def _long(moments: Tails, runs: str) -> str:
    return (
        f"The scores of {moments.size} {runs} have long tails: skewness {moments.skewness:+.2f} (normal: 0), excess "
        f"kurtosis {moments.kurtosis:.2f} (0), bimodality {moments.bimodality:.2f} (0.33). A few runs make up much of "
        "every standard deviation, and others of their kind may be missing here: in simulations 95 % intervals of such "
        "scores cover 80 to 90 %, less if runs collapse, so no verdict is given. Look at the lowest and highest runs."
    )


def rare_classes(evidence: Evidence) -> Iterator[Check]:
    """L3D016: a macro average rests on a class that is rarely tested or never predicted."""
    answers, metric, plan = evidence.plan.answers, evidence.metric.name, evidence.plan
    if answers is None or evidence.metric.of_classes is None or answers.tested.sum() < FEWEST:
        return
    never = (answers.tested > 0) & (answers.predicted == 0)
    rare = np.flatnonzero(never | hardly_tested(answers.tested) & (answers.tested > 0)).tolist()
    if not rare or np.count_nonzero(answers.tested) < len(rare) + 2:
        return
    names = {at: plan.class_names[at] if at < len(plan.class_names) else str(at) for at in rare}
    tests = {at: counted(round(answers.tested[at]), "test example") for at in rare}
    each = [f"class {names[at]}: {tests[at]}{', predicted in no run' * bool(never[at])}" for at in rare[:4]]
    limit = f"is at most {100 * (1 - never.sum() / (plan.classes or len(never))):.0f}"
    so = limit if never.any() else f"counts each class 1/{plan.classes}"
    message = f"{'; '.join(each)}{f', and {len(rare) - 4} more' * (len(rare) > 4)}; so {metric} {so}"
    fix = leave_out("it" if len(rare) == 1 else "them", plan.label_column, names.values())
    yield Check("L3D016", "warning", "Rare classes", f"{message}. Label more, or {fix}.")
