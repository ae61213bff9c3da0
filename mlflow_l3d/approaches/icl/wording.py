"""The format of the prompts that a recipe asks for."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_l3d.approaches.icl.prompts.composition import PromptFormat
from mlflow_l3d.approaches.icl.prompts.custom import custom_format
from mlflow_l3d.approaches.icl.prompts.formats import format_for
from mlflow_l3d.approaches.icl.recipe import AUTO, Recipe
from mlflow_l3d.tasks.base import Task


def prompt_format(task: Task, recipe: Recipe, classes: Sequence[int]) -> PromptFormat:
    """Return the format of the prompts.

    Raises
    ------
    ParameterError
        If template or class words do not fit the task.
    """
    class_names = [task.class_names[number] for number in classes]
    columns = len(task.texts)
    if recipe.prompt_format == "custom":
        instruction = "" if recipe.instruction == AUTO else recipe.instruction
        return custom_format(
            recipe.template, recipe.verbaliser, columns, class_names=class_names, instruction=instruction
        )
    words = "" if recipe.verbaliser == AUTO else recipe.verbaliser
    return format_for(task.name, recipe.prompt_format, class_names, columns=columns, verbaliser=words)
