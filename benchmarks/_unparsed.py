"""What answers that name no class do to the spread of F1 macro, as it is published and as the package has it.

Two classes, accuracies near those published for Flan-T5 on SST-2 (78.2 with a standard deviation of 2.2 points), 1,000
test examples, 20 x 10 cells and 200 golden runs. Whether an answer names no class depends on nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.metrics.known import scores_of

Array = npt.NDArray[np.float64]

SHARES: Final = (0.0, 0.001, 0.005, 0.01, 0.02)
METRICS: Final = ("f1_macro", "f1_macro_published")
MEAN: Final = 0.78
EFFECTS: Final = (0.008, 0.013, 0.008)
"""Standard deviations over rows, over columns, and of both together."""
_OF_CLASS: Final = 500
_SIZE: Final = (20, 10)


def scores(generator: np.random.Generator, accuracies: Array, share: float) -> dict[str, Array]:
    """Return the metrics of runs with these accuracies, of whose answers a share names no class."""
    unparsed = generator.binomial(_OF_CLASS, share, (2, *accuracies.shape))
    right = generator.binomial(_OF_CLASS - unparsed, accuracies)
    wrong = _OF_CLASS - unparsed - right
    f1 = (2 * right / (_OF_CLASS + right + wrong[::-1])).mean(axis=0)
    published = np.where(unparsed.any(axis=0), 2 / 3, 1.0) * f1
    _check(*(counts[:, *(0,) * accuracies.ndim] for counts in (unparsed, right)), (f1.flat[0], published.flat[0]))
    return dict(zip(METRICS, (f1, published), strict=True))


def _check(unparsed: npt.NDArray[np.int64], right: npt.NDArray[np.int64], expected: tuple[float, float]) -> None:
    """Compare the first run with the package's own metrics."""
    labels = np.repeat([0, 1], _OF_CLASS)
    parts = [[-1] * unparsed[k] + [k] * right[k] + [1 - k] * (_OF_CLASS - unparsed[k] - right[k]) for k in (0, 1)]
    found = scores_of(labels, np.array([*parts[0], *parts[1]]), classes=2, only=METRICS)
    np.testing.assert_allclose([found[name] for name in METRICS], expected, rtol=1e-12)


def unparsed_lines(tables: int) -> Iterator[list[str]]:
    """Yield golden_std, contributed and mitigated std and importance of each metric; medians over investigations."""
    for share in SHARES:
        generator = np.random.default_rng([9, round(1e4 * share)])
        found: dict[str, list[tuple[float, ...]]] = {name: [] for name in METRICS}
        for _ in range(tables):
            rows, columns, both = (
                std * generator.standard_normal(shape)
                for std, shape in zip(EFFECTS, ((_SIZE[0], 1), (1, _SIZE[1]), _SIZE), strict=True)
            )
            golden = np.hypot.reduce(EFFECTS) * generator.standard_normal(_SIZE[0] * _SIZE[1])
            cells = scores(generator, MEAN + rows + columns + both, share)
            drawn = scores(generator, MEAN + golden, share)
            for name in METRICS:
                record = importance(100 * cells[name], 100 * drawn[name])
                numbers = record.golden_std, record.contributed_std, record.mitigated_std, record.importance
                found[name].append((record.score_mean, *numbers))
        for name in METRICS:
            middle = np.median(found[name], axis=0)
            yield [f"{100 * share:g} %", name, *(f"{value:.2f}" for value in middle)]
