"""``trainable=lora``: low-rank adapters (Hu et al. 2022) through peft, on a model that is never written to.

Zhou et al. (2025, Table 6) put rank 8, scale 16 and dropout 0.1 on query and value. Whether dropout before an adapter
drops a number follows from its example, the epoch and where it stands: so it depends neither on the device, nor on how
a batch is cut or padded, nor on the cells that are trained next to it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any, Final

import torch

from mlflow_l3d.approaches.device_draws import counted, kept, mixed, places
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.cells.factors import stream_seed
from mlflow_l3d.errors import L3DError, ParameterError

AHEAD: Final = 2**26
"""Bytes of random bits that are drawn at once on a GPU, which would spend its time on starting what is small."""


class Keys:
    """Where the streams of the batch at hand begin, for all dropouts of a model.

    Attributes
    ----------
    widths
        Numbers in a row of what each dropout gets.
    """

    def __init__(self) -> None:
        self.widths: list[int] = []
        self._starts = self._batch = torch.empty(0, dtype=torch.int64)
        self._places: dict[int, torch.Tensor] = {}
        self._drawn: dict[tuple[int, int, int], torch.Tensor] = {}

    def __len__(self) -> int:
        return len(self._batch)

    def begin(self, seeds: Sequence[int], examples: int, rows: int, device: str) -> None:
        """Begin an epoch.

        Parameters
        ----------
        seeds
            One for each of the B cells.
        examples
            How many each visits, n: the i-th one of a cell has streams of its own, whichever it is.
        rows
            How many rows of tokens an example has.
        device
            Where the model is.
        """
        if not self.widths:
            return
        starts = mixed(torch.tensor(seeds, device=device))
        for count in (examples * rows, len(self.widths)):
            starts = counted(starts, places(count, device))
        self._starts = starts.view(len(seeds), examples, rows, -1)

    def take(self, part: slice) -> None:
        """Turn to a batch: some of the examples that each cell visits."""
        if self.widths:
            self._batch = self._starts[:, part].reshape(-1, len(self.widths))
            self._drawn = {}

    def of(self, number: int, rows: int, length: int) -> torch.Tensor:
        """Return bits for a dropout: int64, shape (rows, length * words); four numbers a word, whole words a width."""
        if len(self) != rows:
            difference = f"{len(self)} rows, but {rows} at an adapter"
            raise L3DError(f"the model does not keep the texts of a batch apart: {difference}. Use lora_dropout=0.")
        words = length * -(-self.widths[number] // 4)
        on_host = self._batch.device.type == "cpu"
        size = 1 if on_host else max(1, AHEAD // (8 * rows * words))
        first = number - number % size
        if len(set(self.widths[first : first + size])) > 1:
            first, size = number, 1
        span = first, first + size, words
        if span not in self._drawn:
            # Batches come in many lengths, whose places begin alike.
            longest = 1 << (words - 1).bit_length()
            if longest not in self._places:
                self._places[longest] = places(longest, self._batch.device)
            self._drawn = {span: counted(self._batch[:, first : first + size], self._places[longest][:words])}
        return self._drawn[span][:, number - first]


class CountedDropout(torch.nn.Module):
    """Dropout of one adapter.

    Parameters
    ----------
    probability
        That of a number to be dropped.
    width
        Numbers in a row of what it gets.
    keys
        Those of the model; this dropout becomes one of its modules.
    """

    def __init__(self, probability: float, width: int, keys: Keys) -> None:
        super().__init__()
        self.probability, self.keys, self.number = probability, keys, len(keys.widths)
        keys.widths.append(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop numbers of x, shape (rows, *, width) or (rows * length, width), while training."""
        if not self.training:
            return x
        width = x.shape[-1]
        rows = len(self.keys) if x.dim() == 2 else len(x)
        bits = self.keys.of(self.number, rows, x.numel() // (rows * width))
        keeps, factor = kept(bits.reshape(-1, -(-width // 4)), self.probability)
        return x * keeps[:, :width].reshape(x.shape) * factor


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


def targets(model: Any, recipe: Recipe, head: Sequence[str]) -> list[str]:
    """Return the full names of the layers that get adapters, linear ones and none of the new head.

    Raises
    ------
    ParameterError
        If no layer has a name, or `auto` finds none.
    """
    from transformers.pytorch_utils import Conv1D

    kinds: tuple[type[Any], ...] = (torch.nn.Linear, Conv1D)
    owners = {name.rpartition(".")[0] for name in head}
    modules = [name for name, module in model.named_modules() if isinstance(module, kinds)]
    linear = [name for name in modules if name not in owners]
    last_parts = sorted({name.rpartition(".")[2] for name in linear})
    some = f"Use some of: {', '.join(last_parts[:12])}{', ...' if len(last_parts) > 12 else ''}."
    usual = (names for names in QUERY_AND_VALUE if set(names) <= set(last_parts))
    chosen: Sequence[str] = recipe.targets or next(usual, ())
    if not chosen:
        allowed = "query and value have none of the usual names in this model"
        raise ParameterError("hyperparameters.lora_targets", "auto", allowed, some)
    for name in chosen:
        if not any(f".{full}".endswith(f".{name}") for full in linear):
            raise ParameterError("hyperparameters.lora_targets", name, "names no linear layer of the model", some)
    return [full for full in linear if f".{full}".endswith(tuple(f".{name}" for name in chosen))]


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
    # Layers of GPT-2 keep their weight the other way round.
    transposed = not all(isinstance(modules[name], torch.nn.Linear) for name in names)
    scale = {"r": recipe.lora_r, "lora_alpha": recipe.lora_alpha, "lora_dropout": recipe.lora_dropout}
    inject_adapter_in_model(LoraConfig(**scale, target_modules=names, fan_in_fan_out=transposed), model)
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
