"""What reports say about a design; the defaults are those of M x N tables with golden runs.

In braces stand ``{metric}`` with its ``{unit}`` (short: ``{pp}``), ``{design}``, ``{level}`` (of intervals), ``{runs}``
(golden runs, pooled runs, ...), ``{gold}`` and ``{golden}`` (the word before *std*, short and long); ``{factor}`` and
``{meaning}`` (of CON and CCON) only where a text is said to have them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_CELL: Final = (
    "A cell is one training and evaluation. A column is one configuration of the investigated factor, a row one "
    "configuration of all other factors; every row "
)
_STDS: Final = (
    "Contributed, mitigated, {golden} standard deviation",
    "Mean of the standard deviations within the rows (the factor and its interactions); standard deviation of the row "
    "means (all other factors); standard deviation of the {runs}. Population form, as published [1, Algorithm 1].",
)


@dataclass(frozen=True)
class Words:
    """The sentences of a design.

    Attributes
    ----------
    order
        Which factors stand first.
    legend, note
        Below the table of factors, in the terminal and on a page.
    bars
        The picture of all factors: for who cannot see it, and below it.
    rows
        What the rows of the figure of single scores hold, after the first.
    table
        Caption of the picture of a factor's table: factor.
    compared
        Which runs are compared where every factor changes.
    within
        Which runs are compared in the table of a factor: factor.
    examples
        The runs in which every factor changes, in the table of agreement.
    reading
        Term and meaning, for "How to read this".
    drawn, first_row
        Of a design whose own runs serve as golden runs: how they are drawn, and what the first row of the figure of
        single scores holds.
    caution
        Of a baseline: why its verdict may be wrong.
    apart
        What helps if factors do not differ significantly.
    golden
        The runs that serve as golden runs.
    row
        What `mitigation_runs` counts.
    size
        The numbers of runs: ``{rows}``, ``{columns}`` and ``{golden}``, which says how many golden runs there are.
    draws_pairs
        Whether the table of a factor is pairs of runs, drawn as dots instead of colours.
    """

    apart: str = ""
    golden: str = "golden runs"
    row: str = "rows"
    size: str = "N={columns}, M={rows}, {golden}"
    draws_pairs: bool = False

    order: str = "largest corrected importance"
    legend: str = (
        "dominates: more than half of the variance of the score, interactions included (interval above 0); minor: less "
        "(below 0). {pp}: {unit} of {metric}. moves: std that the factor brings about. {gold}: std of the {runs}. CON, "
        "CCON: {meaning}. published: important if above 0. miss: cells without a score."
    )
    note: str = (
        "dominates: more than half of the variance, interval above 0; minor: less, interval below 0. contr., mitig.: "
        "contributed and mitigated, as published; missing: cells without a score. Standard deviations and scores are "
        "{unit} of {metric}."
    )
    bars: tuple[str, str] = (
        "Importance of every factor",
        "Points and lines are the corrected importance with its {level} interval, bars the published importance. A "
        "factor dominates if its whole interval lies to the right of 0, and is minor if it lies to the left.",
    )
    rows: str = (
        "The other rows hold the table of one factor, in which it changes along a row and everything else from row to "
        "row."
    )
    table: str = (
        "Along a row only {factor} changes; from row to row everything else does. The mean of the row stds is the "
        "contributed standard deviation, the std of the row means is the mitigated one."
    )
    compared: str = "two golden runs"
    within: str = "two runs that differ in {factor} only"
    examples: str = "golden runs"
    reading: tuple[tuple[str, str], ...] = (("Cell, row, column", f"{_CELL}meets the same columns."), _STDS)
    drawn: str = ""
    first_row: str = ""
    caution: str = ""


CROSSED: Final = Words(
    apart=" With as many cells the radial design distinguishes factors more often: the few columns of crossed tables "
    "set a limit that more rows do not move."
)
NESTED: Final = Words(reading=(("Cell, row, column", f"{_CELL}has columns of its own."), _STDS))
LEVELS: Final = Words(
    reading=(
        (
            "Cell, row, column",
            "A cell is one training and evaluation. A column is one level of the investigated factor, and the columns "
            "are all levels there are; a row is one configuration of all other factors, and meets every level. "
            "Intervals are over rows alone.",
        ),
        _STDS,
    )
)


def baseline(rows: str, reading: str, within: str, caution: str) -> Words:
    """Return the sentences of a baseline strategy."""
    return Words(
        order="largest standard deviation",
        note="missing: runs without a score. Standard deviations and scores are {unit} of {metric}. Important by the "
        "{design} strategy: a share of at least 0.50; there is no interval.",
        bars=(
            "Std of every factor's runs",
            "Std of the runs as a share of the {golden} std. From half on (line) the {design} strategy calls a factor "
            "important; it has no importance and no interval.",
        ),
        legend="The {design} strategy has no importance: important if the std of the runs is at least half "
        "that of the {runs} (gold). Std and mean in {unit} of {metric}. CON, CCON: % of {meaning}. miss: "
        "runs without a score.",
        rows=f"The other rows hold the runs of one factor, in which {rows}.",
        within=within,
        reading=(
            (
                "Baseline strategy ({design})",
                f"{reading} The factor counts as important where the standard deviation of these runs is at least half "
                "that of the {runs} [1, Table 1].",
            ),
        ),
        caution=caution,
    )
