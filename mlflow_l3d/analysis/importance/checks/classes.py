"""L3D016: classes that are rarely tested or never predicted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.checks.shape import FEWEST
from mlflow_l3d.analysis.importance.results import Check, counted
from mlflow_l3d.errors import leave_out
from mlflow_l3d.metrics.classification import hardly_tested


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
