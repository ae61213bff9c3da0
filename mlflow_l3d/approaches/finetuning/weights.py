"""The trained weights of a session's cells: where they begin, those of one, or of several cells side by side.

One cell's are the model's own. Cells side by side share the frozen weights of one model. Their batches are rows of one
batch, and each small product of an adapter, or of the head, is one batched product for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.chunks import roomy
from mlflow_l3d.approaches.finetuning.session import RowWeights
from mlflow_l3d.approaches.global_seeds import seeded
from mlflow_l3d.cells.factors import stream_seed
from mlflow_l3d.errors import ParameterError


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


class SingleWeights:
    """The weights of one cell, with what :class:`RowWeights` has.

    Parameters
    ----------
    model
        Its weights that want a gradient are trained.
    """

    optimizer: torch.optim.Optimizer

    def __init__(self, model: torch.nn.Module) -> None:
        self.tensors = [weight for weight in model.parameters() if weight.requires_grad]
        self._weights = [weight.detach() for weight in self.tensors]
        self._kept: list[torch.Tensor] = []

    def keep(self, place: int, averaged: int = 1) -> None:  # noqa: ARG002
        """Remember the weights as they are now, or their mean with earlier ones, in memory that is taken once."""
        if not self._kept:
            home = roomy(self._weights)
            self._kept = [torch.empty_like(weight, device=home) for weight in self._weights]
        if averaged > 1:
            now = [weight.to(kept.device) for weight, kept in zip(self._weights, self._kept, strict=True)]
            torch._foreach_lerp_(self._kept, now, 1 / averaged)
        else:
            torch._foreach_copy_(self._kept, self._weights)

    def end(self, place: int, *, best: bool) -> tuple[torch.Tensor, ...]:  # noqa: ARG002
        """Put what was kept, if that is the best, into the model, which holds the final weights."""
        if best:
            torch._foreach_copy_(self._weights, self._kept)
        return ()

    def clip(self, most: float) -> None:
        """Shorten the gradient of each cell to a 2-norm of at most `most`."""
        torch.nn.utils.clip_grad_norm_(self.tensors, most)


class StackedLinear(torch.nn.Module):
    """A linear layer of B cells; the rows of its input equal those of the first cell, then of the second, and so on.

    Parameters
    ----------
    weight, bias
        Shapes (B, out, in) and (B, out).
    """

    def __init__(self, weight: torch.nn.Parameter, bias: torch.nn.Parameter | None) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the products, shape (B * rows, *, out), of x, shape (B * rows, *, in)."""
        rows = x.reshape(len(self.weight), -1, x.shape[-1])
        transposed = self.weight.transpose(1, 2)
        bias = self.bias
        products = torch.bmm(rows, transposed) if bias is None else torch.baddbmm(bias[:, None], rows, transposed)
        return products.view(*x.shape[:-1], -1)


class StackedWeights(RowWeights):
    """The weights of B cells, stacked.

    Parameters
    ----------
    owners
        The layer of each trained weight of the model, and the weight's name in it; shapes (B, *).

    Attributes
    ----------
    optimizer
        What trains them.
    """

    optimizer: torch.optim.Optimizer

    def __init__(self, owners: Sequence[tuple[StackedLinear, str]]) -> None:
        super().__init__([getattr(layer, name) for layer, name in owners])
        self._owners = owners

    def select(self, places: npt.NDArray[np.intp]) -> None:
        """Go on with some of the rows, in their order; what the optimiser remembers goes with them."""
        super().select(places)
        index = torch.from_numpy(places).to(self.tensors[0].device)
        before, self.tensors, states = self.tensors, [], self.optimizer.state
        for (layer, name), old in zip(self._owners, before, strict=True):
            new = torch.nn.Parameter(old.detach().index_select(0, index))
            setattr(layer, name, new)
            self.tensors.append(new)
            states[new] = {
                key: value.index_select(0, index) if value.shape == old.shape else value
                for key, value in states.pop(old).items()
            }
        self.optimizer.param_groups[0]["params"] = self.tensors

    def clip(self, most: float) -> None:
        """Shorten the gradient of each cell to a 2-norm of at most `most`, as torch does for one."""
        gradients = [tensor.grad.flatten(1) for tensor in self.tensors if tensor.grad is not None]
        length = torch.stack([gradient.norm(dim=1) for gradient in gradients]).norm(dim=0)
        share = (most / (length + 1e-6)).clamp_(max=1.0)
        for gradient in gradients:
            gradient.mul_(share[:, None])


Weights: TypeAlias = SingleWeights | StackedWeights


class Places:
    """The layers of a model that hold its trained weights, whose place those of several cells can take.

    Parameters
    ----------
    model
        Its weights that want a gradient are trained.
    cells
        How many, for the message.

    Raises
    ------
    ParameterError
        If one of them is not of a linear layer.
    """

    def __init__(self, model: torch.nn.Module, cells: int) -> None:
        self.model = model
        self.names = [name for name, weight in model.named_parameters() if weight.requires_grad]
        self._owners = [*dict.fromkeys(map(_owner, self.names))]
        for owner in self._owners:
            if type(model.get_submodule(owner)) is not torch.nn.Linear:
                allowed = f"needs new weights in linear layers, and {owner or 'the model'} is none"
                raise ParameterError("hyperparameters.lora_cells", cells, allowed, "Use lora_cells=1.")

    def weights(self) -> list[torch.Tensor]:
        """Return a copy of the weights in the model, in the order of `names`."""
        tensors = dict(self.model.named_parameters())
        return [tensors[name].detach().clone() for name in self.names]

    @contextmanager
    def of(self, cells: Sequence[Sequence[torch.Tensor]]) -> Iterator[StackedWeights]:
        """Put the weights of several cells, each as :meth:`weights` gives them, into the model inside the block."""
        stacked = [torch.nn.Parameter(torch.stack(tensors)) for tensors in zip(*cells, strict=True)]
        named = dict(zip(self.names, stacked, strict=True))
        layers = {owner: StackedLinear(named[f"{owner}.weight"], named.get(f"{owner}.bias")) for owner in self._owners}
        before = {owner: self.model.get_submodule(owner) for owner in layers}
        try:
            place(self.model, layers)
            yield StackedWeights([(layers[_owner(name)], name.rpartition(".")[2]) for name in self.names])
        finally:
            place(self.model, before)


def _owner(name: str) -> str:
    return name.rpartition(".")[0]
