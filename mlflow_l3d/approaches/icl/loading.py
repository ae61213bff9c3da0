"""What a language model is loaded from: configuration, tokenizer and weights, by `transformers`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal

from mlflow_l3d.approaches.global_seeds import seeded
from mlflow_l3d.approaches.models import ModelReference
from mlflow_l3d.errors import L3DError, ParameterError

if TYPE_CHECKING:
    import torch

TRUST: Final = "trust_remote_code"


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model and its tokenizer, ready to answer.

    Attributes
    ----------
    model
        A `transformers` model in evaluation mode on `device`, no parameter of which asks for gradients.
    tokenizer
        Its tokenizer; it has a padding token.
    kind
        ``causal``, or ``seq2seq`` (encoder-decoder).
    device, dtype
        Where it computes, and in what: float32 on the CPU; on CUDA what the model's configuration says; bfloat16 where
        the weights are 4-bit.
    context
        Tokens that fit: of prompt and answer together for a causal model, of the prompt for an encoder-decoder.
    chat
        Whether the tokenizer has a chat template.
    name
        The reference without private folders, for messages.
    context_source
        Where `context` comes from, for messages.
    """

    model: Any
    tokenizer: Any
    kind: Literal["causal", "seq2seq"]
    device: torch.device
    dtype: torch.dtype
    context: int
    chat: bool
    name: str = ""
    context_source: str = ""


def config_and_tokenizer(found: ModelReference, *, trust: bool = False) -> tuple[Any, Any]:
    """Load configuration and tokenizer; code that comes with the model is run where `trust` says so."""
    from transformers import AutoConfig, AutoTokenizer

    from mlflow_l3d.approaches.encoder.pretrained import quiet

    where: dict[str, Any] = {"revision": found.commit or "main", "trust_remote_code": trust}
    with quiet():
        return (
            AutoConfig.from_pretrained(found.path_or_id, **where),
            AutoTokenizer.from_pretrained(found.path_or_id, **where),
        )


def weights(
    found: ModelReference,
    kind: str,
    name: str,
    device: torch.device,
    dtype: torch.dtype,
    *,
    quantised: bool,
    trust: bool = False,
) -> Any:
    """Load the weights, in evaluation mode and without gradients, onto `device`.

    Parameters
    ----------
    found
        The model; its weights must be safetensors.
    kind
        ``causal`` or ``seq2seq``.
    name
        For messages.
    device, dtype
        Where, and in what.
    quantised
        Linear layers in 4 bits: NF4 with double quantisation, computed in `dtype` (Pecher et al. 2024, section 4).
    trust
        Whether code that comes with the model is run.

    Raises
    ------
    ParameterError
        If tensors of a language model are missing: they would be drawn at random.
    """
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    from mlflow_l3d.approaches.encoder.pretrained import quiet

    extra: dict[str, Any] = {"trust_remote_code": trust}
    if quantised:
        extra |= four_bits(device, dtype)
    loader: Any = AutoModelForSeq2SeqLM if kind == "seq2seq" else AutoModelForCausalLM
    with quiet(), seeded(0):
        model, info = loader.from_pretrained(
            found.path_or_id,
            revision=found.commit or "main",
            use_safetensors=True,
            dtype=dtype,
            output_loading_info=True,
            **extra,
        )
    if info["missing_keys"]:
        first = sorted(info["missing_keys"])[0]
        what = f"the weights lack {len(info['missing_keys'])} of a language model's tensors ({first} ...)"
        raise ParameterError("model", name, what, "Use a model that generates text.")
    if not quantised:
        model = model.to(device)
    return model.eval().requires_grad_(False)


def four_bits(device: str | torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """Return what ``from_pretrained`` needs for NF4 weights with double quantisation that compute in `dtype`."""
    from transformers import BitsAndBytesConfig

    nf4: Any = BitsAndBytesConfig
    double: dict[str, Any] = {"bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}
    settings = nf4(load_in_4bit=True, bnb_4bit_compute_dtype=dtype, **double)
    return {"quantization_config": settings, "device_map": {"": device}}


def check_generative(config: Any, kind: str, name: str) -> None:
    """Refuse an encoder: `transformers` would run it as a generator that sees the tokens to come."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    encoder = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
    if kind == "causal" and encoder:
        fix = "Use a causal model (GPT, LLaMA, Mistral), an encoder-decoder (T5), or approach=finetuning."
        raise ParameterError("model", name, f"is an encoder ({config.model_type}), which generates no text", fix)


def dtype_on(config: Any, device: torch.device) -> torch.dtype:
    """Return float32 on anything but CUDA; there what the configuration says, float16 where it has no bfloat16."""
    import torch

    wanted = getattr(config, "dtype", None)
    if device.type != "cuda" or wanted not in {torch.bfloat16, torch.float16}:
        return torch.float32
    if wanted is torch.bfloat16 and not torch.cuda.is_bf16_supported():
        return torch.float16
    return torch.bfloat16 if wanted is torch.bfloat16 else torch.float16


def need_bitsandbytes() -> None:
    """Raise :class:`ParameterError`, with the pip command, unless 4-bit weights can be loaded."""
    missing = [package for package in ("bitsandbytes", "accelerate") if find_spec(package) is None]
    if missing:
        needs = f"a 4-bit model needs the package{'s' * (len(missing) > 1)} {' and '.join(missing)}"
        raise ParameterError("hyperparameters.quantise", "4bit", needs, f"Run: pip install {' '.join(missing)}")


def check_code(found: ModelReference, name: str) -> None:
    """Refuse code that lies in another repository than the model: its revision would not be part of a cell's key.

    The settings are read as they lie there; no code is run.
    """
    from transformers import PreTrainedConfig
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    where: dict[str, Any] = {"revision": found.commit or "main"}
    settings: Any = (
        PreTrainedConfig.get_config_dict(found.path_or_id, **where)[0],
        get_tokenizer_config(found.path_or_id, **where),
    )
    maps = [value.get("auto_map") or {} for value in settings]
    values = [value for one in maps for value in (one.values() if isinstance(one, dict) else one)]
    names = [part for value in values for part in (value if isinstance(value, list | tuple) else [value])]
    other = sorted(str(part).partition("--")[0] for part in names if "--" in str(part))
    if other:
        allowed = f"the code of {name} lies in another repository ({other[0]}), whose revision nothing pins"
        fix = "Put code and weights into one folder, and name that folder."
        raise ParameterError(f"hyperparameters.{TRUST}", "true", allowed, fix)


@contextmanager
def readable(found: ModelReference, name: str) -> Iterator[None]:
    """Turn the errors of `transformers` about files into one line."""
    try:
        yield
    except L3DError:
        raise
    except Exception as error:  # the tokenizers library raises nothing narrower
        if TRUST in str(error):  # `transformers` names its argument
            allowed = f"{name} works only with the code that comes with it, which is not run"
            fix = "Read that code; the value true runs it on this machine."
            raise ParameterError(f"hyperparameters.{TRUST}", "false", allowed, fix) from None
        reason = str(error).strip().replace(found.path_or_id, name).split("\n", 1)[0]
        raise ParameterError("model", name, f"transformers cannot load it ({reason})") from error
