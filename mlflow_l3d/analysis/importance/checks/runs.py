"""Checks of runs: those without a score, the scores of golden runs and of cells, searched splits, repeated cells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.importance.checks.evidence import Evidence, on_searched_split
from mlflow_l3d.analysis.importance.results import Check, Importance, counted, counted_of, in_unit, named, points
from mlflow_l3d.analysis.importance.shape import FEWEST, Tails, tails, tails_of_rows
from mlflow_l3d.analysis.importance.tables import are_equal, uncollapsed
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.cells.factors import REPLICATE
from mlflow_l3d.errors import leave_out
from mlflow_l3d.metrics.classification import hardly_tested

OF_RUNS_THAT_END: Final = (
    "All numbers describe only runs that finished. If the failed runs would have scored low, the true spread is larger."
)
COLLAPSE_WARNING: Final = 0.05
"""From this share of collapsed runs on, L3D005 is a warning."""
DRAWS: Final = 1999
"""Random placements of the failures that those seen are compared with."""
FAILURE_LEVEL: Final = 0.01
"""Failures whose concentration in rows or columns has this p-value, or a smaller one, are attributed to a cause."""
_ROUNDING: Final = 1e-9
"""Of a mean of shares."""
_AGAIN: Final = "See the errors of the failed runs, then run the same command again: only missing cells are computed."


def missing_cells(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D002: cells without a score, and what the numbers come from."""
    if not record.cells_missing:
        return
    missing = ~np.isfinite(record.table)
    rows = np.flatnonzero(missing.any(axis=1)).tolist()
    message = f"{counted_of(record.cells_missing, 'cell', record.table.size, 'has')} no score ({named('row', rows)}). "
    by_reml = record.components is not None and record.components.method == "reml"
    method = "restricted maximum likelihood" if by_reml else "an analysis of variance that allows for missing cells"
    if evidence.tables_are_golden:
        message += "What the factor contributes comes from the rows that have all their runs. "
    else:
        message += (
            "The importance uses the scores that each row has, as the authors' code does; the corrected importance "
            f"and its interval come from every cell, by {method}. "
        )
    if by_reml and math.isnan(record.importance_corrected_ci_low):
        message += "It has no interval here (a component is zero, or the table is small or very large). "
    elif evidence.plan.missing == "reml" and evidence.model.shared_columns and not by_reml:
        message += "Restricted maximum likelihood gave no estimate. "
    if empty := np.flatnonzero(missing.all(axis=0)).tolist():
        message += f"No row has a score in {named('column', empty)}. "
    yield Check("L3D002", "warning", "Cells missing", message + _AGAIN, record.factor)


def missing_runs(record: Importance, _: Evidence) -> Iterator[Check]:
    """L3D002 of a baseline strategy, whose runs do not form rows and columns."""
    if record.cells_missing:
        message = (
            f"{counted_of(record.cells_missing, 'run', record.table.size, 'has')} no score; the "
            f"standard deviation is computed from the others. {_AGAIN}"
        )
        yield Check("L3D002", "warning", "Cells missing", message, record.factor)


def selected_cells(record: Importance, evidence: Evidence) -> Iterator[Check]:
    """L3D012: the runs that have a score are those that did not fail."""
    message = OF_RUNS_THAT_END
    missing = ~np.isfinite(record.table)
    cause = evidence.failing.get(record.factor)
    if cause is None and (evidence.tables_are_golden or not missing.any() or missing.all()):
        return
    if cause is not None:
        low, high = cause.corrected_interval
        ends = f" ({low:+.2f} to {high:+.2f})" if math.isfinite(low) else ""
        if math.isfinite(cause.importance_corrected):
            message += f" For which runs fail its importance is {cause.importance_corrected:+.2f}{ends}."
    else:
        columns = [(missing.T, "column", record.factor)] if evidence.model.shared_columns else []
        for lines, noun, factor in (*columns, (missing, "row", "the other factors")):
            if (p := at_random(lines)) <= FAILURE_LEVEL:
                message += (
                    f" Failures concentrate in {noun}s (p = {p:.3g}): they depend on the configurations of {factor}."
                )
    again = evidence.at_chance.get(record.factor)
    if again is not None and math.isfinite(again.importance):
        message += (
            f" If every failure counts as a score at chance, the importance is {again.importance:+.2f}, the corrected "
            f"one {again.importance_corrected:+.2f}, the golden standard deviation {points(again.golden_std)} points."
        )
    yield Check("L3D012", "warning", "Failures are a selection", message, record.factor)


