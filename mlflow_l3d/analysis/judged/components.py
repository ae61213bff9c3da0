"""Which luck the judgements of one scorer have: components of rows, answers, judges and so on, and their intervals."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.variances import FEWEST_LEVELS
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, IntArray, t_quantile, unseen_share
from mlflow_l3d.analysis.judged import Components
from mlflow_l3d.analysis.judged.moments import (
    FEWEST_ROWS,
    JOINED,
    Effect,
    Effects,
    Moments,
    estimate_moments,
    nested_effects,
    pair_counts,
)
from mlflow_l3d.analysis.judged.table import level_codes, mean_interval, scale_notes, usable_judgements
from mlflow_l3d.errors import ParameterError

MANY_ROWS: Final = 100
"""Rows below which an interval of their variance may cover less often than it says; those of the most common mean count
once."""
MOST_CELLS: Final = 100
"""Combinations of levels of two factors above which their interaction is not looked for."""


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
    :func:`variance_limits` for the intervals; the variance of a single source of 0 and 1 is m (1 - m), so the interval
    of the mean m gives its own. The headline interval of the mean is that for these judges and prompts: they are what
    you can keep the same in the next evaluation. `mean_std` also counts the luck of which judges and prompts were
    drawn.

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
    model = Effects(nested_effects(row, answer, crossed), crossed, pairs)
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


def _note(name: str, variance: float, high: float, levels: int) -> str:
    """Return what a reader must know of one source."""
    notes = []
    if JOINED in name:
        notes.append("cannot be separated in these data")
    if "row" not in name and "answer" not in name and "judgement" not in name:
        few = f"only {levels} levels: a wide interval, which covers 90 % or more"
        notes.append(few if levels < FEWEST_LEVELS else "if few are unlike the rest, the interval covers about 90 %")
    if variance < 0:
        notes.append("below 0 by chance: it is small")
    if math.isnan(high) and not math.isnan(variance):
        notes.append("nothing varied: no upper limit")
    return "; ".join(notes)


SETS: Final = 6
"""Judges are left out one at a time up to this number, else in so many sets; so are levels of other factors."""
MOST_LEVELS: Final = 30
"""Of more judges it does not matter which were drawn."""
NOTHING: Final = 1e-12
"""Part of the mean square of all values that counts as no variance."""
LEAST: Final = 0.8
"""Part of a spread over rows that is left if judges differ less than rows explain: by simulation."""
FEW: Final = 30.0, 5.0
"""Upper limits on the log scale take 1 + 30 / (levels + 5) times the spread: by simulation, for skewed rows, too."""
MOST: Final = 3.0
"""Upper limits are not stretched beyond exp(3) times the mean square."""
TAIL: Final = (1 - LEVEL) / 2
FEWEST_DEGREES: Final = 3.0
"""Of the spread of a mean square: with fewer its limits are useless and hold the truth no more often."""
_KNOWN: Final = 1e6
"""Degrees of freedom of what does not vary."""


def variance_limits(moments: Moments, values: FloatArray, effects: Effects) -> tuple[FloatArray, FloatArray]:
    """Return the limits of the variances of :class:`Moments`, at least 0; the upper is nan if nothing varied.

    Notes
    -----
    A variance is the difference of a mean square and the noise in it. Both have limits of their own, which are joined
    as in the modified large-sample intervals of Graybill and Wang (1980), with the correlation that leaving rows out
    shows (Zou and Donner 2008). Mean squares of effects nested in rows have chi-square limits with the degrees of
    freedom that fit their jackknife variance over rows, so rows need not be normal. That variance is raised for being
    an estimate: Student's quantile replaces the normal one, with the degrees of freedom that its own jackknife shows.
    Their upper limits lie on the log scale (as Bonett's of 2006): few skewed rows make chi-square ones endless.
    Mean squares of judges and other crossed factors have one degree less than levels, interactions the product of
    these, and fewer if levels are skewed (three quarters below five levels, which do not show it). They are noise in
    those of their factors, of which they are few draws, too. Which judges were drawn also moves the other variances if
    values are 0 and 1: the jackknife variance over levels, less what rows explain of it, widens their limits.
    """
    from scipy.special import chdtri, stdtrit

    nested, variances = len(effects.nested), moments.variances
    parts = moments.parts()
    scale = NOTHING * float(np.square(values).mean())
    sizes = np.maximum(parts[:2], 0.0)
    without = np.array(parts[2:])
    groups = without.shape[1]
    apart = without - without.mean(axis=1, keepdims=True)
    squares = np.square(apart).sum(axis=1)
    # The spread of a mean square is an estimate, which a few rows may make up: its own jackknife shows that.
    rest = np.log(np.maximum(squares[:, None] - np.square(apart), np.finfo(np.float64).tiny))
    known = np.maximum(FEWEST_DEGREES, 2 / np.maximum((groups - 1) * rest.var(axis=1), 1 / _KNOWN))
    spreads = (groups - 1) / groups * squares * np.square(stdtrit(known, 1 - TAIL) / stdtrit(_KNOWN, 1 - TAIL))
    drawn, squared = sum(_luck_of_levels(values, effects, name) for name in effects.crossed) + np.zeros((2, 2, nested))
    spreads[:, :nested] = np.maximum(LEAST * spreads[:, :nested], spreads[:, :nested] + np.minimum(drawn, 0.0))
    spreads[1] += 2 * np.square(moments.noise[:, nested:] * variances[nested:]) @ (1 / moments.degrees)
    with np.errstate(invalid="ignore", divide="ignore"):
        degrees = np.where(spreads > 0, np.maximum(0.5, 2 * sizes**2 / spreads), _KNOWN)
        correlation = np.nan_to_num(apart.prod(axis=0).sum(axis=0) / np.sqrt(squares.prod(axis=0)))
    degrees[0, nested:], correlation[nested:] = moments.degrees, 0.0
    below, above = (np.abs(sizes - sizes * degrees / chdtri(degrees, tail)) for tail in (TAIL, 1 - TAIL))
    own = sizes[:, :nested]
    few = 1 + FEW[0] / (np.array([code.max() + 1 for code in effects.nested.values()]) + FEW[1])
    above[0, :nested] = own[0] * np.expm1(stdtrit(_KNOWN, 1 - TAIL) * np.sqrt(2 * few / degrees[0, :nested]))
    ratio = np.divide(np.sqrt(np.maximum(squared, 0.0)), own, out=np.zeros_like(own), where=own > scale)
    below[:, :nested] = np.hypot(below[:, :nested], own * -np.expm1(-ratio))
    above[:, :nested] = np.hypot(above[:, :nested], own * np.expm1(np.minimum(ratio, MOST)))
    down = below[0] ** 2 + above[1] ** 2 - 2 * correlation * below[0] * above[1]
    up = above[0] ** 2 + below[1] ** 2 - 2 * correlation * above[0] * below[1]
    # A variance below 0 is luck, so the upper limit takes it as 0.
    high = np.maximum(variances, 0.0) + np.sqrt(np.maximum(up, 0.0))
    low = variances - np.sqrt(np.maximum(down, 0.0))
    return np.where(low > scale, low, 0.0), np.where(parts[0] > scale, high, math.nan)


def _luck_of_levels(values: FloatArray, effects: Effects, name: str) -> FloatArray:
    """Return what the drawn levels add to nested mean squares and noises: variances, and squares of half-widths.

    Both are below 0 by chance if that is little, and 0 for few or many levels.
    """
    code = effects.crossed[name]
    levels = int(code.max()) + 1
    if not 3 <= levels <= MOST_LEVELS:
        return np.zeros((2, 2, len(effects.nested)))
    set_of = np.arange(levels) * min(SETS, levels) // levels
    sets = int(set_of.max()) + 1
    parts = []
    for left_out in range(sets):
        kept = set_of[code] != left_out
        fewer = [{each: level_codes(of[kept]) for each, of in every.items()} for every in effects[:2]]
        try:
            parts.append(estimate_moments(values[kept], Effects(fewer[0], fewer[1], effects.pairs)).parts())
        except np.linalg.LinAlgError:  # without these levels some sources cannot be separated
            return np.zeros((2, 2, len(effects.nested)))
    estimates, groups = np.array([each[:2] for each in parts]), min(len(each[2]) for each in parts)
    without = np.array([[of[:groups] for of in each[2:]] for each in parts])
    apart = without - without.mean(axis=0)
    of_rows = np.square(apart - apart.mean(axis=2, keepdims=True)).sum(axis=(0, 2)) * (groups - 1) / groups
    of_rows *= groups == max(len(each[2]) for each in parts)  # else some rows have no other judge
    of_levels = np.square(estimates - estimates.mean(axis=0)).sum(axis=0)
    every = (sets - 1) / sets * (of_levels - of_rows)[:, : len(effects.nested)]
    return np.array([every, t_quantile(sets - 1) ** 2 * every])
