"""A judge behind an endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from mlflow_l3d.approaches.icl.answering import FloatArray
from mlflow_l3d.approaches.icl.endpoint.connection import Connection
from mlflow_l3d.approaches.icl.endpoint.engine import Tally
from mlflow_l3d.approaches.icl.judge.base import Judge
from mlflow_l3d.approaches.icl.prompts.parsing import parse_answer
from mlflow_l3d.approaches.icl.recipe import Recipe
from mlflow_l3d.cells.factors import stream

_TOKENS: Final = 10


class RemoteJudge(Judge):
    """Asks for log-probabilities of the verdicts if the server gives them, and else for a verdict, which is parsed.

    Parameters
    ----------
    reference, cache
        The model, as ``openai:NAME``, and where answers are kept.
    recipe
        How the judge is asked.
    temperature
        As for :class:`Judge`; the server draws if it gives no log-probabilities.
    """

    def __init__(self, reference: str, recipe: Recipe, cache: Path, temperature: float) -> None:
        super().__init__(temperature)
        self.connection = Connection(reference, recipe, cache)
        self.tokens, self.thinks = _TOKENS + recipe.thought_tokens, recipe.thinks

    def scores(self, prompts: Sequence[str], words: Sequence[str], seed: int) -> FloatArray:
        """Return the scores; nan if a text names no verdict, or two."""
        engine, tally = self.connection.engine, Tally()
        if engine.way(words) != "nothing":
            logs, _ = self.connection.result(engine.score(prompts, words, tally))
            return self._of_verdicts(logs, seed)
        drawn = stream(seed, "verdicts").integers(2**31, size=len(prompts)).tolist()
        seeds = drawn if self.temperature else [0] * len(prompts)
        texts = self.connection.result(engine.generate(prompts, self.tokens, self.temperature, seeds, tally))
        values = np.array([*np.linspace(0, 1, len(words)), np.nan])
        return values[[parse_answer(each.answer(thinks=self.thinks)[0], words) for each in texts]]

    def close(self) -> None:
        """Close connections, the file of answers and the thread."""
        self.connection.close()
