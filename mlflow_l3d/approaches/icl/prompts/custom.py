"""Templates of the user's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from mlflow_l3d.approaches.icl.prompts.composition import PromptFormat, numbered_options, slots
from mlflow_l3d.approaches.icl.prompts.words import check_words
from mlflow_l3d.errors import ParameterError

PARAMETER: Final = "hyperparameters.template"
INSTRUCTION: Final = "hyperparameters.instruction"

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_ANSWER: Final = "{answer}"


def custom_format(
    template: str,
    verbaliser: str | Sequence[str] | None,
    columns: int,
    *,
    class_names: Sequence[str] | None = None,
    instruction: str = "",
) -> PromptFormat:
    r"""Return the format that a template describes.

    Parameters
    ----------
    template
        One example, with the slot ``{text}``, or ``{text_1}`` and ``{text_2}`` for sentence pairs, and the answer
        either as the slot ``{answer}`` at the end or left out: ``Review: {text}\nSentiment: {answer}``. One blank
        stands before the answer. The two characters ``\n`` mean a line break, since a command line can hardly hold one.
    verbaliser
        The words of the classes in label order, or one text with ``;`` between them; None if answers are texts.
    columns
        Number of text columns of the task.
    class_names
        Names of the classes, if they are known: there must be as many words.
    instruction
        Stands once at the top; ``{options}`` in it becomes ``1) word 2) word ...``.

    Raises
    ------
    ParameterError
        If a slot of the input is missing or unknown, if something follows the answer, if nothing but a line break
        stands before it, or if the words do not fit (see
        :func:`~mlflow_l3d.approaches.icl.prompts.words.check_words`).
    """
    words = () if verbaliser is None else check_words(verbaliser, class_names)
    options = tuple(range(len(words))) if "{options}" in instruction else ()
    return PromptFormat("custom", words, _instruction(instruction, words), _shot(template, columns), options=options)


def _shot(template: str, columns: int) -> str:
    text, input_slots = _unescape(template).strip(), slots(columns)
    allowed_slots, many = (*input_slots, _ANSWER), f"a task with {columns} text column(s)"

    def wrong(allowed: str, fix: str = f"For example: {' '.join(allowed_slots)}.") -> ParameterError:
        return ParameterError(PARAMETER, template.replace("\n", "\\n"), allowed, fix)

    if text.count(_ANSWER) > 1 or (_ANSWER in text and not text.endswith(_ANSWER)):
        raise wrong("{answer} must stand once, at the very end")
    for match in _BRACES.finditer(text):
        if match[0] not in allowed_slots:
            raise wrong(f"{match[0]} is no slot; the slots of {many} are {', '.join(allowed_slots)}")
    for slot in input_slots:
        if f"{{{slot}}}" in text:
            raise wrong(f"{{{slot}}} has a pair of braces too many")
        if slot not in text:
            raise wrong(f"the input slot {slot} is missing; {many} needs it")
    shot = text.removesuffix(_ANSWER)
    if shot.rstrip(" \t") != shot.rstrip():
        allowed = "{answer} must follow something on its own line, because a line break ends an answer"
        raise wrong(allowed, "Put a word such as Answer: before it.")
    return shot.rstrip()


def _instruction(instruction: str, words: Sequence[str]) -> str:
    slots_of_words = ("{options}",) if words else ()
    for match in _BRACES.finditer(instruction):
        if match[0] not in slots_of_words:
            escaped = instruction.replace("\n", "\\n")
            has = "an instruction has only {options}" if words else "where answers are texts an instruction has none"
            raise ParameterError(INSTRUCTION, escaped, f"{match[0]} is no slot; {has}")
    return _unescape(instruction).strip().replace("{options}", numbered_options(words))


def _unescape(text: str) -> str:
    return text.replace("\\n", "\n")
