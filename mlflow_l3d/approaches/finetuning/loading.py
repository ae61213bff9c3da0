"""The model of a session with its new head: an encoder as `transformers` has it, or any decoder with a head of ours."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import torch

from mlflow_l3d.approaches.chunks import roomy
from mlflow_l3d.approaches.finetuning import lora
from mlflow_l3d.approaches.finetuning.lora import Keys
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.approaches.finetuning.session import outputs
from mlflow_l3d.approaches.hyperparameters import AUTO
from mlflow_l3d.approaches.models import ModelReference, pretrained
from mlflow_l3d.approaches.models.gguf import located
from mlflow_l3d.approaches.models.tokens import check_length
from mlflow_l3d.approaches.numerics import computes_in_bfloat16
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task


class DecoderWithHead(torch.nn.Module):
    """A decoder and a linear head without bias, as ``transformers`` has for sequence classification.

    `transformers` has no multiple choice for decoders; Zhou et al. (2025, Table 6) wrote one for LLaMA. Here every
    choice is a row of its own whose score is the head's one output.

    Parameters
    ----------
    base
        The decoder without a language-modelling head.
    outputs
        Numbers of the head: classes, or 1 for a regression and for multiple choice.

    Attributes
    ----------
    config
        That of the decoder.
    score
        The head, float32 whatever the decoder computes in.
    """

    def __init__(self, base: Any, outputs: int) -> None:
        super().__init__()
        self.base, self.config = base, base.config
        text = self.config.get_text_config()
        width = getattr(text, "word_embed_proj_dim", None) or text.hidden_size
        self.score = torch.nn.Linear(width, outputs, bias=False, device=base.device, dtype=torch.float32)

    def get_input_embeddings(self) -> Any:
        """Return the module that turns token numbers into vectors."""
        return self.base.get_input_embeddings()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> SimpleNamespace:
        """Return an object with `logits`.

        Parameters
        ----------
        input_ids, attention_mask
            Shape (b, l); or (b, k, l) for k choices. Padding, where the mask is 0, stands on the right.

        Returns
        -------
        SimpleNamespace
            `logits` of shape (b, outputs); or (b, k).
        """
        ids, mask = (part.reshape(-1, part.shape[-1]) for part in (input_ids, attention_mask))
        hidden = self.base(ids, attention_mask=mask, use_cache=False)[0]
        last = (mask * torch.arange(mask.shape[-1], device=mask.device)).argmax(-1)
        picked = hidden[torch.arange(len(hidden), device=hidden.device), last]
        logits = self.score(picked.to(self.score.weight.dtype))
        return SimpleNamespace(logits=logits.view(input_ids.shape[0], -1) if input_ids.dim() == 3 else logits)

    def draw(self, generator: torch.Generator) -> None:
        """Draw the head as `transformers` does: normal, with the model's own standard deviation."""
        spread = getattr(self.config.get_text_config(), "initializer_range", None) or 0.02
        weight = torch.empty(self.score.weight.shape).normal_(0.0, float(spread), generator=generator)
        with torch.no_grad():
            self.score.weight.copy_(weight)


