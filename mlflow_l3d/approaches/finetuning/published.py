"""What Pecher et al. (2024) published for fine-tuning BERT and RoBERTa: their code, and appendix D of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlflow_l3d.approaches.hyperparameters import Value

_EPOCHS: Final[Mapping[str, int]] = {
    "boolq": 10,
    "cola": 5,
    "mrpc": 5,
    "sst2": 5,
    "ag_news": 10,
    "dbpedia": 10,
    "snips": 10,
    "trec": 10,
}
"""Task -> most epochs. The first four stand in the code for each data set; "10 epochs on multi-class" in the paper."""


def published(task: str, given: Mapping[str, Value]) -> dict[str, Value] | None:
    """Return the hyperparameters that the authors used for a task; both models have the same.

    Parameters
    ----------
    task
        Name of the task.
    given
        What the user gives beside them.

    Returns
    -------
    dict or None
        None for another task, and for ``trainable=head``, which the authors did not have.
    """
    if task not in _EPOCHS or given.get("trainable", "full") != "full":
        return None
    return {
        "trainable": "full",
        "learning_rate": 1e-5,
        "epochs": _EPOCHS[task],
        "batch_size": 8,
        "warmup_share": 0.1,
    }
