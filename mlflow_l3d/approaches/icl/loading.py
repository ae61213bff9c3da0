"""A model that is here, borrowed from who has it in this process, and the engine that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mlflow_l3d.approaches.icl.engine.base import Engine
from mlflow_l3d.approaches.icl.engine.vllm import VllmEngine, load_vllm
from mlflow_l3d.approaches.icl.models import LoadedModel, described, load_model
from mlflow_l3d.approaches.icl.recipe import Recipe
from mlflow_l3d.approaches.models import gguf
from mlflow_l3d.approaches.models.references import default_quantisation
from mlflow_l3d.approaches.models.sharing import lent
from mlflow_l3d.errors import ParameterError


def borrowed(
    model: str, device: str, recipe: Recipe, cache: Path, check: Callable[[LoadedModel], None] = lambda _: None
) -> LoadedModel:
    """Return a model, which all sessions of this process share.

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

    def load() -> LoadedModel:
        if recipe.engine == "vllm":
            return _in_vllm(model, device, recipe.dtype, cache, trust=trust, check=check)
        bits, dtype = recipe.quantise, recipe.dtype
        return load_model(model, device, quantise=bits, dtype=dtype, cache=cache, trust=trust, check=check)

    key = ("icl", recipe.engine, model, gguf.revision(model), device, recipe.quantise, recipe.dtype, trust)
    loaded = lent(key, load)
    check(loaded)
    return loaded


def engine_for(loaded: LoadedModel, recipe: Recipe) -> Engine:
    """Return what runs a model."""
    if recipe.engine == "vllm":
        return VllmEngine(loaded.model)
    with loaded.precision():
        return loaded.kind.engine(loaded.model, loaded.tokenizer.pad_token_id, batch_size=recipe.batch_size or None)


def _in_vllm(
    model: str, device: str, dtype: str, cache: Path, *, trust: bool, check: Callable[[LoadedModel], None]
) -> LoadedModel:
    """Load a model into vLLM."""
    with described(model, cache=cache, trust=trust) as (bare, location, _):
        if not bare.kind.continues:
            allowed = "takes causal models only"
            raise ParameterError("hyperparameters.engine", "vllm", allowed, "Leave it out.")
        if default_quantisation(model) != "none":
            raise ParameterError("hyperparameters.engine", "vllm", f"does not take 4-bit weights, and {model} has them")
        check(bare)
        return replace(bare, model=load_vllm(location, device, dtype=dtype, trust=trust, context=bare.context))