TRAINING: Final = frozenset(
    {
        *("learning_rate", "epochs", "batch_size", "warmup_share", "weight_decay"),
        *("early_stopping_metric", "early_stopping_patience", "selection"),
        *("gradient_accumulation", "gradient_clipping", "max_length", "truncation", "pooling", "hidden_units"),
        *("lora_cells", "restarts", "average_last", "soup"),
    }
)
"""Hyperparameters that the loaded model does not depend on: recipes that differ in these alone share one."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Loaded:
    """A model that cells can be trained on.

    Attributes
    ----------
    model, tokenizer
        The model with its new head (and adapters), on its device, and its tokenizer, which has a padding token.
    new
        Names of the weights of the head, or that the checkpoint lacks, which each cell draws.
    adapters
        Names of the adapters' weights, which each cell draws; empty without.
    decoder
        Whether it is decoder-only.
    dtype
        What is computed in; trained weights are float32.
    original
        Name -> pretrained weight of those that are trained; never written to. Frozen ones are not copied.
    dropout
        What the dropouts of the adapters draw from.
    """

    model: Any
    tokenizer: Any
    new: tuple[str, ...]
    adapters: tuple[str, ...]
    decoder: bool
    dtype: torch.dtype
    original: Mapping[str, torch.Tensor]
    dropout: Keys

    def autocast(self, device: str) -> AbstractContextManager[Any]:
        """Return the block in which the model computes in `dtype`."""
        if self.dtype is torch.float32:
            return nullcontext()
        return torch.autocast(torch.device(device).type, dtype=self.dtype)


def borrow(reference: str, task: Task, recipe: Recipe, device: str, cache: Path) -> Loaded:
    """Return what :func:`load` does; sessions of this process whose models are the same share one."""
    location, _ = located(reference, cache)
    settings = tuple((each.name, getattr(recipe, each.name)) for each in fields(recipe) if each.name not in TRAINING)
    key = ("finetuning", location, device, task.kind, outputs(task), settings)
    loaded = pretrained.lent(key, lambda: load(reference, task, recipe, device, cache))
    check_length(recipe.max_length, loaded.tokenizer, loaded.model.config)
    return loaded


def load(reference: str, task: Task, recipe: Recipe, device: str, cache: Path) -> Loaded:
    """Load a model with a new head for a task, and with adapters if the recipe has them.

    Raises
    ------
    ParameterError
        If the model, or what the recipe asks of it, is not possible.
    """
    if recipe.trainable == "lora":
        pretrained.need_peft()
    dtype = compute_dtype(recipe, device)
    location, name = located(reference, cache)
    with pretrained.readable(location, name):
        config, tokenizer = pretrained.config_and_tokenizer(location)
    # What is trained is float32; what is frozen need not be.
    stored = dtype if recipe.trainable == "lora" else torch.float32
    decoder = is_decoder(config)
    if decoder:
        if recipe.head_dropout not in (AUTO, recipe.dropout):
            allowed = f"is for encoders, and {name} is a decoder"
            raise ParameterError("hyperparameters.head_dropout", recipe.head_dropout, allowed, "Use head_dropout=auto.")
        model: Any = _decoder(location, name, config, task, recipe, device, stored)
        new = ["score.weight"]
        if tokenizer.pad_token_id is None:
            # Any token will do: the mask says what is padding.
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.bos_token or tokenizer.convert_ids_to_tokens(0)
    else:
        if recipe.quantise != "none":
            raise ParameterError("hyperparameters.quantise", recipe.quantise, f"is for decoders, and {name} is none")
        head = None if recipe.head_dropout in (AUTO, recipe.dropout) else float(recipe.head_dropout)
        model, new = pretrained.load_classifier(
            location, outputs(task), recipe.dropout, head_dropout=head, choices=task.form.has_choices, dtype=stored
        )
        pretrained.need_padding(tokenizer, model, location)
    check_length(recipe.max_length, tokenizer, config)
    keys = Keys()
    with pretrained.quiet():
        drawn = lora.attach(model, recipe, new, keys) if recipe.trainable == "lora" else []
    state = {} if drawn else model.state_dict()
    original = {name: tensor.detach().clone() for name, tensor in state.items() if name not in new}
    if recipe.quantise == "none":
        model.to(device)
        home = roomy([tensor for name, tensor in model.state_dict().items() if name in original])
        original = {name: tensor.to(home) for name, tensor in original.items()}
    loaded = Loaded(model, tokenizer, tuple(new), tuple(drawn), decoder, dtype, original, keys)
    if recipe.gradient_checkpointing and not checkpoint(loaded):
        allowed = f"{name} cannot compute its activations twice"
        raise ParameterError("hyperparameters.gradient_checkpointing", "true", allowed, "Leave it out.")
    return loaded


def is_decoder(config: Any) -> bool:
    """Return whether a model reads from left to right only, so that the last token alone has seen the whole text."""
    from transformers.models.auto import modeling_auto as auto

    kind = config.model_type
    encodes = (*auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, *auto.MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES)
    return kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in encodes and not config.is_encoder_decoder


def compute_dtype(recipe: Recipe, device: str) -> torch.dtype:
    """Return bfloat16 if it is asked for, or if `auto` meets adapters and a GPU that has it; else float32.

    Cells side by side are float32: bfloat16 would round otherwise with other cells next to one.

    Raises
    ------
    ParameterError
        If the device cannot compute this.
    """
    alone = recipe.trainable == "lora" and recipe.lora_cells == 1
    automatic = recipe.dtype == AUTO and alone and torch.device(device).type == "cuda"
    if recipe.dtype != "bfloat16" and not automatic:
        return torch.float32
    if computes_in_bfloat16(device):
        return torch.bfloat16
    if automatic:
        return torch.float32
    allowed = f"{device} does not compute in it by itself"
    raise ParameterError("hyperparameters.dtype", "bfloat16", allowed, "Use dtype=float32.")


def _decoder(
    found: ModelReference, name: str, config: Any, task: Task, recipe: Recipe, device: str, dtype: torch.dtype
) -> Any:
    """Load a decoder without its language-modelling head, and put the head of ours on it."""
    from transformers import AutoModel

    pretrained.set_dropout(config, recipe.dropout)
    extra: dict[str, Any] = {}
    if recipe.quantise == "4bit":
        pretrained.need_bitsandbytes()
        extra = pretrained.four_bits(device, dtype)
    with pretrained.readable(found, name):
        base, info = pretrained.load_weights(AutoModel, found, config=config, dtype=dtype, **extra)
    if missing := sorted(info["missing_keys"]):
        raise ParameterError("model", name, f"lacks {len(missing)} of its weights ({missing[0]} ...)")
    if torch.device(device).type == "cpu":
        # bitsandbytes would repack the weights at the first evaluation, after which training rounds in another way: a
        # cell would not be the same alone and after others.
        for module in base.modules():
            if hasattr(module, "support_avx512bf16_for_cpu"):
                module.support_avx512bf16_for_cpu = False
    return DecoderWithHead(base, outputs(task))


def checkpoint(loaded: Loaded) -> bool:
    """Let a model compute its activations twice instead of keeping them; return False if it does, or cannot."""
    body = loaded.model.base if loaded.decoder else loaded.model
    new_name = hasattr(body, "activation_checkpointing_enable")  # transformers from 5.20 or so on
    does = body.is_activation_checkpointing if new_name else body.is_gradient_checkpointing
    if does or not body.supports_gradient_checkpointing:
        return False
    settings = {"use_reentrant": False}
    if new_name:
        body.activation_checkpointing_enable(activation_checkpointing_kwargs=settings)
    else:
        body.gradient_checkpointing_enable(gradient_checkpointing_kwargs=settings)
    return True
