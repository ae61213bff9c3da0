"""Simulated tables whose variances, and so whose importance, are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Variances = tuple[float, float, float]
Shape = Callable[..., Array]

SETTINGS: Final[tuple[Variances, ...]] = ((0.5, 0.5, 0.0), (0.5, 0.0, 0.5), (0.9, 0.1, 0.0), (0.1, 0.9, 0.0))
SIZES: Final = ((20, 10), (100, 10))


def normal(generator: np.random.Generator, *shape: int) -> Array:
    """Return effects of variance 1."""
    return generator.standard_normal(shape)


def exponential(generator: np.random.Generator, *shape: int) -> Array:
    """Return effects of variance 1 with a long tail."""
    return generator.standard_exponential(shape) - 1


def log_normal(generator: np.random.Generator, *shape: int) -> Array:
    """Return effects of variance 1 with a very long tail."""
    return (generator.lognormal(size=shape) - math.exp(0.5)) / math.sqrt(math.e * (math.e - 1))


def heavy(generator: np.random.Generator, *shape: int) -> Array:
    """Return effects of variance 1 of Student's t with five degrees of freedom."""
    return generator.standard_t(5, shape) / math.sqrt(5 / 3)


def heaviest(generator: np.random.Generator, *shape: int) -> Array:
    """Return effects of variance 1 of Student's t with three degrees of freedom, whose kurtosis is infinite."""
    return generator.standard_t(3, shape) / math.sqrt(3)


def skewed(generator: np.random.Generator, *shape: int) -> Array:
    """Return effects of variance and skewness 1 (gamma)."""
    return (generator.gamma(4.0, size=shape) - 4) / 2


def crossed(
    generator: np.random.Generator, rows: int, columns: int, variances: Variances, shape: Shape = normal
) -> Array:
    """Return a table with the same columns under every row, shape (M, N)."""
    b, a, ab = np.sqrt(variances)
    table = b * shape(generator, rows, 1) + a * shape(generator, 1, columns) + ab * shape(generator, rows, columns)
    return np.asarray(table)


def nested(
    generator: np.random.Generator, rows: int, columns: int, variances: Variances, shape: Shape = normal
) -> Array:
    """Return a table whose rows have columns of their own, shape (M, N)."""
    tau = math.sqrt(variances[1] + variances[2])
    return np.asarray(math.sqrt(variances[0]) * shape(generator, rows, 1) + tau * shape(generator, rows, columns))


def radial(generator: np.random.Generator, rows: int, variances: Variances, shape: Shape = normal) -> Array:
    """Return base, swap of the factor, and swap of all others together, shape (n, 3)."""
    b, a, ab = np.sqrt(variances)
    others, other_others, own, own_again = shape(generator, 4, rows)
    pairs = shape(generator, rows, 3)
    effects = np.column_stack([b * others + a * own, b * others + a * own_again, b * other_others + a * own])
    return np.asarray(effects + ab * pairs)


def truth(variances: Variances) -> float:
    """Return the true importance."""
    return math.sqrt(variances[1] + variances[2]) - math.sqrt(variances[0])


def generator_of(part: int, size: int, variances: Variances) -> np.random.Generator:
    return np.random.default_rng([part, size, *(round(100 * variance) for variance in variances)])


def text_of(variances: Variances) -> str:
    return ", ".join(f"{part:g}" for part in variances)
