"""``trainable=full`` and ``lora``: a whole model is trained, or adapters on one, from fresh weights in each cell."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from mlflow_l3d.approaches.base import CellwiseSession
from mlflow_l3d.approaches.callbacks import should_stop
from mlflow_l3d.approaches.encoder.tokens import batches
from mlflow_l3d.approaches.failures import is_out_of_memory
from mlflow_l3d.approaches.finetuning import adapters
from mlflow_l3d.approaches.finetuning.draws import batch_order, dropout_seed, initialisation_seed
from mlflow_l3d.approaches.finetuning.embedding import OwnVocabulary, own_vocabulary
from mlflow_l3d.approaches.finetuning.inputs import inputs_of
from mlflow_l3d.approaches.finetuning.kinds import loss_of, outcome_of, stopping_metric, wanted
from mlflow_l3d.approaches.finetuning.loading import Loaded, checkpoint
from mlflow_l3d.approaches.finetuning.recipe import HYPERPARAMETERS, Recipe
from mlflow_l3d.approaches.finetuning.training import Progress, learning_rates, validate
from mlflow_l3d.approaches.finetuning.weights import Kept, copy_into, initialise
from mlflow_l3d.approaches.global_seeds import seeded
from mlflow_l3d.approaches.hyperparameters import AUTO
from mlflow_l3d.approaches.lending import lent
from mlflow_l3d.approaches.memory import release
from mlflow_l3d.approaches.numerics import one_thread
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.plan.cells import Cell, Outcome
from mlflow_l3d.plan.factors import TASK_FACTORS
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray, Split

EVALUATION_BATCH: Final = 64

_log = logging.getLogger(__name__)


class FullSession(CellwiseSession):
    """Cells that train the whole model, or adapters and a head.

    Parameters
    ----------
    task
        The data; all of it is tokenised here, once.
    loaded
        The model.
    recipe
        Complete hyperparameters.
    device
        Where it is trained.

    Attributes
    ----------
    original
        See :class:`~mlflow_l3d.approaches.finetuning.loading.Loaded`.
    new
        Names of the weights that each cell initialises, adapters excepted.
    batch
        Examples that are computed together; fewer than ``batch_size`` where memory was spent.
    apart
        Whether each choice is a text of its own, for a model that has no head for several.
    """

    reports_epochs = True

    def __init__(self, task: Task, loaded: Loaded, recipe: Recipe, device: str) -> None:
        _check_validation(task, recipe)
        self.task, self.recipe, self.device = task, recipe, device
        self.loaded, self.model, self.new = loaded, loaded.model, list(loaded.new)
        self.original = loaded.original
        # Sessions hold what the ids are those of.
        key = ("tokens", id(loaded), id(task.texts), id(task.choices), task.kind, recipe.max_length, recipe.truncation)
        cut, decoder = recipe.truncation, loaded.decoder
        self.inputs = lent(
            key, lambda: inputs_of(task, loaded.tokenizer, recipe.max_length, truncation=cut, decoder=decoder)
        )
        self.apart = not loaded.decoder and not type(self.model).__name__.endswith("ForMultipleChoice")
        self.batch = recipe.batch_size
        self.width = 1 if task.kind == "regression" else len(task.class_names)

    def run_cell(self, cell: Cell) -> Outcome:
        """Train and evaluate a cell, with one thread."""
        with one_thread():
            split = self.task.split(cell.seeds)
            while True:
                try:
                    return outcome_of(cell.key, self.task, split.test, *self.train(cell, split))
                except Exception as error:
                    if not is_out_of_memory(error):
                        raise
                    if not self._saves_memory():
                        fix = "Use a smaller batch_size with more gradient_accumulation, or a smaller max_length."
                        raise L3DError(f"memory is spent with batch_size={self.recipe.batch_size}. {fix}") from error
                # Only here is the error gone, and with it the tensors that its traceback held.
                self.model.zero_grad()
                release()

    def _saves_memory(self) -> bool:
        """Let all further trainings take less memory for the same results; return whether there was a way left."""
        recipe = self.recipe
        if checkpoint(self.loaded):
            _log.warning("Memory is spent: activations are computed twice from now on (gradient_checkpointing)")
            return True
        more = recipe.lora_dropout if self.loaded.adapters else recipe.head_dropout not in (AUTO, 0)
        # Dropout is drawn for a whole batch, and bfloat16 rounds otherwise in batches of another size.
        if self.batch == 1 or recipe.dropout or more or self.loaded.dtype is not torch.float32:
            return False
        self.batch = -(-self.batch // 2)
        _log.warning("Memory is spent: batches are computed in parts of %d from now on", self.batch)
        return True

    def train(self, cell: Cell, split: Split) -> tuple[Progress, torch.Tensor]:
        """Train the model of one cell; return its course and the logits of its test examples."""
        self._start(cell.seeds["model_initialisation"])
        used = np.concatenate([split.train, split.validation, split.test])
        with own_vocabulary(self.model, self.inputs.vocabulary(used)) as words:
            return self._fit(cell, split, words), self.logits(split.test)

    def logits(self, positions: IntArray) -> torch.Tensor:
        """Return the logits of some examples, shape (n, C), on the CPU, without dropout."""
        found = torch.empty(len(positions), self.width)
        self.model.eval()
        with torch.inference_mode(), self.loaded.autocast(self.device):
            for part in self.inputs.by_length(positions, EVALUATION_BATCH):
                inputs = self.inputs.batch(positions[part], self.device)
                found[torch.from_numpy(part)] = self._forward(inputs).float().cpu()
        return found

    def _forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the logits of a batch, shape (b, C)."""
        ids = inputs["input_ids"]
        if ids.dim() == 3 and self.width != 1 and self.apart:
            inputs = {name: tensor.flatten(0, 1) for name, tensor in inputs.items()}
        logits: torch.Tensor = self.model(**inputs).logits
        return logits.reshape(len(ids), self.width)

    def _start(self, seed: int) -> None:
        """Put the weights back to what a cell begins with."""
        if self.loaded.decoder:
            self.model.draw(torch.Generator().manual_seed(initialisation_seed(seed)))
            copy_into(self.model.state_dict(), self.original)
        else:
            initialise(self.model, self.original, self.new, seed)
        adapters.draw(self.model, self.loaded.adapters, seed)

    def _fit(self, cell: Cell, split: Split, words: OwnVocabulary | None) -> Progress:
        """Train; the model holds the weights that are to be evaluated afterwards."""
        recipe, n, seeds = self.recipe, len(split.train), cell.seeds
        held, labels = split.validation, self.task.labels[split.validation]
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        steps = -(-n // (recipe.batch_size * recipe.gradient_accumulation))
        rates = learning_rates(recipe, recipe.epochs * steps)
        optimizer = torch.optim.AdamW(weights, lr=0.0, weight_decay=recipe.weight_decay, fused=True)
        progress, best = Progress(recipe, metric=stopping_metric(self.task)), Kept(weights)
        keeps = recipe.selection == "best" and len(held) > 0
        for epoch in range(recipe.epochs):
            order = split.train[batch_order(seeds["data_order"], epoch, n)]
            with seeded(dropout_seed(seeds["model_randomness"], epoch), self.device):
                train_loss = self._epoch(order, optimizer, rates[epoch * steps : (epoch + 1) * steps], words)
            logits = self.logits(held)
            better = progress.add(*validate(logits, labels), train_loss)
            if better and keeps and epoch + 1 < recipe.epochs:
                best.keep()
            if should_stop(self.on_epoch_end, cell.key, epoch, logits, labels) or progress.stop:
                break
        if progress.chosen + 1 < len(progress.f1):
            best.put_back()
        return progress

    def _epoch(
        self, order: IntArray, optimizer: torch.optim.Optimizer, rates: Sequence[float], words: OwnVocabulary | None
    ) -> float:
        """Visit every example once; return the mean loss of an example."""
        self.model.train()
        recipe = self.recipe
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        total = torch.zeros((), device=self.device)
        labels = wanted(self.task, order, self.device)
        groups = batches(np.arange(len(order)), recipe.batch_size * recipe.gradient_accumulation)
        for group, rate in zip(groups, rates, strict=True):
            for weight in weights:
                if words is None or weight is not words.weight:
                    weight.grad = None
            if words is not None:
                words.clear()
            for batch in batches(group, self.batch):
                inputs, own = self.inputs.batch(order[batch], self.device), labels[batch[0] : batch[-1] + 1]
                with self.loaded.autocast(self.device):
                    loss = loss_of(self._forward(inputs), own)
                # Each example of the group weighs the same, as in one large batch.
                share = len(batch) / len(group)
                torch.autograd.backward(loss if share == 1 else loss * share)
                total += loss.detach() * len(batch)
            if recipe.gradient_clipping:
                torch.nn.utils.clip_grad_norm_(weights, recipe.gradient_clipping)
            for settings in optimizer.param_groups:
                settings["lr"] = rate
            optimizer.step()
        return float(total) / len(order)


def _check_validation(task: Task, recipe: Recipe) -> None:
    """Refuse what has an effect on a validation part only, where there is none."""
    if len(task.split(dict.fromkeys(TASK_FACTORS, 0)).validation):
        return
    for name in ("early_stopping_patience", "early_stopping_metric"):
        value = getattr(recipe, name)
        if value not in (0, HYPERPARAMETERS[name].default):
            fix = "Leave it out (the last epoch counts), or hold examples out with validation_fraction."
            raise ParameterError(f"hyperparameters.{name}", value, "needs a validation part, and there is none", fix)
