"""What reports say about a design; the defaults are for M x N tables with golden runs.

In braces stand ``{metric}`` with its ``{unit}`` (short: ``{pp}``), ``{design}``, ``{level}`` (of intervals), ``{runs}``
(golden runs, pooled runs, ...) and ``{golden}`` (the word before *std*); ``{factor}`` only if named.
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
    note
        Below the table of factors on a page.
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
    drawn
        Of a design whose own runs serve as golden runs: how they are drawn.
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

    note: str = (
        "dominates: more than half of the variance of the score; minor: less; undecided: the interval contains one "
        "half. contributed, mitigated: as published. Standard deviations and scores are {unit} of {metric}."
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


def baseline(reading: str, within: str, caution: str) -> Words:
    """Return the sentences of a baseline strategy."""
    return Words(
        note="missing: runs without a score. Standard deviations and scores are {unit} of {metric}. Important by the "
        "{design} strategy: a share of at least 0.50; there is no interval.",
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
