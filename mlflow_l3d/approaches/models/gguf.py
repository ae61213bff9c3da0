"""GGUF files: read once, kept as safetensors in the cache, so that a session starts in a second."""

from __future__ import annotations

import hashlib
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from mlflow_l3d.approaches.models import ModelReference, find_gguf, resolve
from mlflow_l3d.approaches.models.pretrained import quiet
from mlflow_l3d.approaches.numerics import minor_version
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.paths import file_hash

CONVERTER: Final = "1"


def gguf_revision(file: Path) -> str:
    """Return what identifies the converted model: a hash of the file and of the converter's version (40 digits).

    The tensors and the tokenizer are read by `transformers`, so its minor version is part of the converter's.

    Raises
    ------
    L3DError
        If `transformers` is not installed.
    """
    content = f"{file_hash(file)}\0{CONVERTER}\0{minor_version('transformers', 'icl')}"
    return hashlib.sha256(content.encode()).hexdigest()[:40]


def revision(reference: str) -> str:
    """Return what identifies the weights behind a reference: a commit, or a hash of the files; GGUF files included."""
    file = find_gguf(reference)
    return resolve(reference).revision if file is None else gguf_revision(file)


def located(reference: str, cache: Path) -> tuple[ModelReference, str]:
    """Return where a model lies, and its name for messages; a GGUF file is converted into the cache, once."""
    file = find_gguf(reference)
    if file is not None:
        return ModelReference(str(converted(file, cache)), gguf_revision(file)), file.name
    location = resolve(reference)
    return location, location.name


def converted(file: Path, cache: Path) -> Path:
    """Return the folder with the safetensors form of a GGUF file, converting it if that was not done before.

    Any number of processes may ask at once: one converts, the others wait for it. The folder appears as a whole or
    not at all. Weights are kept in float32, in which every quantised value of GGUF has an exact place.

    Parameters
    ----------
    file
        The GGUF file.
    cache
        The folder becomes ``cache/models/<revision>``.

    Raises
    ------
    ParameterError
        If the package `gguf` is missing, or `transformers` cannot read the file.
    """
    folder = cache / "models" / gguf_revision(file)
    if folder.is_dir():
        return folder
    if find_spec("gguf") is None:
        raise ParameterError("model", file.name, "a GGUF file needs the package gguf", "Run: pip install gguf")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if folder.is_dir():
            return folder
        made = folder.with_name(f".{folder.name}")
        shutil.rmtree(made, ignore_errors=True)  # whoever wrote here died: the lock is ours
        made.mkdir()
        try:
            convert(file, made)
            made.rename(folder)
        except Exception as error:  # the tokenizers library raises nothing narrower
            reason = str(error).strip().split("\n", 1)[0].replace(str(file), file.name).replace(str(made), "the cache")
            raise ParameterError("model", file.name, f"the GGUF file cannot be converted ({reason})") from error
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return folder


def convert(file: Path, folder: Path) -> None:
    """Write model, configuration and tokenizer of a GGUF file into an existing folder.

    `transformers` shows its progress bar: some 15 seconds for 135 million parameters.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    with quiet():
        where: dict[str, Any] = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
        config: Any = AutoConfig.from_pretrained(**where)
        kind: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        model = kind.from_pretrained(config=config, dtype=torch.float32, **where)
        # The values are plain numbers now; what is left of the quantisation would be read as "quantised" again.
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.hf_quantizer = None
        model.is_quantized = False
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(**where).save_pretrained(folder)
