"""All judges of a study: which of them, with which question, judges the answers of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.icl.endpoint.reference import is_endpoint
from mlflow_l3d.approaches.icl.judge.base import Judge
from mlflow_l3d.approaches.icl.judge.questions import Question
from mlflow_l3d.approaches.icl.recipe import Recipe
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.texts import references
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray


class Bench:
    """Judges, of which the seed of the factor ``judge`` takes one, modulo their number.

    Parameters
    ----------
    task, recipe, device, cache
        As for a session; the recipe names judges.
    questions
        What each of them asks.

    Raises
    ------
    ParameterError
        If a judge cannot be loaded.
    """

    def __init__(self, task: Task, questions: Sequence[Question], recipe: Recipe, device: str, cache: Path) -> None:
        self.task, self.questions, judge_recipe = task, questions, recipe.of_judge()
        opened_judges: dict[str, Judge] = {}
        with ExitStack() as opened:
            for name in recipe.judge_names:
                opened_judges[name] = _judge(name, judge_recipe, device, cache, recipe.judge_temperature)
                opened.callback(opened_judges[name].close)
            self._stack = opened.pop_all()
        self.judges = [opened_judges[name] for name, _ in recipe.judges]

    def metrics(self, seed: int, positions: IntArray, answers: npt.NDArray[Any]) -> dict[str, float]:
        """Return ``judge_score``, the mean over answers with a verdict, and ``without_verdict_share``.

        Parameters
        ----------
        seed
            That of ``judge``.
        positions, answers
            The examples, and what was answered, both of shape (n,).

        Raises
        ------
        L3DError
            If no answer has a verdict.
        """
        place = seed % len(self.judges)
        question, task = self.questions[place], self.task
        prompts = [
            question.asked([column[at] for column in task.texts], references(task.labels[at]), answer)
            for at, answer in zip(positions.tolist(), answers.tolist(), strict=True)
        ]
        scores = self.judges[place].scores(prompts, question.words, seed)
        missing = np.isnan(scores)
        if missing.all():
            listed = ", ".join(question.words)
            raise L3DError(
                f"The judge gave none of the verdicts {listed} of any answer: ask it otherwise (judge_template)."
            )
        return {"judge_score": float(scores[~missing].mean()), "without_verdict_share": float(missing.mean())}

    def close(self) -> None:
        """Release what judges hold."""
        self._stack.close()


def _judge(name: str, recipe: Recipe, device: str, cache: Path, temperature: float) -> Judge:
    if is_endpoint(name):
        from mlflow_l3d.approaches.icl.judge.remote import RemoteJudge

        return RemoteJudge(name, recipe, cache, temperature)
    from mlflow_l3d.approaches.icl.judge.local import LocalJudge

    return LocalJudge(name, recipe, device, cache, temperature)
