"""The figure of a gate: its looks, and what would be claimed at each."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.report import style
from mlflow_l3d.report.numbers import Unit, unit_of
from mlflow_l3d.report.style import Axes, Figure
from mlflow_l3d.studies.gate.numbers.gate import GateAnswer
from mlflow_l3d.studies.gate.numbers.sequential import Measured, limits

VERDICT: Final = {
    "better": "The candidate is better",
    "worse": "The candidate is worse",
    "equivalent": "The two are equivalent",
    "undecided": "Undecided within the budget",
}
"""Decision -> what is said of it."""


def verdict(answer: GateAnswer) -> str:
    """Return what is said of the decision, or of two that score the same in every run."""
    return "The candidate probably has no effect" if answer.outstanding.equal else VERDICT[answer.decision]


def gate_figure(answer: GateAnswer) -> Figure:
    """Return the looks and the bounds; `better` is above."""
    unit = unit_of(answer.metric)
    with style.panels(3.6) as (figure, (axes,)):
        effect = unit.scale * answer.plan.smallest_effect
        axes.axhspan(-effect, effect, color=style.ABSENT, linewidth=0)
        axes.axhline(0, color=style.GREY, linewidth=0.8)
        for bound, line, colour in zip(gate_bounds(answer), ("--", ":"), (style.MUTED, style.BLUE), strict=True):
            for side in (unit.scale, -unit.scale):
                axes.plot(answer.plan.looks, side * bound, line, color=colour, linewidth=1.1, marker=".", markersize=4)
        for look in answer.looks:
            colour = {"worse": style.ORANGE, "undecided": style.MUTED}.get(look.decision, style.BLUE)
            ends = (look.low, look.high, 1.3), (look.equivalence_low, look.equivalence_high, 4.0)
            for low, high, width in ends:
                if math.isfinite(low) and math.isfinite(high):
                    axes.plot([look.runs] * 2, [unit.scale * low, unit.scale * high], color=colour, linewidth=width)
            axes.plot(look.runs, unit.scale * look.difference, "o", color=colour, markersize=6)
        _limit(axes, answer, unit, effect)
        axes.set_xlim(0, 1.05 * answer.plan.looks[-1])
        title = verdict(answer)
        x, y = "golden runs of either side", f"candidate - baseline, {answer.metric} ({unit.short})"
        style.dress(axes, x=x, y=y, title=title, grid="y")
    return figure


def gate_bounds(answer: GateAnswer) -> tuple[FloatArray, FloatArray]:
    """Return the differences beyond, and between, which there is a claim at each planned look; nan where none is."""
    runs = np.array(answer.plan.looks, dtype=np.float64)
    std = answer.before.std
    if answer.looks and math.isfinite(answer.looks[-1].error):
        std = answer.looks[-1].error * math.sqrt(answer.looks[-1].pairs)
    outer, inner = [], []
    for count, level in zip(runs, answer.plan.levels, strict=True):
        single = Measured(0.0, std / math.sqrt(count), count - 1, 0.0)
        outer.append(float(limits(single, level.difference)[1]))
        inner.append(answer.plan.smallest_effect - float(limits(single, level.equivalence)[1]))
    return np.array(outer), np.where(np.array(inner) > 0, inner, np.nan)


def _limit(axes: Axes, answer: GateAnswer, unit: Unit, effect: float) -> None:
    """Show two smallest effects, all differences and the last interval; of wide early intervals what has room."""
    differences = [abs(unit.scale * look.difference) for look in answer.looks if math.isfinite(look.difference)]
    *early, last = [
        [unit.scale * abs(end) for end in (look.low, look.high) if math.isfinite(end)] for look in answer.looks
    ] or [[]]
    top = max([2 * effect, *differences, *last])
    top = 1.1 * max([top, *(min(end, 3 * top) for ends in early for end in ends)])
    axes.set_ylim(-top, top)
