"""Prompting cell after cell: prompts, predictions read from answers, and what a report says of them."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.base import Session, answered
from mlflow_l3d.approaches.icl import decisions
from mlflow_l3d.approaches.icl.decisions import FloatArray, Written
from mlflow_l3d.approaches.icl.endpoint.store import MAY_CHANGE
from mlflow_l3d.approaches.icl.formats import PromptChoices
from mlflow_l3d.approaches.icl.prompts import Conversation, Prompt, PromptFormat, Shot
from mlflow_l3d.approaches.icl.recipe import JUDGE, Recipe
from mlflow_l3d.approaches.models import resolve
from mlflow_l3d.approaches.shots import check_shots, chosen_classes, nearest_shots, random_shots, shot_order
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.metrics.classification import REASONS, unparsed_reasons
from mlflow_l3d.metrics.sequences import references
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray

if TYPE_CHECKING:
    import pandas as pd

    from mlflow_l3d.approaches.icl.judge import Bench


_log = logging.getLogger(__name__)
_NAMED: Final = 20  # rows in a line

Scores: TypeAlias = npt.NDArray[np.float32]
Answers: TypeAlias = tuple[npt.NDArray[Any], Scores | None, dict[str, float]]
"""Predictions, class scores if there are any, and metrics."""


EMPTY_INPUTS: Final = ("N/A", "[MASK]", "")
"""Inputs without content (Zhao et al. 2021, section 5)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a cell asks.

    Attributes
    ----------
    form
        The format of its prompts.
    test
        Positions of its test examples, then those of the reference set if there is one.
    tested
        How many of them are test examples: the answers to these alone decide metrics and batch calibration.
    prompts, empty
        The prompt of each of `test`, and those of the empty inputs if they are needed.
    """

    form: PromptFormat
    test: IntArray
    tested: int
    prompts: Sequence[Prompt]
    empty: Sequence[Prompt]


class PromptSession(Session):
    """What sessions of prompts share, whoever runs the model; see :class:`mlflow_l3d.approaches.base.Session`.

    This module does not import torch, so that who asks an endpoint does not wait for it.

    Parameters
    ----------
    task, recipe
        The task, and how it is asked.
    model, device, cache
        As for :meth:`mlflow_l3d.approaches.base.Approach.prepare`.

    Raises
    ------
    ParameterError
        If the format, the class words, the shots or the model do not fit. What needs no model is checked before it is
        looked for, and what needs no weights before they are read.
    """

    chat: bool
    conversation: Conversation | None

    def __init__(self, task: Task, recipe: Recipe, model: str, device: str, cache: Path) -> None:
        recipe.check_task(task)
        self.task, self.recipe = task, recipe
        self.classes = chosen_classes(recipe.classes, task.strata_names)
        self.choices = PromptChoices(task, recipe, self.classes)
        check_shots(task, self.classes, recipe.shots)
        self.features = None
        self.hinted: set[str] = set()
        self.bench: Bench | None = None
        self.opened = ExitStack()
        self.kept: dict[frozenset[tuple[str, int]], Answers] = {}
        if recipe.judges:
            from mlflow_l3d.approaches.icl.judge import Bench, Question

            questions = [Question.of(text, recipe.judge_words, len(task.texts)) for _, text in recipe.judges]
        with ExitStack() as failed:
            failed.push(self.opened)
            self._load(model, device, cache)
            if recipe.judges:
                self.bench = Bench(task, questions, recipe, device, cache, self.opened)
            if recipe.selection == "similarity":
                from mlflow_l3d.approaches.models.features import Encoding, load_or_encode

                encoder = resolve(recipe.selection_encoder)
                self.features = load_or_encode(task.texts, Encoding(encoder, device=device), cache)
            failed.pop_all()

    @abstractmethod
    def _load(self, model: str, device: str, cache: Path) -> None:
        """Load the model or look at its server, and choose how prompts are put to it."""

    def _asked(self, cell: Cell) -> Asked:
        """Return what a cell asks."""
        recipe, labels, form = self.recipe, self.task.strata, self.choices.of(cell.seeds)
        split = self.task.split(cell.seeds)
        parts = (split.train, split.test, split.scored)
        train, test, scored = (part[np.isin(labels[part], self.classes)] for part in parts)
        order = shot_order(cell.seeds["data_order"], recipe.shots * len(self.classes))
        if self.features is not None:
            nearest = nearest_shots(self.features, train, labels, self.classes, recipe.shots, test)
            shots = [self._shots(near[order]) for near in nearest]
        else:
            drawn = random_shots(cell.seeds["sample_choice"], train, labels, self.classes, recipe.shots)
            shots = [self._shots(drawn[order])] * len(test)
        pairs = zip(shots, test.tolist(), strict=True)
        prompts = [form.prompt(examples, self._texts(at), self.conversation) for examples, at in pairs]
        inputs = EMPTY_INPUTS if recipe.calibration == "contextual" else ()  # then all prompts have the same shots
        empty = [form.prompt(shots[0], self._same(text), self.conversation) for text in inputs]
        return Asked(form, test, len(scored), prompts, empty)

    def _shots(self, positions: IntArray) -> list[Shot]:
        labels = self.task.labels
        if not self.task.form.has_classes:
            return [(self._texts(at), references(labels[at])[0]) for at in positions.tolist()]
        place = {number: at for at, number in enumerate(self.classes)}
        return [(self._texts(at), place[int(labels[at])]) for at in positions.tolist()]

    def _texts(self, position: int) -> tuple[str, ...]:
        return tuple(column[position] for column in self.task.texts)

    def _same(self, text: str) -> tuple[str, ...]:
        return (text,) * len(self.task.texts)

    def _judged(self, cell: Cell, asked: Asked, *answers: *Answers) -> Outcome:
        """Return the outcome, with what a judge says of the answers if there is one."""
        predictions, scores, metrics = answers
        if self.bench is not None:
            tested = slice(asked.tested)
            metrics = metrics | self.bench.metrics(cell.seeds[JUDGE], asked.test[tested], predictions[tested])
        return answered(cell.key, self.task, asked.test, predictions, scores, metrics=metrics)

    def close(self) -> None:
        """Release the models, and close the connections to servers."""
        self.opened.close()
        super().close()

    def _read(self, asked: Asked, written: Sequence[Written]) -> tuple[npt.NDArray[Any], dict[str, float]]:
        """Return the predictions that generated texts are, and shares of those that nothing can be read from.

        The shares are of the answers to test examples.
        """
        thinks, stops = self.recipe.thinks, self._stops()
        texts = [each.answer(thinks=thinks)[0] for each in written]
        if self.task.form.has_classes:
            places = np.array([asked.form.parse(text) for text in texts], dtype=np.int64)
            predictions, unread = self._numbers(places), (places < 0).tolist()
        else:
            answers = [decisions.answer_text(text, stops) for text in texts]
            predictions = self.task.form.predictions(answers)
            unread = [not answer for answer in answers]
        written, unread = written[: asked.tested], unread[: asked.tested]
        why = [each.reason(thinks=thinks) if lost else "" for each, lost in zip(written, unread, strict=True)]
        for reason in ("thought", "filtered"):
            self._hint(reason, asked, np.array([each == reason for each in why], dtype=bool))
        reasons = Counter(filter(None, why))
        shares = {f"unparsed_{reason}_share": count / len(written) for reason, count in reasons.items()}
        return predictions, {"unparsed_share": float(np.mean(unread)), **shares}

    def _hint(self, reason: str, asked: Asked, lost: npt.NDArray[np.bool_]) -> None:
        """Warn, once per reason, of which rows the answers are `lost`, shape (tested,): their ids, never a text."""
        if not lost.any() or reason in self.hinted:
            return
        self.hinted.add(reason)
        ids = [str(each) for each in self.task.example_ids[asked.test[: asked.tested][lost]]]
        shown = ", ".join(ids[:_NAMED]) + (", ..." if len(ids) > _NAMED else "")
        _log.warning("%d of %d answers %s: example_id %s.", len(ids), len(lost), REASONS[reason], shown)

    def _stops(self) -> tuple[str, ...]:
        """Return what ends an answer: of one that names a class its first line."""
        return self.recipe.stops(chat=self.chat) if not self.task.form.has_classes else ("\n",)

    def _numbers(self, places: IntArray) -> IntArray:
        """Return the class numbers of places among the classes that are distinguished, -1 for none."""
        return np.array([*self.classes, -1], dtype=np.int64)[places]

    def _decided(self, cell: Cell, scores: FloatArray, blank: FloatArray, tested: int) -> tuple[IntArray, Scores]:
        """Return the answers that log-probabilities lead to, those of the prompts and of the empty inputs.

        Batch calibration uses the first `tested` prompts, so that a reference set changes no answer to a test example.
        """
        recipe = self.recipe
        if recipe.calibration != "none":
            scores = decisions.calibrated(scores, blank if recipe.calibration == "contextual" else scores[:tested])
        places = decisions.chosen(scores, recipe.temperature, cell.seeds["model_randomness"])
        wide = np.zeros((len(scores), len(self.task.class_names)), dtype=np.float32)
        wide[:, list(self.classes)] = decisions.probabilities(scores)
        return self._numbers(places), wide


def remarks_of(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return what a report should say of the metrics of cells, see :meth:`.Hooks.remarks`."""
    lines = []
    if (cut := _percent(cells, "truncated_share")) > 0:
        of_input = f"in {_percent(cells, 'truncated_input_share'):.1f} % the text that is asked about"
        lines.append(f"Truncation cut {cut:.1f} % of the prompts, and {of_input}.")
    if "packed" in cells and (slow := 100 * (cells["packed"] == 0).mean()) > 0:
        lines.append(f"Packed rows were not possible in {slow:.0f} % of cells, which ran every prompt in full, slowly.")
    lines += _endpoint_remarks(cells)
    if (silent := _percent(cells, "without_verdict_share")) > 0:
        lines.append(f"A judge gave no verdict on {silent:.1f} % of answers; judge_score is the mean of the others.")
    if (unparsed := _percent(cells, "unparsed_share")) > 0:
        because = f": {reasons}" if (reasons := unparsed_reasons(cells)) else ""
        lines.append(f"Nothing could be read from {unparsed:.1f} % of all answers; they count as wrong{because}.")
    return tuple(lines)


def _endpoint_remarks(cells: pd.DataFrame) -> list[str]:
    """Return that an endpoint may change its answers, how it scored words, and whether its fingerprint changed."""
    if "other_fingerprint_share" not in cells:
        return []
    lines = [MAY_CHANGE]
    if _percent(cells, "first_token") > 0:
        unseen = _percent(cells, "unseen_share")
        rest = f", of which {unseen:.1f} % were not among those that the server lists" if unseen > 0 else ""
        lines.append(f"Class words were scored by their first token{rest}.")
    if _percent(cells, "generated") > 0 and "unparsed_share" in cells:
        lines.append("The endpoint generated answers, which were parsed.")
    if (few := _percent(cells, "few_tokens_share")) > 0:
        lines.append(f"{few:.1f} % of the prompts have too few tokens: did the server cut them? Ollama: raise num_ctx.")
    if foreign := _percent(cells, "other_fingerprint_share"):
        lines.append(f"{foreign:.1f} % of answers have another fingerprint of the server than the key of their cell.")
    return lines


def _percent(cells: pd.DataFrame, metric: str) -> float:
    """Return the mean of a share over cells in %, 0 if they do not have it."""
    return 100 * float(cells[metric].mean()) if metric in cells else 0.0
