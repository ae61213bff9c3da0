"""Which luck the judgements of one scorer have: components of rows, answers, judges and so on; what one more gains."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.intervals import LEVEL, IntArray, unseen_share
from mlflow_l3d.analysis.judged.limits import NOTHING, variance_limits
from mlflow_l3d.analysis.judged.moments import FEWEST_LEVELS, Effect, Effects, estimate_moments, pair_counts
from mlflow_l3d.analysis.judged.results import Components
from mlflow_l3d.analysis.judged.table import level_codes, mean_interval, rows_apart, scale_notes, usable_judgements
from mlflow_l3d.errors import ParameterError

FEWEST_ROWS: Final = 3
"""Rows that must show two sources of luck apart."""
MANY_ROWS: Final = 100
"""Rows below which an interval of their variance may cover less often than it says; those of the most common mean count
once."""
MOST_CELLS: Final = 100
"""Combinations of levels of two factors above which their interaction is not looked for."""
JOINED: Final = " + "
_OF_ANSWER: Final = ("judge", "judgement")
"""Parts of a design that need no further answers."""


def components(table: pd.DataFrame) -> Components:
    """Return the variance components of one scorer's judgements, and the mean with its luck.

    Parameters
    ----------
    table
        One line per judgement: ``row, answer, judge, value``; optional ``repeat, scorer, judgement, failed, run_id``.
        Any other column that varies is a factor of the answer, such as ``prompt`` or ``model``. Failed answers,
        failed judgements and missing values are left out.

    Returns
    -------
    Components
        Sources are ``row``, ``answer``, ``judge``, each further factor, ``row x judge`` and so on, ``judgement`` (the
        rest), ``answer x judge`` if judges rated answers repeatedly, and ``judge x prompt`` and so on if each judge
        rated each prompt. What does not vary is absent. Numbers are nan below three rows.

    Raises
    ------
    ParameterError
        If the table cannot be read, or gaps leave sources that cannot be separated.

    Notes
    -----
    Values of 0 and 1 count as numbers, so a variance describes shares; an estimate above 0.25, which no share can have,
    is luck and shown as 0.25. See :mod:`mlflow_l3d.analysis.judged.moments` for the estimates and
    :mod:`mlflow_l3d.analysis.judged.limits` for the intervals; the variance of a single source of 0 and 1 is m (1 - m),
    so the interval of the mean m gives its own. The headline interval of the mean is that for these judges and prompts:
    they are what you can keep the same in the next evaluation. `mean_std` also counts the luck of which judges and
    prompts were drawn.

    Examples
    --------
    >>> lines = [(row, f"{row}-{number}", row % 2) for row in range(8) for number in range(2)]
    >>> found = components(pd.DataFrame(lines, columns=["row", "answer", "value"]).assign(judge="exact match"))
    >>> found.mean, list(found.frame["source"])
    (0.5, ['row', 'answer + judgement'])
    """
    usable = usable_judgements(table)
    data, values = usable.table, usable.table["value"].to_numpy()
    row, answer = level_codes(data["row"]), level_codes(data["answer"])
    named = {name: level_codes(data[name]) for name in (*usable.factors, "judge")}
    crossed, pairs, notes = _crossed_effects(row, named)
    model = Effects(_nested_effects(row, answer, crossed), crossed, pairs)
    both = {" x ".join(pair): level_codes(*(crossed[name] for name in pair)) for pair in pairs}
    effects = {**model.nested, **crossed, **both}
    levels = {name: _size(code) for name, code in effects.items()}
    variance, weights, low, high = (np.full(len(effects), math.nan) for _ in range(4))
    most = 0.25 if np.isin(values, (0, 1)).all() else math.inf  # no variance of shares is larger
    row_means = data.groupby("row")["value"].mean().to_numpy()
    if len(row_means) < FEWEST_ROWS:
        notes.append(f"No luck can be estimated below {FEWEST_ROWS} rows. Add rows.")
    else:
        try:
            moments = estimate_moments(values, model)
        except np.linalg.LinAlgError:
            fix = "Let more rows have several answers and judges."
            raise ParameterError("table", f"{len(data)} judgements", "the sources cannot be separated", fix) from None
        weights, row_means = moments.weights, moments.row_means
        nothing = NOTHING * float(np.square(values).mean())
        variance = np.where(np.abs(moments.variances) > nothing, moments.variances, 0.0)
        low, high = np.minimum(variance_limits(moments, values, model), most)
        variance = np.minimum(variance, most)
    mean_low, mean_high = mean_interval(row_means, shares=most < 1)
    rows, answers, judges = len(row_means), _size(answer), data["judge"].nunique()
    if judges == 1:
        of = f" of {data['scorer'].iloc[0]}" if "scorer" in data else ""
        notes.append(f"One judge{of}: the judge's luck is not known. Let a second judge rate the same answers.")
    ends_of = data.groupby(data["judge"].astype(str))["value"].agg(["min", "max"])
    notes += scale_notes("Judges rate", ends_of, "mean")
    is_of_mean = rows >= FEWEST_ROWS and most < 1 and len(effects) == 1
    if rows >= FEWEST_ROWS and most < 1:
        at = np.array([mean_low, min(0.5, unseen_share(rows, LEVEL)), min(max(0.5, mean_low), mean_high), mean_high])
        ends = at * (1 - at)
        high = np.where(np.isnan(high), ends[1], high)
        high[0] = max(high[0], ends[1]) if variance[0] <= 0 else high[0]  # too few rows to show one that always passes
        low, high = (ends[[0, -1]].min(keepdims=True), ends[2:3]) if is_of_mean else (low, high)
    if FEWEST_ROWS <= rows < MANY_ROWS + np.unique(row_means, return_counts=True)[1].max() - 1 and not is_of_mean:
        notes.append(f"{rows} rows: if few are unlike the rest, the interval of their variance covers about 90 %.")
    positive = np.maximum(variance, 0.0)
    frame = pd.DataFrame({"source": [*effects], "variance": variance, "std": np.sqrt(positive)})
    total = float(positive.sum())
    frame = frame.assign(
        share=positive / total if total > 0 else math.nan, low=low, high=high, levels=[*levels.values()]
    )
    fewest = {**levels, **{name: min(levels[part] for part in name.split(" x ")) for name in both}}
    frame["note"] = [_note(*each) for each in zip(effects, variance, high, fewest.values(), strict=True)]
    factors = {name: levels[name] for name in crossed if name != "judge"}
    design = {"row": rows, "repeat": answers / max(1, rows * math.prod(factors.values())), "judge": judges}
    return Components(
        frame=frame,
        mean=float(row_means.mean()) if rows else math.nan,
        mean_low=mean_low,
        mean_high=mean_high,
        mean_std=math.sqrt(float(weights @ positive)),
        rows=rows,
        answers=answers,
        judgements=len(data),
        design={**design, "judgement": len(data) / max(1, answers * judges), **factors},
        weights=dict(zip(effects, weights.tolist(), strict=True)),
        notes=tuple(notes),
    )


def _size(code: IntArray) -> int:
    return int(code.max(initial=-1)) + 1


def _crossed_effects(
    row: IntArray, codes: Mapping[str, IntArray]
) -> tuple[dict[str, IntArray], list[Effect], list[str]]:
    """Return judges and further factors with several levels, those that always change together under one name.

    Returns
    -------
    tuple
        Factor -> levels; pairs of factors whose interaction can be seen, as all of their levels meet; and notes.
    """
    effects: dict[str, IntArray] = {}
    notes = []
    for name, code in codes.items():
        meet = {other: len(pair_counts(levels, code)[0]) for other, levels in effects.items()}
        same = [other for other, count in meet.items() if count == _size(code) == _size(effects[other])]
        if same:
            notes.append(f"{same[0]} and {name} always change together: their luck is counted as that of {same[0]}.")
        elif _size(code) > 1:
            effects[name] = code

    def rank(kept: Collection[Effect]) -> int:
        levels = [level_codes(*(effects[name] for name in each)) for each in kept]
        design = np.hstack([np.zeros((len(row), 1)), *(np.eye(_size(code))[code] for code in levels)])
        means = np.array([np.bincount(row, column) / np.bincount(row) for column in design.T]).T
        apart = design - means[row]
        return int(np.linalg.matrix_rank(apart.T @ apart, tol=1e-9 * len(row), hermitian=True))

    def inseparable(every: Collection[Effect]) -> list[Effect]:
        whole = rank(every)
        degrees = {each: math.prod(int(effects[name].max()) for name in each) for each in every}
        return [each for each in every if whole - rank([*{*every} - {each}]) < degrees[each]]

    for (name,) in inseparable([(name,) for name in effects]):
        notes.append(f"{name}: its luck cannot be separated from that of rows or other factors. Cross them.")
        del effects[name]
    sizes = {
        pair: [_size(effects[name]) for name in pair] for pair in combinations(sorted(effects, key="judge".__ne__), 2)
    }
    pairs = [pair for pair, size in sizes.items() if math.prod(size) <= MOST_CELLS]
    pairs = [pair for pair in pairs if _size(level_codes(*(effects[name] for name in pair))) == math.prod(sizes[pair])]
    hidden = inseparable([*((name,) for name in effects), *pairs])
    return effects, [pair for pair in pairs if pair not in hidden], notes


def _nested_effects(row: IntArray, answer: IntArray, crossed: Mapping[str, IntArray]) -> dict[str, IntArray]:
    """Return the effects nested in rows, coarse first; those that the data cannot separate under one name."""
    candidates = {"row": row, **{f"row x {name}": level_codes(row, code) for name, code in crossed.items()}}
    candidates["answer"] = answer
    if "judge" in crossed and (both := level_codes(answer, crossed["judge"])).max() + 1 < len(row):
        candidates["answer x judge"] = both
    candidates["judgement"] = np.arange(len(row))
    effects: dict[str, IntArray] = {}
    for name, code in candidates.items():
        same = [other for other in effects if rows_apart(row, effects[other], code) < FEWEST_ROWS]
        effects = {other: levels for other, levels in effects.items() if other not in same}
        effects[JOINED.join([*same, name])] = code
    return dict(sorted(effects.items(), key=lambda each: int(each[1].max(initial=0))))


def _note(name: str, variance: float, high: float, levels: int) -> str:
    """Return what a reader must know of one source."""
    notes = []
    if JOINED in name:
        notes.append("cannot be separated in these data")
    if "row" not in name and "answer" not in name and "judgement" not in name:
        few = f"only {levels} levels: the interval covers about 90 %"
        notes.append(few if levels < FEWEST_LEVELS else "if few are unlike the rest, the interval covers about 90 %")
    if variance < 0:
        notes.append("below 0 by chance: it is small")
    if math.isnan(high) and not math.isnan(variance):
        notes.append("nothing varied: no upper limit")
    return "; ".join(notes)


def gain(found: Components) -> pd.DataFrame:
    """Return the standard error of the mean: now, and with one more of each.

    Parameters
    ----------
    found
        Variance components of the evaluation so far.

    Returns
    -------
    pandas.DataFrame
        ``design`` ("now", "one more row", ...), the numbers of the design (``row, repeat,
        judge, judgement`` and each factor), ``answers``, ``judgements``, ``mean_std`` (see :class:`Components`) and
        ``gain``, the part of today's ``mean_std`` that is saved. Luck that cannot be separated counts as its coarsest
        part, so a gain is never promised that more repeats or judges may not bring.

    Examples
    --------
    >>> lines = [(row, f"{row}-{number}", row % 2) for row in range(8) for number in range(2)]
    >>> frame = pd.DataFrame(lines, columns=["row", "answer", "value"]).assign(judge="exact match")
    >>> gain(components(frame)).set_index("design")["gain"].round(3)[["one more row", "one more repeat"]].tolist()
    [0.057, 0.0]
    """
    now = dict(found.design)
    designs = {"now": now, **{f"one more {name}": {**now, name: size + 1} for name, size in now.items()}}
    frame = pd.DataFrame([_line(name, found, design) for name, design in designs.items()])
    today = frame["mean_std"][0]
    return frame.assign(gain=1 - frame["mean_std"] / today if today > 0 else 0.0)


def _line(name: str, found: Components, design: Mapping[str, float]) -> dict[str, Any]:
    answers = math.prod(size for part, size in design.items() if part not in _OF_ANSWER)
    variance = 0.0
    for source, own in zip(found.frame["source"], found.frame["variance"], strict=True):
        shrinks = math.prod(found.design[part] / design[part] for part in _averages(source, design))
        variance += max(0.0, own) * found.weights[source] * shrinks
    sizes = {"answers": round(answers), "judgements": round(answers * design["judge"] * design["judgement"])}
    return {"design": name, **design, **sizes, "mean_std": math.sqrt(variance)}


def _averages(source: str, design: Mapping[str, float]) -> set[str]:
    """Return the parts of a design whose number divides the variance of a source in the mean."""
    of_answer = {name for name in design if name not in _OF_ANSWER}
    divisors = {"answer": of_answer, "answer x judge": of_answer | {"judge"}, "judgement": {*design}}
    return set.intersection(*(divisors.get(part, set(part.split(" x "))) for part in source.split(JOINED)))
