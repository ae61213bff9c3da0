"""From texts to tokens and back: prompts, answers, and whether they fit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Final

from mlflow_l3d.approaches.icl.models import LoadedModel
from mlflow_l3d.approaches.icl.prompts import Conversation, Message, Prompt, PromptFormat
from mlflow_l3d.errors import ParameterError

PLACEHOLDER: Final = "Qz7Xj4Qz7"
"""Stands for a text if it is asked what a prompt or a chat template puts around one; none of them holds it."""


def prompts_ids(
    loaded: LoadedModel, texts: Sequence[Prompt], chat: bool, *, side: str = "none", most: int = 0
) -> list[list[int]]:
    """Return the tokens of prompts, with the special tokens that the model expects around them.

    Parameters
    ----------
    loaded
        The model.
    texts
        n prompts, each ending right before the answer.
    chat
        True: a text is the user's turn in the tokenizer's chat template, turns are put into it as they are, and the
        model's turn begins after it. False: the text as it is, between what the tokenizer itself puts around a text
        (BOS, or T5's end token).
    side
        ``right`` or ``left``: longer prompts are cut off there as the tokenizer does it, but for what it puts around a
        text; ``none``: no prompt is cut.
    most
        Tokens that are kept.

    Returns
    -------
    list
        n lists of token ids.

    Raises
    ------
    ParameterError
        If the chat template cannot be used, or a prompt has no tokens.
    """
    rendered = [prompt_text(loaded, text, chat) for text in texts]
    if not rendered:
        return []
    settings: dict[str, Any] = {"add_special_tokens": not chat, "verbose": False}
    if side != "none":
        loaded.tokenizer.truncation_side = side
        settings |= {"truncation": True, "max_length": most}
    ids = loaded.tokenizer(rendered, **settings)["input_ids"]
    if not all(ids):
        raise ParameterError("prompt", "(empty)", "has no tokens", "Put an instruction or an example into it.")
    return list(ids)


def prompt_text(loaded: LoadedModel, prompt: Prompt, chat: bool) -> str:
    """Return the text of a prompt, in the chat template if `chat` is set; see :func:`prompts_ids`."""
    return _chat_text(loaded, prompt) if chat or not isinstance(prompt, str) else prompt


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
        How the prompt ends, if it is plain and the model causal.

    Raises
    ------
    ParameterError
        If the chat template cannot be used, or the answer has no tokens.
    """
    word = answer.strip()
    if not (loaded.continues or chat):
        ids = bare_ids(loaded, word)
    elif chat:
        ids = _ids_behind(loaded, _chat_text(loaded, "?"), _chat_lead(loaded) + word)
    else:
        ids = _ids_behind(loaded, before, answer)
    if not word or not ids:
        raise ParameterError("verbaliser", repr(answer), "has no tokens", "Use a word for each class.")
    return ids


def answers_ids(
    loaded: LoadedModel, prompt_format: PromptFormat, chat: bool, conversation: Conversation | None = None
) -> list[list[int]]:
    """Return the tokens of every class's answer in a format; see :func:`answer_ids`."""
    lead = prompt_format.lead(conversation)
    chat = chat and not lead
    before = lead or prompt_format.shot.rpartition("}")[2] or ":"
    return [answer_ids(loaded, answer, chat, before=before) for answer in prompt_format.answers]


def decode(loaded: LoadedModel, ids: Sequence[int]) -> str:
    """Return the text of generated tokens, without special ones."""
    return str(loaded.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))


def stop_ids(loaded: LoadedModel) -> frozenset[int]:
    """Return the tokens that end an answer: those of the tokenizer and of the model's generation settings."""
    token_ids: list[Any] = [loaded.tokenizer.eos_token_id]
    for settings in (getattr(loaded.model, "generation_config", None), loaded.model.config):
        ids = getattr(settings, "eos_token_id", None)
        token_ids += ids if isinstance(ids, list | tuple) else [ids]
    return frozenset(int(token) for token in token_ids if token is not None)


