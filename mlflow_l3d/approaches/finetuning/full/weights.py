"""The weights that each cell of a session starts from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from mlflow_l3d.approaches.global_seeds import seeded
from mlflow_l3d.cells.factors import stream_seed


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
    fresh = {name: torch.nn.Parameter(torch.zeros_like(tensors[name], device="cpu")) for name in new}
    place(model, fresh)
    try:
        with torch.no_grad(), seeded(stream_seed(seed, "new_weights")):
            model.initialize_weights()
    finally:
        place(model, {name: tensors[name] for name in new})
    copy_into(tensors, {**original, **fresh})


def place(model: Any, parts: Mapping[str, torch.Tensor | torch.nn.Module]) -> None:
    """Put weights, or layers, into a model in the place of those with the same names."""
    for name, part in parts.items():
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, part)


def copy_into(tensors: Mapping[str, torch.Tensor], original: Mapping[str, torch.Tensor]) -> None:
    """Overwrite tensors with those of the same name, in place."""
    names = [name for name in original if name in tensors]
    if names:
        with torch.no_grad():
            torch._foreach_copy_([tensors[name] for name in names], [original[name] for name in names])


class RoundedLayers:
    """Copies in bfloat16 of the trained weights of linear layers, which autocast would round one by one at each use.

    Parameters
    ----------
    model
        Its weights are float32. Those that other layers hold, too, are left to autocast.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        every = [(owner, name, weight) for owner in model.modules() for name, weight in owner._parameters.items()]
        holders = Counter(id(weight) for _, _, weight in every)
        chosen = [
            (owner, name, weight)
            for owner, name, weight in every
            if type(owner) is torch.nn.Linear
            and holders[id(weight)] == 1
            and weight is not None
            and weight.requires_grad
        ]
        self._places = [each[:2] for each in chosen]
        self._weights: list[torch.Tensor] = [weight for _, _, weight in chosen]
        self._copies: list[torch.Tensor] = [
            torch.nn.Parameter(weight.detach().to(torch.bfloat16)) for weight in self._weights
        ]

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Let the copies be the weights inside the block, and give their gradients to the weights at its end."""
        with torch.no_grad():
            torch._foreach_copy_(self._copies, self._weights)
        self._put(self._copies)
        try:
            yield
        finally:
            self._put(self._weights)
            rounded = [copy.grad for copy in self._copies]
            for copy in self._copies:
                copy.grad = None
        used = [(weight, half) for weight, half in zip(self._weights, rounded, strict=True) if half is not None]
        gradients = [torch.empty_like(weight) for weight, _ in used]
        torch._foreach_copy_(gradients, [half for _, half in used])
        for (weight, _), gradient in zip(used, gradients, strict=True):
            weight.grad = gradient if weight.grad is None else weight.grad.add_(gradient)

    def _put(self, tensors: Sequence[Any]) -> None:
        # Past `setattr`, which looks for the name in every collection of a layer, twice a step for every weight.
        for (owner, name), tensor in zip(self._places, tensors, strict=True):
            owner._parameters[name] = tensor
