"""How instruction, examples and input become one text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from mlflow_l3d.approaches.icl.decisions import parse_answer
from mlflow_l3d.errors import ParameterError

Shot = tuple[tuple[str, ...], int | str]
"""The texts of one labelled example (one for each text column) and its class, or its answer if that is a text."""

Message: TypeAlias = dict[str, str]
"""A turn of a chat: its ``role`` and its ``content``."""

Prompt: TypeAlias = str | list[Message]
"""A text, or the turns of a chat; the last one, if it is the assistant's, is the beginning of its answer."""

Conversation: TypeAlias = Literal["llama", "mistral", "zephyr"]
"""The authors' code has a conversation for each of these models; see :meth:`PromptFormat.messages`."""

_SYSTEM: Final = "You are a helpful assistant that will follow every instruction from the user"
_ACKNOWLEDGED: Final = "Ok, I will determine the {} of the Sentences you will give me using only the options provided!"
_ANSWERS: Final = "Ok, I will answer every text that you will give me."
_BREAK: Final = re.compile(r"\s*[\r\n]\s*")
BRACES: Final = re.compile(r"\{[^{}]*\}")
_SLOT: Final = re.compile(r"\{text(?:_([1-9]\d*))?\}")


def slots(columns: int) -> tuple[str, ...]:
    """Return the slots of an example with that many text columns: ``{text}``, or ``{text_1}``, ``{text_2}``, ..."""
    if columns == 1:
        return ("{text}",)
    return tuple(f"{{text_{number}}}" for number in range(1, columns + 1))


def check_slots(parameter: str, text: str, allowed: Sequence[str]) -> None:
    """Raise a ParameterError if a text in which slots are filled has others than those that are allowed."""
    for slot in BRACES.findall(text):
        if slot not in allowed:
            what = f"{slot} is not a slot; the slots here are {', '.join(allowed) or '(none)'}"
            raise ParameterError(parameter, text.replace("\n", "\\n"), what)


def numbered_options(words: Sequence[str]) -> str:
    """Return ``1) first 2) second ...``."""
    return " ".join(f"{number}) {word}" for number, word in enumerate(words, 1))


