"""What can be said to be wrong before the first cell, and what is cut off of prompts that are too long."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from mlflow_l3d.approaches.icl import encoding
from mlflow_l3d.approaches.icl.models import LoadedModel
from mlflow_l3d.approaches.icl.prompts.composition import Conversation, Prompt, PromptFormat
from mlflow_l3d.approaches.icl.recipe import AUTO, Recipe
from mlflow_l3d.errors import ParameterError


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
    conversation = encoding.conversation_of(loaded) if recipe.chat == "turns" else None
    for each in formats:
        if recipe.decision == "score":
            answers = encoding.answers_ids(loaded, each, chat, conversation)
            check_answers(answers, each.verbaliser, calibrated=recipe.calibration != "none")
        if chat:  # the template is tried
            encoding.prompts_ids(loaded, [each.prompt([], ("",) * each.columns, conversation)], chat)
    return chat, conversation


def check_answers(answers: Sequence[Sequence[int]], words: Sequence[str], *, calibrated: bool) -> None:
    """Raise if the likelihoods of two answers cannot tell their classes apart.

    Answers may begin with the same tokens: words are scored whole. But two words of the same tokens always get the same
    score (a tokenizer may drop case, accents, or letters that it does not know), and a word that begins with all the
    tokens of another is never more likely than that one.

    Parameters
    ----------
    answers
        Tokens of each class's answer.
    words
        The class words.
    calibrated
        Whether scores are compared with those of empty inputs: then the longer of two such words can win.

    Raises
    ------
    ParameterError
        It names the two words.
    """
    rows = [tuple(ids) for ids in answers]
    for one, other in combinations(range(len(rows)), 2):
        short, long = sorted((one, other), key=lambda place: len(rows[place]))
        if rows[long][: len(rows[short])] != rows[short]:
            continue
        if rows[short] == rows[long]:
            allowed = f"{words[one]!r} and {words[other]!r} are the same tokens to this model, so their scores are, too"
            raise ParameterError("hyperparameters.verbaliser", ";".join(words), allowed, "Give other words.")
        if not calibrated:
            allowed = f"{words[long]!r} begins with {words[short]!r} and can never score higher"
            fix = "Give other words, or use decision=generate or calibration=batch."
            raise ParameterError("hyperparameters.verbaliser", ";".join(words), allowed, fix)


def most_tokens(loaded: LoadedModel, answers: Sequence[Sequence[int]], new_tokens: int = 0) -> int:
    """Return how many tokens of a prompt are kept, so that its answer fits.

    That is what the tokenizer's ``model_max_length`` says, as for ``truncation=True`` of a tokenizer that is called
    without a number; but no more than the model's context leaves next to the answer.

    Parameters
    ----------
    loaded, answers, new_tokens
        As for :func:`~mlflow_l3d.approaches.icl.encoding.check_length`.
    """
    room = loaded.context - loaded.kind.places_behind(answers, new_tokens)
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
    around = encoding.prompt_text(loaded, frame, chat)
    before, behind = around.partition(encoding.PLACEHOLDER)[0], around.rpartition(encoding.PLACEHOLDER)[2]
    tail, special = len(encoding.bare_ids(loaded, behind)), 0 if chat else loaded.tokenizer.num_special_tokens_to_add()
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
