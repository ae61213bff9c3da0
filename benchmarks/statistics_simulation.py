"""How often intervals hold the truth, what the published score does, and how often a stopped investigation is wrong.

Scores are simulated, so the truth is known: ``y_ij = b_i + a_j + (ab)_ij`` with normal effects of the variances s2_R,
s2_F and s2_RF, which add up to 1. True importance: ``sqrt(s2_F + s2_RF) - sqrt(s2_R)``. Beside our intervals stand
those that resample rows alone, as if the columns of a crossed design were not a sample. Nothing is trained.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from _common import machine, table
from _further import further_lines
from _goals import HEAD, goal_lines
from _levels import levels_lines
from _planning import ASSURANCE, HALF_WIDTH, MOST_PILOTS, pilot_lines, planning_lines
from _ranking import LESS, MORE, ranking_lines
from _stopping import INTERIM_ANALYSES, stopped_lines, stopping_lines
from _tables import (
    SETTINGS,
    SIZES,
    Array,
    Shape,
    Variances,
    crossed,
    exponential,
    generator_of,
    log_normal,
    nested,
    normal,
    radial,
    text_of,
    truth,
)
from _two_parts import collapse_lines, tail_lines
from _unparsed import unparsed_lines
from _verdicts import published_lines, verdict_lines

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.checks.tables import CLOSURE_LEVEL, closure
from mlflow_l3d.analysis.importance.estimate import Estimate, importance_of_logit
from mlflow_l3d.analysis.importance.estimators import CROSSED, NESTED, TableModel
from mlflow_l3d.analysis.importance.estimators.crossed import (
    crossed_components,
    crossed_estimate,
    effects,
    mean_squares_without_one_row,
)
from mlflow_l3d.analysis.importance.estimators.nested import nested_estimate, radial_estimate
from mlflow_l3d.analysis.importance.verdicts import joint_level
from mlflow_l3d.analysis.intervals import LEVEL

CLOSURE_SETTINGS: Final[tuple[Variances, ...]] = ((0.5, 0.3, 0.2), (0.2, 0.1, 0.7), (0.8, 0.1, 0.1))
MISSING_SHARES: Final = (0.05, 0.2)
RESAMPLES: Final = 200


def rows_jackknife(table: Array) -> tuple[float, float]:
    """Return the interval from leaving rows out alone, with M - 1 degrees of freedom."""
    from scipy.stats import t

    rows, columns = table.shape
    whole = crossed_components(table)
    assert whole is not None
    of_rows, of_columns, residual = mean_squares_without_one_row(effects(table))
    contributed = of_columns / (rows - 1) + (1 - 1 / (rows - 1)) * residual
    mitigated = (of_rows - residual) / columns
    if whole.mitigated <= 0 or (mitigated <= 0).any():
        return -1.0, 1.0
    each = np.log(contributed / mitigated)
    error = math.sqrt((rows - 1) / rows * float(np.square(each - each.mean()).sum()))
    half, centre = float(t.ppf(0.975, rows - 1)) * error, math.log(whole.contributed / whole.mitigated)
    return importance_of_logit(centre - half), importance_of_logit(centre + half)


def rows_bootstrap(table: Array, generator: np.random.Generator) -> tuple[float, float]:
    """Return the percentile interval from resampling rows alone."""
    rows, columns = table.shape
    drawn = table[generator.integers(rows, size=(RESAMPLES, rows))]
    of_rows, of_columns = drawn.mean(axis=2), drawn.mean(axis=1)
    residuals = drawn - of_rows[:, :, None] - of_columns[:, None, :] + of_rows.mean(axis=1)[:, None, None]
    residual = np.square(residuals).sum(axis=(1, 2)) / ((rows - 1) * (columns - 1))
    contributed = of_columns.var(axis=1, ddof=1) + (1 - 1 / rows) * residual
    mitigated = np.maximum(0.0, of_rows.var(axis=1, ddof=1) - residual / columns)
    share = contributed / (contributed + mitigated)
    low, high = np.quantile(np.sqrt(share) - np.sqrt(1 - share), [0.025, 0.975])
    return float(low), float(high)


SHAPES: Final[dict[str, Shape]] = {
    "normal": normal,
    "exponential": exponential,
    "log-normal": log_normal,
    "5 % collapse": normal,
}


def interval_of(found: Estimate | None) -> tuple[float, float]:
    """Return the interval of an estimate that is there."""
    assert found is not None
    return found.interval()


def coverage_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines of the first table; the rows-only intervals see the same crossed tables as ours."""
    for rows, columns in SIZES:
        for variances in SETTINGS:
            generator, true = generator_of(1, rows, variances), truth(variances)
            inside = np.zeros(5)
            for _ in range(tables):
                scores = crossed(generator, rows, columns, variances)
                intervals = np.array(
                    [
                        interval_of(crossed_estimate(scores)),
                        interval_of(nested_estimate(nested(generator, rows, columns, variances))),
                        interval_of(radial_estimate(radial(generator, rows, variances), 1)),
                        rows_jackknife(scores),
                        rows_bootstrap(scores, generator),
                    ]
                )
                inside += (intervals[:, 0] <= true) & (true <= intervals[:, 1])
            found = [f"{100 * share:.1f}" for share in inside / tables]
            yield [f"{rows} x {columns}", text_of(variances), f"{true:+.2f}", *found]


