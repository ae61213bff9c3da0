"""Configuration, tokenizer and weights of a model that was found: safetensors only, by `transformers`.

Sessions of one process share what they load.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakValueDictionary

from filelock import FileLock

from mlflow_l3d.approaches.global_seeds import seeded
from mlflow_l3d.approaches.models import ModelReference
from mlflow_l3d.errors import L3DError, ParameterError

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

TRUST: Final = "trust_remote_code"
_HEAD_DROPOUT: Final = ("classifier_dropout", "seq_classif_dropout", "cls_dropout")
_LENT: Final[WeakValueDictionary[Hashable, Any]] = WeakValueDictionary()
_DROPOUT: Final = re.compile(r"(?!.*layer).*(dropout|dropout_prob|_pdrop)")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep progress bars and load reports of `transformers` off the screen: a worker a core would print them."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()


@contextmanager
def readable(found: ModelReference, name: str = "", role: str = "") -> Iterator[None]:
    """Turn the errors of `transformers` about files into one line, which may say the role of the model."""
    shown = name or found.name
    try:
        yield
    except L3DError:
        raise
    except Exception as error:  # the tokenizers library raises nothing narrower
        if not role and TRUST in str(error):  # `transformers` names its argument
            allowed = f"{shown} works only with the code that comes with it, which is not run"
            fix = "Read that code; the value true runs it on this machine."
            raise ParameterError(f"hyperparameters.{TRUST}", "false", allowed, fix) from None
        reason = str(error).strip().replace(found.path_or_id, shown).split("\n", 1)[0]
        raise ParameterError("model", shown, f"transformers cannot load it{role} ({reason})") from error


def config_and_tokenizer(found: ModelReference, *, trust: bool = False) -> tuple[Any, Any]:
    """Load configuration and tokenizer; code that comes with the model is run if `trust` allows it."""
    from transformers import AutoConfig, AutoTokenizer

    where: dict[str, Any] = {"revision": found.commit, TRUST: trust}
    with quiet():
        config: Any = AutoConfig.from_pretrained(found.path_or_id, **where)
        return config, AutoTokenizer.from_pretrained(found.path_or_id, **where)


def load_weights(loader: Any, found: ModelReference, **settings: Any) -> tuple[Any, dict[str, Any]]:
    """Load the weights with a class of `transformers`; return the model, and which weights were missing or did not fit.

    What the checkpoint lacks (a pooler that is not used here) is drawn; it must not vary, nor disturb.
    """
    with quiet(), seeded(0):
        model, info = loader.from_pretrained(
            found.path_or_id, revision=found.commit, use_safetensors=True, output_loading_info=True, **settings
        )
    return model, info


def four_bits(device: str | torch.device, dtype: torch.dtype, kind: str = "nf4") -> dict[str, Any]:
    """Return what ``from_pretrained`` needs for 4-bit weights that compute in `dtype`; NF4 is quantised twice."""
    from transformers import BitsAndBytesConfig

    config: Any = BitsAndBytesConfig
    weights: dict[str, Any] = {"bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": kind == "nf4"}
    settings = config(load_in_4bit=True, bnb_4bit_compute_dtype=dtype, **weights)
    return {"quantization_config": settings, "device_map": {"": device}}


def need_bitsandbytes() -> None:
    """Raise :class:`ParameterError`, with the pip command, unless 4-bit weights can be loaded."""
    missing = [package for package in ("bitsandbytes", "accelerate") if find_spec(package) is None]
    if missing:
        needs = f"a 4-bit model needs the package{'s' if len(missing) > 1 else ''} {' and '.join(missing)}"
        raise ParameterError("hyperparameters.quantise", "4bit", needs, f"Run: pip install {' '.join(missing)}")


def need_peft() -> None:
    """Raise :class:`ParameterError`, with the pip command, unless peft is installed."""
    if find_spec("peft") is None:
        fix = "Run: pip install peft"
        raise ParameterError("hyperparameters.trainable", "lora", "adapters need the package peft", fix)


def need_padding(tokenizer: Any, model: Any, found: ModelReference) -> None:
    """Raise :class:`ParameterError` unless an encoder's tokenizer fills up a batch and its model skips that."""
    if tokenizer.pad_token_id is None:
        raise ParameterError("model", found.name, "its tokenizer has no padding token", "Use an encoder.")
    if "attention_mask" not in inspect.signature(model.forward).parameters:
        allowed = "takes no attention mask, so its answer to a text depends on the texts next to it"
        raise ParameterError("model", found.name, allowed, "Use an encoder that takes one, such as BERT.")


def load_encoder(found: ModelReference) -> tuple[Any, Any]:
    """Load the bare encoder in evaluation mode, float32, and its tokenizer.

    The tokenizer must know how to pad, which those of generators often do not.
    """
    from transformers import AutoModel

    with readable(found, role=" as an encoder"):
        _, tokenizer = config_and_tokenizer(found)
        model, _ = load_weights(AutoModel, found, dtype="float32")
        need_padding(tokenizer, model, found)
    if getattr(model.config, "is_encoder_decoder", False):
        raise ParameterError("model", found.name, "is an encoder-decoder", "Use an encoder, such as BERT or RoBERTa.")
    return model.eval(), tokenizer


