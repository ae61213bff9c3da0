"""A cell: one training and evaluation, with a configuration of every factor; its outcome, also on half the tests."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.cells.factors import TEST_SAMPLE, stream

_WIDTH_OF_NAMES: Final = 25
"""Characters of a run's name that MLflow's list of runs shows."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One training and evaluation of a design.

    Attributes
    ----------
    phase
        ``investigation`` for a cell of a factor's M x N table, ``golden`` for a run in which every factor varies.
        A design may have phases of its own: the radial one ``base`` for a run that is drawn for all factors, ``swap``
        for its repetition with one factor redrawn.
    factor
        The factor whose table the cell belongs to, or that was redrawn; joint factors are joined with ``+``. None
        for golden and base.
    row, column
        Mitigation and investigation run, 0-based; None for golden. Base and swap have a row, the number of the base
        run, and no column.
    index
        Golden run, 0-based; None for all others.
    configurations
        Configuration index of every factor.
    seeds
        Seed of every factor that has an effect, see :func:`mlflow_l3d.cells.factors.configuration_seed`. Sessions are
        given a seed for every factor of the approach.
    key
        ``l3d.cell_key``: the same key means the same result.
    """

    phase: str
    factor: str | None
    row: int | None
    column: int | None
    index: int | None
    configurations: Mapping[str, int]
    seeds: Mapping[str, int]
    key: str

    @property
    def name(self) -> str:
        """Name of the run as people read it; long factors are cut, joint ones word by word, to fit MLflow's list."""
        if "seed" in self.seeds:
            return f"seed {self.seeds['seed']}"
        number = self.row if self.index is None else self.index
        if self.factor is None:
            return f"all redrawn {number}"
        place = f" {'new' if self.column is None else self.column}, others {number}"
        short, room, letters = self.factor, _WIDTH_OF_NAMES - len(place), 9
        if "+" not in short and len(short) > room:
            short = f"{short[: max(room - 1, 1)]}…"
        while len(short) > room and (letters := letters - 1):
            short = re.sub(rf"([^_+]{{{letters}}})[^_+]*", r"\1", self.factor)
        return f"{short}{place}" + (f" ({self.factor})" if short != self.factor else "")


@dataclass(frozen=True, slots=True)
class Logged:
    """What a training logged itself; it is on the cell's run next to ours.

    Attributes
    ----------
    params, tags
        Name -> text.
    metrics
        Name, value, milliseconds since 1970, and step, of each value.
    artifacts
        Path below the run's artifacts -> content.
    """

    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    metrics: Sequence[tuple[str, float, int, int]] = ()
    artifacts: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a session returns for one cell.

    Attributes
    ----------
    key
        Key of the cell.
    example_ids
        Shape (n,): ids of the evaluated examples, int64 or str; None where the approach has no predictions.
    labels, predictions
        Shape (n,), int64: class numbers, or numbers of choices; a prediction of -1 is an answer that names no class.
        Of a regression float64, finite.
    scores
        Shape (n, classes), float32: class scores, or None, as always for a regression.
    metrics
        Fractions (0..1) and other numbers of the approach's own. If there are no predictions it must hold the metric
        that is investigated.
    curves
        Name -> one value per step (an epoch, say).
    duration_seconds
        Wall clock of the training and evaluation of this cell alone.
    logged
        What a training wrote to a tracking store of its own, where it did.
    error, traceback
        One line and the whole traceback, where the cell raised; else None.
    reference
        Shape (n,), bool: which examples are of the reference set, from which no score is computed. The platform sets
        it, and leaves None if there is no such set.
    """

    key: str
    example_ids: npt.NDArray[Any] | None = None
    labels: npt.NDArray[Any] | None = None
    predictions: npt.NDArray[Any] | None = None
    scores: npt.NDArray[np.float32] | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    duration_seconds: float = 0.0
    logged: Logged | None = None
    error: str | None = None
    traceback: str | None = None
    reference: npt.NDArray[np.bool_] | None = None


def content_key(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 hash (first 32 hexadecimal digits) of a JSON document with sorted keys.

    Raises
    ------
    TypeError
        If `content` holds what JSON cannot represent, rather than a guess at a text for it.
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def cell_key(context_key: str, seeds: Mapping[str, int]) -> str:
    """Return ``l3d.cell_key`` from the key of everything that cells share and the seeds of this one.

    Its place in a design is not part of it: a golden run shared by several factors is one cell.
    """
    return content_key({"context": context_key, "seeds": dict(seeds)})


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
        Of the same training on all n test examples, n at least 2, and on the reference set, which stays whole.
    cell
        With a seed of ``test_sample``.

    Returns
    -------
    Outcome
        On n / 2 test examples, rounded down, in their order; its metrics are still those of all of them.

    Raises
    ------
    ValueError
        If there are no predictions, or of one example only.

    Notes
    -----
    Given the n examples, the mean of k drawn without replacement has the variance ``(1 - k / n) s2 / k`` with the
    sample variance s2 (ddof=1) of what is averaged; for k = n / 2 that is s2 / n, without bias the variance of the mean
    over n examples redrawn (McCarthy 1969, Pseudo-replication: half samples).
    """
    if outcome.predictions is None or outcome.labels is None or outcome.example_ids is None:
        raise ValueError("it has no predictions, of which test_sample could draw")
    reference = np.zeros(len(outcome.predictions), dtype=bool) if outcome.reference is None else outcome.reference
    tested = np.flatnonzero(~reference)
    count = len(tested)
    if count < 2:
        raise ValueError("it has one prediction, which has no half")
    halved = stream(cell.seeds[TEST_SAMPLE], "half").permutation(count)[: count // 2]
    drawn = np.sort(np.concatenate([tested[halved], np.flatnonzero(reference)]))
    return replace(
        outcome,
        key=cell.key,
        example_ids=outcome.example_ids[drawn],
        labels=outcome.labels[drawn],
        predictions=outcome.predictions[drawn],
        scores=None if outcome.scores is None else outcome.scores[drawn],
        reference=None if outcome.reference is None else reference[drawn],
    )
