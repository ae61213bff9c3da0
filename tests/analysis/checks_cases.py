"""Checks of records, as an analysis makes them."""

from mlflow_l3d.analysis.importance.checks import all_checks
from mlflow_l3d.analysis.importance.checks.evidence import Evidence, PlanFacts
from mlflow_l3d.designs import design_named
from mlflow_l3d.metrics.classification import F1_MACRO


def checks_of(importances, golden, classes=None, missing="anova", **more):
    """Return the checks of records of one design; with 2 classes the chance level is 0.5."""
    design = design_named(next(iter(importances.values())).design)
    more = {"model": design.model, "tables_are_golden": design.tables_are_golden} | more
    plan = PlanFacts(classes=classes, missing=missing)
    evidence = Evidence(importances=importances, golden=golden, metric=F1_MACRO, plan=plan, **more)
    return all_checks(evidence, design.factor_checks)
