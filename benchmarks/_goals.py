"""What was wrong, what it is now, and what it shall be: one table over all simulations."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from _planning import MOST_PILOTS

Lines = Mapping[str, Sequence[Sequence[str]]]


class Figure(NamedTuple):
    """One figure: lowest and highest of a column over some lines.

    Attributes
    ----------
    what, old, goal
        In words; `old` is version 0.1.0.
    part
        Which simulation.
    column
        Its column.
    only
        Column -> what its cell must begin with.
    """

    what: str
    old: str
    goal: str
    part: str
    column: int
    only: Mapping[int, str] = {}


FIGURES: Final = (
    Figure("crossed interval covers %", "98.0 to 99.7", "92 to 98", "coverage", 3),
    *(
        Figure(
            f"crossed interval covers %, {size}, main effect and interaction",
            "",
            "92 to 98",
            "further",
            2,
            {0: f"interval of crossed {size}, main effect and interaction"},
        )
        for size in ("20 x 10", "100 x 10", "200 x 10", "40 x 5")
    ),
    Figure(
        "crossed interval covers %, accuracies of 100 examples",
        "to 99.7",
        "92 to 98",
        "further",
        2,
        {0: "interval of crossed 20 x 10, accuracies of 100 examples"},
    ),
    Figure("radial interval covers %, scores that are no sums", "81 to 90", "92 to 98", "radial", 3),
    Figure("5 % missing: published score, RMSE", "0.105", "0.02", "missing", 5, {1: "5 %"}),
    Figure("5 % missing: corrected score, RMSE", "to 0.137", "0.02", "missing", 7, {1: "5 %"}),
    Figure("5 % missing: interval covers %", "", "92 to 98", "missing", 9, {1: "5 %"}),
    Figure("closure, false alarms: normal", "0.021", "0.02", "closure", 5, {3: "normal"}),
    Figure("closure, false alarms: exponential", "0.08", "0.02", "closure", 5, {3: "exponential"}),
    Figure("closure, false alarms: collapses", "0.24 to 0.39", "0.02", "closure", 5, {3: "5 % collapse"}),
    Figure("closure, twice the deviation is seen: normal", "", "", "closure", 7, {3: "normal"}),
    Figure("interval of the published importance covers %", "none", "92 to 98", "published", 4),
    Figure("collapses: interval of the whole score covers %", "28 to 66", "", "collapse", 3),
    Figure("collapses: interval of the other runs covers %", "", "92 to 98", "collapse", 4),
    Figure("collapses: interval of their share covers %", "", "92 to 98", "collapse", 5),
    Figure("long tails are said of exponential scores, %", "0", "", "tails", 3, {2: "exponential"}),
    Figure("long tails are said of normal scores, %", "0", "", "tails", 3, {2: "normal"}),
    Figure("stop=interval: interval that is shown covers %", "88 to 98", "95", "stopped", 4),
    Figure("stop=interval: false claims %, normal", "", "5", "stopping", 4, {0: "normal"}),
    Figure("stop=interval: false claims %, exponential", "to 11.1", "5", "stopping", 4, {0: "exponential"}),
    Figure("planned width is kept, %", "6 to 52", "80", "planning", 5),
    *(
        Figure(f"planned width is kept, %: {design} pilot of {size}", "", "75 to 90", "pilots", 3, {0: design, 1: size})
        for design, size in (("crossed", "20 x 10"), ("nested", "20 x 3"), ("radial", "100"))
    ),
    Figure("told .4 from .15, %: crossed", "", "", "ranking", 3, {1: "crossed"}),
    Figure("told .4 from .15, %: radial", "", "", "ranking", 3, {1: "radial"}),
    Figure(
        "interval of golden_std covers %",
        "none",
        "92 to 98 without long tails",
        "further",
        2,
        {0: "interval of golden_std"},
    ),
    Figure(
        "interval of first-order index covers %",
        "none",
        "92 to 98",
        "further",
        2,
        {0: "interval of the first-order"},
    ),
)
HEAD: Final = ("figure", "old", "new", "Monte-Carlo error at most", "goal")


def goal_lines(found: Lines, tables: int) -> Iterator[list[str]]:
    """Yield the lines of the table.

    Parameters
    ----------
    found
        Part -> the lines it printed.
    tables
        Simulations behind each number.
    """
    for figure in FIGURES:
        cells = [
            line[figure.column]
            for line in found[figure.part]
            if all(line[at].startswith(figure.only[at]) for at in figure.only)
        ]
        numbers = [float(text) for cell in cells for text in re.findall(r"\d+\.?\d*", cell)]
        low, high = min(numbers), max(numbers)
        digits = max(len(text.partition(".")[2]) for cell in cells for text in re.findall(r"\d+\.?\d*", cell))
        new = f"{low:.{digits}f} to {high:.{digits}f}" if low < high else f"{low:.{digits}f}"
        if "RMSE" in figure.what:  # of a root mean square over so many tables
            error = high / math.sqrt(2 * tables)
        else:
            unit = 100 if "%" in figure.what else 1
            count = min(tables, MOST_PILOTS) if figure.part == "pilots" else tables
            error = unit * max(math.sqrt(each / unit * (1 - each / unit) / count) for each in numbers)
        yield [figure.what, figure.old, new, f"{error:.{digits}f}", figure.goal]
