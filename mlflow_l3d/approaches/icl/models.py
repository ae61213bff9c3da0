"""Language models that answer prompts: any causal or encoder-decoder model of `transformers`.

Safetensors only, evaluation mode, no gradients; code that comes with a model is run only if the user allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import torch

from mlflow_l3d.approaches.icl.engine import CausalEngine, Seq2SeqEngine
from mlflow_l3d.approaches.icl.engine.base import Engine, use_products
from mlflow_l3d.approaches.icl.recipe import Recipe
from mlflow_l3d.approaches.models import PRESETS, default_quantisation, gguf, pretrained
from mlflow_l3d.approaches.numerics import computes_in_bfloat16, has_bfloat16
from mlflow_l3d.errors import ParameterError

_POSITIONS: Final = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
_FAR: Final = 10**7


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class LoadedModel:
    """A model and its tokenizer, ready to answer.

    Attributes
    ----------
    model
        A `transformers` model in evaluation mode, no parameter of which asks for gradients.
    tokenizer
        Its tokenizer; it has a padding token.
    continues
        Whether an answer continues the prompt, so that both share the context, as of causal models; that of an
        encoder-decoder is a text of its own.
    context
        Tokens that fit: of prompt and answer together for a causal model, of the prompt for an encoder-decoder. Of a
        model that is not `bounded`, what it was trained on.
    chat
        Whether the tokenizer has a chat template.
    name
        The reference without private folders, for messages.
    context_source
        Where `context` comes from, for messages.
    bounded
        Whether longer texts cannot be read; see :func:`is_bounded`.
    mixed
        Whether products are computed in bfloat16, inside :meth:`precision`.
    """

    model: Any
    tokenizer: Any
    continues: bool
    context: int
    chat: bool
    name: str
    context_source: str
    bounded: bool = True
    mixed: bool = False

    def precision(self) -> AbstractContextManager[object]:
        """Return the block in which the model computes as it was loaded to."""
        return torch.autocast(self.model.device.type, torch.bfloat16) if self.mixed else nullcontext()

    def places_behind(self, answers: Sequence[Sequence[int]], new_tokens: int = 0) -> int:
        """Return how many tokens of the longest answer need a place behind the prompt: all but the last of it."""
        return max(0, new_tokens - 1, *(len(ids) - 1 for ids in answers)) if self.continues else 0

    def most_tokens(self, answers: Sequence[Sequence[int]], new_tokens: int = 0) -> int:
        """Return how many tokens of a prompt are kept, so that its answer fits.

        That is what the tokenizer's ``model_max_length`` says, as for ``truncation=True`` of a tokenizer that is called
        without a number; but no more than the model's context leaves next to the answer.
        """
        return max(1, min(self.context - self.places_behind(answers, new_tokens), int(self.tokenizer.model_max_length)))


def load_model(
    reference: str,
    device: str | torch.device,
    *,
    quantise: Literal["auto", "none", "4bit", "fp4"] = "auto",
    dtype: Literal["auto", "float32", "bfloat16"] = "auto",
    cache: Path,
    trust: bool = False,
    check: Callable[[LoadedModel], None] | None = None,
) -> LoadedModel:
    """Load a model and its tokenizer.

    Parameters
    ----------
    reference
        A preset of :data:`PRESETS`, a hub id, a folder, a GGUF file, or ``package:NAME``.
    device
        ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
    quantise
        ``4bit``: NF4 with double quantisation, computed in bfloat16 (float16 on a GPU without it); ``fp4``: FP4
        computed in float32, which ``load_in_4bit=True`` alone means (Pecher et al. 2024: their code); ``auto``: what
        the preset says, ``none`` for any other reference.
    dtype
        ``bfloat16``: products are, inside the model's :meth:`LoadedModel.precision`, see :func:`mix`; ``auto``: see
        :func:`dtype_on`.
    cache
        GGUF files are converted into ``cache/models``, once; several processes may do so at once.
    trust
        Whether code that comes with the model is run.
    check
        Given everything but the weights (`model` is None) before those are read, to raise early what it has to say.

    Raises
    ------
    ParameterError
        If the reference leads to no model, the model does not generate text, a package is missing, the device does not
        compute in `dtype`, or the model needs code of its own and `trust` is False.
    """
    import transformers

    bits = default_quantisation(reference) if quantise == "auto" else quantise
    if bits != "none":
        pretrained.need_bitsandbytes()
    where = torch.device(device)
    if dtype == "bfloat16" and not computes_in_bfloat16(str(where)):
        allowed = f"this {where.type.upper()} does not compute in it by itself"
        raise ParameterError("hyperparameters.dtype", dtype, allowed, "Use dtype=float32.")
    location, name = gguf.located(reference, cache)
    name = reference if reference in PRESETS or reference.startswith("package:") else name
    with pretrained.readable(location, name), pretrained.code_lock(trust, cache):
        if trust:
            pretrained.check_code(location, name)
        config, tokenizer = pretrained.config_and_tokenizer(location, trust=trust)
        bare = described(name, config, tokenizer)
        settings: dict[str, Any] = {
            pretrained.TRUST: trust,
            "dtype": dtype_on(config, where) if dtype == "auto" else torch.float32,
        }
        if bits == "4bit":
            half = torch.bfloat16 if has_bfloat16(str(where)) else torch.float16
            settings |= {"dtype": half, **pretrained.four_bits(where, half)}
        elif bits == "fp4":
            settings |= {"dtype": torch.float16, **pretrained.four_bits(where, torch.float32, "fp4")}
        if check is not None:
            check(bare)
        loader = transformers.AutoModelForCausalLM if bare.continues else transformers.AutoModelForSeq2SeqLM
        model, info = pretrained.load_weights(loader, location, **settings)
        if missing := sorted(info["missing_keys"]):
            # They would be drawn at random.
            what = f"the weights lack {len(missing)} of a language model's tensors ({missing[0]} ...)"
            raise ParameterError("model", bare.name, what, "Use a model that generates text.")
        if bits == "none":
            model = model.to(where)
        model = model.eval().requires_grad_(False)
        if dtype == "bfloat16":
            mix(model)
            if where.type == "cpu" and bare.continues:
                use_products(model)
        return replace(bare, model=model, mixed=dtype == "bfloat16")


def described(name: str, config: Any, tokenizer: Any) -> LoadedModel:
    """Return the facts about a model, of this name for messages, before its weights are read: without a model.

    Raises
    ------
    ParameterError
        If it generates no text.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    continues = not config.is_encoder_decoder
    # `transformers` would run an encoder as a generator that sees the tokens to come.
    encoder = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
    if continues and encoder:
        fix = "Use a causal model (GPT, LLaMA, Mistral), an encoder-decoder (T5), or approach=finetuning."
        raise ParameterError("model", name, f"is an encoder ({config.model_type}), which generates no text", fix)
    if tokenizer.eos_token_id is None:
        raise ParameterError("model", name, "its tokenizer has no end-of-text token, so no answer would ever end")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    context, source = context_length(config, tokenizer, continues)
    chat, bounded = bool(tokenizer.chat_template), is_bounded(config)
    return LoadedModel(None, tokenizer, continues, context, chat, name, source, bounded)