def score_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines of the second table: published and corrected score of crossed tables."""
    for rows, columns in SIZES:
        for variances in SETTINGS:
            generator = generator_of(2, rows, variances)
            published, corrected = np.empty(tables), np.empty(tables)
            for each in range(tables):
                scores = crossed(generator, rows, columns, variances)
                record = importance(scores, generator.standard_normal(rows * columns))
                published[each], corrected[each] = record.importance, record.importance_corrected
            true = truth(variances)
            numbers = []
            for found in (published, corrected):
                numbers += [f"{found.mean() - true:+.3f}", f"{found.std(ddof=1):.3f}"]
            yield [f"{rows} x {columns}", text_of(variances), f"{true:+.2f}", *numbers]


def missing_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines of tables that lack cells: distance from the score of the whole table, and coverage.

    Beside ours stands the same table without its incomplete rows.
    """
    for model, draw in ((CROSSED, crossed), (NESTED, nested)):
        for share in MISSING_SHARES:
            for variances in SETTINGS:
                generator, true = generator_of(4, round(1000 * share), variances), truth(variances)
                far, held = np.full((tables, 4), np.nan), 0
                for each in range(tables):
                    scores = draw(generator, 20, 10, variances)
                    gaps = np.where(generator.random(scores.shape) < share, np.nan, scores)
                    golden, parts = generator.standard_normal(200), (gaps, gaps[np.isfinite(gaps).all(axis=1)])
                    whole, *found = (importance(part, golden, model=model) for part in (scores, *parts))
                    far[each] = [
                        getattr(record, name) - getattr(whole, name)
                        for name in ("importance", "importance_corrected")
                        for record in reversed(found)
                    ]
                    held += found[0].importance_corrected_ci_low <= true <= found[0].importance_corrected_ci_high
                rms = [f"{math.sqrt(np.nanmean(np.square(column))):.3f}" for column in far.T]
                none = f"{100 * np.isnan(far[:, 0]).mean():.1f}"
                numbers = [*rms, none, f"{100 * held / tables:.1f}"]
                yield [model.name, f"{100 * share:g} %", text_of(variances), f"{true:+.2f}", *numbers]


def product(sets: Array) -> Array:
    """Return (1 + x1)(1 + x2) of normal x, of which each factor has S_T = 2/3."""
    return np.asarray((1 + sets[..., 0]) * (1 + sets[..., 1]))


def pure_product(sets: Array) -> Array:
    """Return x1 x2, which acts by interaction alone: S_T = 1."""
    return np.asarray(sets[..., 0] * sets[..., 1])


def g_function(sets: Array) -> Array:
    """Return the G-function of Saltelli and Sobol' (1995) with a = 0, 1, 4.5, 9, of the uniform quantiles of x."""
    from scipy.special import ndtr

    a = np.array([0.0, 1.0, 4.5, 9.0])
    return np.asarray(np.prod((np.abs(4 * ndtr(sets) - 2) + a) / (1 + a), axis=-1))


