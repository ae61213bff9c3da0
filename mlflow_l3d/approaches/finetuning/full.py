"""``trainable=full``: every weight is trained, from a fresh copy of the pretrained ones in each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mlflow_l3d.approaches.encoder.pretrained import load_classifier, load_tokenizer
from mlflow_l3d.approaches.encoder.tokens import check_length, tokenise
from mlflow_l3d.approaches.finetuning.draws import batch_order, dropout_seed, initialisation_seed
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.approaches.finetuning.session import CellSession, Trained, pieces
from mlflow_l3d.approaches.finetuning.training import Progress, learning_rates, validate
from mlflow_l3d.approaches.global_seeds import seeded
from mlflow_l3d.approaches.models import ModelReference
from mlflow_l3d.approaches.watching import Watch, told_to_end
from mlflow_l3d.plan.cells import Cell
from mlflow_l3d.tasks.base import IntArray, Split, Task

if TYPE_CHECKING:
    import torch

EVALUATION_BATCH: Final = 64


class FullSession(CellSession):
    """Cells that train the whole model.

    Parameters
    ----------
    task
        The data; all of it is tokenised here, once.
    found
        The model.
    recipe
        Complete hyperparameters.
    device
        Where it is trained.

    Attributes
    ----------
    original
        Name -> pretrained weight; never written to.
    new
        Names of the weights that each cell initialises.
    watch
        Called after every epoch, where someone set it.
    """

    watch: Watch | None = None

    def __init__(self, task: Task, found: ModelReference, recipe: Recipe, device: str) -> None:
        super().__init__(task)
        self.recipe = recipe
        self.device = device
        tokenizer = load_tokenizer(found)
        self.model, self.new = load_classifier(found, len(task.class_names), recipe.dropout)
        check_length(recipe.max_length, tokenizer, self.model.config)
        self.model.to(device)
        fresh = set(self.new)
        self.original = {
            name: tensor.detach().clone() for name, tensor in self.model.state_dict().items() if name not in fresh
        }
        self.tokens = tokenise(tokenizer, task.texts, recipe.max_length)

    def train(self, cell: Cell, split: Split) -> Trained:
        """Train the model of one cell and return the logits of its test examples."""
        initialise(self.model, self.original, self.new, cell.seeds["model_initialisation"])
        progress = self._fit(cell, split)
        return Trained(progress, self.logits(split.test))

    def logits(self, positions: IntArray) -> torch.Tensor:
        """Return the logits of some examples, shape (n, C), on the CPU, without dropout."""
        import torch

        found = torch.empty(len(positions), self.model.config.num_labels)
        self.model.eval()
        with torch.inference_mode():
            for part in self.tokens.by_length(positions, EVALUATION_BATCH):
                inputs = self.tokens.batch(positions[part], self.device)
                found[torch.from_numpy(part)] = self.model(**inputs).logits.float().cpu()
        return found

    def _fit(self, cell: Cell, split: Split) -> Progress:
        """Train; the model holds the weights of the best epoch afterwards."""
        import torch

        recipe, n, seeds = self.recipe, len(split.train), cell.seeds
        held, labels = split.validation, self.task.labels[split.validation]
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        rates = learning_rates(recipe, recipe.epochs * -(-n // recipe.batch_size))
        optimizer = torch.optim.AdamW(weights, lr=0.0, weight_decay=recipe.weight_decay, fused=True)
        progress, best, step = Progress(recipe), {}, 0
        for epoch in range(recipe.epochs):
            order = split.train[batch_order(seeds["data_order"], epoch, n)]
            batches = pieces(order, recipe.batch_size)
            with seeded(dropout_seed(seeds["model_randomness"], epoch), self.device):
                train_loss = self._epoch(batches, optimizer, rates[step : step + len(batches)])
            step += len(batches)
            logits = self.logits(held)
            better = progress.add(*validate(logits, labels), train_loss)
            if better and epoch + 1 < recipe.epochs:
                best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
            if told_to_end(self.watch, cell.key, epoch, logits, labels) or progress.stop:
                break
        if progress.best + 1 < len(progress.f1):
            self.model.load_state_dict(best)
        return progress

    def _epoch(self, batches: Sequence[IntArray], optimizer: torch.optim.Optimizer, rates: Sequence[float]) -> float:
        """Visit every batch once; return the mean loss of an example."""
        import torch

        self.model.train()
        total, count = torch.zeros((), device=self.device), 0
        for batch, rate in zip(batches, rates, strict=True):
            wanted = torch.from_numpy(self.task.labels[batch]).to(self.device)
            logits = self.model(**self.tokens.batch(batch, self.device)).logits
            loss = torch.nn.functional.cross_entropy(logits, wanted)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            total += loss.detach() * len(batch)
            count += len(batch)
        return float(total) / count


def initialise(model: Any, original: Mapping[str, torch.Tensor], new: Sequence[str], seed: int) -> None:
    """Give a model its pretrained weights, and new ones as its own ``_init_weights`` draws them.

    Parameters
    ----------
    model
        Overwritten.
    original
        Name -> pretrained weight, for every name that is not in `new`.
    new
        Names of the weights to initialise, and no others.
    seed
        That of ``model_initialisation``.
    """
    import torch

    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    owners = {name.rpartition(".")[0] for name in new}
    # transformers passes over what carries this mark: it keeps what was loaded.
    for name, tensor in tensors.items():
        tensor._is_hf_initialized = name not in set(new)
    for name, module in model.named_modules():
        module._is_hf_initialized = name not in owners
    with torch.no_grad(), seeded(initialisation_seed(seed), str(model.device)):
        model.initialize_weights()
    model.load_state_dict(original, strict=False)


def initial_weights(model: Any, new: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the weights named in `new` as they are now, as arrays of their own."""
    state = model.state_dict()
    return {name: state[name].detach().cpu().numpy().copy() for name in new}
