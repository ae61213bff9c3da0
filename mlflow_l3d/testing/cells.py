"""Cells for tests, the outcomes of a session for them, and the comparison of two outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.cells.cell import Cell, Outcome, cell_key
from mlflow_l3d.cells.factors import configuration_seed
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.outcomes import finished

Part = npt.NDArray[np.generic] | None

_EXACT: Final = ("example_ids", "labels", "predictions")


def require(condition: bool, message: str) -> None:
    """Raise AssertionError with `message` unless `condition` holds, also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def differences(left: Outcome, right: Outcome, tolerance: float = 0.0) -> list[str]:
    """Return the names of the parts in which two outcomes differ by a single bit; times are ignored.

    Metrics are called ``metric NAME``; those whose name ends with ``_seconds`` are times. Scores, metrics and predicted
    numbers (of a regression) a and b may differ by up to ``tolerance * (1 + |b|)``.
    """
    one, other = _parts(left), _parts(right)
    has_numbers = right.predictions is not None and right.predictions.dtype.kind == "f"
    exact = {name for name in _EXACT if name != "predictions" or not has_numbers}
    allowed = {name: 0.0 if name in exact else tolerance for name in {**one, **other}}
    changes = [name for name in allowed if not _close(one.get(name), other.get(name), allowed[name])]
    return changes if left.error == right.error else [*changes, "error"]


def _parts(outcome: Outcome) -> dict[str, Part]:
    metrics = {name: value for name, value in sorted(outcome.metrics.items()) if not name.endswith("_seconds")}
    return {
        **{name: getattr(outcome, name) for name in (*_EXACT, "scores")},
        **{f"metric {name}": np.array(value) for name, value in metrics.items()},
    }


def _close(one: Part, other: Part, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype == object:  # texts, whose bytes are addresses
        return bool(np.array_equal(one, other))
    if tolerance == 0.0:
        return one.tobytes() == other.tobytes()
    return bool(np.allclose(one, other, rtol=tolerance, atol=tolerance))


def one_cell(factors: Sequence[str], configuration: int = 0, root_seed: int = 0) -> Cell:
    """Return the golden cell that puts every factor at `configuration`."""
    return _cell(dict.fromkeys(factors, configuration), root_seed)


def changed(cell: Cell, factor: str, configuration: int, root_seed: int = 0) -> Cell:
    """Return `cell` with only `factor`, which it may lack, at another configuration."""
    return _cell({**cell.configurations, factor: configuration}, root_seed)


def design_cells(factors: Sequence[str], count: int, root_seed: int = 0) -> Iterator[Cell]:
    """Return the first `count` cells of a crossed design that investigates the last factor in 5 columns."""
    from mlflow_l3d.designs.crossed import CrossedDesign  # pandas comes with it, and workers need one cell

    return islice(CrossedDesign(factors[-1:], factors, 5, -(-count // 5), 0, root_seed, "testing").cells(), count)


def run_cells(session: Session, cells: Sequence[Cell], job: Job) -> dict[str, Outcome]:
    """Return the outcomes of one call of a session by the key of the cell; a failed cell breaks the contract."""
    by_key = {cell.key: cell for cell in cells}
    outcomes: dict[str, Outcome] = {}
    for outcome in session.run(cells):
        require(isinstance(outcome, Outcome), f"a session must yield outcomes, not {type(outcome).__name__}")
        require(outcome.key in by_key, f"an outcome has the key {outcome.key!r}, which no cell of the call has")
        require(outcome.key not in outcomes, "a session yields two outcomes for one cell")
        require(outcome.error is None, f"a cell failed: {outcome.error}\n{outcome.traceback}")
        outcomes[outcome.key] = finished(outcome, by_key[outcome.key], job)
    require(len(outcomes) == len(by_key), f"{len(by_key)} cells gave {len(outcomes)} outcomes")
    return outcomes


def _cell(configurations: dict[str, int], root_seed: int) -> Cell:
    seeds = {name: configuration_seed(root_seed, name, index) for name, index in configurations.items()}
    return Cell("golden", None, None, None, 0, configurations, seeds, cell_key("testing", seeds))
