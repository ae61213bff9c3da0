"""The tables of a sweep."""

from __future__ import annotations

from functools import partial

from mlflow_l3d.analysis.sweep.measured import GOLDEN_STD
from mlflow_l3d.analysis.sweep.point import value_text
from mlflow_l3d.report.numbers import between, percent, probability, signed
from mlflow_l3d.report.sweep.shown import ShownSweep, per, short
from mlflow_l3d.report.table import Table

_TREND_NOTE = (
    "Change of the importance (no unit), or of the golden standard deviation in per cent. p: adjusted for all trends "
    "and choices (Holm). Points are set against points that are alike in all other choices."
)
_INTERACTION_NOTE = (
    "Whether all values of a choice have one importance, or one golden standard deviation. Std: how far they differ, "
    "without what their errors add. p: adjusted for all trends and choices (Holm). It is about these points: whether "
    "other tasks or models would show the same is another question."
)


def trend_table(shown: ShownSweep) -> Table | None:
    """Return the slopes of all trends; None where there is none."""
    rows = [
        {
            "choice": one.choice,
            "of": _of(one.of),
            "per": per(one),
            "change": shown.change(one.of, one.slope),
            percent(shown.sweep.level): between(one.low, one.high, partial(shown.change, one.of)),
            "p, Holm": probability(one.p_holm),
            "points": str(one.points),
            "tasks": str(one.tasks),
        }
        for one in shown.sweep.trends
    ]
    return Table.of(rows, _TREND_NOTE, texts=frozenset({1, 2})) if rows else None


def interaction_table(shown: ShownSweep) -> Table | None:
    """Return the tests of all choices and factors; None where there is none."""
    rows = []
    for one in shown.sweep.interactions:
        ends = [f"{short(value_text(value))} {shown.level(one.of, mean)}" for value, mean in one.extremes()]
        spread = partial(shown.change, one.of, sign=False)
        rows.append(
            {
                "choice": one.choice,
                "of": _of(one.of),
                "lowest": ends[0].removesuffix(f" {shown.unit.noun}"),
                "highest": ends[1].removesuffix(f" {shown.unit.noun}"),
                "std": spread(one.test.spread),
                percent(shown.sweep.level): between(one.test.spread_low, one.test.spread_high, spread),
                "p, Holm": probability(one.p_holm),
                "points": str(one.test.points),
            }
        )
    return Table.of(rows, _INTERACTION_NOTE, texts=frozenset({1, 2, 3})) if rows else None


def score_table(shown: ShownSweep, most: int = 60) -> Table | None:
    """Return the corrected importance of every point and factor for the terminal; None where no point has one."""
    (panel,) = shown.panels()
    golden = shown.rows.drop_duplicates("point").set_index("point")["golden_std"]
    rows = []
    for at, point in enumerate(panel.points[:most]):
        scores = zip(panel.columns, panel.values[at].tolist(), panel.uncertain[at].tolist(), strict=True)
        cells = {factor: f"({signed(score)})" if unsure else f"{signed(score)} " for factor, score, unsure in scores}
        rows.append(
            {shown.names_head: shown.names[point], **cells, "golden std": shown.unit.text(float(golden[point]))}
        )
    note = f"Corrected importance, in parentheses if the factor is undecided. Golden std in {shown.unit.name}."
    if len(panel.rows) > most:
        note += f" {len(panel.rows) - most} more points stand in the table of the run."
    return Table.of(rows, note) if shown.sweep.factors else None


def _of(name: str) -> str:
    return "golden std" if name == GOLDEN_STD else name
