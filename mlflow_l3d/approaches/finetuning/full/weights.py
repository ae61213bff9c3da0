"""The weights that each cell of a session starts from, and the word vectors that it trains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from mlflow_l3d.approaches.finetuning.training import initialisation_seed
from mlflow_l3d.approaches.global_seeds import seeded
from mlflow_l3d.tasks.settings import IntArray


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


class OwnVocabulary(torch.nn.Module):
    """The rows of some tokens of an embedding, in the place of the embedding.

    A dense gradient of the whole table, and AdamW on it, are half the weights of a small encoder at every step, nearly
    all of it zeros. The rows that are left compute what they compute in the whole table, to the last bit; only if
    several batches make a step are their gradients added up in another order.

    Gradients are added up outside of autograd, row by row, in memory that is kept: see :meth:`clear`.

    Parameters
    ----------
    whole
        The embedding.
    tokens
        Sorted numbers of the tokens that will occur.

    Attributes
    ----------
    weight
        Shape (tokens, width): trained in the place of the whole.
    """

    def __init__(self, whole: torch.nn.Embedding, tokens: IntArray) -> None:
        super().__init__()
        self.tokens = torch.from_numpy(tokens).to(whole.weight.device)
        self.weight = torch.nn.Parameter(whole.weight.detach()[self.tokens].clone())
        self.places = torch.full((whole.num_embeddings,), -1, dtype=torch.int64, device=whole.weight.device)
        self.places[self.tokens] = torch.arange(len(tokens), device=whole.weight.device)
        pad = self.padding_idx = whole.padding_idx
        self._padding = -1 if pad is None else int(np.searchsorted(tokens, pad))
        self._touched: list[torch.Tensor] = []
        self._total = self.weight.grad = torch.zeros_like(self.weight)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return the vectors of token numbers of the whole vocabulary."""
        places = self.places[input_ids]
        vectors = torch.nn.functional.embedding(places, self.weight.detach())
        if self.training and torch.is_grad_enabled():
            vectors.requires_grad_()
            hooked: Any = vectors
            hooked.register_hook(lambda gradient: self._add(places, gradient))
        return vectors

    def clear(self) -> None:
        """Set the gradient to zero, if there is any."""
        for places in self._touched:
            self._total.index_fill_(0, places, 0.0)
        self._touched = []

    def put_back(self, whole: torch.nn.Embedding) -> None:
        """Write the rows into the whole embedding."""
        with torch.no_grad():
            whole.weight[self.tokens] = self.weight

    def _add(self, places: torch.Tensor, gradient: torch.Tensor) -> None:
        flat, total = places.reshape(-1), self._total
        total.index_add_(0, flat, gradient.reshape(len(flat), -1).to(total.dtype))
        if self._padding >= 0:
            total[self._padding] = 0.0
        self._touched.append(flat)


@contextmanager
def own_vocabulary(model: Any, tokens: IntArray) -> Iterator[OwnVocabulary | None]:
    """Train the word vectors of some tokens only, inside the block; they are in the whole embedding afterwards.

    Parameters
    ----------
    model
        A model of `transformers` whose weights are all trained.
    tokens
        Sorted numbers of the tokens that will occur in the block; padding is added.

    Yields
    ------
    OwnVocabulary or None
        None, and nothing is replaced, if the embedding is more than a table, or another module shares it.
    """
    whole = model.get_input_embeddings()
    holders = [module for module in model.modules() if any(child is whole for child in module.children())]
    shared = sum(part is whole.weight for module in model.modules() for part in module._parameters.values())
    if type(whole) is not torch.nn.Embedding or len(holders) != 1 or shared != 1 or not plain(whole):
        yield None
        return
    pad = [] if whole.padding_idx is None else [whole.padding_idx]
    sorted_tokens = torch.unique(torch.cat([torch.from_numpy(tokens), torch.tensor(pad, dtype=torch.int64)])).numpy()
    vocabulary = OwnVocabulary(whole, sorted_tokens)
    (name,) = [name for name, child in holders[0].named_children() if child is whole]
    vocabulary.train(whole.training)
    setattr(holders[0], name, vocabulary)
    try:
        yield vocabulary
    finally:
        setattr(holders[0], name, whole)
        vocabulary.put_back(whole)


def plain(whole: torch.nn.Embedding) -> bool:
    """Return whether an embedding looks rows up and does nothing else, and is trained."""
    return whole.max_norm is None and not whole.scale_grad_by_freq and not whole.sparse and whole.weight.requires_grad
