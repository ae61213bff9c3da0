"""Prompt formats and class words, of which a cell has one: the paper's, alike for any other task, or those of users."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, permutations
from typing import Final

from mlflow_l3d.approaches.icl.decisions import parts
from mlflow_l3d.approaches.icl.paper import LETTERS, PAIR, SENTENCE, TABLES, TOPIC, Wording, paper_task, places_of
from mlflow_l3d.approaches.icl.prompts import PromptFormat, check_slots, numbered_options, slots
from mlflow_l3d.approaches.icl.recipe import AUTO, CHOICE_ORDER, PROMPT_FORMAT, VERBALISER, Recipe
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task

WORDS: Final = "hyperparameters.verbaliser"
PARAMETER: Final = "hyperparameters.template"
_ANSWER: Final = "{answer}"
_CAMEL: Final = re.compile(r"(?<=[a-z\d])(?=[A-Z])")
MOST_LISTED: Final = 7
"""Options of which all orders are a list, 5,040 of seven; the orders of more are drawn from a stream."""


class PromptChoices:
    """The formats of the prompts of one task.

    A level of a list is chosen by the seed of its factor modulo the length of the list: seeds are drawn from far more
    numbers than a list has levels, so that all are as likely, and a level is a seed of itself.

    Parameters
    ----------
    task, recipe, classes
        The task, how it is asked, and the classes to distinguish.

    Attributes
    ----------
    formats
        Every format with all class words, its options in their usual order.

    Raises
    ------
    ParameterError
        If template or class words do not fit the task.
    """

    def __init__(self, task: Task, recipe: Recipe, classes: Sequence[int]) -> None:
        self.task, self.recipe, self.classes = task, recipe, classes
        self.formats = [self._format(*parts, words) for parts in recipe.formats for words in recipe.word_sets]

    def of(self, seeds: Mapping[str, int]) -> PromptFormat:
        """Return the format of a cell."""
        words = len(self.recipe.word_sets)
        place, others = seeds[PROMPT_FORMAT] % len(self.recipe.formats), seeds[VERBALISER] % words
        usual = self.formats[place * words + others]
        if self.recipe.choice_order == "fixed":
            return usual
        return usual.reordered(option_order(seeds[CHOICE_ORDER], len(usual.options)))

    def _format(self, name: str, template: str, instruction: str, words: str) -> PromptFormat:
        columns, top = len(self.task.texts), "" if instruction == AUTO else instruction
        if not self.task.form.has_classes:
            custom = name == "custom"
            form = custom_format(template, None, columns, instruction=top) if custom else text_format(name, columns)
            return replace(form, keeps_breaks=not self.recipe.line_ends)
        names = [self.task.class_names[number] for number in self.classes]
        if name == "custom":
            if words == AUTO:
                raise self.recipe.lacks("verbaliser")
            return custom_format(template, words, columns, class_names=names, instruction=top)
        return format_for(self.task.name, name, names, columns=columns, verbaliser="" if words == AUTO else words)


def option_order(seed: int, count: int) -> tuple[int, ...]:
    """Return an order of options: places in their usual order, which seed 0 leaves as it is if there are a few.

    Parameters
    ----------
    seed
        That of ``choice_order``. Up to :data:`MOST_LISTED` options it is the number of the order, in the order of
        :func:`itertools.permutations`, modulo their number; beyond, a stream is drawn from.
    count
        Number of options.
    """
    if count > MOST_LISTED:
        return tuple(stream(seed, "options").permutation(count).tolist())
    return next(islice(permutations(range(count)), seed % math.factorial(count), None))


def format_for(
    task: str, letter: str, class_names: Sequence[str], *, columns: int = 0, verbaliser: str | Sequence[str] = ()
) -> PromptFormat:
    r"""Return the format of a task: that of Pecher et al. (2024), Table 4, if it is one of its data sets, else alike.

    The table leaves the line breaks open. They are as in the authors' public code: each part on a line of its own, no
    blank lines, the instruction of format A once at the top, ``Sentence:`` (``Sentence Pair:``) and ``Answer:`` as
    labels, and sentence pairs as ``Sentence 1: ...; Sentence 2: ...``. Words and full stops are the table's.

    ``rotten_tomatoes`` is asked as SST-2 and ``bbc_news`` as AG News, with its own classes; any other task is asked for
    the class of a text, and its class names are the class words.

    Parameters
    ----------
    task
        Name of the task as the user typed it; :func:`paper_task` says which ones are recognised. A task that bears the
        name of one of them but has other classes or columns is asked as any other.
    letter
        ``A`` to ``D``; ``A`` is the paper's own choice if it does not vary the format.
    class_names
        Names of the classes in label order; they may be a part of the data set's classes. Words of the table go by
        their meaning, not by their place; if all classes are numbered (and not named), the numbers of the public data
        set are assumed. Format A lists the words of its data sets in the table's order, so that the prompt does not
        depend on how a file numbers its classes.
    columns
        Number of text columns; 0 for as many as the paper's data set has, and one of any other.
    verbaliser
        Class words in place of the usual ones, in label order, in which they are then listed, too.

    Raises
    ------
    ParameterError
        If class names (or `verbaliser`) make no usable class words, see
        :func:`~mlflow_l3d.approaches.icl.formats.check_words`.
    """
    table = TABLES.get("sst2" if task == "rotten_tomatoes" else paper_task(task) or "")
    positions = table and places_of(table, class_names)
    if table and positions and columns in (0, 1 + (table.wording.sentence == PAIR)):
        name, wording = task if task == "rotten_tomatoes" else paper_task(task), table.wording
        usual = table.other.get(letter, tuple(table.classes))
        words = check_words([usual[position] for position in positions], class_names)
        by_table = task != "rotten_tomatoes"
        order = sorted(range(len(words)), key=positions.__getitem__ if by_table else None)
    else:
        name, wording, words = "generic", _generic_wording(columns or 1), words_of(class_names)
        if task == "bbc_news" and columns < 2:
            name, wording = task, TOPIC
            words = tuple("Technology" if word == "tech" else word.capitalize() for word in words)
        order = [*range(len(words))]
    if verbaliser:
        words = check_words(verbaliser, class_names)
        order = [*range(len(words))]
    return _build(f"{name}-{letter}", letter, wording, words, order)


def text_format(letter: str, columns: int) -> PromptFormat:
    """Return format `letter` for a task whose answers are texts, in the four shapes of the others.

    Parameters
    ----------
    letter
        ``A`` to ``D``.
    columns
        Number of text columns.
    """
    wording = _generic_wording(columns)
    asked = ("Answer?", "Answer is", "The answer is")
    wording = replace(wording, instruction=f"Answer the {wording.label.lower()}", asked=asked)
    return _build(f"text-{letter}", letter, wording, (), ())


def _build(name: str, letter: str, wording: Wording, words: tuple[str, ...], order: Sequence[int]) -> PromptFormat:
    sentence, topic = wording.sentence, wording.topic
    if letter == "A":
        listed = numbered_options([words[label] for label in order])
        instruction = f"{wording.instruction}{f' using following options: {listed}' if words else ''}."
        labelled, label = f"{wording.label}: {sentence}", "Answer:"
        shot, turns = f"{labelled}\n{label}", (sentence, labelled, label, topic)
        return PromptFormat(name, words, instruction, shot, "\n", tuple(order), *turns)
    question = wording.asked[LETTERS.index(letter) - 1]
    user = "User: " if letter == "D" and wording.user else ""
    # The blank behind the question is the authors', who have classes only.
    turns = (f"{sentence} {question}{' ' if words else ''}", f"{sentence}; {question}", "", topic)
    return PromptFormat(name, words, "", f"{user}{sentence}\n{question}", "\n", (), *turns)


def _generic_wording(columns: int) -> Wording:
    sentence = SENTENCE
    if columns > 1:
        sentence = "; ".join(f"Text {number}: {slot}" for number, slot in enumerate(slots(columns), 1))
    label = "Text" if columns == 1 else "Texts"
    questions = ("Class?", "Class is", "This is")
    return Wording(f"Determine class of the {label.lower()}", label, questions, sentence=sentence)


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
        stands before the answer. The two characters ``\n`` mean a line break, since a command line rarely holds one.
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
        :func:`~mlflow_l3d.approaches.icl.formats.check_words`).
    """
    words = () if verbaliser is None else check_words(verbaliser, class_names)
    options = tuple(range(len(words))) if "{options}" in instruction else ()
    check_slots("hyperparameters.instruction", instruction, ("{options}",) if words else ())
    top = instruction.replace("\\n", "\n").strip().replace("{options}", numbered_options(words))
    return PromptFormat("custom", words, top, _shot(template, columns), options=options)