def radial_lines(tables: int) -> Iterator[list[str]]:
    """Yield lines of scores with interactions: coverage in the radial design, of each factor and of all together."""
    a = np.array([0.0, 1.0, 4.5, 9.0])
    partial = 1 / (3 * (1 + a) ** 2)
    of_g = [partial[k] * np.prod(np.delete(1 + partial, k)) / (np.prod(1 + partial) - 1) for k in range(4)]
    cases = (("(1 + x1)(1 + x2)", product, [2 / 3] * 2), ("x1 x2", pure_product, [1.0] * 2), ("G", g_function, of_g))
    for rows in (5, 10, 20, 100):
        for name, score, shares in cases:
            generator, held = np.random.default_rng([6, rows, len(shares)]), np.zeros(len(shares))
            level, together = joint_level(LEVEL, len(shares)), 0
            for _ in range(tables):
                base, fresh = generator.standard_normal((2, rows, len(shares)))
                changed = [np.where(np.arange(len(shares)) == k, fresh, base) for k in range(len(shares))]
                sets = np.column_stack([score(base), *map(score, changed)])
                all_hold = True
                for k, share in enumerate(shares):
                    estimate, true = radial_estimate(sets, k + 1), math.sqrt(share) - math.sqrt(1 - share)
                    assert estimate is not None
                    (low, high), (joint_low, joint_high) = estimate.interval(), estimate.interval(level)
                    held[k] += low <= true <= high
                    all_hold &= joint_low <= true <= joint_high
                together += all_hold
            numbers = [
                ", ".join(f"{value:.2f}" for value in shares),
                ", ".join(f"{100 * each / tables:.1f}" for each in held),
                f"{100 * together / tables:.1f}",
            ]
            yield [str(rows), name, *numbers]


