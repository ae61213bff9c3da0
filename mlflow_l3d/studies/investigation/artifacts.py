"""What a finished parent holds: tables, the report and the pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from mlflow_l3d.analysis.importance.results import IMPORTANCE_METRICS
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named
from mlflow_l3d.studies.investigation.scoring import Scored
from mlflow_l3d.tracking import names

_ROWS_AT_ONCE = 500
_MOST_EXAMPLES = 2000
"""The UI shows no longer tables well; the rest is in the predictions."""


def write_artifacts(
    folder: Path,
    scored: Scored,
    cells: pd.DataFrame,
    *,
    document: Mapping[str, Any],
    settings: Mapping[str, str],
    title: str,
    notes: Sequence[str] = (),
) -> None:
    """Write the parent's artifacts into `folder`: the tables, the report and the pictures.

    Parameters
    ----------
    folder
        An existing folder.
    scored
        What :func:`score` returned.
    cells
        One row a cell, with run ids.
    document
        What ``investigation.json`` holds.
    settings
        Name -> value, for the report.
    title, notes
        Headline of the report, and remarks.
    """
    from mlflow_l3d.report.investigation.page import drawn, render
    from mlflow_l3d.report.style import save_png

    analysis = scored.analysis
    public = cells.drop(columns=[name for name in ("artifact_uri", "experiment_id") if name in cells])
    if len(scored.agreement):
        public = public.assign(agreement=list(scored.agreement))
    public.to_parquet(folder / names.CELLS, index=False)
    write_table(folder / names.CELLS_TABLE, _for_people(public, analysis.metric))
    if analysis.examples is not None:
        write_table(folder / names.EXAMPLES, analysis.examples.frame.head(_MOST_EXAMPLES))
    if analysis.interim_analyses is not None:
        write_table(folder / names.INTERIM_ANALYSES, analysis.interim_analyses)
    _write_json(folder / names.IMPORTANCE, importance_document(analysis))
    if document:
        _write_json(folder / names.INVESTIGATION, document)
    figures = drawn(analysis, design_named(analysis.design).paths(analysis.importances))
    html = render(analysis, figures, settings=settings, title=title, notes=notes)
    (folder / names.REPORT).write_text(html, encoding="utf-8")
    for name, figure in figures.items():
        stem = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)
        save_png(figure, folder / f"{stem}.png")


def description(analysis: Analysis) -> str:
    """Return the headline of the report as Markdown, for the description of the run in MLflow's UI."""
    from mlflow_l3d.report.investigation.verdicts import Shown
    from mlflow_l3d.report.investigation.words import answers

    found = answers(Shown(analysis))
    return "\n\n".join(f"**{answer.question}** {answer.short}. {answer.sentences[0]}" for answer in found)


def importance_document(analysis: Analysis) -> dict[str, Any]:
    """Return the analysis as JSON types; undefined numbers are null."""
    return {
        "schema": 1,
        "metric": analysis.metric,
        "design": analysis.design,
        "factors": {factor: _factor_document(analysis, factor) for factor in analysis.importances},
        "golden": next((_finite(record.golden.tolist()) for record in analysis.importances.values()), []),
        "golden_pooled": any(record.golden_pooled for record in analysis.importances.values()),
        "agreement": analysis.agreement,
        "consistency": {name: _finite(asdict(record)) for name, record in analysis.consistencies.items()},
        "regression": {name: _finite(dict(record)) for name, record in analysis.regression.items()},
        "ranking": _ranking_document(analysis),
        "looks": None if analysis.interim_analyses is None else _records(analysis.interim_analyses),
        "checks": [asdict(check) for check in analysis.checks],
        "cells_failed": analysis.cells_failed,
    }


def _factor_document(analysis: Analysis, factor: str) -> dict[str, Any]:
    record = analysis.importances[factor]
    components = record.components
    prediction = analysis.prediction_importances.get(factor)
    strategy = analysis.strategies.get(factor)
    return {
        **{name: _finite(getattr(record, name)) for name in IMPORTANCE_METRICS},
        "level": record.level,
        "p": _finite(record.importance_p),
        "p_holm": _finite(analysis.p_holm.get(factor, math.nan)),
        "score_iqr": _finite(record.score_iqr),
        "golden_iqr": _finite(record.golden_iqr),
        "components": None if components is None else _finite(asdict(components)),
        "prediction_importance": None if prediction is None else _finite(asdict(prediction)),
        "strategy": None if strategy is None else _finite(asdict(strategy)),
        "rows_used": record.rows_used,
        "cells_missing": record.cells_missing,
        "golden_missing": record.golden_missing,
        "table": _finite(record.table.tolist()),
    }


def _ranking_document(analysis: Analysis) -> dict[str, Any] | None:
    ranking = analysis.ranking
    if ranking is None:
        return None
    return {
        "level": ranking.level,
        "factors": _records(ranking.to_frame()),
        "differences": _records(ranking.differences_frame()),
    }


def _records(frame: pd.DataFrame) -> list[Any]:
    rows: list[Any] = _finite(frame.astype(object).where(frame.notna(), None).to_dict("records"))
    return rows


def _finite(value: Any) -> Any:
    """Return JSON types with null for every number that is not finite, at any depth."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _for_people(cells: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Put the score beside the coordinates: the UI shows the first few columns."""
    first = ["phase", "factor", "row", "column", metric, "index"]
    return cells[[*first, *(name for name in cells if name not in first)]]


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame as an artifact in the form of MLflow's ``log_table``, which its UI shows as a table.

    A few rows at a time: as text a frame is many times as large.
    """
    with path.open("w", encoding="utf-8") as file:
        file.write(f'{{"columns": {json.dumps(list(frame.columns))}, "data": [')
        for start in range(0, len(frame), _ROWS_AT_ONCE):
            part = frame.iloc[start : start + _ROWS_AT_ONCE]
            rows = part.astype(object).where(part.notna(), None).to_numpy().tolist()
            file.write((", " if start else "") + json.dumps(rows, allow_nan=False)[1:-1])
        file.write("]}")


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=None, allow_nan=False), encoding="utf-8")
