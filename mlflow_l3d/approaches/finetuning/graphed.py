"""Training steps of whole models on a GPU, each shape of a batch captured once as a CUDA graph and then replayed.

A step of a small batch is some hundred kernels, which a GPU computes sooner than Python starts them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from mlflow_l3d.approaches.failures import is_out_of_memory, one_line
from mlflow_l3d.approaches.finetuning.session import loss_of, wanted
from mlflow_l3d.approaches.finetuning.weights import Weights
from mlflow_l3d.approaches.models.tokens import batches
from mlflow_l3d.tasks.settings import IntArray

WIDTHS: Final = 8  # most lengths to which batches are padded: each is a graph of its own
STAGED: Final = 2**22  # most tokens of batches that are copied to the device together, if these are several

_log = logging.getLogger(__name__)


class Batch(NamedTuple):
    """The examples of one step, filled up by repeated ones to a shape that many steps have.

    Attributes
    ----------
    inputs
        int64, (names, parts * b, *): the model's inputs, one below the other.
    labels
        (parts * b,), of :func:`~mlflow_l3d.approaches.finetuning.session.wanted`.
    shares
        float32, (parts * b,): what the loss of each example counts, 0 of repeated ones.
    """

    inputs: torch.Tensor
    labels: torch.Tensor
    shares: torch.Tensor


class GraphedSteps:
    """The training steps of a session's cells, one after the other, on the weights of its model.

    Parameters
    ----------
    session
        A :class:`~mlflow_l3d.approaches.finetuning.full.FullSession`; how many examples it computes together
        when this is made holds for all steps.
    capture
        Whether steps are replayed; else each is computed as it comes, with the same shapes and draws.
    """

    def __init__(self, session: Any, *, capture: bool) -> None:
        self.session, self.recipe, self.inputs, self.device = session, session.recipe, session.inputs, session.device
        self.capture, self.part, device = capture, session.batch, session.device
        self._rate = torch.zeros((), device=device)
        self._total = torch.zeros((), device=device)
        self._graphs: dict[torch.Size, tuple[torch.cuda.CUDAGraph, Batch]] = {}
        self._pool: Any = None
        self._weights: Any = None
        self._optimizer: torch.optim.Optimizer

    def begin(self, weights: Weights) -> torch.optim.Optimizer:
        """Return the optimiser of a cell, which remembers nothing. All cells have the same tensors as weights."""
        if self._weights is None:
            settings: dict[str, Any] = {"fused": True, "capturable": self.capture}
            settings["weight_decay"] = self.recipe.weight_decay
            self._weights = weights
            self._optimizer = torch.optim.AdamW(weights.tensors, lr=self._rate, **settings)
            # What it remembers is made in its first step, and in a graph would be made again in each.
            for weight in weights.tensors:
                weight.grad = torch.zeros_like(weight)
            self._optimizer.step()
            self._optimizer.zero_grad()
        torch._foreach_zero_([tensor for state in self._optimizer.state.values() for tensor in state.values()])
        return self._optimizer

    def epoch(self, order: IntArray, rates: Sequence[float]) -> float:
        """Visit examples in an order; return the mean loss of an example.

        Parameters
        ----------
        order
            Positions of n examples.
        rates
            The learning rate of each step.
        """
        self._total.zero_()
        size = self.recipe.batch_size * self.recipe.gradient_accumulation
        staged = size * max(1, STAGED // (size * self.inputs.rows * self.recipe.max_length))
        rates_there = iter(torch.tensor(rates).to(self.device))
        for part in batches(order, staged):
            for batch in self._on_device([self._batch(group, min(size, len(order))) for group in batches(part, size)]):
                self._rate.copy_(next(rates_there))
                self._take(batch)
        return float(self._total) / len(order)

    def _batch(self, group: IntArray, size: int) -> Batch:
        """Return some examples as a batch of at least `size`, on the host."""
        rows = -(-size // self.part) * self.part
        filled = np.resize(group, rows)
        step = -(-self.recipe.max_length // (16 * WIDTHS)) * 16
        width = min(-(-int(self.inputs.lengths[group].max()) // step) * step, self.recipe.max_length)
        shares = torch.where(torch.arange(rows) < len(group), 1 / len(group), 0.0)
        return Batch(self.inputs.stacked(filled, width), wanted(self.session.task, filled, "cpu"), shares)

    def _on_device(self, steps: Sequence[Batch]) -> list[Batch]:
        """Return batches on the device, copied there together: the host need not wait in each step."""
        columns = []
        for tensors in zip(*steps, strict=True):
            whole = torch.cat([tensor.flatten() for tensor in tensors]).to(self.device)
            pieces = torch.split(whole, [tensor.numel() for tensor in tensors])
            columns.append([piece.view(tensor.shape) for piece, tensor in zip(pieces, tensors, strict=True)])
        return [Batch(*tensors) for tensors in zip(*columns, strict=True)]

    def _take(self, batch: Batch) -> None:
        """Make a step; if it cannot be captured, but computed, so are all further ones."""
        if not self.capture:
            return self._compute(batch)
        try:
            return self._replay(batch)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            refusal = one_line(error)
            self._close_capture()
        self._compute(batch)  # An error of the model itself is raised here.
        self.end_captures()
        what = "A step of this model cannot be captured as a CUDA graph, so Python starts each of its kernels: %s"
        return _log.warning(what, refusal)

    def end_captures(self) -> None:
        """Compute further steps as they come, and give back the memory of the graphs."""
        self.capture = False
        self._graphs.clear()

    def _replay(self, batch: Batch) -> None:
        shape = batch.inputs.shape
        if shape not in self._graphs:
            self._graphs[shape] = self._captured(batch)
        graph, static = self._graphs[shape]
        for place, tensor in zip(static, batch, strict=True):
            place.copy_(tensor)
        graph.replay()

    def _captured(self, batch: Batch) -> tuple[torch.cuda.CUDAGraph, Batch]:
        """Return a graph of the step of a batch, which is not made yet, and the tensors that the graph reads."""
        static = Batch(*(tensor.clone() for tensor in batch))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self.device):
            if self._pool is None:
                self._pool = torch.cuda.graph_pool_handle(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
            pool, stream = self._pool
            drawn, total = torch.cuda.get_rng_state(), self._total.clone()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                # What libraries load and choose when a shape is new to them cannot be captured.
                self._gradients(static)
                self._optimizer.zero_grad()
                torch.cuda.set_rng_state(drawn)
                self._total.copy_(total)
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    self._compute(static)
                except BaseException:
                    with suppress(RuntimeError):
                        graph.capture_end()
                    raise
                finally:
                    self._optimizer.zero_grad()
                graph.capture_end()
        return graph, static

    def _close_capture(self) -> None:
        """Let the generator of the device draw again after a capture that was refused: a capture that ends frees it."""
        with torch.cuda.device(self.device), torch.cuda.stream(self._pool[1]):
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin(capture_error_mode="thread_local")
            self._rate.mul_(1)
            graph.capture_end()

    def _compute(self, batch: Batch) -> None:
        self._optimizer.zero_grad()
        self._gradients(batch)
        if self.recipe.gradient_clipping:
            self._weights.clip(self.recipe.gradient_clipping)
        self._optimizer.step()

    def _gradients(self, batch: Batch) -> None:
        """Add up the gradients of the parts of a batch."""
        for begin in range(0, len(batch.labels), self.part):
            part = slice(begin, begin + self.part)
            shares = batch.shares[part]
            with self.session.placed():
                logits = self.session.training_logits(self.inputs.named(batch.inputs[:, part]))
                losses = loss_of(logits, batch.labels[part], "none")
                torch.autograd.backward(losses, shares)
            self._total += (losses.detach() * (shares > 0)).sum()