def closure_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines of the closure check: false alarms, and how often twice the golden standard deviation is seen."""
    for model, draw in ((CROSSED, crossed), (NESTED, nested)):
        for rows, columns in ((20, 10), (100, 10)):
            for variances in CLOSURE_SETTINGS:
                for kind, shape in SHAPES.items():
                    alarms = np.zeros((2, 2))
                    generator = generator_of(5, rows, variances)
                    for doubled in range(2):
                        for _ in range(tables):
                            scores = draw(generator, rows, columns, variances, shape)
                            golden = (1 + doubled) * nested(generator, rows * columns, 1, variances, shape)[:, 0]
                            chance = None
                            if kind == "5 % collapse":
                                chance = -5.0
                                scores, golden = (
                                    np.where(generator.random(each.shape) < 0.05, -8.0, each)
                                    for each in (scores, golden)
                                )
                            found = closure(scores, golden, model, chance=chance)
                            assert found is not None
                            alarms[doubled] += found.p < CLOSURE_LEVEL, _f_test(scores, golden, model) < CLOSURE_LEVEL
                    shares = [f"{share:.3f}" for share in (alarms / tables)[:, ::-1].reshape(-1)]
                    yield [model.name, f"{rows} x {columns}", text_of(variances), kind, *shares]


def _f_test(scores: Array, golden: Array, model: TableModel) -> float:
    """Return the p-value of the F test of the two total variances, which takes scores to be normal."""
    from scipy.stats import f

    estimate = model.estimate(scores)
    assert estimate is not None
    squares = estimate.squares
    assert squares is not None
    ratio = f(squares.total_degrees, len(golden) - 1)
    seen = squares.total / golden.var(ddof=1)
    return 2 * min(float(ratio.cdf(seen)), float(ratio.sf(seen)))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tables", type=int, default=2000, help="simulated investigations a number (default 2000)")
    parser.add_argument("--part", help="only this part, such as verdicts; all by default")
    given = parser.parse_args()
    tables = given.tables
    print(machine())
    size = ("M x N", "s2_R, s2_F, s2_RF", "truth")
    interim_analyses = ", ".join(map(str, INTERIM_ANALYSES))
    parts: dict[str, tuple[str, tuple[str, ...], Callable[[int], Iterator[list[str]]]]] = {
        "coverage": (
            f"Coverage in % of 95 % intervals ({tables} tables each; radial: M base runs, 2 factors)",
            (*size, "crossed", "nested", "radial", "rows-only jackknife", "rows-only bootstrap"),
            coverage_lines,
        ),
        "levels": (
            f"Coverage in % of 95 % intervals, all levels of a fixed list under every row ({tables} tables each)",
            (*size, "normal", "exponential", "normal, as if columns were drawn"),
            levels_lines,
        ),
        "score": (
            f"Published and corrected score of crossed tables ({tables} each; L = M N golden runs)",
            (*size, "bias published", "sd published", "bias corrected", "sd corrected"),
            score_lines,
        ),
        "missing": (
            f"20 x 10 tables that lack cells: root mean square distance from the whole table ({tables} tables each)",
            (
                *("design", "missing", "s2_R, s2_F, s2_RF", "truth", "published, complete rows", "published"),
                *("corrected, complete rows", "corrected", "no score from complete rows %", "coverage %"),
            ),
            missing_lines,
        ),
        "radial": (
            f"Coverage in % of 95 % intervals, radial design, scores that are no sums ({tables} tables each)",
            ("base runs", "score", "S_T", "coverage of each factor", "of all together"),
            radial_lines,
        ),
        "closure": (
            f"Closure check: share of tables with an alarm, golden standard deviation true or doubled ({tables} each)",
            (
                *("design", "M x N", "s2_R, s2_F, s2_RF", "effects"),
                *("F test", "ours", "F test, doubled", "ours, doubled"),
            ),
            closure_lines,
        ),
        "collapse": (
            f"A score in two parts, 10 % of the runs collapse ({tables} tables each, three settings of variances)",
            ("design", "M", "what decides", "coverage %: whole score", "the other runs", "share of collapses"),
            collapse_lines,
        ),
        "tails": (
            f"Long tails: how often L3D013 speaks, coverage of 95 % intervals ({tables} tables each, three settings)",
            ("design", "M", "effects", "speaks %", "coverage %"),
            tail_lines,
        ),
        "planning": (
            f"Planner, half-width {HALF_WIDTH:g}: how often the interval is as narrow ({tables} tables each)",
            ("design", "s2_R, s2_F, s2_RF", "expected: M x N", "met %", f"{ASSURANCE:.0%} assurance: M x N", "met %"),
            planning_lines,
        ),
        "pilots": (
            f"Plans from pilots, half-width {HALF_WIDTH:g} with {ASSURANCE:.0%}: how often kept ({MOST_PILOTS} each)",
            ("design", "pilot", "world", "kept %", "cells needed, median"),
            pilot_lines,
        ),
        "ranking": (
            f"Two factors of importance {MORE:g} and {LESS:g}: how often they are told apart ({tables} studies each)",
            ("cells", "design", "s2 of their interaction", "told %", "the other way %"),
            ranking_lines,
        ),
        "stopping": (
            f"False decisions in % at a true importance of 0 ({tables} investigations each, {interim_analyses} rows)",
            ("effects", "design", "N", "factor acts by", "stop=interval, alpha 5 %", "95 % interval at every look"),
            stopping_lines,
        ),
        "unparsed": (
            f"Answers that name no class, F1 macro of two classes in points (medians of {tables} investigations)",
            ("answers without a class", "metric", "mean", "golden", "contributed", "mitigated", "importance"),
            unparsed_lines,
        ),
        "stopped": (
            f"What stop=interval shows at its end, {INTERIM_ANALYSES[-1]} rows at most ({tables} investigations each)",
            ("design", "N", "truth", "coverage %: fixed", "shown", "claims %", "bias of claims", "bias of all"),
            stopped_lines,
        ),
        "published": (
            f"What the published importance tends to: coverage in % of its 95 % interval ({tables} tables each)",
            ("design", "M x N", "rows", "truth", "covers %"),
            published_lines,
        ),
        "verdicts": (
            f"Verdicts in % at a share of .5 (all are false) and .8 ({tables} tables each)",
            ("design", "M x N", "effects", "s2_R, s2_F, s2_RF", "dominates %", "minor %"),
            verdict_lines,
        ),
        "further": (
            f"Shares in % of single numbers ({tables} simulations each)",
            ("what", "scores", "%"),
            further_lines,
        ),
    }
    found: dict[str, list[list[str]]] = {}
    for name, (title, head, lines) in parts.items():
        if given.part not in (None, name):
            continue
        began = time.perf_counter()
        found[name] = list(lines(tables))
        print(f"\n{title}; {time.perf_counter() - began:.0f} s\n\n{table(head, found[name])}", flush=True)
    if given.part is None:
        print(f"\nAll figures: lowest to highest\n\n{table(HEAD, list(goal_lines(found, tables)))}")


if __name__ == "__main__":
    main()
