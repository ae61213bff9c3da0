"""What a judge is asked about an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mlflow_l3d.approaches.icl.prompts.composition import slots
from mlflow_l3d.approaches.icl.prompts.words import check_words
from mlflow_l3d.approaches.icl.recipe import AUTO
from mlflow_l3d.errors import ParameterError

PARAMETER: Final = "hyperparameters.judge_template"
_ANSWER: Final = "{answer}"
_REFERENCE: Final = "{reference}"
_OPTIONS: Final = "{options}"
_BRACES: Final = re.compile(r"\{([^{}]*)\}")
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
        try:
            verdicts = check_words(words)
        except ParameterError as error:
            raise ParameterError("hyperparameters.judge_words", error.value, error.allowed, error.fix) from None
        input_slots = slots(columns)
        if template == AUTO:
            inputs = (
                ("Question: {text}",)
                if columns == 1
                else (f"Text {at}: {slot}" for at, slot in enumerate(input_slots, 1))
            )
            return cls("\n".join((*inputs, _ENDS)), verdicts)
        text = template.replace("\\n", "\n").strip()
        allowed_slots = (*input_slots, _REFERENCE, _ANSWER, _OPTIONS)
        for match in _BRACES.finditer(text):
            if match[0] not in allowed_slots:
                allowed = f"{match[0]} is no slot; there are {', '.join(allowed_slots)}"
                raise ParameterError(PARAMETER, text.replace("\n", "\\n"), allowed)
        if _ANSWER not in text:
            raise ParameterError(
                PARAMETER, text.replace("\n", "\\n"), "lacks the slot {answer}: there is nothing to judge"
            )
        return cls(text, verdicts)

    def asked(self, texts: Sequence[str], references: Sequence[str], answer: str) -> str:
        """Return the prompt about one answer; of several references each is right."""
        filled = dict(zip(slots(len(texts)), texts, strict=True))
        filled |= {_REFERENCE: " / ".join(references), _ANSWER: answer, _OPTIONS: ", ".join(self.words)}
        # One pass, so that a text that holds a slot is not filled in turn.
        return _BRACES.sub(lambda slot: filled[slot[0]].strip(), self.template)
