"""Halves of the evaluated examples: what the factor `test_sample` draws, from one training for many cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.cells.factors import TEST_SAMPLE, stream


def training(cell: Cell) -> tuple[tuple[str, int], ...]:
    """Return the seeds of what is trained: cells with the same ones differ in their test examples alone."""
    return tuple(sorted((name, seed) for name, seed in cell.seeds.items() if name != TEST_SAMPLE))


def trainings(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Return cells in groups of which each is trained once; a cell on all test examples is a group of its own."""
    groups: dict[object, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(training(cell) if TEST_SAMPLE in cell.seeds else cell.key, []).append(cell)
    return list(groups.values())


def whole(cell: Cell) -> Cell:
    """Return a cell as it is evaluated on all test examples, under the same key."""
    return replace(cell, seeds={name: seed for name, seed in cell.seeds.items() if name != TEST_SAMPLE})


def half(outcome: Outcome, cell: Cell) -> Outcome:
    """Return the outcome of a cell on the half of the test examples that its seed draws, without replacement.

    Parameters
    ----------
    outcome
        Of the same training on all n test examples, n at least 2.
    cell
        With a seed of ``test_sample``.

    Returns
    -------
    Outcome
        On n / 2 examples, rounded down, in their order; its metrics are still those of all examples.

    Raises
    ------
    ValueError
        If there are no predictions, or of one example only.

    Notes
    -----
    Given the n examples, the mean of k drawn without replacement has the variance ``(1 - k / n) s2 / k`` with the
    sample variance s2 (ddof=1) of what is averaged; for k = n / 2 that is s2 / n, without bias the variance of the mean
    over n examples drawn anew (McCarthy 1969, Pseudo-replication: half samples).
    """
    if outcome.predictions is None or outcome.labels is None or outcome.example_ids is None:
        raise ValueError("it has no predictions, of which test_sample could draw")
    count = len(outcome.predictions)
    if count < 2:
        raise ValueError("it has one prediction, which has no half")
    drawn = np.sort(stream(cell.seeds[TEST_SAMPLE], "half").permutation(count)[: count // 2])
    return replace(
        outcome,
        key=cell.key,
        example_ids=outcome.example_ids[drawn],
        labels=outcome.labels[drawn],
        predictions=outcome.predictions[drawn],
        scores=None if outcome.scores is None else outcome.scores[drawn],
    )
