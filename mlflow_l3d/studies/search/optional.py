"""Optuna, imported where it is used: the package works without it until somebody searches."""

from __future__ import annotations

from importlib.util import find_spec
from types import ModuleType

from mlflow_l3d.errors import L3DError


def need_optuna() -> ModuleType:
    """Return the module `optuna`, whose messages about each trial are off: the search has its own.

    Raises
    ------
    L3DError
        If it is not installed.
    """
    if find_spec("optuna") is None:
        raise L3DError("A search of hyperparameters needs the package optuna. Run: pip install 'mlflow-l3d[search]'")
    import optuna

    if optuna.logging.get_verbosity() == optuna.logging.INFO:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
