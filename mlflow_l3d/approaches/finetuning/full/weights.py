"""The weights that each cell of a session starts from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from mlflow_l3d.approaches.finetuning.training import initialisation_seed
from mlflow_l3d.approaches.global_seeds import seeded


def initialise(model: Any, original: Mapping[str, torch.Tensor], new: Sequence[str], seed: int) -> None:
    """Give a model its pretrained weights, and new ones as its own ``_init_weights`` draws them.

    Parameters
    ----------
    model
        Overwritten.
    original
        Name -> pretrained weight, for every name that is trained and not in `new`.
    new
        Names of the weights to initialise, and no others. They are drawn on the host, whatever the device of the
        model: the generators of devices give other numbers.
    seed
        That of ``model_initialisation``.
    """
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    owners = {name.rpartition(".")[0] for name in new}
    # transformers passes over what carries this mark: it keeps what was loaded.
    for name, tensor in tensors.items():
        tensor._is_hf_initialized = name not in set(new)
    for name, module in model.named_modules():
        module._is_hf_initialized = name not in owners
    with torch.no_grad(), seeded(initialisation_seed(seed)), _on_host(model, {name: tensors[name] for name in new}):
        model.initialize_weights()
    copy_into(tensors, original)


@contextmanager
def _on_host(model: Any, weights: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Put zeros on the CPU in the place of some weights, and copy what they are afterwards into the weights."""
    fresh = {name: torch.nn.Parameter(torch.zeros_like(weight, device="cpu")) for name, weight in weights.items()}
    _place(model, fresh)
    try:
        yield
    finally:
        _place(model, weights)
    copy_into(weights, fresh)


def _place(model: Any, weights: Mapping[str, torch.Tensor]) -> None:
    for name, weight in weights.items():
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, weight)


def copy_into(tensors: Mapping[str, torch.Tensor], original: Mapping[str, torch.Tensor]) -> None:
    """Overwrite tensors with those of the same name, in place."""
    names = [name for name in original if name in tensors]
    if names:
        with torch.no_grad():
            torch._foreach_copy_([tensors[name] for name in names], [original[name] for name in names])
