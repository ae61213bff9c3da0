"""What one more row, repeat, judge or prompt gains, and how to spend a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from mlflow_l3d.analysis.judged.components import JOINED
from mlflow_l3d.analysis.judged.results import Components

_OF_ANSWER: Final = ("judge", "judgement")
"""Parts of a design that need no further answers."""


def gain(components: Components, *, answers: int | None = None, rows: int | None = None) -> pd.DataFrame:
    """Return the standard error of the mean: now, with one more of each, and for a budget spent best.

    Parameters
    ----------
    components
        Of the evaluation so far.
    answers
        Budget of a new evaluation by the same judges, prompts and so on; None for none. New rows average more kinds of
        luck than repeats, so all of it goes to rows, and what these leave to repeats.
    rows
        Most rows that there are; None for any number.

    Returns
    -------
    pandas.DataFrame
        ``design`` ("now", "one more row", ..., "best for the budget"), the numbers of the design (``row, repeat,
        judge, judgement`` and each factor), ``answers``, ``judgements``, ``mean_std`` (see :class:`Components`) and
        ``gain``, the part of today's ``mean_std`` that is saved. Luck that cannot be separated counts as its coarsest
        part, so a gain is never promised that more repeats or judges may not bring.

    Examples
    --------
    >>> from mlflow_l3d.analysis.judged.components import components
    >>> lines = [(row, f"{row}-{number}", row % 2) for row in range(8) for number in range(2)]
    >>> frame = pd.DataFrame(lines, columns=["row", "answer", "value"]).assign(judge="exact match")
    >>> gain(components(frame)).set_index("design")["gain"].round(3)[["one more row", "one more repeat"]].tolist()
    [0.057, 0.0]
    """
    now = dict(components.design)
    designs = {"now": now, **{f"one more {name}": {**now, name: size + 1} for name, size in now.items()}}
    if answers is not None:
        cells = math.prod(size for name, size in now.items() if name not in ("row", "repeat", *_OF_ANSWER))
        row = max(1, int(min(rows or answers, answers // cells)))
        designs["best for the budget"] = {**now, "row": row, "repeat": max(1, int(answers // (cells * row)))}
    frame = pd.DataFrame([_line(name, components, design) for name, design in designs.items()])
    today = frame["mean_std"][0]
    return frame.assign(gain=1 - frame["mean_std"] / today if today > 0 else 0.0)


def _line(name: str, components: Components, design: Mapping[str, float]) -> dict[str, Any]:
    answers = math.prod(size for part, size in design.items() if part not in _OF_ANSWER)
    variance = 0.0
    for source, own in zip(components.frame["source"], components.frame["variance"], strict=True):
        shrinks = math.prod(components.design[part] / design[part] for part in _averages(source, design))
        variance += max(0.0, own) * components.weights[source] * shrinks
    judgements = answers * design["judge"] * design["judgement"]
    sizes = {"answers": round(answers), "judgements": round(judgements)}
    return {"design": name, **design, **sizes, "mean_std": math.sqrt(variance)}


def _averages(source: str, design: Mapping[str, float]) -> set[str]:
    """Return the parts of a design whose number divides the variance of a source in the mean."""
    of_answer = {name for name in design if name not in _OF_ANSWER}
    divisors = {"answer": of_answer, "answer x judge": of_answer | {"judge"}, "judgement": {*design}}
    return set.intersection(*(divisors.get(part, set(part.split(" x "))) for part in source.split(JOINED)))