def check_length(
    prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], loaded: LoadedModel, new_tokens: int = 0
) -> None:
    """Raise, before anything runs, if a prompt and its answer do not fit into the model's context.

    A causal model needs a place for every token but the last of an answer, which is predicted and not read. An
    encoder-decoder reads the prompt alone; its answer has a context of its own. In a model that is not bounded
    everything fits.

    Parameters
    ----------
    prompts
        Tokens of each prompt.
    answers
        Tokens of each answer that is scored; empty if answers are generated.
    loaded
        The model.
    new_tokens
        The most tokens that are generated.

    Raises
    ------
    ParameterError
        It says by how many tokens the longest prompt exceeds the context.
    """
    if not loaded.bounded:
        return
    longest = max(map(len, prompts), default=0)
    behind = loaded.places_behind(answers, new_tokens)
    if not loaded.continues and longest <= loaded.context:
        longest = max([new_tokens, *map(len, answers)])
    over = longest + behind - loaded.context
    if over > 0:
        needed = f" and {behind} of the answer" if behind else ""
        context = f"{loaded.context} of the context of {loaded.name} ({loaded.context_source})"
        allowed = f"the longest prompt has {longest} tokens{needed}, {over} more than the {context}"
        fix = "Use fewer shots or classes, a model that reads more, or truncation=left."
        raise ParameterError("prompt", "(too long)", allowed, fix)


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


def conversation_of(loaded: LoadedModel) -> Conversation:
    """Return whose conversation fits a chat template: that of the authors' model whose template takes the same turns.

    ``zephyr`` if two turns of the user may follow each other; else ``llama`` if there may be a system turn in
    front, and ``mistral`` if there may not.
    """
    if _takes(loaded, "user", "user"):
        return "zephyr"
    return "llama" if _takes(loaded, "system", "user") else "mistral"


def bare_ids(loaded: LoadedModel, text: str) -> list[int]:
    """Return the tokens of a text without special ones."""
    return list(loaded.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def _ids_behind(loaded: LoadedModel, before: str, text: str) -> list[int]:
    """Return the tokens of `text` behind `before`; on their own if the cut falls into a token."""
    head, whole = bare_ids(loaded, before), bare_ids(loaded, before + text)
    return whole[len(head) :] if whole[: len(head)] == head else bare_ids(loaded, text)


def _takes(loaded: LoadedModel, *roles: str) -> bool:
    """Return whether the template has a place for turns of these roles, one behind the other."""
    turns: list[Message] = [{"role": role, "content": f"{PLACEHOLDER}{at}"} for at, role in enumerate(roles)]
    try:
        text = _chat_text(loaded, turns)
    except ParameterError:
        return False
    return all(turn["content"] in text for turn in turns)


def _chat_text(loaded: LoadedModel, prompt: Prompt, answer: str | None = None) -> str:
    """Return the turns and the beginning of the model's, or the whole of it if there is an answer."""
    from jinja2 import TemplateError

    turns: list[Message] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    begun = turns[-1]["role"] == "assistant"
    if answer is not None:
        turns.append({"role": "assistant", "content": answer})
    end = {"continue_final_message": begun, "add_generation_prompt": answer is None and not begun}
    try:
        return str(loaded.tokenizer.apply_chat_template(turns, tokenize=False, **end))
    except (TemplateError, ValueError) as error:
        reason = str(error).strip().split("\n", 1)[0]
        allowed = f"the chat template of {loaded.name} cannot be used ({reason})"
        form = "single" if isinstance(prompt, str) else "turns"
        raise ParameterError("hyperparameters.chat", form, allowed, "Use chat=none.") from error


def _chat_lead(loaded: LoadedModel) -> str:
    """Return what the template puts between the beginning of the model's turn and its answer: often nothing."""
    begun = _chat_text(loaded, "?")
    try:
        whole = _chat_text(loaded, "?", PLACEHOLDER)
    except ParameterError:  # a template that ends with the user's turn says nothing of answers
        return ""
    rest = whole.removeprefix(begun)
    return rest.partition(PLACEHOLDER)[0] if whole.startswith(begun) and PLACEHOLDER in rest else ""
