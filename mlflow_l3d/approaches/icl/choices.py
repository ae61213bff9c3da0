"""What the prompts of a cell are made of if there is something to choose: format, class words, order of options."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, permutations
from typing import Final

from mlflow_l3d.approaches.icl.prompts.composition import PromptFormat
from mlflow_l3d.approaches.icl.prompts.formats import custom_format, format_for, text_format
from mlflow_l3d.approaches.icl.recipe import AUTO, CHOICE_ORDER, PROMPT_FORMAT, VERBALISER, Recipe
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.tasks.base import Task

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
