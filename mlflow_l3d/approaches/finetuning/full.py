"""``trainable=full`` and ``lora``: a whole model is trained, or adapters on one, from fresh weights in each cell."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import numpy as np
import torch

from mlflow_l3d.approaches.chunks import release
from mlflow_l3d.approaches.failures import is_out_of_memory
from mlflow_l3d.approaches.finetuning import lora, training
from mlflow_l3d.approaches.finetuning.graphed import GraphedSteps
from mlflow_l3d.approaches.finetuning.loading import Loaded, checkpoint
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.approaches.finetuning.session import CourseSession, losses_of, wanted
from mlflow_l3d.approaches.finetuning.training import Course, DivergedError
from mlflow_l3d.approaches.finetuning.weights import (
    Places,
    RoundedLayers,
    SingleWeights,
    StackedWeights,
    Weights,
    copy_into,
    initialise,
)
from mlflow_l3d.approaches.global_seeds import seeded
from mlflow_l3d.approaches.hyperparameters import AUTO
from mlflow_l3d.approaches.models.pretrained import lent
from mlflow_l3d.approaches.models.tokens import batches, inputs_of
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.cells.factors import stream_seed
from mlflow_l3d.errors import L3DError
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray

EVALUATION_BATCH: Final = 64
BY_PYTHON: Final = ("cpu", "mps")  # whose batches have the shapes of their texts
EVALUATED_TOKENS: Final = 2**15  # of a batch on a GPU, if EVALUATION_BATCH examples are fewer

_log = logging.getLogger(__name__)


class FullSession(CourseSession[Course]):
    """Cells that train the whole model, one after the other, or adapters and a head, also several side by side.

    Parameters
    ----------
    task
        The data; all of it is tokenised here, once.
    loaded, recipe, device
        The model, complete hyperparameters, and where it is trained.

    Attributes
    ----------
    batch
        Examples of a cell that are computed together; fewer than ``batch_size`` if memory was spent.
    apart
        Whether each choice is a text of its own, for a model that has no head for several.
    """

    need_validation = ("restarts", "early_stopping_patience", "early_stopping_metric")

    def __init__(self, task: Task, loaded: Loaded, recipe: Recipe, device: str) -> None:
        super().__init__(task, recipe, device)
        self.loaded, self.model = loaded, loaded.model
        # The session holds the model as long as it holds the tokens, so no other object has its id.
        key = ("tokens", id(loaded), task.fingerprint, task.kind)
        cut = (recipe.max_length, recipe.truncation)
        self.inputs = lent((*key, *cut), lambda: inputs_of(task, loaded.tokenizer, *cut, decoder=loaded.decoder))
        self.truncated_share = self.inputs.truncated_share
        self.apart = not loaded.decoder and not type(self.model).__name__.endswith("ForMultipleChoice")
        self.batch = recipe.batch_size
        self.width = 1 if task.form.has_numbers else len(task.class_names)
        self.cells_at_once = recipe.lora_cells
        if recipe.lora_cells > 1:
            self.places = Places(self.model, recipe.lora_cells)
        self._compared = False
        self.placed: Callable[[], AbstractContextManager[None]] = nullcontext
        self._steps: GraphedSteps | None = None
        if loaded.dtype is torch.bfloat16 and not loaded.adapters:
            self.placed = lent(("rounded", id(loaded)), lambda: RoundedLayers(self.model)).placed
        self._begin_steps()

    def _begin_steps(self) -> None:
        """Let a device that Python would keep waiting make the steps of whole models by itself."""
        kind = torch.device(self.device).type
        if kind in BY_PYTHON or self.loaded.adapters:
            return
        # Activations that are computed twice draw their dropout again, which a graph cannot.
        capture = kind == "cuda" and not self.recipe.gradient_checkpointing and self.batch == self.recipe.batch_size
        self._steps = GraphedSteps(self, capture=capture)

    def draw(self, cell: Cell) -> Course:
        """Return a cell before its training."""
        return Course(cell, self.task.split(cell.seeds), self.progress())

    def trained(self, courses: Sequence[Course]) -> list[torch.Tensor | DivergedError]:
        """Train cells; of one alone again, with less memory, while it is spent."""
        while len(courses) == 1:
            try:
                return self.train(courses)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                if not self._saves_memory():
                    fix = "Use a smaller batch_size with more gradient_accumulation, or a smaller max_length."
                    raise L3DError(f"memory is spent with batch_size={self.recipe.batch_size}. {fix}") from error
            # Only here is the error gone, and with it the tensors that its traceback held.
            self.model.zero_grad()
            release()
            courses[0].progress = self.progress()
        return self.train(courses)

    def _saves_memory(self) -> bool:
        """Let all further trainings take less memory for the same results; return whether there was a way left."""
        recipe = self.recipe
        if self._steps and self._steps.capture:
            self._steps.end_captures()
            _log.warning("Memory is spent: steps are not captured as CUDA graphs from now on, which is slower")
            return True
        if checkpoint(self.loaded):
            _log.warning("Memory is spent: activations are computed twice from now on (gradient_checkpointing)")
            return True
        # The model's own dropout is drawn for a whole batch, and bfloat16 rounds otherwise in batches of another size.
        more = not self.loaded.adapters and recipe.head_dropout not in (AUTO, 0)
        if self.batch == 1 or recipe.dropout or more or self.loaded.dtype is not torch.float32:
            return False
        self.batch = -(-self.batch // 2)
        self._begin_steps()
        _log.warning("Memory is spent: batches are computed in parts of %d from now on", self.batch)
        return True

    def train(self, courses: Sequence[Course]) -> list[torch.Tensor | DivergedError]:
        """Train the cells with the memory that there is; return as :meth:`trained`."""
        if len(courses) > 1:
            return self._train_beside(courses)
        (course,) = courses
        weights = SingleWeights(self.model)
        soup = SingleWeights(self.model)
        for number, members in training.soups(courses, self.recipe):
            self._start(course.cell.seeds["model_initialisation"])
            self.fit(members, weights)
            if self.recipe.soup > 1:
                soup.keep(0, number + 1)
        soup.end(0, best=self.recipe.soup > 1)
        return self.tested(courses)

    def _train_beside(self, courses: Sequence[Course]) -> list[torch.Tensor | DivergedError]:
        for _, members in training.soups(courses, self.recipe):
            first = []
            for member in members:
                self._start(member.cell.seeds["model_initialisation"])
                first.append(self.places.weights())
            with self.places.of(first) as weights:
                self.fit(members, weights)
        best = [course.best for course in courses if course.diverged is None]
        with self.places.of(best) if best else nullcontext():
            return self.tested(courses)

    def logits(self, parts: Sequence[IntArray], *_: Any) -> list[torch.Tensor]:
        """See :meth:`CourseSession.logits`; all parts have n examples, and the model has the weights."""
        cells, n = len(parts), len(parts[0])
        places, computed, size = [], [], EVALUATION_BATCH
        if torch.device(self.device).type not in BY_PYTHON:
            longest = max(int(self.inputs.lengths[positions].max(initial=1)) for positions in parts)
            size = max(size, EVALUATED_TOKENS // (longest * self.inputs.rows * cells))
        self.model.eval()
        with torch.inference_mode(), self.loaded.autocast(self.device):
            for batch in zip(*(self.inputs.by_length(positions, size) for positions in parts), strict=True):
                chosen = [positions[part] for positions, part in zip(parts, batch, strict=True)]
                inputs = self.inputs.batch(np.concatenate(chosen), self.device)
                places.append(np.stack(batch))
                computed.append(self._forward(inputs).float().view(cells, -1, self.width))
        # Copied from the device together, which would else wait for Python after each batch.
        logits = torch.empty(cells, n, self.width)
        if not n:
            return list(logits)
        where = torch.from_numpy(np.concatenate(places, 1))[..., None].expand_as(logits)
        return list(logits.scatter_(1, where, torch.cat(computed, 1).cpu()))

    def training_logits(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the logits of a batch in the precision that is trained in."""
        with self.loaded.autocast(self.device):
            return self._forward(inputs)

    def _forward(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the logits of a batch, shape (b, C)."""
        ids = inputs["input_ids"]
        if ids.dim() == 3 and self.width != 1 and self.apart:
            inputs = {name: tensor.flatten(0, 1) for name, tensor in inputs.items()}
        logits: torch.Tensor = self.model(**inputs).logits
        return logits.reshape(len(ids), self.width)

    def _start(self, seed: int) -> None:
        """Put the weights back to what a cell begins with."""
        if self.loaded.decoder:
            self.model.draw(torch.Generator().manual_seed(stream_seed(seed, "new_weights")))
            copy_into(self.model.state_dict(), self.loaded.original)
        else:
            initialise(self.model, self.loaded.original, self.loaded.new, seed)
        lora.draw(self.model, self.loaded.adapters, seed)

    def fit(self, courses: Sequence[Course], weights: Weights) -> None:
        """See :meth:`CourseSession.fit`."""
        if self._steps:
            weights.optimizer = self._steps.begin(weights)
        else:
            decay = self.recipe.weight_decay
            weights.optimizer = torch.optim.AdamW(weights.tensors, lr=0.0, weight_decay=decay, fused=True)
        super().fit(courses, weights)

    def _compare(self, positions: IntArray, weights: StackedWeights) -> None:
        """Raise if the last cell gives other logits next to the others than alone: the model would mix their texts."""
        stacked = self.logits([positions] * len(weights.tensors[0]))[-1]
        with self.places.of([weights.row(-1)]):
            alone = self.logits([positions])[0]
        if not alone.isfinite().all():
            return  # this cell has diverged; the next epoch asks another
        allowed = 1e-3 * max(1.0, float(alone.abs().max()))
        if not float((stacked - alone).abs().max()) <= allowed:  # nan: of a neighbour that has diverged
            raise L3DError("the model does not keep cells apart that are trained side by side. Use lora_cells=1.")
        self._compared = True

    def epoch(
        self, courses: Sequence[Course], number: int, order: IntArray, weights: Weights, rates: Sequence[float]
    ) -> list[float]:
        """See :meth:`CourseSession.epoch`."""
        recipe = self.recipe
        cells = len(courses)
        n = len(courses[0].split.train)
        optimizer = weights.optimizer
        seeds = [course.cell.seeds["model_randomness"] for course in courses]
        if self._steps:
            self.model.train()
            with seeded(stream_seed(seeds[0], "dropout", str(number)), self.device):
                return [self._steps.epoch(order[0], rates)]
        total = torch.zeros(cells, device=self.device)
        labels = wanted(self.task, order, self.device)
        groups = batches(np.arange(n), recipe.batch_size * recipe.gradient_accumulation)
        adapter_seeds = [stream_seed(seed, "lora_dropout", str(number)) for seed in seeds]
        self.loaded.dropout.begin(adapter_seeds, n, self.inputs.rows, self.device)
        self.model.train()
        # What the model draws by itself, nobody can draw for several cells.
        allowed = "" if cells == 1 else "the model draws random numbers of its own. Use lora_cells=1."
        with seeded(stream_seed(seeds[0], "dropout", str(number)), self.device, forbidden=allowed):
            for group, rate in zip(groups, rates, strict=True):
                optimizer.zero_grad()
                for batch in batches(group, self.batch):
                    part = slice(batch[0], batch[-1] + 1)
                    inputs = self.inputs.batch(order[:, part].ravel(), self.device)
                    self.loaded.dropout.take(part)
                    with self.placed():
                        logits = self.training_logits(inputs).view(cells, len(batch), self.width)
                        losses = losses_of(logits, labels[:, part])
                        # Each example of the group weighs the same, as in one large batch.
                        torch.autograd.backward(losses, torch.full_like(losses, len(batch) / len(group)))
                    total += losses.detach() * len(batch)
                if recipe.gradient_clipping:
                    weights.clip(recipe.gradient_clipping)
                for settings in optimizer.param_groups:
                    settings["lr"] = rate
                optimizer.step()
        if isinstance(weights, StackedWeights) and cells > 1 and not self._compared:
            self._compare(courses[-1].split.train[:8], weights)
        return [one / n for one in total.tolist()]
