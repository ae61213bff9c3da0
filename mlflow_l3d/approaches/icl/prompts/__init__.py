"""Prompts of in-context learning: formats, class words, and what a generated text says."""

from mlflow_l3d.approaches.icl.prompts.custom import custom_format
from mlflow_l3d.approaches.icl.prompts.formats import (
    LETTERS,
    PAPER_TASKS,
    PromptFormat,
    format_for,
    generic_format,
    paper_format,
    paper_task,
)
from mlflow_l3d.approaches.icl.prompts.parsing import parse_answer
from mlflow_l3d.approaches.icl.prompts.words import check_words

__all__ = [
    "LETTERS",
    "PAPER_TASKS",
    "PromptFormat",
    "check_words",
    "custom_format",
    "format_for",
    "generic_format",
    "paper_format",
    "paper_task",
    "parse_answer",
]
