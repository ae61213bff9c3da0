"""What approaches without a model have in common."""

from __future__ import annotations

from mlflow_l3d.errors import ParameterError


def no_model(approach: str, model: str) -> str:
    """Return the revision of no model at all.

    Raises
    ------
    ParameterError
        If a model is named: it would have no effect.
    """
    if model not in {"", "auto"}:
        raise ParameterError("model", model, f"approach {approach} has no model, so it must be auto")
    return "none"