def at_random(missing: npt.NDArray[np.bool_]) -> float:
    """Return how often random placements concentrate in rows as much; nan for one failure, which cannot concentrate."""
    counts = missing.sum(axis=1)
    total = int(counts.sum())
    if total < 2 or len(counts) < 2:
        return math.nan
    # From a generator of its own, so that the same table always has the same number.
    drawn = np.random.default_rng(0).multivariate_hypergeometric([missing.shape[1]] * len(counts), total, size=DRAWS)
    return float(1 + (np.square(drawn).sum(axis=1) >= np.square(counts).sum()).sum()) / (DRAWS + 1)


def searched_split(evidence: Evidence) -> Iterator[Check]:
    """L3D011: cells have a split that the hyperparameters were searched on.

    The search looked at the validation part of that split only, and early stopping looks at it again (Pecher et al.
    2024, appendix D, search on one fixed split and name it as a limit).
    """
    cells, splits = evidence.cells, evidence.plan.searched_splits
    if cells is None:
        return
    count = int(on_searched_split(cells, splits).sum())
    if not count:
        return
    if not all(splits):
        which = f"All {len(cells)} cells have the very split"
        fix = "No factor of the split has an effect here: lower num_labelled or test_size so that other splits exist."
    else:
        which = f"{count} of {len(cells)} cells {'has' if count == 1 else 'have'} the very split"
        fix = "Use another root_seed for the investigation or the search."
    message = (
        f"{which} (training, validation and test examples) that the hyperparameters were searched on. They were chosen "
        f"to suit its validation part, so these scores may be higher than those of other splits. {fix}"
    )
    yield Check("L3D011", "warning", "Searched and investigated on the same split", message)


def repeated_cells(evidence: Evidence) -> Iterator[Check]:
    """L3D014: whether cells that were computed again gave the same result.

    The cells of a row of the table of `replicate` are one cell, again and again. If results need not be the same,
    differences are expected, and the tables show them.
    """
    record, agreement = evidence.importances.get(REPLICATE), evidence.repeated_agreement
    if record is None:
        return
    rows = record.table[np.isfinite(record.table).sum(axis=1) >= 2]
    if not len(rows):
        return
    changed = int((np.nanmax(rows, axis=1) > np.nanmin(rows, axis=1)).sum())
    differ = 0.0 if agreement is None else 1 - agreement
    shares = f"{counted_of(changed, 'cell', len(rows), 'has')} another score when computed again"
    if differ > _ROUNDING:
        shares += f", {100 * differ:.2g} % of predictions differ"
    if not changed and differ <= _ROUNDING:
        compared = "score" if agreement is None else "score and predictions"
        message = f"All of {len(rows)} cells have the same {compared} when computed again."
        yield Check("L3D014", "info", "Cells repeat", message, record.factor)
    elif evidence.plan.deterministic:
        message = (
            f"{shares}, though their seeds are the same: something is drawn that no factor has, or the machine does "
            "not compute the same way twice. Look for a library's own "
            "generator, threads, a GPU's warnings of operations that are not deterministic, or an endpoint; or say "
            "deterministic=false, and take the importance of replicate as the machine's part."
        )
        title = "Cells do not repeat: the numbers of other factors include this variation"
        yield Check("L3D014", "warning", title, message, record.factor)


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
    runs = "golden runs" if record is None else "cells"
    share = count / len(finite_scores)
    message = (
        f"{count} of {len(finite_scores)} {runs} ({points(share)} %) are no better than guessing: they score below "
        f"1 / classes. Look at their predictions. For training try more epochs, a smaller learning rate, a longer "
        "warm-up or more labelled examples; for prompts another format, contextual calibration or a larger model."
    )
    if (answers := evidence.plan.answers) is not None:
        message += f" {answers.constant} of all {answers.runs} runs name one class for everything."
    severity: Literal["info", "warning"] = "warning" if share >= COLLAPSE_WARNING else "info"
    yield Check("L3D005", severity, "Guessing runs", message, None if record is None else record.factor)


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
    each = [f"class {names[at]}: {tests[at]}{', predicted in no run' if never[at] else ''}" for at in rare[:4]]
    limit = f"is at most {100 * (1 - never.sum() / (plan.classes or len(never))):.0f}"
    so = limit if never.any() else f"counts each class 1/{plan.classes}"
    message = f"{'; '.join(each)}{f', and {len(rare) - 4} more' if len(rare) > 4 else ''}; so {metric} {so}"
    fix = leave_out("it" if len(rare) == 1 else "them", plan.label_column, names.values())
    yield Check("L3D016", "warning", "Rare classes", f"{message}. Label more, or {fix}.")
