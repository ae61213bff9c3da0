"""Simulated investigations as they were planned: how often the interval is as narrow as was wanted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Final

import numpy as np
from _tables import Array, Variances, crossed, nested, radial, text_of

from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.planning.assurance import Outlook
from mlflow_l3d.designs import Design, design_named

HALF_WIDTH: Final = 0.2
MOST_PILOTS: Final = 200
ASSURANCE: Final = 0.8
PLANNED: Final[tuple[Variances, ...]] = (
    (0.9, 0.1, 0.0),
    (0.9, 0.05, 0.05),
    (0.5, 0.5, 0.0),
    (0.5, 0.25, 0.25),
    (0.1, 0.9, 0.0),
    (0.1, 0.45, 0.45),
)


def planning_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines: runs for the expected half-width, and for one that is kept with the assurance; how often met."""
    for name in ("crossed", "nested"):
        design = design_named(name)
        for place, variances in enumerate(PLANNED):
            others, main, both = variances
            known = VarianceComponents("crossed", "anova", 0, 0, main + both, others, main, both)
            parts = []
            for assurance in (None, ASSURANCE):
                found = design.needed(HALF_WIDTH, known, assurance=assurance)
                generator = np.random.default_rng([11, place])
                met = sum(
                    _half_width(design, generator, found.rows, found.columns, variances) <= HALF_WIDTH
                    for _ in range(tables)
                )
                parts += [f"{found.rows} x {found.columns}", f"{100 * met / tables:.0f}"]
            yield [name, text_of(variances), *parts]


MIXED: Final[tuple[Variances, ...]] = ((0.8, 0.1, 0.1), (0.5, 0.25, 0.25), (0.2, 0.4, 0.4))
SENSITIVITIES: Final = np.array([0.0, 1.0, 2.0, 4.5, 9.0, 99.0])
"""Of the synthetic approach at its defaults."""
PILOTS: Final = (
    *(("crossed", 3, 3), ("crossed", 10, 5), ("crossed", 20, 10)),
    *(("nested", 5, 3), ("nested", 10, 3), ("nested", 20, 2), ("nested", 20, 3)),
    *(("radial", 9, 2), ("radial", 30, 2), ("radial", 100, 2)),
)
MOST_CELLS: Final = 300_000
"""A plan of more is not simulated, and not counted."""


def normal_world(generator: np.random.Generator, design: str, rows: int, columns: int, variances: Variances) -> Array:
    """Return a table, or the sets of the radial design, whose interactions are draws of their own."""
    if design == "radial":
        return radial(generator, rows, variances)
    return (crossed if design == "crossed" else nested)(generator, rows, columns, variances)


def product_world(generator: np.random.Generator, design: str, rows: int, columns: int, variances: Variances) -> Array:
    """Return the same where the interaction is the product of the two effects."""
    b, a, ab = np.sqrt(variances)
    others, own = _drawn(generator.standard_normal, design, rows, columns)
    return np.asarray(b * others + a * own + ab * others * own)


def synthetic_world(generator: np.random.Generator, design: str, rows: int, columns: int, place: int) -> Array:
    """Return the same of the G-function, for one factor of the synthetic approach."""

    def effects(size: tuple[int, ...]) -> Array:
        uniform = generator.random((*size, len(SENSITIVITIES)))
        return np.asarray((np.abs(4 * uniform - 2) + SENSITIVITIES) / (1 + SENSITIVITIES))

    if design != "radial":
        others = np.delete(effects((rows, 1)), place, axis=2).prod(axis=2)
        return np.asarray(others * effects((1 if design == "crossed" else rows, columns))[:, :, place])
    base, new = effects((2, rows))
    rest = np.delete(np.arange(len(SENSITIVITIES)), place)
    sets = np.stack([base, *(np.where(at == np.arange(len(SENSITIVITIES)), new, base) for at in (place, *rest))])
    return np.asarray(sets.prod(axis=2).T)


def _drawn(draw: Callable[[tuple[int, int]], Array], design: str, rows: int, columns: int) -> tuple[Array, Array]:
    """Return what the other factors and the investigated one are at, shapes that make a table or three sets."""
    if design != "radial":
        return draw((rows, 1)), draw((1 if design == "crossed" else rows, columns))
    others, own = draw((rows, 2)), draw((rows, 2))
    return others[:, [0, 0, 1]], own[:, [0, 1, 0]]


WORLDS: Final[tuple[tuple[str, Callable[..., Array], tuple[object, ...]], ...]] = (
    ("normal", normal_world, MIXED),
    ("product", product_world, MIXED),
    ("G", synthetic_world, (0, 1, 2)),
)


def pilot_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines: how often a study of the size that its pilot leads to keeps the width, over pilots."""
    for (name, rows, columns), (world, draw, settings) in product(PILOTS, WORLDS):
        kept, needed = zip(*(_kept(name, rows, columns, draw, each, tables) for each in settings), strict=True)
        size = f"{rows}" if name == "radial" else f"{rows} x {columns}"
        shares = ", ".join(f"{share:.0f}" for share in kept)
        yield [name, size, world, shares, ", ".join(f"{cells:,.0f}" for cells in needed)]


def _kept(
    name: str, rows: int, columns: int, draw: Callable[..., Array], setting: object, tables: int
) -> tuple[float, float]:
    """Return the share in %, and the median of the cells."""
    design, generator = design_named(name), np.random.default_rng([13, rows])
    model = design.planning
    assert model is not None
    kept, needed = [], []
    for _ in range(min(tables, MOST_PILOTS)):
        table = draw(generator, name, rows, columns, setting)
        pilot = model.estimate(table)
        assert pilot is not None
        outlook = Outlook.measured(pilot.components, model, pilot.without)
        found = design.needed(HALF_WIDTH, outlook, assurance=ASSURANCE)
        cells = math.inf if found.rows is None else (found.cells or 0)
        needed.append(cells)
        if cells <= MOST_CELLS:
            study = model.estimate(draw(generator, name, found.rows, found.columns, setting))
            low, high = (-1.0, 1.0) if study is None else study.interval()
            kept.append((high - low) / 2 <= HALF_WIDTH)
    return 100 * float(np.mean(kept)), float(np.median(needed))


def _half_width(
    design: type[Design], generator: np.random.Generator, rows: int | None, columns: int | None, variances: Variances
) -> float:
    if rows is None or columns is None:
        return math.inf
    draw = crossed if design.model.shared_columns else nested
    found = design.model.estimate(draw(generator, rows, columns, variances))
    low, high = (-1.0, 1.0) if found is None else found.interval()
    return (high - low) / 2
