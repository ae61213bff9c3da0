"""The tables of a search as texts, for the page and the command line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.numbers import MISSING, points, shorten
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.search.found import SearchResult, value_text

NOT_SEARCHED = "-"
LEVEL_WORDS = {"coarse": "level 1", "fine": "level 2"}


def setting_table(result: SearchResult, range_head: str) -> Table:
    """Return a row a searched hyperparameter: name, default, found, and its range at each level."""
    rows = []
    for name in result.searched:
        ranges = [shorten(level.ranges.get(name, "fixed"), 60) for level in result.levels]
        rows.append((name, _value(result.default, name), _value(result.best, name), *ranges))
    heads = [range_head.format(number=at, name=level.name) for at, level in enumerate(result.levels, 1)]
    texts = frozenset(range(3, 3 + len(heads)))
    return Table(("hyperparameter", "default", "found", *heads), tuple(rows), texts=texts)


def other_values(result: SearchResult) -> list[tuple[str, str]]:
    """Return name and value of the hyperparameters that were not searched."""
    return [
        (name, shorten(value_text(value), 200)) for name, value in result.best.items() if name not in result.searched
    ]


def level_table(result: SearchResult) -> Table:
    """Return a row a level: title, sampler, trials, complete, pruned, failed, best score in percentage points."""
    rows = tuple(
        (
            f"{LEVEL_WORDS.get(level.name, level.name)}: {level.name}",
            level.sampler,
            str(level.trials),
            str(level.complete),
            str(level.pruned),
            str(level.failed),
            points(level.best_score),
        )
        for level in result.levels
    )
    head = ("level", "sampler", "trials", "complete", "pruned", "failed", "best score")
    return Table(head, rows, texts=frozenset({1}))


def trial_rows(result: SearchResult, most: int) -> list[dict[str, Any]]:
    """Return the trials, the best first, those without a score last, at most `most` of them.

    Each is a dict: ``name``, ``state``, ``mark`` (best, default or nothing), ``score``, ``spread``, ``values`` (one a
    searched hyperparameter), ``seconds`` and ``run_id``, all texts but `values`.
    """
    table = result.trials
    rank, sign = {"complete": 0, "pruned": 1}, named(result.metric).sign
    order = sorted(
        range(len(table)),
        key=lambda at: (rank.get(table["state"].iloc[at], 2), _rising(sign * table["score"].iloc[at]), at),
    )
    rows = []
    for place, at in enumerate(order[:most]):
        row = {str(name): value for name, value in table.iloc[at].items()}
        best = place == 0 and row["state"] == "complete"
        spread = float(row["score_std"])
        rows.append(
            {
                "name": f"{row['level']} {row['number']}",
                "state": row["state"] + (f", {row['origin']}" if row.get("origin", "trained") != "trained" else ""),
                "mark": "best" if best else "default" if bool(row["is_default"]) else "",
                "score": points(float(row["score"])),
                "spread": points(spread) if math.isfinite(spread) else "",
                "values": [_cell(row.get(name)) for name in result.searched],
                "seconds": _seconds(float(row["duration_seconds"])),
                "run_id": str(row["run_id"] or ""),
            }
        )
    return rows


def _rising(score: float) -> float:
    return -score if math.isfinite(score) else math.inf


def _value(values: Mapping[str, Any], name: str) -> str:
    return shorten(value_text(values[name]), 60) if name in values else MISSING


def _cell(value: Any) -> str:
    # pandas puts nan in a gap.
    if value is None or value != value:
        return NOT_SEARCHED
    return shorten(value_text(value), 40)


def _seconds(value: float) -> str:
    return f"{value:.1f}" if math.isfinite(value) else MISSING
