"""What to do about a factor whose verdict is undecided: decided here once, and printed everywhere."""

from __future__ import annotations

import math
from typing import Final

from mlflow_l3d.analysis.importance.estimate import total_index_of
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import with_scores
from mlflow_l3d.analysis.importance.verdicts import FEWEST_AT_BOUNDARY, FEWEST_ROWS, Advice, Verdict, fewest_rows
from mlflow_l3d.designs import Design, design_named

SMALLEST_DISTANCE: Final = 0.05
"""A corrected importance nearer to 0 than this is not distinguished from it by an affordable number of runs."""
MOST_TIMES: Final = 10
"""More rows than this many times those there are is no advice."""
_MORE: Final = 1.25
_MORE_ROWS: Final = 5
"""Fewer rows than this many times those there are, or than so many more, change no verdict that luck does not."""
_HARDLY: Final = "more runs will change little of what you do."
_RADIAL: Final = "radial"


def advise(design: type[Design], record: Importance, verdict: Verdict) -> Advice:
    """Return what settles the verdict on a factor, if it is as far from 0 as it seems."""
    if verdict.is_decided:
        return Advice()
    word, planned = design.words.row, len(record.table)
    if verdict.doubt in ("few_rows", "boundary"):
        rows = fewest_rows(record) if verdict.doubt == "few_rows" else FEWEST_AT_BOUNDARY
        rows = max(rows, rows + planned - record.rows_used)  # as many fail again
        return Advice("more_rows", f"Use at least {rows} {word} (mitigation_runs={rows}).", rows)
    if verdict.doubt == "L3D009":
        return Advice("other_design", "Use joint=paired.")
    if verdict.doubt == "lost_level":
        return Advice("look_at_runs", "Mend the runs of the level without a score, or leave it out of the list.")
    if verdict.doubt == "no_effect":
        return Advice("look_at_runs", "Does this seed reach the training? self_test=only shows it.")
    if verdict.doubt == "L3D010":
        text = "Compare the predictions of the equal rows or columns."
        return Advice("look_at_runs", f"{text} If they differ, there are few test examples: raise test_size.")
    if not verdict.needs_runs:
        return Advice("look_at_runs", "Look at the lowest and highest runs: more runs of the same kind do not help.")
    if verdict.doubt == "no_interval":
        columns = max(design.model.least_columns, 3) if design.has_columns and not design.lists else 2
        if record.rows_used < 3 or with_scores(record.table).shape[1] < columns:
            of, rows = f" of {columns} columns" * design.has_columns, max(planned, fewest_rows(record))
            text = f"Use at least {rows} {word}{of} with a score."
            if design.has_columns and columns > record.table.shape[1]:
                return Advice("larger_table", text, rows, columns)
            return Advice("more_rows", text, max(rows, planned + 1))
        return Advice("look_at_runs", "Compare the predictions of runs that differ in this factor only.")
    return _more_runs(design, record)


def _more_runs(design: type[Design], record: Importance) -> Advice:
    components, distance, word = record.components, abs(record.importance_corrected), design.words.row
    if components is None or design.planning is None:
        return Advice("unknown", "How many runs settle it is not known for this design.")
    low, high = record.corrected_interval
    if not distance >= SMALLEST_DISTANCE:
        return Advice("unaffordable", f"Its share is close to one half: {_HARDLY}")
    if 50 in (round(100 * total_index_of(low)), round(100 * total_index_of(high))):
        return Advice("unaffordable", f"Its interval ends close to one half: {_HARDLY}")
    rows, columns = record.table.shape
    least = max(math.ceil(_MORE * rows), rows + _MORE_ROWS, fewest_rows(record))
    if not components.mitigated > 0:
        double = max(FEWEST_AT_BOUNDARY, 2 * rows)
        text = f"The other factors show no variance in these {rows} {word}: use {double} (mitigation_runs={double})."
        return Advice("more_rows", text, double)
    half_of_interval = distance + (high if record.importance_corrected < 0 else -low)
    # This interval may be wider than one expects of as many runs; so would be those of more.
    half_width = min(distance, distance / half_of_interval * design.half_width(components, rows=rows, columns=columns))
    right = f"If the true share is near {100 * total_index_of(record.importance_corrected):.0f} %, about"
    if (same := design.needed(half_width, components, columns).rows) is not None and same <= MOST_TIMES * rows:
        same = max(same, least)
        of = f" of {columns} columns" * design.has_columns
        return Advice("more_rows", f"{right} {same} {word}{of} settle it (mitigation_runs={same}).", same)
    needed = design.needed(half_width, components)
    if needed.rows is not None and design.has_columns:
        most = max(needed.rows, fewest_rows(record), least * (needed.columns == columns))
        size = f"{most} {word} of {needed.columns} columns"
        settings = f"mitigation_runs={most}, investigation_runs={needed.columns}"
        text = f"{right} {size} settle it ({settings}); more {word} alone do not."
        return Advice("larger_table", text, most, needed.columns)
    pairs = design_named(_RADIAL).needed(half_width, components).rows if design.name != _RADIAL else None
    if pairs is not None and pairs <= MOST_TIMES * rows * columns:
        pairs = max(pairs, FEWEST_ROWS)
        text = f"{right} {pairs} base runs of design=radial settle it (mitigation_runs={pairs}); this one does not."
        return Advice("other_design", text, pairs)
    return Advice("unaffordable", f"Settling it takes more than {MOST_TIMES} times these {rows} {word}: {_HARDLY}")
