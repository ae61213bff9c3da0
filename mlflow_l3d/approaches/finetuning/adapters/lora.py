"""``trainable=lora``: low-rank adapters (Hu et al. 2022) through peft, on a model that is never written to.

Zhou et al. (2025, Table 6) put rank 8, scale 16 and dropout 0.1 on query and value.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any, Final

import torch

from mlflow_l3d.approaches.finetuning.adapters.dropout import CountedDropout, Keys
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.cells.factors import stream_seed
from mlflow_l3d.errors import ParameterError

QUERY_AND_VALUE: Final = (
    ("q_proj", "v_proj"),
    ("query", "value"),
    ("query_proj", "value_proj"),
    ("q_lin", "v_lin"),
    ("q", "v"),
    ("query_key_value",),
    ("qkv_proj",),
    ("c_attn",),
    ("Wqkv",),
    ("in_proj",),
)
"""Names under which models have the query and the value of their attention, or all three in one; the first that fits
is `auto`."""


def layers(model: Any, head: Sequence[str]) -> dict[str, str]:
    """Return every linear layer that an adapter fits on: its full name -> the last part of it; none of the new head."""
    from transformers.pytorch_utils import Conv1D

    kinds: tuple[type[Any], ...] = (torch.nn.Linear, Conv1D)
    owners = {name.rpartition(".")[0] for name in head}
    return {
        name: name.rpartition(".")[2]
        for name, module in model.named_modules()
        if isinstance(module, kinds) and name not in owners
    }


def targets(model: Any, recipe: Recipe, head: Sequence[str]) -> list[str]:
    """Return the full names of the layers that get adapters.

    Raises
    ------
    ParameterError
        If a name is that of no layer, or `auto` finds none.
    """
    linear = layers(model, head)
    last_parts = sorted(set(linear.values()))
    some = f"Use some of: {', '.join(last_parts[:12])}{', ...' if len(last_parts) > 12 else ''}."
    usual = (names for names in QUERY_AND_VALUE if set(names) <= set(last_parts))
    chosen: Sequence[str] = recipe.targets or next(usual, ())
    if not chosen:
        allowed = "query and value have none of the usual names in this model"
        raise ParameterError("hyperparameters.lora_targets", "auto", allowed, some)
    named = {name: [full for full in linear if f".{full}".endswith(f".{name}")] for name in chosen}
    for name, matches in named.items():
        if not matches:
            raise ParameterError("hyperparameters.lora_targets", name, "names no linear layer of the model", some)
    return [full for full in linear if any(full in matches for matches in named.values())]


def attach(model: Any, recipe: Recipe, head: Sequence[str], keys: Keys) -> list[str]:
    """Put adapters into a model, freeze everything else but its head, and return the names of the adapters' weights.

    Parameters
    ----------
    model
        Changed in place; its other weights are shared by all cells and never written to.
    recipe
        Rank, scale, dropout and targets.
    head
        Names of the weights of the new head.
    keys
        What the dropouts of the adapters draw from.

    Raises
    ------
    ParameterError
        If the targets are none.
    """
    if recipe.quantise == "none":
        # peft imports it if it is installed, and it warns of kernels for 4-bit weights that nobody asked for.
        logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
    from peft import LoraConfig, inject_adapter_in_model

    names = targets(model, recipe, head)
    modules = dict(model.named_modules())
    settings: dict[str, Any] = {
        "r": recipe.lora_r,
        "lora_alpha": recipe.lora_alpha,
        "lora_dropout": recipe.lora_dropout,
        "target_modules": names,
        # Layers of GPT-2 keep their weight the other way round.
        "fan_in_fan_out": not all(isinstance(modules[name], torch.nn.Linear) for name in names),
    }
    inject_adapter_in_model(LoraConfig(**settings), model)
    if recipe.lora_dropout:
        for module in [module for module in model.modules() if hasattr(module, "lora_dropout")]:
            for name in module.lora_dropout:
                module.lora_dropout[name] = CountedDropout(recipe.lora_dropout, module.in_features, keys)
    weights = dict(model.named_parameters())
    adapters = [name for name in weights if ".lora_" in name]
    for name, weight in weights.items():
        weight.requires_grad_(name in {*head, *adapters})
        if weight.requires_grad:
            # Small steps are lost in bfloat16.
            weight.data = weight.data.float()
    return adapters


def draw(model: Any, adapters: Sequence[str], seed: int) -> None:
    """Give the adapters their first weights: A uniform as peft draws it, B zero, so that they change nothing yet.

    Parameters
    ----------
    model
        With adapters.
    adapters
        Their names, from :func:`attach`. Each has a stream of its own, so that none depends on which others there are.
    seed
        That of ``model_initialisation``.
    """
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for name in adapters:
            if ".lora_A." in name:
                generator = torch.Generator().manual_seed(stream_seed(seed, "lora", name))
                fresh = torch.empty(weights[name].shape)
                torch.nn.init.kaiming_uniform_(fresh, a=math.sqrt(5), generator=generator)
                weights[name].copy_(fresh)
            else:
                weights[name].zero_()
