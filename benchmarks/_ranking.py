"""Simulated investigations of two factors of which one matters more: how often that is told, from as many cells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from _tables import Array

from mlflow_l3d.analysis.importance.multiplicity import rank_factors
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.designs import Design, design_named

MORE, LESS = 0.4, 0.15
INTERACTIONS: Final = (0.4, 0.9)
"""Share of the variance that both factors bring about by themselves which is in their interaction, of what may be."""
SIZES: Final = ((400, 20, 67, 133), (2000, 100, 333, 667))
"""Cells; rows of crossed tables of 10 columns, of nested ones of 3, base runs of the radial design."""


def share(importance: float) -> float:
    """Return the S_T of an importance."""
    return (1 + importance * math.sqrt(2 - importance**2)) / 2


def drawn(design: type[Design], generator: np.random.Generator, rows: int, both: float) -> Tables:
    """Return the scores of a study of factors a and b; a third one, c, is shared by the rows of both tables."""
    a, b = share(MORE) - both, share(LESS) - both
    c = 1 - a - b - both
    scale = np.sqrt([a, b, c, both])

    def effects(*shape: int) -> Array:
        return np.asarray(generator.standard_normal(shape))

    rest = scale[2] * effects(rows, 1)
    if design.tables_are_golden:
        own, other = (scale[at] * effects(rows, 2) for at in (0, 1))
        # Base, a anew, b anew: each pair of configurations has an interaction of its own.
        sets = np.column_stack([own[:, 0] + other[:, 0], own[:, 1] + other[:, 0], own[:, 0] + other[:, 1]])
        sets = sets + rest + scale[3] * effects(rows, 3)
        return Tables({"a": sets[:, [1]], "b": sets[:, [2]]}, base=sets[:, 0])
    columns = 10 if design.model.shared_columns else 3
    shape = (1 if design.model.shared_columns else rows, columns)
    tables = {
        name: scale[at] * effects(*shape) + scale[1 - at] * effects(rows, 1) + rest + scale[3] * effects(rows, columns)
        for at, name in enumerate(("a", "b"))
    }
    return Tables(tables, effects(rows * columns))


def ranking_lines(tables: int) -> Iterator[list[str]]:
    """Yield the lines: design, cells, and how often the factor that matters more is told, or the other one is."""
    most = share(MORE) + share(LESS) - 1
    for cells, *rows_of in SIZES:
        for name, rows in zip(("crossed", "nested", "radial"), rows_of, strict=True):
            design = design_named(name)
            for more in INTERACTIONS:
                both = most + more * (share(LESS) - most)
                generator, told = np.random.default_rng([10, cells, round(100 * more)]), np.zeros(2)
                for _ in range(tables):
                    records = design.importances(drawn(design, generator, rows, both))
                    (pair,) = rank_factors(records, design.compared).differences_frame().itertuples(index=False)
                    first = pair.first == "a"
                    told += (
                        (pair.different and first == (pair.difference > 0)),
                        (pair.different and first != (pair.difference > 0)),
                    )
                numbers = (f"{100 * each:.1f}" for each in told / tables)
                yield [str(cells), name, f"{both:.2f}", *numbers]