@dataclass(frozen=True)
class PromptFormat:
    r"""The words around examples, as Table 4 of Pecher et al. (2024) varies them.

    Attributes
    ----------
    name
        What the format is called in messages and results, e.g. ``sst2-A``.
    verbaliser
        The word (or words) of each class, in label order; none if answers are texts.
    instruction
        Stands once at the top, with the options already listed in it; the empty text for none.
    shot
        One example: text with the slot ``{text}``, or ``{text_1}``, ``{text_2}``, ... if an example has several text
        columns. It ends right before the answer, without a blank.
    separator
        Stands between instruction, examples and input.
    options
        Classes in the order in which the instruction numbers them from 1; empty if it numbers none.
    turn, labelled_turn
        One example as a user's turn, with the slots of `shot`, bare and as LLaMA-2 gets it; empty for `shot` itself.
    answer_label
        What stands before the class word in the assistant's turns if the user's are labelled.
    topic
        What the assistant says that it will determine.
    keeps_breaks
        Whether line breaks inside texts and answers stay; else they become blanks.
    """

    name: str
    verbaliser: tuple[str, ...]
    instruction: str
    shot: str
    separator: str = "\n\n"
    options: tuple[int, ...] = ()
    turn: str = ""
    labelled_turn: str = ""
    answer_label: str = ""
    topic: str = "class"
    keeps_breaks: bool = False

    @property
    def answers(self) -> tuple[str, ...]:
        """What continues a rendered prompt, for each class: a blank and the class word."""
        return tuple(f" {word}" for word in self.verbaliser)

    @property
    def columns(self) -> int:
        """Number of text columns of an example."""
        return len(set(_SLOT.findall(self.shot)))

    def block(self, texts: tuple[str, ...]) -> str:
        """Return one example without its answer.

        Blanks around a text are removed and line breaks inside it become blanks, because a line break ends a part of
        the prompt (unless `keeps_breaks`); everything else is left as it is.
        """
        return self._filled(self.shot, texts)

    def prefix(self, shots: Sequence[Shot]) -> str:
        """Return what all inputs share: instruction and answered examples, with the separator that follows them."""
        blocks = [self.instruction] if self.instruction else []
        blocks += [f"{self.block(texts)} {self._said(answer)}" for texts, answer in shots]
        return "".join(block + self.separator for block in blocks)

    def render(self, shots: Sequence[Shot], texts: tuple[str, ...]) -> str:
        """Return the prompt: instruction, `shots` with their answers, then the input, ending right before its answer.

        Parameters
        ----------
        shots
            Labelled examples in the order in which they are shown; none for a zero-shot prompt.
        texts
            The input, one text for each text column.
        """
        return self.prefix(shots) + self.block(texts)

    def messages(self, shots: Sequence[Shot], texts: tuple[str, ...], conversation: Conversation) -> list[Message]:
        """Return the prompt turn by turn, as the authors' public code has it for each of three models.

        The instruction is a user's turn of its own, each example a user's and an assistant's turn, and the input the
        last one of the user. ``zephyr``: nothing else, so that two turns of the user follow each other. ``mistral``:
        the assistant acknowledges the instruction. ``llama``: there is a system turn in front, too, examples and
        answers have the labels of a plain prompt, and the answer is begun with its label. Formats without an
        instruction have the turns of examples and input only.

        Parameters
        ----------
        shots, texts
            As for :meth:`render`.
        conversation
            Whose.
        """
        labelled = conversation == "llama"
        turn = (self.labelled_turn if labelled else self.turn) or self.shot
        label = self.lead(conversation)
        spoken: list[tuple[str, str]] = []
        if self.instruction:
            if labelled:
                spoken.append(("system", _SYSTEM))
            spoken += [("user", self.instruction)]
            acknowledged = _ACKNOWLEDGED.format(self.topic) if self.verbaliser else _ANSWERS
            if conversation != "zephyr":
                spoken.append(("assistant", acknowledged))
        for example, answer in shots:
            spoken += [("user", self._filled(turn, example)), ("assistant", f"{label} {self._said(answer)}".strip())]
        spoken += [("user", self._filled(turn, texts))]
        if label:
            spoken.append(("assistant", label))
        return [{"role": role, "content": content} for role, content in spoken]

    def lead(self, conversation: Conversation | None) -> str:
        """Return what an answer is begun with in a conversation."""
        return self.answer_label if conversation == "llama" else ""

    def prompt(self, shots: Sequence[Shot], texts: tuple[str, ...], conversation: Conversation | None) -> Prompt:
        """Return :meth:`messages` of a conversation, or :meth:`render` if there is none."""
        return self.messages(shots, texts, conversation) if conversation else self.render(shots, texts)

    def reordered(self, order: Sequence[int]) -> PromptFormat:
        """Return the format whose instruction lists the options in another order; as it is if it lists none.

        Parameters
        ----------
        order
            Places of the options in their order here.
        """
        options = tuple(self.options[place] for place in order)
        before, after = (numbered_options([self.verbaliser[name] for name in each]) for each in (self.options, options))
        return replace(self, options=options, instruction=self.instruction.replace(before, after)) if options else self

    def parse(self, text: str) -> int:
        """Return the class that a generated `text` names, or -1, as :func:`.parse_answer` does."""
        return parse_answer(text, self.verbaliser, self.options)

    def _filled(self, shot: str, texts: tuple[str, ...]) -> str:
        # One pass, so that a text that holds a slot is not filled in turn.
        return _SLOT.sub(lambda slot: self._joined(texts[int(slot[1] or 1) - 1]), shot)

    def _said(self, answer: int | str) -> str:
        return self._joined(answer) if isinstance(answer, str) else self.verbaliser[answer]

    def _joined(self, text: str) -> str:
        return text.strip() if self.keeps_breaks else _BREAK.sub(" ", text.strip())
