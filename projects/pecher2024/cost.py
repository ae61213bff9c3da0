"""About how long a cell takes, if there is no earlier one: floating-point operations by what hardware does in practice.

Not measured, and meant to tell hours from months. A sweep says better as soon as a few of its cells are done.
"""

from __future__ import annotations

import math
from typing import Final

from definitions import ALL, BERT, FLAN, LLAMA, MISTRAL, ROBERTA, ZEPHYR, System
from parts import Part
from published import CLASSES

TOKENS: Final = {"sst2": 13, "cola": 11, "mrpc": 53, "ag_news": 50, "trec": 12, "snips": 12, "dbpedia": 64}
"""Tokens of a text, or pair, on average."""
WEIGHTS: Final = {FLAN: 0.25e9, LLAMA: 13e9, MISTRAL: 7.2e9, ZEPHYR: 7.2e9, BERT: 86e6, ROBERTA: 86e6}
"""Weights that a token passes."""
RATE: Final = {"icl": 20e12, "finetuning": 10e12}
"""Operations a second of a GPU like an A100, with 4-bit weights and small batches."""
META: Final = {"protonet": 1.4, "reptile": 1.2, "maml": 2.8}
"""Seconds of a cell of meta-learning with one core, measured (docs/how-to/meta-learning.md), with features at hand."""
REDUCED: Final = {"icl": 4.1, "finetuning": 4.2, "meta_learning": 3.8}
"""Seconds of a cell of a reduced run, measured on two cores that others used, too (load 8), two cells at a time."""
_TESTED, _LABELLED, _LENGTH, _ANSWER, _OF_ALL = 1000, 1000, 50, 10, 12


def hours(part: Part, cells: int) -> float:
    """Return the hours of a part with that many cells a point; nan with a model that is not the paper's."""
    shots = part.over.get("shots", (2,))
    each = [_seconds(system, task, int(number)) for system, task in part.pairs() for number in shots]
    longer = _OF_ALL if part.sizes.get("test_size") == ALL else 1
    return longer * cells * part.points() * sum(each) / len(each) / 3600


def reduced_minutes(part: Part, cells: int) -> float:
    """Return the minutes of a part of a reduced run on two busy cores."""
    return REDUCED[part.approach] * cells * part.points() / 60


def _seconds(system: System, task: str, shots: int) -> float:
    """Return the seconds of a cell."""
    if system.learner:
        return META[system.learner] if system.model == "bert-base" else math.nan
    if system.approach == "finetuning":
        epochs = 5 if CLASSES[task] == 2 else 10
        passed = 3 * 0.8 * _LABELLED * epochs + 0.2 * _LABELLED * epochs + _TESTED
        return 2 * WEIGHTS.get(system.model, math.nan) * _LENGTH * passed / RATE["finetuning"]
    tokens = _tokens(task, shots, repeated=system.model == FLAN)
    return 2 * WEIGHTS.get(system.model, math.nan) * tokens / RATE["icl"]


def _tokens(task: str, shots: int, *, repeated: bool) -> int:
    """Return the tokens of a cell; a decoder reads once what all prompts begin with, an encoder every time (512)."""
    question, begin = TOKENS[task] + 8, 30 + shots * CLASSES[task] * (TOKENS[task] + 8)
    if repeated:
        return _TESTED * (min(512, begin + question) + _ANSWER)
    return begin + _TESTED * (question + _ANSWER)