def load_classifier(
    found: ModelReference,
    classes: int,
    dropout: float,
    *,
    head_dropout: float | None = None,
    choices: bool = False,
    dtype: Any = "float32",
) -> tuple[Any, list[str]]:
    """Load the encoder with a new head.

    Parameters
    ----------
    found
        The model.
    classes
        Outputs of the head.
    dropout
        Put in place of every dropout probability in the model's configuration (not of dropped layers).
    head_dropout
        Put in place of that before the head; None leaves it the same.
    choices
        Whether the head is one for multiple choice, if `transformers` has one for this model: inputs then have the
        shape (b, choices, length), and `classes` is 1.
    dtype
        Of the weights.

    Returns
    -------
    tuple
        The model, and the sorted names of its new weights: those that the checkpoint lacks, or has in another shape.

    Raises
    ------
    ParameterError
        If the checkpoint has a head for as many classes already (nothing would be new), or the model has no dropout
        that could be set.
    """
    from transformers import AutoConfig, AutoModelForMultipleChoice, AutoModelForSequenceClassification
    from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES

    with readable(found, role=" as an encoder"), quiet():
        config = AutoConfig.from_pretrained(found.path_or_id, num_labels=classes, revision=found.commit)
        set_dropout(config, dropout)
        if head_dropout is not None:
            name = next((name for name in _HEAD_DROPOUT if hasattr(config, name)), None)
            if name is None:
                allowed = "this model's configuration has no dropout of the head alone"
                raise ParameterError("hyperparameters.head_dropout", head_dropout, allowed, "Use head_dropout=auto.")
            setattr(config, name, head_dropout)
        has_choices = choices and config.model_type in MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES
        loader: Any = AutoModelForMultipleChoice if has_choices else AutoModelForSequenceClassification
        model, info = load_weights(loader, found, config=config, dtype=dtype, ignore_mismatched_sizes=True)
    mismatched = {key if isinstance(key, str) else key[0] for key in info["mismatched_keys"]}
    new = sorted(set(info["missing_keys"]) | mismatched)
    if not new:
        what = f"has a trained head for {f'{classes} classes' if classes > 1 else 'one score'} already"
        raise ParameterError("model", found.name, what, "Use the model that it was fine-tuned from.")
    return model, new


def set_dropout(config: Any, dropout: float) -> None:
    """Put `dropout` in place of every probability of dropout in a model's configuration.

    Raises
    ------
    ParameterError
        If it is above 0 and there is none.
    """
    kinds = {int, float, type(None)}
    names = [name for name, value in config.to_dict().items() if _DROPOUT.fullmatch(name) and type(value) in kinds]
    if dropout > 0 and not names:
        allowed = "this model's configuration has no dropout, so it would have no effect"
        raise ParameterError("hyperparameters.dropout", dropout, allowed, "Set it to 0.")
    for name in names:
        setattr(config, name, dropout)


def check_code(found: ModelReference, name: str) -> None:
    """Refuse code that lies in another repository than the model: its revision would not be part of a cell's key.

    The settings are read as they lie there; no code is run.
    """
    from transformers import PreTrainedConfig
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    config, _ = PreTrainedConfig.get_config_dict(found.path_or_id, revision=found.commit)
    settings = (config, get_tokenizer_config(found.path_or_id, revision=found.commit))
    maps: list[Any] = [value.get("auto_map") or {} for value in settings]
    values = [value for one in maps for value in (one.values() if isinstance(one, dict) else one)]
    names = [part for value in values for part in (value if isinstance(value, list | tuple) else [value])]
    other = sorted(str(part).partition("--")[0] for part in names if "--" in str(part))
    if other:
        allowed = f"the code of {name} lies in another repository ({other[0]}), whose revision nothing pins"
        fix = "Put code and weights into one folder, and name that folder."
        raise ParameterError(f"hyperparameters.{TRUST}", "true", allowed, fix)


def code_lock(trust: bool, cache: Path) -> AbstractContextManager[object]:
    """Let one process at a time copy a model's code to where `transformers` imports it from."""
    if not trust:
        return nullcontext()
    cache.mkdir(parents=True, exist_ok=True)
    return FileLock(cache / "model_code.lock")


def lent(key: Hashable, make: Callable[[], T]) -> T:
    """Return the object of this key that another session holds, or else a new one.

    It lives as long as a session holds it, and no longer. Sessions of other threads have their own: a session may write
    to what it holds while it runs a cell, so long as the next cell, of whichever session, does not depend on it.

    Parameters
    ----------
    key
        Everything that `make` depends on.
    make
        Makes the object; it can be weakly referenced.
    """
    thread_key = (threading.get_ident(), key)
    thing: T | None = _LENT.get(thread_key)
    if thing is None:
        thing = _LENT[thread_key] = make()
    return thing