def mix(model: Any) -> None:
    """Keep the weights of all linear layers in bfloat16, but for the last one's: its logits are compared.

    What the layers add up stays in float32, inside ``torch.autocast``.
    """
    head = model.get_output_embeddings()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and module is not head:
            module.to(torch.bfloat16)
    if head is None:  # of a model with code of its own (trust_remote_code)
        return
    plain = head.forward

    def forward(hidden: torch.Tensor) -> torch.Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            logits: torch.Tensor = plain(hidden.float())
            return logits

    head.forward = forward


def dtype_on(config: Any, device: torch.device) -> torch.dtype:
    """Return float32 on anything but CUDA; there what the configuration says, float16 if it has no bfloat16."""
    saved = getattr(config, "dtype", None)
    if device.type != "cuda" or saved not in {torch.bfloat16, torch.float16}:
        return torch.float32
    return torch.bfloat16 if saved is torch.bfloat16 and has_bfloat16(str(device)) else torch.float16


def context_length(config: Any, tokenizer: Any, continues: bool) -> tuple[int, str]:
    """Return how many tokens fit into the model, and where that number comes from."""
    text_config = config.get_text_config()
    for field in _POSITIONS:
        value = getattr(text_config, field, None)
        if isinstance(value, int) and 0 < value < _FAR:
            return value, f"{field} of its configuration"
    if 0 < tokenizer.model_max_length < _FAR:
        return int(tokenizer.model_max_length), "model_max_length of its tokenizer"
    usual = 2048 if continues else 512
    return usual, "neither its configuration nor its tokenizer states one; this is what such models saw"


def is_bounded(config: Any) -> bool:
    """Return whether a model has a place for each token and no more, as absolute and rotary positions do.

    Relative positions (T5 and its kin) and ALiBi (BLOOM, some Falcons) reach any distance. MPT has ALiBi, too, but
    `transformers` makes its table for ``max_seq_len`` tokens.
    """
    text = config.get_text_config()
    relative = hasattr(text, "relative_attention_num_buckets")
    return not (relative or text.model_type == "bloom" or getattr(text, "alibi", False))


def borrowed(
    model: str, device: str, recipe: Recipe, cache: Path, check: Callable[[LoadedModel], None] = lambda _: None
) -> tuple[LoadedModel, Engine]:
    """Return a model, which all sessions of this process share, and what runs it.

    Parameters
    ----------
    model, device, cache
        As for :func:`~mlflow_l3d.approaches.icl.models.load_model`.
    recipe
        How it is loaded.
    check
        Called with the model before its weights are read, and with one that is loaded already; raises its objections.
    """
    trust = recipe.trust_remote_code == "true"
    how: dict[str, Any] = {"quantise": recipe.quantise, "dtype": recipe.dtype, "trust": trust}
    load = partial(load_model, model, device, **how, cache=cache, check=check)
    loaded = pretrained.lent(("icl", model, gguf.revision(model), device, *how.values()), load)
    check(loaded)
    engine = CausalEngine if loaded.continues else Seq2SeqEngine
    return loaded, engine(loaded.model, loaded.tokenizer.pad_token_id, batch_size=recipe.batch_size)
