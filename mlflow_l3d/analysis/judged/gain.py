"""What one more row, repeat, judge or prompt gains, and how to spend a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any, Final

import pandas as pd

from mlflow_l3d.analysis.judged.components import JOINED
from mlflow_l3d.analysis.judged.results import Components
from mlflow_l3d.errors import ParameterError

_OF_ANSWER: Final = ("judge", "judgement")
"""Parts of a design that need no further answers."""
_CHOICES: Final = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)


def gain(
    components: Components, *, rows: int | None = None, answers: int | None = None, judgements: int | None = None
) -> pd.DataFrame:
    """Return the standard error of the mean: now, with one more of each, and for a budget spent best.

    Parameters
    ----------
    components
        Of the evaluation so far.
    rows
        Most rows that there are; None for any number.
    answers, judgements
        Budget of a new evaluation; None for none. Only the numbers of rows, repeats and judges are chosen.

    Returns
    -------
    pandas.DataFrame
        ``design`` ("now", "one more row", ..., "best for the budget"), the numbers of the design (``row, repeat,
        judge, judgement`` and each factor), ``answers``, ``judgements``, ``mean_std`` (see :class:`Components`) and
        ``gain``, the part of today's ``mean_std`` that is saved. Luck that cannot be separated counts as its coarsest
        part, so a gain is never promised that more repeats or judges may not bring.

    Raises
    ------
    ParameterError
        If a budget is below 1.

    Examples
    --------
    >>> from mlflow_l3d.analysis.judged.components import components
    >>> lines = [(row, f"{row}-{number}", row % 2) for row in range(8) for number in range(2)]
    >>> frame = pd.DataFrame(lines, columns=["row", "answer", "value"]).assign(judge="exact match")
    >>> gain(components(frame)).set_index("design")["gain"].round(3)[["one more row", "one more repeat"]].tolist()
    [0.057, 0.0]
    """
    for name, budget in {"rows": rows, "answers": answers, "judgements": judgements}.items():
        if budget is not None and budget < 1:
            raise ParameterError(name, budget, "must be 1 or more")
    now = dict(components.design)
    lines = [_line("now", components, now)]
    lines += [_line(f"one more {name}", components, now | {name: size + 1}) for name, size in now.items()]
    if answers is not None or judgements is not None:
        designs = _designs(now, rows or math.inf, answers or math.inf, judgements or math.inf)
        best = min((_line("best for the budget", components, each) for each in designs), key=_error, default=None)
        if best is None:
            raise ParameterError("judgements", judgements or answers, "is too few for one row", "Raise the budget.")
        lines.append(best)
    frame = pd.DataFrame(lines)
    return frame.assign(gain=1 - frame["mean_std"] / lines[0]["mean_std"] if _error(lines[0]) > 0 else 0.0)


def _designs(now: Mapping[str, float], rows: float, answers: float, judgements: float) -> list[dict[str, float]]:
    """Return designs of some numbers of repeats and judges, each with all rows that a budget allows."""
    factors = math.prod(size for name, size in now.items() if name not in ("row", "repeat", *_OF_ANSWER))
    judges = _CHOICES if now["judge"] > 1 else (1,)
    designs = []
    for repeat, judge in product(_CHOICES, judges):
        most = min(rows, answers / (factors * repeat), judgements / (factors * repeat * judge))
        if most >= 1:
            designs.append({**now, "row": math.floor(most), "repeat": repeat, "judge": judge, "judgement": 1})
    return designs


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


def _error(line: Mapping[str, Any]) -> float:
    return float(line["mean_std"])
