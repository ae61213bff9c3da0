"""From the document of a finished investigation (``importance.json``) back to its records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.prediction_importance import PredictionImportance
from mlflow_l3d.analysis.consistency.results import Consistency
from mlflow_l3d.analysis.importance.checks.collapse import Collapse
from mlflow_l3d.analysis.importance.results import FURTHER_METRICS, IMPORTANCE_METRICS, Check, Importance
from mlflow_l3d.analysis.importance.tables import uncollapsed
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.designs import design_named
from mlflow_l3d.metrics.known import named

_CORRECTED: Final = (
    "importance",
    "importance_corrected",
    "importance_corrected_ci_low",
    "importance_corrected_ci_high",
)


def analysis_of(document: Mapping[str, Any]) -> Analysis:
    """Return the analysis that :func:`mlflow_l3d.studies.investigation.artifacts.importance_document` was made of.

    Without the ranking, the votes of examples and the results of strategies, which it holds as tables only.

    Raises
    ------
    KeyError, TypeError, ValueError
        If it is no such document.
    """
    golden, pooled = _numbers(document["golden"]), bool(document.get("golden_pooled"))
    importances = {
        factor: _importance(factor, own, golden, str(document["design"]), pooled)
        for factor, own in document["factors"].items()
    }
    looks = document.get("looks")
    parts = {factor: own.get("prediction_importance") for factor, own in document["factors"].items()}
    return Analysis(
        metric=named(str(document["metric"])),
        importances=importances,
        consistencies={
            name: Consistency(**{key: _known(value) for key, value in own.items()})
            for name, own in document.get("consistency", {}).items()
        },
        checks=tuple(Check(**check) for check in document.get("checks", [])),
        cells_failed=int(document.get("cells_failed", 0)),
        design=str(document["design"]),
        prediction_importances={
            factor: PredictionImportance(**{key: _known(value) for key, value in part.items()})
            for factor, part in parts.items()
            if part
        },
        agreement=document.get("agreement"),
        regression=document.get("regression") or {},
        interim_analyses=pd.DataFrame(looks) if looks else None,
        collapse=_collapse(document.get("collapse"), importances),
    )


def _importance(factor: str, own: Mapping[str, Any], golden: FloatArray, design: str, pooled: bool) -> Importance:
    parts = own.get("components")
    fields = VarianceComponents.__dataclass_fields__
    component_values = {name: _known(value) for name, value in (parts or {}).items() if name in fields}
    return Importance(
        factor=factor,
        **{name: _known(own.get(name)) for name in (*IMPORTANCE_METRICS, *FURTHER_METRICS, "golden_iqr")},
        table=_numbers(own["table"]),
        golden=golden,
        rows_used=int(own["rows_used"]),
        cells_missing=int(own["cells_missing"]),
        golden_missing=int(own["golden_missing"]),
        design=design,
        level=float(own.get("level", 0.95)),
        components=VarianceComponents(**component_values) if parts else None,
        golden_pooled=pooled,
    )


def _collapse(groups: Mapping[str, Any] | None, importances: Mapping[str, Importance]) -> Collapse | None:
    """Return the two parts of the score; the scores of runs that collapsed are the lowest ones."""
    if not groups or not importances:
        return None
    whole, first = groups.get("golden", {}), next(iter(importances.values()))
    down = float(whole.get("collapsed_share") or 0.0)
    independent = first.table[:, 0] if design_named(first.design).tables_are_golden else first.golden
    chance = min(
        _lowest_other(independent, down),
        *(_lowest_other(record.table, record.collapsed_share) for record in importances.values()),
    )
    causes, rest = {}, {}
    for factor, record in importances.items():
        group = groups[factor]
        others = replace(record, table=uncollapsed(record.table, chance), golden=uncollapsed(record.golden, chance))
        golden_std = _known(whole.get("golden_std_uncollapsed"))
        numbers = {name: _known(group.get(f"{name}_uncollapsed")) for name in _CORRECTED}
        rest[factor] = replace(others, **numbers, golden_std=golden_std, collapsed_share=0.0)
        numbers = {name: _known(group.get(f"collapse_{name}")) for name in _CORRECTED[1:]}
        causes[factor] = replace(record, **numbers)
    runs = int(np.isfinite(independent).sum())
    return Collapse(runs, round(runs * down), causes, rest, first.level)


def _lowest_other(scores: FloatArray, share: float) -> float:
    """Return the lowest score of a run that did not collapse, if a share did; infinite if all did."""
    finite_scores = np.sort(scores[np.isfinite(scores)])
    down = round((0.0 if math.isnan(share) else share) * len(finite_scores))
    return float(finite_scores[down]) if down < len(finite_scores) else math.inf


def _numbers(values: Any) -> FloatArray:
    """Return numbers at any depth, nan for null."""
    return np.array(values, dtype=object).astype(np.float64)


def _known(value: Any) -> Any:
    return math.nan if value is None else value
