"""Judges of answers that are texts: language models that say how good each is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.icl.decisions import FloatArray, chosen, parse_answer, probabilities
from mlflow_l3d.approaches.icl.encoding import answer_ids, check_answers, check_length, prompts_ids
from mlflow_l3d.approaches.icl.endpoint.engine import Connection, Tally
from mlflow_l3d.approaches.icl.endpoint.store import is_endpoint
from mlflow_l3d.approaches.icl.formats import check_words
from mlflow_l3d.approaches.icl.models import borrowed
from mlflow_l3d.approaches.icl.prompts import BRACES, check_slots, slots
from mlflow_l3d.approaches.icl.recipe import AUTO, Recipe
from mlflow_l3d.approaches.numerics import one_thread
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.errors import L3DError, ParameterError, renamed
from mlflow_l3d.metrics.sequences import references
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray

PARAMETER: Final = "hyperparameters.judge_template"
_ANSWER: Final = "{answer}"
_REFERENCE: Final = "{reference}"
_OPTIONS: Final = "{options}"
_ENDS: Final = (
    f"Right answer: {_REFERENCE}\n"
    f"Given answer: {_ANSWER}\n"
    f"Does the given answer say the same as the right one? Answer with one of: {_OPTIONS}.\n"
    "Verdict:"
)


@dataclass(frozen=True, slots=True)
class Question:
    """What a judge is asked, with slots for an example and its answer.

    Attributes
    ----------
    template
        The prompt, which ends right before the verdict.
    words
        The verdicts, the worst first.
    """

    template: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, template: str, words: str, columns: int) -> Question:
        r"""Return the question that a template is.

        Parameters
        ----------
        template
            Has the slot ``{answer}``, and may have ``{text}`` (of several text columns ``{text_1}``, ...),
            ``{reference}`` and ``{options}``, the verdicts; ``\n`` means a line break. ``auto`` asks whether the answer
            says the same as the reference.
        words
            The verdicts, with ``;`` between them.
        columns
            Number of text columns of the task.

        Raises
        ------
        ParameterError
            If a slot is unknown, there is none for the answer, or two verdicts are the same.
        """
        with renamed("hyperparameters.judge_words"):
            verdicts = check_words(words)
        input_slots = slots(columns)
        if template == AUTO:
            inputs = [f"Text {at}: {slot}" for at, slot in enumerate(input_slots, 1)]
            inputs = inputs if columns > 1 else ["Question: {text}"]
            return cls("\n".join((*inputs, _ENDS)), verdicts)
        text = template.replace("\\n", "\n").strip()
        check_slots(PARAMETER, text, (*input_slots, _REFERENCE, _ANSWER, _OPTIONS))
        if _ANSWER not in text:
            allowed = "lacks the slot {answer}: there is nothing to judge"
            raise ParameterError(PARAMETER, text.replace("\n", "\\n"), allowed)
        return cls(text, verdicts)

    def asked(self, texts: Sequence[str], references: Sequence[str], answer: str) -> str:
        """Return the prompt about one answer; of several references each is right."""
        filled = dict(zip(slots(len(texts)), texts, strict=True))
        filled |= {_REFERENCE: " / ".join(references), _ANSWER: answer, _OPTIONS: ", ".join(self.words)}
        # One pass, so that a text that holds a slot is not filled in turn.
        return BRACES.sub(lambda slot: filled[slot[0]].strip(), self.template)


def verdict_scores(logs: FloatArray, temperature: float, seed: int) -> FloatArray:
    """Return scores (n,), from 0 (the first verdict) to 1 (the last), of their log-probabilities (n, C).

    They are nan if these are.

    Parameters
    ----------
    logs
        Log-probabilities.
    temperature
        0: a score is the mean of the verdicts' values under their probabilities (G-Eval, Liu et al. 2023, section 2.2);
        above, one verdict is drawn from them, sharpened or flattened by it.
    seed
        Decides verdicts that are drawn.
    """
    values = np.linspace(0, 1, logs.shape[1])
    scores: FloatArray = values[chosen(logs, temperature, seed)] if temperature else probabilities(logs) @ values
    return np.where(np.isnan(logs).any(axis=1), np.nan, scores)


class LocalJudge:
    """Scores verdicts by their likelihood behind the question, as in-context learning scores class words.

    Parameters
    ----------
    reference, device, cache
        The model; one that answers as well is loaded once.
    recipe
        How the judge is asked, at which temperature: see :func:`verdict_scores`.
    """

    def __init__(self, reference: str, recipe: Recipe, device: str, cache: Path) -> None:
        self.temperature = recipe.temperature
        self.loaded, self.engine = borrowed(reference, device, recipe, cache)

    def scores(self, prompts: Sequence[str], words: Sequence[str], seed: int) -> FloatArray:
        """Return the score of each answer, see :func:`verdict_scores`.

        Raises
        ------
        ParameterError
            If verdicts cannot be distinguished, or a question is too long.
        """
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
            return verdict_scores(self.engine.score(tokens, answers), self.temperature, seed)


class RemoteJudge:
    """Asks for log-probabilities of verdicts; if the server gives none, or only those of thoughts, parses a text.

    Parameters
    ----------
    reference, cache
        The model, as ``openai:NAME``, and where answers are kept.
    recipe
        How the judge is asked; the server draws at its temperature if it gives no log-probabilities.
    opened
        Closes the connection.
    """

    verdict_tokens: Final = 10

    def __init__(self, reference: str, recipe: Recipe, cache: Path, opened: ExitStack) -> None:
        self.temperature = recipe.temperature
        self.connection = Connection(reference, recipe, cache, opened)
        self.tokens = self.verdict_tokens + recipe.thought_tokens
        self.thinks = recipe.thinks

    def scores(self, prompts: Sequence[str], words: Sequence[str], seed: int) -> FloatArray:
        """Return the score of each answer; nan if a text names no verdict, or two."""
        server, tally = self.connection, Tally()
        if not server.obstacle(words):
            logs, _ = server.result(server.score(prompts, words, tally))
            if not np.isnan(logs).all():  # else it thinks before it answers
                return verdict_scores(logs, self.temperature, seed)
        draws = stream(seed, "verdicts")
        texts = server.result(server.generate(prompts, self.tokens, self.temperature, draws, tally))
        values = np.array([*np.linspace(0, 1, len(words)), np.nan])
        return values[[parse_answer(each.answer(thinks=self.thinks)[0], words) for each in texts]]


class Bench:
    """Judges, of which the seed of the factor ``judge`` takes one, modulo their number.

    Parameters
    ----------
    task, recipe, device, cache
        As for a session; the recipe names judges.
    questions
        What each of them asks.
    opened
        Closes the connections of judges.

    Raises
    ------
    ParameterError
        If a judge cannot be loaded.
    """

    def __init__(
        self, task: Task, questions: Sequence[Question], recipe: Recipe, device: str, cache: Path, opened: ExitStack
    ) -> None:
        self.task, self.questions, judge_recipe = task, questions, recipe.of_judge()
        judges: dict[str, LocalJudge | RemoteJudge] = {}
        for name in recipe.judge_names:
            if is_endpoint(name):
                judges[name] = RemoteJudge(name, judge_recipe, cache, opened)
            else:
                judges[name] = LocalJudge(name, judge_recipe, device, cache)
        self.judges = [judges[name] for name, _ in recipe.judges]

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
            none = f"none of the verdicts {', '.join(question.words)} of any answer"
            raise L3DError(f"The judge gave {none}: ask it otherwise (judge_template).")
        return {"judge_score": float(scores[~missing].mean()), "without_verdict_share": float(missing.mean())}
