"""Prompting cell after cell with one loaded model: what cannot work is said before, and long prompts are cut."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch

from mlflow_l3d.approaches.base import CellwiseSession
from mlflow_l3d.approaches.icl import decisions
from mlflow_l3d.approaches.icl.decisions import Written
from mlflow_l3d.approaches.icl.encoding import (
    PLACEHOLDER,
    answers_ids,
    bare_ids,
    check_answers,
    check_length,
    conversation_of,
    decode,
    prompt_text,
    prompts_ids,
    stop_ids,
)
from mlflow_l3d.approaches.icl.engine import CausalEngine, Sampling
from mlflow_l3d.approaches.icl.models import LoadedModel, borrowed
from mlflow_l3d.approaches.icl.prompts import Conversation, Prompt, PromptFormat
from mlflow_l3d.approaches.icl.recipe import AUTO, JUDGE, Recipe
from mlflow_l3d.approaches.icl.session import Answers, Asked, PromptSession
from mlflow_l3d.approaches.numerics import one_thread
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.cells.factors import REPLICATE
from mlflow_l3d.errors import L3DError, ParameterError

_log = logging.getLogger(__name__)

_MOST_KEPT: Final = 256
"""Cells whose answers are kept for other judges."""
_ENDING: Final = 12
"""Last tokens of a prompt, which a chat template writes."""


class LocalSession(CellwiseSession, PromptSession):
    """Answer the test examples of cell after cell with a model that is here."""

    mentioned = False

    def _load(self, model: str, device: str, cache: Path) -> None:
        """Load the model, and choose how prompts are put to it."""

        def check(loaded: LoadedModel) -> None:
            self.chat, self.conversation = check_model(loaded, self.recipe, self.choices.formats)

        self.loaded, self.engine = borrowed(model, device, self.recipe, cache, check)
        added = self.loaded.tokenizer.added_tokens_decoder.items()
        self.openers = [[number] for number, token in added if decisions.behind_thought(str(token)) == ("", True)]

    def run_cell(self, cell: Cell) -> Outcome:
        """Answer the test examples of a cell, with one thread."""
        asked = self._asked(cell)
        same = frozenset(pair for pair in cell.seeds.items() if pair[0] != JUDGE)
        answers = None if cell.factor == REPLICATE else self.kept.pop(same, None)
        if answers is None:
            with one_thread(), torch.inference_mode(), self.loaded.precision():
                answers = self._answers(cell, asked)
            if isinstance(self.engine, CausalEngine):
                answers[2]["packed"] = float(self.engine.packed)
        if self.bench is not None:  # cells of other judges have the same answers
            self.kept[same] = answers
            if len(self.kept) > _MOST_KEPT:
                del self.kept[next(iter(self.kept))]
        return self._judged(cell, asked, *answers)

    def _tokens(
        self, asked: Asked, answers: Sequence[Sequence[int]], new: int
    ) -> tuple[list[list[int]], dict[str, float]]:
        """Return the tokens of all prompts, cut if that is asked for, and what there is to say about them."""
        loaded, side, count = self.loaded, self.recipe.truncation, asked.tested
        texts, metrics = [*asked.prompts, *asked.empty], dict[str, float]()
        tokens = prompts_ids(loaded, texts, self.chat)
        if side != "none":
            whole, most = tokens[:count], most_tokens(loaded, answers, new)
            tokens = prompts_ids(loaded, texts, self.chat, side=side, most=most)
            bare = partial(asked.form.prompt, [], conversation=self.conversation)
            inputs, frame = [bare(self._texts(at)) for at in asked.test[:count].tolist()], bare(self._same(PLACEHOLDER))
            metrics = cut_shares(loaded, whole, tokens[:count], inputs, frame, chat=self.chat, side=side)
        check_length(tokens, answers, loaded, new_tokens=new)
        longest = max(map(len, tokens), default=0)
        if longest > loaded.context and not self.mentioned:
            self.mentioned = True
            trained = loaded.name, loaded.context, loaded.context_source
            _log.warning("A prompt has %d tokens; %s was trained on %d (%s).", longest, *trained)
        self._refuse_thoughts(tokens[0])
        return tokens, {"prompt_tokens": float(np.mean([len(ids) for ids in tokens[:count]])), **metrics}

    def _refuse_thoughts(self, prompt: Sequence[int]) -> None:
        """Raise if the chat template opens a thought, or the model scores class words where it begins one."""
        loaded, recipe = self.loaded, self.recipe
        if recipe.thinks and recipe.decision == "generate":
            return
        end = str(loaded.tokenizer.decode(list(prompt[-_ENDING:])))
        is_open = self.chat and decisions.behind_thought(end)[1]
        if self.openers and recipe.decision == "score" and not is_open:
            is_open = self.engine.generate([prompt], 1, stop_ids(loaded))[0][:1] in self.openers
        if is_open:
            line = f"{loaded.name} begins its answers with a thought, so class words there say nothing of them"
            raise L3DError(f"{line}. Use decision=generate,thought_tokens=2000.")

    def _answers(self, cell: Cell, asked: Asked) -> Answers:
        loaded, recipe, form = self.loaded, self.recipe, asked.form
        if recipe.decision == "generate":
            most, stops = recipe.new_tokens, self._stops()
            tokens, metrics = self._tokens(asked, [], most)
            drawn = None
            if recipe.temperature:
                draws = decisions.token_draws(cell.seeds["model_randomness"], len(tokens), most)
                drawn = Sampling(recipe.temperature, draws)

            def ended(ids: Sequence[int]) -> bool:
                return decisions.has_ended(decode(loaded, ids), stops, thinks=recipe.thinks)

            written = self.engine.generate(tokens, most, stop_ids(loaded), sampling=drawn, ended=ended)
            predictions, unparsed = self._read(
                asked, [Written(decode(loaded, ids), "length" if len(ids) >= most else "") for ids in written]
            )
            return predictions, None, metrics | unparsed
        answers = answers_ids(loaded, form, self.chat, self.conversation)
        tokens, metrics = self._tokens(asked, answers, 0)
        scores = self.engine.score(tokens, answers)
        count = len(asked.prompts)
        return *self._decided(cell, scores[:count], scores[count:], asked.tested), metrics


def check_model(
    loaded: LoadedModel, recipe: Recipe, formats: Sequence[PromptFormat]
) -> tuple[bool, Conversation | None]:
    """Return whether prompts are put into the chat template, and which conversation they are; None for one text.

    Parameters
    ----------
    loaded
        The model, with or without weights.
    recipe
        How it is asked.
    formats
        The formats of the prompts.

    Raises
    ------
    ParameterError
        If no cell can work with this tokenizer: a chat template is asked for and there is none or it cannot be used, or
        scores cannot distinguish two answers.
    """
    is_asked = recipe.chat in {"single", "turns"}
    if is_asked and not loaded.chat:
        allowed = f"the tokenizer of {loaded.name} has no chat template"
        raise ParameterError("hyperparameters.chat", recipe.chat, allowed, "Use chat=none.")
    chat = loaded.chat if recipe.chat == AUTO else is_asked
    conversation = conversation_of(loaded) if recipe.chat == "turns" else None
    for each in formats:
        if recipe.decision == "score":
            answers = answers_ids(loaded, each, chat, conversation)
            check_answers(answers, each.verbaliser, calibrated=recipe.calibration != "none")
        if chat:  # the template is tried
            prompts_ids(loaded, [each.prompt([], ("",) * each.columns, conversation)], chat)
    return chat, conversation


def most_tokens(loaded: LoadedModel, answers: Sequence[Sequence[int]], new_tokens: int = 0) -> int:
    """Return how many tokens of a prompt are kept, so that its answer fits.

    That is what the tokenizer's ``model_max_length`` says, as for ``truncation=True`` of a tokenizer that is called
    without a number; but no more than the model's context leaves next to the answer.

    Parameters
    ----------
    loaded, answers, new_tokens
        As for :func:`~mlflow_l3d.approaches.icl.encoding.check_length`.
    """
    room = loaded.context - loaded.places_behind(answers, new_tokens)
    return max(1, min(room, int(loaded.tokenizer.model_max_length)))


def cut_shares(
    loaded: LoadedModel,
    whole: Sequence[Sequence[int]],
    kept: Sequence[Sequence[int]],
    inputs: Sequence[Prompt],
    frame: Prompt,
    *,
    chat: bool,
    side: str,
) -> dict[str, float]:
    """Return the share of prompts that were cut, and of those of which the input itself was.

    Parameters
    ----------
    loaded, chat, side
        As for :func:`~mlflow_l3d.approaches.icl.encoding.prompts_ids`.
    whole, kept
        Tokens of each of n prompts before and after, n at least 1.
    inputs
        The same prompts without any example, n.
    frame
        Such a prompt with :data:`~mlflow_l3d.approaches.icl.encoding.PLACEHOLDER` for all its texts.

    Returns
    -------
    ``truncated_share``, and ``truncated_input_share``, which also counts inputs of which nothing is left. If the
    input and its neighbours share a token the second is exact to that token.
    """
    around = prompt_text(loaded, frame, chat)
    before, behind = around.partition(PLACEHOLDER)[0], around.rpartition(PLACEHOLDER)[2]
    tail, special = len(bare_ids(loaded, behind)), 0 if chat else loaded.tokenizer.num_special_tokens_to_add()
    is_cut, input_is_cut = [], []
    for all_ids, ids, prompt in zip(whole, kept, inputs, strict=True):
        gone = len(all_ids) - len(ids)
        is_cut.append(gone > 0)
        if side == "right" or not gone:
            input_is_cut.append(gone > tail)
            continue
        text = prompt_text(loaded, prompt, chat)[len(before) :]
        input_is_cut.append(len(ids) - special < len(bare_ids(loaded, text)))
    return {"truncated_share": float(np.mean(is_cut)), "truncated_input_share": float(np.mean(input_is_cut))}
