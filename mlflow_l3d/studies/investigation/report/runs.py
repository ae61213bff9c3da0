"""Every run of an investigation on its page: a table of scores for each factor, and what the script tells of one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pandas as pd
from markupsafe import Markup

from mlflow_l3d.analysis.importance.estimate import total_index_of
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.html import MOST_EXAMPLES, Snippet
from mlflow_l3d.report.numbers import counted, percent, points
from mlflow_l3d.report.page import Drawing, Section
from mlflow_l3d.report.plots import path
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import RETRY
from mlflow_l3d.studies.investigation.report.verdicts import Shown

MOST_CELLS: Final = 4000
"""Cells on a page, of all factors together: more make it slow and larger than a megabyte."""
_MOST_CLASSES: Final = 36
_CELL: Final = Markup('<td data-cell="{}" tabindex="-1" style="--x:{}" title="{}">{}</td>')

T = TypeVar("T")
Place = tuple[str, int, int]
"""Factor, row and column of a run in the tables, see :func:`_place`."""


@dataclass(frozen=True)
class Runs:
    """The runs behind an analysis.

    Attributes
    ----------
    cells
        One row per cell, with run ids and seeds; empty if they are not known.
    predicted
        What they predict for fragile examples, as :func:`read_predicted` returns it.
    """

    cells: pd.DataFrame = field(default_factory=pd.DataFrame)
    predicted: Mapping[str, list[list[str]]] = field(default_factory=dict)

    @cached_property
    def places(self) -> dict[Place, int]:
        """Place -> position in the frame."""
        if self.cells.empty:
            return {}
        columns = [self.cells[name] for name in ("phase", "factor", "row", "column")]
        return {_place(*values): at for at, values in enumerate(zip(*columns, strict=True))}

    def of(self, factor: str, row: int, column: int) -> int | None:
        """Return the position of the run behind a score of a factor's table; None if it is not known."""
        return _behind(self.places, factor, row, column)

    @cached_property
    def golden(self) -> list[tuple[str, int]]:
        """Name and position of each golden run, in their order; empty if other runs stand for them."""
        if self.cells.empty:
            return []
        golden = np.flatnonzero(self.cells["phase"].eq("golden"))
        return [(f"golden run {int(self.cells['index'].iloc[at])}", int(at)) for at in golden]

    def without_score(self, analysis: Analysis) -> str:
        """Return how many runs have no score, and why; the command that trains them follows."""
        missing, statuses = analysis.cells_failed, self.cells.get("status")
        failed = missing if statuses is None else int(statuses.eq("FAILED").sum())
        if (deleted := min(analysis.cells_deleted, missing)) == 0 and failed >= missing:
            return f"{counted(missing, 'run')} failed. {RETRY}"
        failed = min(failed, missing - deleted)
        were = "was deleted" if deleted == 1 else "were deleted"
        whys = ((failed, "failed"), (deleted, were), (missing - failed - deleted, "did not finish"))
        all_of_them = "it" if missing == 1 else "they"
        parts = [f"{all_of_them if number == missing else number} {what}" for number, what in whys if number]
        return f"{counted(missing, 'run')} got no score: {', '.join(parts)}. The same command trains them:"

    def run_ids(self, positions: Iterable[int | None]) -> list[str]:
        """Return run ids; empty texts for unknown runs."""
        ids = self.cells.get("run_id")
        return ["" if at is None or ids is None or pd.isna(ids.iloc[at]) else str(ids.iloc[at]) for at in positions]


def _place(phase: Any, factor: Any, row: Any, column: Any) -> Place:
    """Return the place of a run: pairs have two columns, the base run of all factors, and one with another seed."""
    column = {"base": 0, "swap": 1}.get(phase, column)
    row, column = (-1 if pd.isna(each) else int(each) for each in (row, column))
    return "" if pd.isna(factor) else str(factor), row, column


def _behind(places: Mapping[Place, T], factor: str, row: int, column: int) -> T | None:
    """Return the entry of the run behind a score of a factor's table, if there is one."""
    return places.get((factor, row, column), places.get(("", row, column)))


