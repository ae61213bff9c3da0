"""The tables of a search as texts, for the page and the command line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from markupsafe import Markup

from mlflow_l3d.analysis.search import SearchResult, StageSummary
from mlflow_l3d.report.numbers import MISSING, plain, shorten, unit_of, value_text
from mlflow_l3d.report.page import chip
from mlflow_l3d.report.table import Table

NOT_SEARCHED = "-"
_STAGES = {"coarse": "level 1", "fine": "level 2"}


def stage_title(stage: StageSummary) -> str:
    """Return how a stage is called, as in ``level 1: coarse``."""
    return f"{_STAGES.get(stage.name, stage.name)}: {stage.name}"


def setting_table(result: SearchResult, range_head: str) -> Table:
    """Return a row a searched hyperparameter: name, default, found, and its range at each stage.

    Parameters
    ----------
    result
        What was found.
    range_head
        Head of the ranges, in which ``{number}`` and ``{name}`` are those of the stage.
    """
    rows = []
    for name in result.searched:
        values = [_cell(each.get(name), 60, MISSING) for each in (result.default, result.best)]
        rows.append((name, *values, *[shorten(stage.ranges.get(name, "fixed"), 60) for stage in result.stages]))
    heads = [range_head.format(number=at, name=stage.name) for at, stage in enumerate(result.stages, 1)]
    texts = frozenset(range(3, 3 + len(heads)))
    return Table(("hyperparameter", "default", "found", *heads), tuple(rows), texts=texts, kind="found")


def stage_table(result: SearchResult) -> Table:
    """Return a row a stage: how many trials there were, how they ended, and the best score."""
    rows = [
        {
            "level": stage_title(stage),
            "sampler": stage.sampler,
            **{name: str(getattr(stage, name)) for name in ("trials", "complete", "pruned", "failed")},
            "best score": unit_of(result.metric).text(stage.best_score),
        }
        for stage in result.stages
    ]
    return Table.of(rows, texts=frozenset({1}))


def trial_table(result: SearchResult, most: int) -> Table:
    """Return the trials, the best first, those without a score last, at most `most` of them; for a page."""
    unit = unit_of(result.metric)
    ranks = result.trials["state"].map({"complete": 0, "pruned": 1}).fillna(2)
    order = np.lexsort((-result.metric.sign * result.trials["score"].astype(float), ranks))
    rows = []
    for place, row in enumerate(result.trials.iloc[order[:most]].to_dict("records")):
        name, state = f"{row['level']} {row['number']}", str(row["state"])
        mark = "best" if place == 0 and state == "complete" else "default" if row["is_default"] else ""
        kind = "important" if mark == "best" else "not-important"
        run = Markup('<code title="{}">{}</code>').format(row["run_id"], str(row["run_id"])[:8])
        spread, seconds = float(row["score_std"]), float(row["duration_seconds"])
        rows.append(
            (
                Markup("{} {}").format(name, chip(kind, mark)) if mark else name,
                unit.text(float(row["score"])),
                unit.text(spread) if math.isfinite(spread) else "",
                state + (f", {row['origin']}" if row.get("origin", "trained") != "trained" else ""),
                *[_cell(row.get(each)) for each in result.searched],
                plain(seconds, 1),
                run if row["run_id"] else "",
            )
        )
    head = ("trial", "score", "std", "state", *result.searched, "seconds", "run")
    left_out = len(result.trials) - len(rows)
    note = f"{left_out} more trials are in trials.json." if left_out > 0 else ""
    texts = frozenset({3, len(head) - 1})
    return Table(head, tuple(rows), note, texts, kind="trials").without_empty(("std", "run"), empty="")


def _cell(value: Any, width: int = 40, absent: str = NOT_SEARCHED) -> str:
    # pandas puts nan in a gap.
    return absent if value is None or value != value else shorten(value_text(value), width)
