"""How two outcomes are compared, and how a check says what is wrong."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mlflow_l3d.plan.cells import Outcome

Part = npt.NDArray[np.generic] | None


def require(condition: bool, message: str) -> None:
    """Raise AssertionError with `message` unless `condition` holds, also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def differences(left: Outcome, right: Outcome, tolerance: float = 0.0) -> list[str]:
    """Return the names of the parts in which two outcomes differ by a single bit; wall clock does not count.

    Metrics are called ``metric NAME``; those whose name ends with ``_seconds`` are times. Scores and metrics a and b
    may differ by up to ``tolerance * (1 + |b|)``.
    """
    parts: list[tuple[str, Part, Part]] = [
        ("example_ids", left.example_ids, right.example_ids),
        ("labels", left.labels, right.labels),
        ("predictions", left.predictions, right.predictions),
    ]
    found = [name for name, one, other in parts if not _same(one, other)]
    if not _close(left.scores, right.scores, tolerance):
        found.append("scores")
    names = sorted({*left.metrics, *right.metrics})
    found += [
        f"metric {name}"
        for name in names
        if not name.endswith("_seconds")
        and not (
            name in left.metrics
            and name in right.metrics
            and abs(left.metrics[name] - right.metrics[name]) <= tolerance * (1.0 + abs(right.metrics[name]))
        )
    ]
    return found if left.error == right.error else [*found, "error"]


def _same(one: Part, other: Part) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


def _close(one: Part, other: Part, tolerance: float) -> bool:
    if tolerance == 0.0 or one is None or other is None or one.shape != other.shape or one.dtype != other.dtype:
        return _same(one, other)
    return bool(np.allclose(one, other, rtol=tolerance, atol=tolerance))
