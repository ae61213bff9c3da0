"""Tokenizer and weights of a model that was found: safetensors only, no code that comes with the model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from mlflow_l3d.approaches.global_seeds import seeded
from mlflow_l3d.approaches.models import ModelReference
from mlflow_l3d.errors import L3DError, ParameterError

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


def load_tokenizer(found: ModelReference) -> Any:
    """Load the tokenizer; it must know how to pad, which generators often do not."""
    from transformers import AutoTokenizer

    with _readable(found), quiet():
        tokenizer = AutoTokenizer.from_pretrained(found.path_or_id, revision=found.commit or "main")
    if tokenizer.pad_token_id is None:
        raise ParameterError("model", _shown(found), "its tokenizer has no padding token", "Use an encoder.")
    return tokenizer


def load_encoder(found: ModelReference) -> Any:
    """Load the bare encoder in evaluation mode, float32."""
    from transformers import AutoModel

    # Weights that the checkpoint lacks (a pooler that is not used here) are drawn; they must not vary, nor disturb.
    with _readable(found), quiet(), seeded(0):
        model = AutoModel.from_pretrained(
            found.path_or_id, revision=found.commit or "main", use_safetensors=True, dtype="float32"
        )
    if getattr(model.config, "is_encoder_decoder", False):
        raise ParameterError(
            "model", _shown(found), "is an encoder-decoder", "Use an encoder, such as BERT or RoBERTa."
        )
    return model.eval()


def load_classifier(
    found: ModelReference, classes: int, dropout: float, *, choices: bool = False, dtype: Any = "float32"
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
    choices
        Whether the head is one for multiple choice, where `transformers` has one for this model: inputs then have the
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

    where: dict[str, Any] = {"revision": found.commit or "main"}
    with _readable(found), quiet(), seeded(0):
        config = AutoConfig.from_pretrained(found.path_or_id, num_labels=classes, **where)
        set_dropout(config, dropout)
        has_choices = choices and config.model_type in MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES
        loader: Any = AutoModelForMultipleChoice if has_choices else AutoModelForSequenceClassification
        model, info = loader.from_pretrained(
            found.path_or_id,
            config=config,
            use_safetensors=True,
            dtype=dtype,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **where,
        )
    mismatched = {key if isinstance(key, str) else key[0] for key in info["mismatched_keys"]}
    new = sorted(set(info["missing_keys"]) | mismatched)
    if not new:
        fix = "Use the model that it was fine-tuned from."
        what = f"{classes} classes" if classes > 1 else "one score"
        raise ParameterError("model", _shown(found), f"has a trained head for {what} already", fix)
    return model, new


def set_dropout(config: Any, dropout: float) -> None:
    """Put `dropout` in place of every probability of dropout in a model's configuration.

    Raises
    ------
    ParameterError
        If it is above 0 and there is none.
    """
    names = [
        name
        for name, value in config.to_dict().items()
        if _DROPOUT.fullmatch(name)
        and not isinstance(value, bool)
        and (value is None or isinstance(value, int | float))
    ]
    if dropout > 0 and not names:
        allowed = "this model's configuration has no dropout, so it would have no effect"
        raise ParameterError("hyperparameters.dropout", dropout, allowed, "Set it to 0.")
    for name in names:
        setattr(config, name, dropout)


@contextmanager
def _readable(found: ModelReference) -> Iterator[None]:
    """Turn the errors of `transformers` about files into one line."""
    try:
        yield
    except L3DError:
        raise
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().replace(found.path_or_id, _shown(found)).split("\n", 1)[0]
        raise ParameterError("model", _shown(found), f"transformers cannot load it as an encoder ({reason})") from error


def _shown(found: ModelReference) -> str:
    """Return the model's name without the folders above it, which may be private."""
    return found.path_or_id if found.kind == "hub" else found.path_or_id.rstrip("/").rsplit("/", 1)[-1]
