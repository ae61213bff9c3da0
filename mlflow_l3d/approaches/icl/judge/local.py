"""A judge that is a model here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from mlflow_l3d.approaches.icl.answering import FloatArray
from mlflow_l3d.approaches.icl.checks import check_answers
from mlflow_l3d.approaches.icl.encoding import answer_ids, check_length, prompts_ids
from mlflow_l3d.approaches.icl.judge.base import Judge
from mlflow_l3d.approaches.icl.loading import borrowed, engine_for
from mlflow_l3d.approaches.icl.recipe import Recipe
from mlflow_l3d.approaches.numerics import one_thread
from mlflow_l3d.errors import ParameterError


class LocalJudge(Judge):
    """Scores verdicts by their likelihood behind the question, as in-context learning scores class words.

    Parameters
    ----------
    reference, device, cache
        The model; one that answers as well is loaded once.
    recipe
        How the judge is asked.
    temperature
        As for :class:`Judge`.
    """

    def __init__(self, reference: str, recipe: Recipe, device: str, cache: Path, temperature: float) -> None:
        super().__init__(temperature)
        self.loaded = borrowed(reference, device, recipe, cache)
        self.engine = engine_for(self.loaded, recipe)

    def scores(self, prompts: Sequence[str], words: Sequence[str], seed: int) -> FloatArray:
        """Return the scores; raise a ParameterError if verdicts cannot be told apart, or a question is too long."""
        loaded, chat = self.loaded, self.loaded.chat
        answers = [answer_ids(loaded, f" {word}", chat) for word in words]
        tokens = prompts_ids(loaded, prompts, chat)
        try:
            check_answers(answers, words, calibrated=False)
            check_length(tokens, answers, loaded)
        except ParameterError as error:
            name = "hyperparameters.judge" + ("_words" if error.name.endswith("verbaliser") else "")
            raise ParameterError(name, error.value, error.allowed, "Use another judge, or shorter questions.") from None
        with one_thread(), torch.inference_mode(), loaded.precision():
            return self._of_verdicts(self.engine.score(tokens, answers), seed)
