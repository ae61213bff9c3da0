"""What Pecher et al. (2024) published for in-context learning: one setting for all data sets, which nobody searched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlflow_l3d.approaches.hyperparameters import Value

_TASKS: Final = frozenset({"ag_news", "cola", "dbpedia", "mrpc", "snips", "sst2", "trec"})


def published(task: str, _given: Mapping[str, Value]) -> dict[str, Value] | None:
    """Return the setting of the paper: 2 shots a class, prompt format A, 10 greedy tokens (section 4, appendix D).

    The authors' code says ``num_shots=4`` for data of two classes: 2 a class.

    Parameters
    ----------
    task
        Name of the task.

    Returns
    -------
    dict or None
        None for a task that the paper does not have.
    """
    if task not in _TASKS:
        return None
    return {"shots": 2, "prompt_format": "A", "decision": "generate", "max_new_tokens": 10, "temperature": 0.0}
