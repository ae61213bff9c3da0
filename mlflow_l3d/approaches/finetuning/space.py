"""What a search of hyperparameters tries for `finetuning`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlflow_l3d.approaches.hyperparameters import Searched, SearchRange, Value

_SPACES: Final[Mapping[str, Mapping[str, Searched]]] = {
    # A new head on frozen features takes far higher learning rates than a pretrained model.
    "head": {
        "learning_rate": SearchRange(1e-4, 1e-1, log=True),
        "epochs": SearchRange(5, 50, log=True, whole=True, coarse=(10, 30)),
        "batch_size": SearchRange(4, 64, log=True, whole=True, coarse=(8, 32)),
        # Not down to 0: without dropout the factor model_randomness would be gone.
        "dropout": SearchRange(0.05, 0.5, coarse=(0.1, 0.3)),
    },
    "full": {
        "learning_rate": SearchRange(1e-6, 1e-3, log=True),
        "epochs": SearchRange(3, 15, log=True, whole=True, coarse=(5, 10)),
        "batch_size": SearchRange(4, 32, log=True, whole=True, coarse=(8, 16)),
    },
    # Adapters begin at zero and take higher learning rates than the model itself.
    "lora": {
        "learning_rate": SearchRange(1e-5, 1e-2, log=True),
        "epochs": SearchRange(3, 15, log=True, whole=True, coarse=(5, 10)),
        "batch_size": SearchRange(4, 32, log=True, whole=True, coarse=(8, 16)),
    },
}
"""Value of `trainable` -> what is searched: 32 combinations at level 1 for head, 16 for the others, which take long."""


def search_space(hyperparameters: Mapping[str, Value]) -> dict[str, Searched]:
    """Return what is searched under complete hyperparameters; dropout stays out of it where it is 0."""
    space = dict(_SPACES[str(hyperparameters["trainable"])])
    if hyperparameters["dropout"] == 0:
        space.pop("dropout", None)
    return space
