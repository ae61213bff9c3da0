"""What judges of both kinds share: from log-probabilities of verdicts to scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from mlflow_l3d.approaches.icl.answering import FloatArray, chosen, probabilities


class Judge(ABC):
    """A model that gives verdicts.

    Parameters
    ----------
    temperature
        0: a score is the mean of the verdicts' values under their probabilities (G-Eval, Liu et al. 2023, section 2.2);
        above, one verdict is drawn from them, sharpened or flattened by it.
    """

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature

    @abstractmethod
    def scores(self, prompts: Sequence[str], words: Sequence[str], seed: int) -> FloatArray:
        """Return the score of each answer, from 0 (the first of `words`) to 1 (the last), and nan without a verdict.

        `seed` decides verdicts that are drawn.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Release what is held."""

    def _of_verdicts(self, logs: FloatArray, seed: int) -> FloatArray:
        """Return scores (n,) from log-probabilities of the verdicts (n, C); nan if these are."""
        values = np.linspace(0, 1, logs.shape[1])
        scores: FloatArray = (
            values[chosen(logs, self.temperature, seed)] if self.temperature else probabilities(logs) @ values
        )
        return np.where(np.isnan(logs).any(axis=1), np.nan, scores)