def _shot(template: str, columns: int) -> str:
    text, input_slots = template.replace("\\n", "\n").strip(), slots(columns)
    allowed_slots, many = (*input_slots, _ANSWER), f"a task with {columns} text column(s)"

    def wrong(allowed: str, fix: str = f"For example: {' '.join(allowed_slots)}.") -> ParameterError:
        return ParameterError(PARAMETER, template.replace("\n", "\\n"), allowed, fix)

    if text.count(_ANSWER) > 1 or (_ANSWER in text and not text.endswith(_ANSWER)):
        raise wrong("{answer} must stand once, at the very end")
    check_slots(PARAMETER, text, allowed_slots)
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


def check_words(given: str | Sequence[str], class_names: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the class words, one for each class.

    Parameters
    ----------
    given
        Words in label order, or one text with ``;`` (or ``|``) between them.
    class_names
        Names of the classes, if they are known.

    Raises
    ------
    ParameterError
        If a word is empty, holds a line break, or is the same as another (case, hyphens and underscores do not show
        words apart), or if there are not as many words as classes, or fewer than two.
    """
    each = given.split(";" if ";" in given else "|") if isinstance(given, str) else given
    words = [str(word).strip() for word in each]
    shown = ";".join(word.replace("\n", "\\n") for word in words)
    for number, word in enumerate(words, 1):
        if not word:
            allowed = f"word {number} of {len(words)} is empty"
            raise ParameterError(WORDS, shown, allowed, "Give every class a word.")
        if len(word.splitlines()) > 1:
            raise ParameterError(WORDS, shown, f"word {number} holds a line break, where an answer ends")
    if class_names is not None and len(words) != len(class_names):
        listed = ", ".join(class_names[:20]) + (", ..." if len(class_names) > 20 else "")
        allowed = f"{len(words)} word(s) for {len(class_names)} classes ({listed})"
        raise ParameterError(WORDS, shown, allowed, "Give one for each class, in this order, with ; between them.")
    if len(words) < 2:
        raise ParameterError(WORDS, shown, "must have two words or more", "Write ; between them.")
    seen: dict[tuple[str, ...], int] = {}
    for place, word in enumerate(words):
        first = seen.setdefault(tuple(parts(word)), place)
        if first != place:
            allowed = f"{words[first]!r} and {word!r} cannot be distinguished in an answer"
            raise ParameterError(WORDS, shown, allowed, "Give the classes different words.")
    return tuple(words)


def words_of(class_names: Sequence[str]) -> tuple[str, ...]:
    """Return class names as words: ``not_equivalent`` -> ``not equivalent``, ``NaturalPlace`` -> ``Natural Place``.

    Raises
    ------
    ParameterError
        If two names become the same word even as they are.
    """
    spaced = [" ".join(_CAMEL.sub(" ", name).replace("_", " ").split()) for name in class_names]
    if len({tuple(parts(word)) for word in spaced}) == len(spaced) and all(spaced):
        return check_words(spaced, class_names)
    return check_words(class_names, class_names)
