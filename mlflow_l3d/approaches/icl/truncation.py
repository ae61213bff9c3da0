"""Prompts that are longer than a model reads, or was trained on: what is cut off, and whether it was the input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlflow_l3d.approaches.icl.encoding import PLACEHOLDER, bare_ids, places_behind, prompt_text, prompts_ids
from mlflow_l3d.approaches.icl.models import LoadedModel
from mlflow_l3d.approaches.icl.prompts.composition import Prompt


def most_tokens(loaded: LoadedModel, answers: Sequence[Sequence[int]], new_tokens: int = 0) -> int:
    """Return how many tokens of a prompt are kept, so that its answer fits.

    That is what the tokenizer's ``model_max_length`` says, as for ``truncation=True`` of a tokenizer that is called
    without a number; but no more than the model's context leaves beside the answer.

    Parameters
    ----------
    loaded, answers, new_tokens
        As for :func:`~mlflow_l3d.approaches.icl.encoding.check_length`.
    """
    room = loaded.context - places_behind(answers, loaded, new_tokens)
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


def truncated(
    loaded: LoadedModel, prompts: Sequence[Prompt], chat: bool, *, side: str, most: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the tokens of prompts before and after they are cut; the same if `side` is ``none``."""
    whole = prompts_ids(loaded, prompts, chat)
    return whole, whole if side == "none" else prompts_ids(loaded, prompts, chat, side=side, most=most)
