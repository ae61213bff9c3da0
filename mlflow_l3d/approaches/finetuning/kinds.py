"""What a kind of task means for training: inputs, outputs, loss, scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.approaches.models.tokens import Tokens, tokenise
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.numerical import F1_MACRO, PEARSON
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray


def outputs(task: Task) -> int:
    """Return how many numbers the head gives for one text: a class each, or one (a score, also that of a choice)."""
    return len(task.class_names) if task.form.has_class_names else 1


def stopping_metric(task: Task) -> Metric:
    """Return the metric that decides the best epoch, on the validation part."""
    return PEARSON if task.form.has_numbers else F1_MACRO


def wanted(task: Task, positions: IntArray, device: str) -> torch.Tensor:
    """Return the labels of some examples, in their shape: int64 of classes and choices, float32 of scores."""
    labels = torch.from_numpy(task.labels[positions])
    return (labels.float() if task.form.has_numbers else labels).to(device)


def unit_of(task: Task, positions: IntArray) -> tuple[float, float]:
    """Return the mean and the standard deviation of the scores of some examples; 0 and 1 of classes and choices.

    Equal scores have the standard deviation 1, so that it can be divided by.
    """
    if not task.form.has_numbers:
        return 0.0, 1.0
    labels = task.labels[positions]
    return float(labels.mean()), float(labels.std()) or 1.0


def loss_of(logits: torch.Tensor, labels: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Return the mean loss of a batch; without a reduction that of each example, shape (b,).

    Parameters
    ----------
    logits
        Shape (b, C): of classes, or of the choices of each example; (b, 1) for a regression.
    labels
        Shape (b,), of :func:`wanted`: cross-entropy if they are whole numbers, else the squared error.
    reduction
        ``mean`` or ``none``.
    """
    if labels.is_floating_point():
        return torch.nn.functional.mse_loss(logits[:, 0].to(labels.dtype), labels, reduction=reduction)
    return torch.nn.functional.cross_entropy(logits.float(), labels, reduction=reduction)


def losses_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of each of B batches, shape (B,), of logits (B, b, C) and labels (B, b)."""
    if len(logits) == 1:
        return loss_of(logits.flatten(0, 1), labels.flatten())[None]
    return loss_of(logits.flatten(0, 1), labels.flatten(), "none").view(labels.shape).mean(1)


LONGER_THAN_ANY = 10**6


def inputs_of(task: Task, tokenizer: Any, recipe: Recipe, *, decoder: bool) -> Tokens:
    """Tokenise a task, once for all cells.

    Parameters
    ----------
    task
        One or two text columns. Of a multiple choice each example becomes a pair a choice: what the choices have in
        common, and the choice (Zhou et al. 2025, appendix A.2).
    tokenizer
        Of `transformers`.
    recipe
        Most tokens of a row, and whether longer rows are cut; of a pair, the longer text first.
    decoder
        Nothing but token numbers is kept; and a line break stands between the texts of a pair if the tokenizer puts
        nothing there.

    Raises
    ------
    ParameterError
        If rows are longer than allowed and may not be cut.
    """
    columns = columns_of(task, " " if tokenizer.sep_token is None else f" {tokenizer.sep_token} ")
    if decoder and len(columns) == 2 and _glued(tokenizer):
        columns = (columns[0], tuple(f"\n{text}" for text in columns[1]))
    tokens = tokenise(tokenizer, columns, recipe.max_length if recipe.truncation else LONGER_THAN_ANY)
    if longer := int((tokens.lengths > recipe.max_length).sum()):
        longest = f"max_length={recipe.max_length} (the longest has {int(tokens.lengths.max())} tokens)"
        allowed = f"{longer} of {len(tokens.lengths)} sequences are longer than {longest}"
        raise ParameterError("hyperparameters.truncation", "false", allowed, "Raise max_length, or let them be cut.")
    names = ["input_ids"] if decoder else list(tokens.columns)
    chosen = {name: tokens.columns[name] for name in names}
    return Tokens(chosen, tokens.starts, tokens.padding, len(task.choices) or 1)


def columns_of(task: Task, separator: str) -> tuple[Sequence[str], ...]:
    """Return the text columns of all rows: one, or two of pairs.

    Of a multiple choice the columns that the choices have in common are joined by `separator`.
    """
    if not task.form.has_choices:
        return task.texts
    common = [separator.join(parts) for parts in zip(*task.texts, strict=True)]
    choices = len(task.choices)
    return (
        [text for text in common for _ in range(choices)],
        [text for row in zip(*task.choices, strict=True) for text in row],
    )


def _glued(tokenizer: Any) -> bool:
    """Return whether nothing stands between the texts of a pair."""
    columns = tokenizer("a", "b").sequence_ids()
    first, second = len(columns) - 1 - columns[::-1].index(0), columns.index(1)
    return bool(second == first + 1)
