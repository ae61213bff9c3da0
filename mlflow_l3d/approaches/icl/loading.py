"""A model that is here, borrowed from who has it in this process, and the engine that runs it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mlflow_l3d.approaches.icl.engine.base import Engine
from mlflow_l3d.approaches.icl.models import LoadedModel, load_model
from mlflow_l3d.approaches.icl.recipe import Recipe
from mlflow_l3d.approaches.models import gguf
from mlflow_l3d.approaches.models.sharing import lent


def borrowed(
    model: str, device: str, recipe: Recipe, cache: Path, check: Callable[[LoadedModel], None] = lambda _: None
) -> tuple[LoadedModel, Engine]:
    """Return a model, which all sessions of this process share, and what runs it.

    Parameters
    ----------
    model, device, cache
        As for :func:`~mlflow_l3d.approaches.icl.models.load_model`.
    recipe
        How it is loaded.
    check
        Called with the model before its weights are read, and with one that is loaded already; raises its objections.
    """
    trust = recipe.trust_remote_code == "true"
    how: dict[str, Any] = {"quantise": recipe.quantise, "dtype": recipe.dtype, "trust": trust}
    load = partial(load_model, model, device, **how, cache=cache, check=check)
    loaded = lent(("icl", model, gguf.revision(model), device, *how.values()), load)
    check(loaded)
    return loaded, loaded.kind.engine(loaded.model, loaded.tokenizer.pad_token_id, batch_size=recipe.batch_size)
