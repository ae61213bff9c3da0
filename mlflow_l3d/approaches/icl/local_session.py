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
from mlflow_l3d.approaches.icl import decisions, encoding
from mlflow_l3d.approaches.icl.decisions import Written
from mlflow_l3d.approaches.icl.engine import CausalEngine, Sampling
from mlflow_l3d.approaches.icl.models import LoadedModel, borrowed
from mlflow_l3d.approaches.icl.prompts import Prompt
from mlflow_l3d.approaches.icl.recipe import AUTO, JUDGE
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
        self.loaded, self.engine = borrowed(model, device, self.recipe, cache, self._choose)
        added = self.loaded.tokenizer.added_tokens_decoder.items()
        self.openers = [[number] for number, token in added if decisions.behind_thought(str(token)) == ("", True)]

    def _choose(self, loaded: LoadedModel) -> None:
        """Choose whether prompts are put into the chat template of a model, and which conversation they are.

        Raises
        ------
        ParameterError
            If no cell can work with this tokenizer: a chat template is asked for and there is none or it cannot be
            used, or scores cannot distinguish two answers.
        """
        recipe, is_asked = self.recipe, self.recipe.chat in {"single", "turns"}
        if is_asked and not loaded.chat:
            allowed = f"the tokenizer of {loaded.name} has no chat template"
            raise ParameterError("hyperparameters.chat", recipe.chat, allowed, "Use chat=none.")
        self.chat = loaded.chat if recipe.chat == AUTO else is_asked
        self.conversation = encoding.conversation_of(loaded) if recipe.chat == "turns" else None
        for form in self.choices.formats:
            if recipe.decision == "score":
                answers = encoding.answers_ids(loaded, form, self.chat, self.conversation)
                encoding.check_answers(answers, form.verbaliser, calibrated=recipe.calibration != "none")
            if self.chat:  # the template is tried
                prompt = form.prompt([], ("",) * form.columns, self.conversation)
                encoding.prompts_ids(loaded, [prompt], self.chat)

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
        tokens = encoding.prompts_ids(loaded, texts, self.chat)
        if side != "none":
            whole, most = tokens[:count], loaded.most_tokens(answers, new)
            tokens = encoding.prompts_ids(loaded, texts, self.chat, side=side, most=most)
            bare = partial(asked.form.prompt, [], conversation=self.conversation)
            inputs = [bare(self._texts(at)) for at in asked.test[:count].tolist()]
            frame = bare(self._same(encoding.PLACEHOLDER))
            metrics = cut_shares(loaded, whole, tokens[:count], inputs, frame, chat=self.chat, side=side)
        encoding.check_length(tokens, answers, loaded, new_tokens=new)
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
            is_open = self.engine.generate([prompt], 1, encoding.stop_ids(loaded))[0][:1] in self.openers
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
                return decisions.has_ended(encoding.decode(loaded, ids), stops, thinks=recipe.thinks)

            written = self.engine.generate(tokens, most, encoding.stop_ids(loaded), sampling=drawn, ended=ended)
            predictions, unparsed = self._read(
                asked, [Written(encoding.decode(loaded, ids), "length" if len(ids) >= most else "") for ids in written]
            )
            return predictions, None, metrics | unparsed
        answers = encoding.answers_ids(loaded, form, self.chat, self.conversation)
        tokens, metrics = self._tokens(asked, answers, 0)
        scores = self.engine.score(tokens, answers)
        count = len(asked.prompts)
        return *self._decided(cell, scores[:count], scores[count:], asked.tested), metrics


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
    around = encoding.prompt_text(loaded, frame, chat)
    before = around.partition(encoding.PLACEHOLDER)[0]
    behind = around.rpartition(encoding.PLACEHOLDER)[2]
    tail = len(encoding.bare_ids(loaded, behind))
    special = 0 if chat else loaded.tokenizer.num_special_tokens_to_add()
    is_cut, input_is_cut = [], []
    for all_ids, ids, prompt in zip(whole, kept, inputs, strict=True):
        gone = len(all_ids) - len(ids)
        is_cut.append(gone > 0)
        if side == "right" or not gone:
            input_is_cut.append(gone > tail)
            continue
        text = encoding.prompt_text(loaded, prompt, chat)[len(before) :]
        input_is_cut.append(len(ids) - special < len(encoding.bare_ids(loaded, text)))
    return {"truncated_share": float(np.mean(is_cut)), "truncated_input_share": float(np.mean(input_is_cut))}
