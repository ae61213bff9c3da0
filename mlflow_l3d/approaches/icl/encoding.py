"""From texts to tokens and back: prompts, answers, and whether they fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mlflow_l3d.approaches.icl.models import LoadedModel
from mlflow_l3d.approaches.icl.prompts.composition import PromptFormat
from mlflow_l3d.errors import ParameterError

# Stands for an answer where a chat template is asked what it puts around one; no template holds it.
_ANSWER: Final = "Qz7Xj4Qz7"


def prompts_ids(loaded: LoadedModel, texts: Sequence[str], chat: bool) -> list[list[int]]:
    """Return the tokens of prompts, with the special tokens that the model expects around them.

    Parameters
    ----------
    loaded
        The model.
    texts
        n prompts, each ending right before the answer.
    chat
        True: the prompt is the user's turn in the tokenizer's chat template, and the model's turn begins after it.
        False: the text as it is, between what the tokenizer itself puts around a text (BOS, or T5's end token).

    Returns
    -------
    list
        n lists of token ids.

    Raises
    ------
    ParameterError
        If the chat template cannot be used, or a prompt has no tokens.
    """
    rendered = [_chat_text(loaded, text) for text in texts] if chat else list(texts)
    if not rendered:
        return []
    ids = loaded.tokenizer(rendered, add_special_tokens=not chat, verbose=False)["input_ids"]
    if not all(ids):
        raise ParameterError("prompt", "(empty)", "has no tokens", "Put an instruction or an example into it.")
    return [[int(token) for token in row] for row in ids]


def answer_ids(loaded: LoadedModel, answer: str, chat: bool, *, before: str = ":") -> list[int]:
    """Return the tokens by which an answer continues a prompt, without special tokens.

    A tokenizer may cut a word at the start of a text otherwise than in the middle of one, so a causal model's answer is
    cut behind `before`. In a chat the answer begins as the template begins the model's turn (a line break, or nothing);
    an encoder-decoder's answer is a text of its own.

    Parameters
    ----------
    loaded
        The model.
    answer
        The class word; a blank before it is kept in the plain prompt of a causal model and dropped elsewhere.
    chat
        As in :func:`prompts_ids`.
    before
        How the prompt ends, where it is plain and the model causal.

    Raises
    ------
    ParameterError
        If the chat template cannot be used, or the answer has no tokens.
    """
    word = answer.strip()
    if loaded.kind == "seq2seq" and not chat:
        ids = _bare_ids(loaded, word)
    elif chat:
        ids = _ids_behind(loaded, _chat_text(loaded, "?"), _chat_lead(loaded) + word)
    else:
        ids = _ids_behind(loaded, before, answer)
    if not word or not ids:
        raise ParameterError("verbaliser", repr(answer), "has no tokens", "Use a word for each class.")
    return ids


def answers_ids(loaded: LoadedModel, prompt_format: PromptFormat, chat: bool) -> list[list[int]]:
    """Return the tokens of every class's answer in a format; see :func:`answer_ids`."""
    before = prompt_format.shot.rpartition("}")[2] or ":"
    return [answer_ids(loaded, answer, chat, before=before) for answer in prompt_format.answers]


def decode(loaded: LoadedModel, ids: Sequence[int]) -> str:
    """Return the text of generated tokens, without special ones."""
    return str(loaded.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))


def stop_ids(loaded: LoadedModel) -> frozenset[int]:
    """Return the tokens that end an answer: those of the tokenizer and of the model's generation settings."""
    found: list[Any] = [loaded.tokenizer.eos_token_id]
    for settings in (getattr(loaded.model, "generation_config", None), loaded.model.config):
        ids = getattr(settings, "eos_token_id", None)
        found += ids if isinstance(ids, list | tuple) else [ids]
    return frozenset(int(token) for token in found if token is not None)


def check_length(
    prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], loaded: LoadedModel, new_tokens: int = 0
) -> None:
    """Raise, before anything runs, if a prompt and its answer do not fit into the model's context.

    A causal model needs a place for every token but the last of an answer, which is predicted and not read. An
    encoder-decoder reads the prompt alone; its answer has a context of its own.

    Parameters
    ----------
    prompts
        Tokens of each prompt.
    answers
        Tokens of each answer that is scored; empty where answers are generated.
    loaded
        The model.
    new_tokens
        The most tokens that are generated.

    Raises
    ------
    ParameterError
        It says by how many tokens the longest prompt exceeds the context.
    """
    longest, answer = max(map(len, prompts), default=0), max([new_tokens, *map(len, answers)])
    behind = max(answer - 1, 0) if loaded.kind == "causal" else 0
    if loaded.kind == "seq2seq" and longest <= loaded.context:
        longest = answer
    over = longest + behind - loaded.context
    if over > 0:
        needed = f" and {behind} of the answer" if behind else ""
        allowed = f"the longest prompt has {longest} tokens{needed}, {over} more than the {loaded.reads}"
        raise ParameterError("prompt", "(too long)", allowed, "Use fewer shots or classes, or a model that reads more.")


def _bare_ids(loaded: LoadedModel, text: str) -> list[int]:
    return [int(token) for token in loaded.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]]


def _ids_behind(loaded: LoadedModel, before: str, text: str) -> list[int]:
    """Return the tokens of `text` behind `before`; on their own where the cut falls into a token."""
    head, whole = _bare_ids(loaded, before), _bare_ids(loaded, before + text)
    return whole[len(head) :] if whole[: len(head)] == head else _bare_ids(loaded, text)


def _chat_text(loaded: LoadedModel, text: str, answer: str | None = None) -> str:
    """Return the user's turn and the beginning of the model's, or the whole of it where there is an answer."""
    from jinja2 import TemplateError

    turns = [{"role": "user", "content": text}]
    if answer is not None:
        turns.append({"role": "assistant", "content": answer})
    try:
        return str(loaded.tokenizer.apply_chat_template(turns, add_generation_prompt=answer is None, tokenize=False))
    except (TemplateError, ValueError) as error:
        reason = str(error).strip().split("\n", 1)[0]
        allowed = f"the chat template of {loaded.name} cannot be used ({reason})"
        raise ParameterError("hyperparameters.chat", "true", allowed, "Use plain prompts.") from error


def _chat_lead(loaded: LoadedModel) -> str:
    """Return what the template puts between the beginning of the model's turn and its answer: often nothing."""
    begun = _chat_text(loaded, "?")
    try:
        whole = _chat_text(loaded, "?", _ANSWER)
    except ParameterError:  # a template that ends with the user's turn says nothing of answers
        return ""
    rest = whole.removeprefix(begun)
    return rest.partition(_ANSWER)[0] if whole.startswith(begun) and _ANSWER in rest else ""
