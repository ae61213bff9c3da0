"""Simulated studies for single numbers: scores that are accuracies, golden_std, first-order indices, the luck limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from _tables import (
    SETTINGS,
    Array,
    Shape,
    Variances,
    crossed,
    exponential,
    generator_of,
    heaviest,
    normal,
    text_of,
    truth,
)

from mlflow_l3d.analysis.importance.checks.evidence import Answers, Evidence, PlanFacts
from mlflow_l3d.analysis.importance.checks.runs import rare_classes
from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.estimators.crossed import crossed_estimate
from mlflow_l3d.analysis.importance.shape import single_run_limit
from mlflow_l3d.analysis.importance.tables import Tables, std_interval
from mlflow_l3d.designs import design_named
from mlflow_l3d.metrics.classification import F1_MACRO

MIXED: Final[tuple[Variances, ...]] = ((0.5, 0.25, 0.25), (0.8, 0.1, 0.1), (0.9, 0.05, 0.05))
EXAMPLES: Final = 100
LEVELS: Final = (0.95, 0.975, 0.99)
"""One factor, two, and five (or an interim analysis)."""
MEAN, SPREAD = 0.8, 0.05


def _collapsing(generator: np.random.Generator, *shape: int) -> Array:
    return np.where(generator.random(shape) < 0.05, -8.0, generator.standard_normal(shape))


GOLDEN: Final[Mapping[str, tuple[Shape, float]]] = {
    "normal": (normal, 1.0),
    "exponential": (exponential, 1.0),
    "5 % collapse": (_collapsing, math.sqrt(0.95 + 0.05 * 64 - 0.4**2)),
}


def further_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines: what, of which scores, and the share in %."""
    for rows, columns in ((20, 10), (100, 10), (200, 10), (40, 5)):
        for variances in MIXED:
            generator, true = generator_of(16, rows, variances), truth(variances)
            found = (crossed_estimate(crossed(generator, rows, columns, variances)) for _ in range(tables))
            held = sum(low <= true <= high for low, high in (_known(each).interval() for each in found))
            what = f"interval of crossed {rows} x {columns}, main effect and interaction"
            yield [what, text_of(variances), _percent(held, tables)]
    for variances in SETTINGS:
        yield [
            "interval of crossed 20 x 10, accuracies of 100 examples",
            text_of(variances),
            _accuracies(variances, tables),
        ]
    for name, (shape, deviation) in {**GOLDEN, "t3": (heaviest, 1.0)}.items():
        for runs in (10, 20, 50, 200):
            generator, held = np.random.default_rng([13, runs, len(name)]), np.zeros(len(LEVELS))
            for _ in range(tables):
                scores = shape(generator, runs)
                ends = np.array([std_interval(scores, level=level) for level in LEVELS])
                held += (ends[:, 0] <= deviation) & (deviation <= ends[:, 1])
            for level, count in zip(LEVELS, held, strict=True):
                yield [f"interval of golden_std at {100 * level:g} %, {runs} runs", name, _percent(count, tables)]
    crossed_design = design_named("crossed")
    for variances in SETTINGS:
        generator, held = generator_of(14, 20, variances), 0
        for _ in range(tables):
            scores = Tables({"f": crossed(generator, 20, 10, variances)}, normal(generator, 200))
            record = crossed_design.importances(scores)["f"]
            held += record.first_order_ci_low - 1e-9 <= variances[1] <= record.first_order_ci_high + 1e-9
        yield ["interval of the first-order index, crossed 20 x 10", text_of(variances), _percent(held, tables)]
    yield from _limits(tables)
    yield from _rare(tables)


def _limits(tables: int) -> Iterator[list[str]]:
    """Yield how many pairs of further runs lie further apart than the difference that may be luck."""
    for name, (shape, _) in GOLDEN.items():
        for runs in (10, 30, 100, 200):
            generator, beyond = np.random.default_rng([18, runs, len(name)]), 0.0
            for _ in range(tables):
                limit = single_run_limit(shape(generator, runs))
                first, second = shape(generator, 2, 500)
                beyond += float(np.mean(np.abs(first - second) > limit))
            yield ["further pairs beyond what may be luck", f"{name}, {runs} runs", _percent(beyond, tables)]


def _rare(tables: int) -> Iterator[list[str]]:
    """Yield how often L3D016 fires on 20 runs whose last class has some share of an even number of test examples."""
    for share in (1.0, 0.5, 0.25, 0.1):
        for right in (0.9, 0.6):
            generator, fired = np.random.default_rng([17, int(100 * share)]), 0
            for _ in range(tables):
                classes, size = generator.integers(3, 7), int(generator.choice([60, 300, 1000]))
                tested = np.full(classes, size // classes)
                tested[-1] = max(1, round(share * tested[-1]))
                hits = generator.binomial(tested, right, size=(20, classes))
                predicted = hits + generator.multinomial((tested - hits).sum(axis=1), np.full(classes, 1 / classes))
                answers = Answers(20, 0, tested.astype(float), predicted.mean(axis=0))
                evidence = Evidence(
                    importances={}, golden=np.zeros(0), metric=F1_MACRO, plan=PlanFacts(answers=answers)
                )
                fired += bool([*rare_classes(evidence)])
            yield ["L3D016, 3 to 6 classes", f"{share:g} of an even share, {right:g} right", _percent(fired, tables)]


def _accuracies(variances: Variances, tables: int) -> str:
    noise = (MEAN * (1 - MEAN) - SPREAD**2) / EXAMPLES
    total = SPREAD**2 + noise
    share = 1 - variances[0] * SPREAD**2 / total
    true = math.sqrt(share) - math.sqrt(1 - share)
    generator, held = generator_of(12, 20, variances), 0
    for _ in range(tables):
        chances = np.clip(MEAN + SPREAD * crossed(generator, 20, 10, variances), 0, 1)
        low, high = _known(crossed_estimate(generator.binomial(EXAMPLES, chances) / EXAMPLES)).interval()
        held += low <= true <= high
    return _percent(held, tables)


def _known(found: Estimate | None) -> Estimate:
    assert found is not None
    return found


def _percent(count: float, of: int) -> str:
    return f"{100 * count / of:.1f}"
