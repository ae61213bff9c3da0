"""Simulated investigations that a rule may stop: false claims, and what is shown at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from _tables import (
    Array,
    Shape,
    Variances,
    crossed,
    exponential,
    generator_of,
    heavy,
    nested,
    normal,
    radial,
    skewed,
)

from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.estimators.crossed import crossed_estimate
from mlflow_l3d.analysis.importance.estimators.nested import nested_estimate, radial_estimate
from mlflow_l3d.analysis.importance.shape import long_tails
from mlflow_l3d.analysis.planning.stopping import IntervalRule

NULLS: Final[dict[str, Variances]] = {
    "main effect": (0.5, 0.5, 0.0),
    "interaction": (0.5, 0.0, 0.5),
    "both": (0.5, 0.25, 0.25),
}
INTERIM_ANALYSES: Final = (20, 40, 80, 160, 320)
DESIGNS: Final = (("crossed", 5), ("crossed", 10), ("nested", 3), ("nested", 10), ("radial", 2))
TRUTHS: Final = (0.0, 0.1, 0.2, 0.4)
HALF_WIDTH: Final = 0.1
STOPPING_SHAPES: Final[dict[str, Shape]] = {
    "normal": normal,
    "exponential": exponential,
    "t, 5 degrees": heavy,
    "skewness 1": skewed,
}


def naive(scores: Array, estimate: Callable[[Array], Estimate | None]) -> bool:
    """Return whether the 95 % interval excludes 0 at any look: a rule that spends alpha anew at each."""
    for rows in INTERIM_ANALYSES:
        found = estimate(scores[:rows])
        assert found is not None
        low, high = found.interval()
        if low > 0 or high < 0:
            return True
    return False


def claims(scores: Array, golden: Array, estimate: Callable[[Array], Estimate | None]) -> bool:
    """Return whether the interval rule makes a claim at any look; `golden` has those of a row in a row."""

    def tails(rows: int) -> bool:
        return long_tails(golden[:rows].reshape(-1), scores[:rows, :2] if estimate is first_factor else scores[:rows])

    return IntervalRule(1e-6).analyse(len(scores), lambda rows: estimate(scores[:rows]), tails).claim != ""


def first_factor(sets: Array) -> Estimate | None:
    """Return the estimate of the first factor of a radial design."""
    return radial_estimate(sets, 1)


ESTIMATES: Final = {"crossed": crossed_estimate, "nested": nested_estimate, "radial": first_factor}


def stopping_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines of the stopping rule: false decisions at a true importance of 0."""
    last = INTERIM_ANALYSES[-1]
    for kind, shape in STOPPING_SHAPES.items():
        for name, variances in NULLS.items():
            for design, columns in DESIGNS:
                generator, wrong = generator_of(3, columns, variances), np.zeros(2)
                for _ in range(tables):
                    scores = drawn(design, generator, columns, variances, shape)
                    golden = scores
                    if design != "radial":
                        golden = nested(generator, last * columns, 1, variances, shape).reshape(last, columns)
                    wrong += claims(scores, golden, ESTIMATES[design]), naive(scores, ESTIMATES[design])
                yield [kind, design, str(columns), name, *(f"{100 * share:.2f}" for share in wrong / tables)]


def drawn(
    design: str, generator: np.random.Generator, columns: int, variances: Variances, shape: Shape = normal
) -> Array:
    """Return the scores of all rows of an investigation."""
    last = INTERIM_ANALYSES[-1]
    if design == "radial":
        return radial(generator, last, variances, shape)
    return (crossed if design == "crossed" else nested)(generator, last, columns, variances, shape)


def stopped_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines of what is shown at the end: coverage of both intervals, and how far scores lie off."""
    last = INTERIM_ANALYSES[-1]
    for design, columns in DESIGNS[1:]:
        estimate = ESTIMATES[design]
        for true in TRUTHS:
            share = (1 + true * math.sqrt(2 - true**2)) / 2
            variances = (1 - share, share / 2, share / 2)
            generator, held, off, of_claims = generator_of(9, columns, variances), np.zeros(2), [], []
            for _ in range(tables):
                scores, rule = drawn(design, generator, columns, variances), IntervalRule(HALF_WIDTH)
                look = rule.analyse(last, lambda rows, scores=scores, estimate=estimate: estimate(scores[:rows]))
                found = estimate(scores[: look.rows])
                assert found is not None
                for place, (low, high) in enumerate((found.interval(), found.careful_interval(rule.level(look.rows)))):
                    held[place] += low <= true <= high
                off.append(found.importance - true)
                of_claims += off[-1:] if look.claim else []
            numbers = [*(f"{100 * share:.1f}" for share in held / tables), f"{100 * len(of_claims) / tables:.1f}"]
            biases = (f"{np.mean(each):+.3f}" if len(each) >= 0.02 * tables else "" for each in (of_claims, off))
            yield [design, str(columns), f"{true:g}", *numbers, *biases]