def rows_shown(shown: Shown) -> int:
    """Return how many rows of each table a page shows."""
    return max(5, MOST_CELLS // max(1, sum(int(record.table.shape[1]) for record in shown.records)))


def factor_sections(shown: Shown, paths: Mapping[str, pd.DataFrame], source: Source) -> Iterator[Section]:
    """Yield the runs of each factor, and how its share settled."""
    for number, record in enumerate(shown.records, 1):
        settled = None if shown.design.baseline else convergence(record, paths.get(record.factor))
        caption = shown.design.words.table.format(factor=record.factor)
        group = None if shown.design.baseline or shown.graded else shown.analysis.reported_agreement(record.factor)
        if group is not None and math.isfinite(group.consistency):
            caption += f" Two runs that differ only in {record.factor} agree on {points(group.consistency, 1)} % of the"
            caption += " predictions."
        heading = Snippet("subheading.html", {"text": "How it settled"}) if settled else None
        parts: list[str | Drawing | Snippet | None] = [scores_table(shown, record, source), caption, heading, settled]
        yield Section(f"Every run of {record.factor}", parts, name=f"factor-{number}")


def scores_table(shown: Shown, record: Importance, source: Source) -> Snippet:
    """Return the table of a factor's scores, in colours that all factors share; columns of a list have names."""
    finite = np.concatenate([each.table[np.isfinite(each.table)] for each in shown.records])
    # A few collapsed runs do not make all others alike.
    low, high = np.quantile(finite, [0.01, 0.99]) if len(finite) else (0.0, 0.0)
    columns = record.table.shape[1]
    table = record.table[: rows_shown(shown)]
    paired = shown.design.words.draws_pairs
    heads = ["base run", "redrawn"] if paired else source.levels(record.factor if shown.design.lists else "", columns)
    rows = []
    for number, scores in enumerate(table):
        mean = float(np.nanmean(scores)) if np.isfinite(scores).any() else math.nan
        cells = []
        for column, score in enumerate(scores.tolist()):
            place = f"row {number + 1}, column {column + 1}"
            if not math.isfinite(score):
                cells.append(Markup('<td class="absent" title="{}: no score"></td>').format(place))
                continue
            shade = round(4 + 76 * min(max((score - low) / (high - low), 0.0), 1.0)) if high > low else 30
            title = f"{place}: {shown.unit.change(score - mean)} from the mean of its row"
            cells.append(_CELL.format(number * columns + column, shade, title, shown.unit.text(score, 1)))
        rows.append((number + 1, Markup("").join(cells), shown.unit.text(mean, 1)))
    left_out = len(record.table) - len(table)
    more = f"{counted(left_out, 'more row')}: in cells.json" if left_out > 0 else ""
    return Snippet("scores.html", {"rows": rows, "heads": heads, "factor": record.factor, "more": more})


def convergence(record: Importance, steps: pd.DataFrame | None) -> Drawing | None:
    """Return how the share of a factor settled while rows were added; None if that is not known."""
    if steps is None or len(steps) < 2:
        return None
    steps = steps.sort_values("rows")
    names = ("importance_corrected", "importance_corrected_ci_low", "importance_corrected_ci_high")
    shares, low, high = (np.array([total_index_of(value) for value in steps[name]]) for name in names)
    level = percent(record.level)
    after = f"after {steps['rows'].iloc[0]} to {steps['rows'].iloc[-1]} rows"
    drawn = path(shares, low, high, f"share of {record.factor} {after}", ends=(0.0, 1.0))
    return Drawing(drawn, f"Share {after}, with its {level} interval; dashed: one half.")


def script_data(shown: Shown, runs: Runs, *, address: str, classes: Sequence[str]) -> dict[str, Any]:
    """Return what the script of the page reads: runs and seeds of every score, and what runs predict for examples."""
    seeded = sorted(str(name) for name in runs.cells if str(name).startswith("seed."))
    seeds = {name: number for number, name in enumerate(pd.unique(runs.cells[seeded].to_numpy().ravel()))}
    numbered = [[-1 if pd.isna(seed) else seeds[seed] for seed in line] for line in runs.cells[seeded].to_numpy()]
    most = rows_shown(shown)
    factors = {}
    for record in shown.records:
        rows, columns = record.table[:most].shape
        positions = [runs.of(record.factor, row, column) for row in range(rows) for column in range(columns)]
        factors[record.factor] = {
            "runs": runs.run_ids(positions),
            "seeds": [[] if at is None else numbered[at] for at in positions],
            "predicted": runs.predicted.get(record.factor, []),
        }
    golden = [at for _, at in runs.golden]
    return {
        "address": address,
        "seeded": [name.removeprefix("seed.") for name in seeded],
        "seeds": [str(int(seed)) if not pd.isna(seed) else "" for seed in seeds],
        "factors": factors,
        "golden": runs.run_ids(golden) if len(golden) == len(shown.golden_scores) else [],
        "classes": list(classes),
    }


def read_predicted(analysis: Analysis, file: Path, classes: int) -> dict[str, list[list[str]]]:
    """Return factor -> for each fragile example the predictions of its table, a text per row and a sign per column.

    Parameters
    ----------
    analysis
        Of the runs.
    file
        The predictions of all cells, if there are any.
    classes
        How many classes there are.
    """
    worst = None if analysis.examples is None else analysis.examples.most_fragile(MOST_EXAMPLES)
    if worst is None or not len(worst) or not file.exists() or not 0 < classes <= _MOST_CLASSES:
        return {}
    shown, examples = Shown(analysis), worst["example_id"].tolist()
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(file, columns=["phase", "factor", "row", "column", "example_id", "prediction"])
    kept = table.filter(pc.is_in(table["example_id"], value_set=pa.array(examples, table["example_id"].type)))
    frame = kept.to_pandas()
    signs = {-1: "?"} | {number: np.base_repr(number, 36).lower() for number in range(classes)}
    by_example: dict[Any, dict[Place, str]] = {example: {} for example in examples}
    for *place, example, prediction in frame.itertuples(index=False):
        by_example[example][_place(*place)] = signs.get(int(prediction), "?")
    most = rows_shown(shown)

    def lines(record: Importance, example: Any) -> list[str]:
        rows, columns = record.table[:most].shape
        places = ([(record.factor, row, column) for column in range(columns)] for row in range(rows))
        return ["".join(_behind(by_example[example], *place) or "." for place in line) for line in places]

    return {record.factor: [lines(record, example) for example in examples] for record in shown.records}
