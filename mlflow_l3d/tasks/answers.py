"""Labels and answers as programs write them: their kind, and the spellings of one class."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

import numpy as np

from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.classification import UNPARSED
from mlflow_l3d.tasks.identity import shorten
from mlflow_l3d.tasks.settings import IntArray

FEW: Final = 20
"""Up to this many different whole numbers are always classes."""
_MANY: Final = 50
"""Up to this many different labels are classes if each has two examples on average."""
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_WRITTEN: Final = re.compile(r"([$€£¥]?)\s?[+-]?[0-9][0-9.,]*\s?(\D{0,9})")
_NAN: Final = ("nan", "NaN")
_UNITS: Final = 3
_SHOWN: Final = 5


def plain_number(text: str) -> str | None:
    """Return the number that a text spells, without needless signs and zeros (``0.0`` is ``0``), or None."""
    text = text.strip()
    return format((Decimal(text) + 0).normalize(), "f") if _NUMBER.fullmatch(text) else None


def _is_whole(text: str) -> bool:
    number = plain_number(text)
    return number is not None and "." not in number


def text_of(value: object) -> str | None:
    """Return a label or an answer as text: None stays, a whole number written as decimal is whole, lists are JSON."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return None if value is None else str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def labels_of(values: Iterable[object]) -> list[str | None]:
    """Return labels as texts; None for a missing one, also for ``nan`` among numbers."""
    texts = [text_of(value) for value in values]
    names = {*texts} - {None, *_NAN}
    return [None if text in _NAN else text for text in texts] if all(map(plain_number, map(str, names))) else texts


def check_labels(labels: Collection[str]) -> None:
    """Raise an L3DError if all labels are lists, or numbers with a comma or a unit: their kind must be named.

    Up to 20 different whole numbers with a unit are classes: ``1 star``.
    """
    matches = [_WRITTEN.fullmatch(label.strip()) for label in labels]
    units = {match[1] + match[2] for match in matches if match}
    marks = {mark: label for label in labels for mark in re.findall(r"[0-9]([.,])[0-9]", label)}
    example = marks.get(",") or marks.get(".") or next(iter(labels), "")
    has_units = all(units) and (marks or len(labels) > FEW)
    if labels and all(matches) and len(units) <= _UNITS and ("," in marks or has_units):
        fix = "Write the numbers alone, decimals with a point, and thousands without a mark."
        fix = f"{fix} If they are classes, name the kind: task_kind=classification."
        raise L3DError(f"labels such as {example} are numbers with a comma or a unit. {fix}")
    if labels and all(map(_is_list, labels)):
        fix = "Name the kind: task_kind=tagging, ranking or generation (of a command classes=tags, rankings or texts)."
        sets = "Of sets of classes, join the sorted names of each to one text."
        raise L3DError(f"labels such as {shorten(next(iter(labels)))} are lists. {fix} {sets}")


def check_sets(labels: Collection[str], answers: Iterable[str] = ()) -> None:
    """Raise an L3DError if a label or an answer has the names of a label in another order, as ``a|b`` and ``b|a``."""
    sets = {_names_in(label): label for label in sorted(labels)}
    for text in (*labels, *answers):
        if (label := sets.get(_names_in(text), text)) != text and len(_names_in(text)) > 1:
            problem = f"{shorten(text)} and {shorten(label)} are one set of names, but two classes"
            raise L3DError(f"{problem}. Sort the names of each. If the order matters, name task_kind=classification.")


def _names_in(text: str) -> tuple[str, ...]:
    return tuple(sorted(re.split(r"\s*[|;,]\s*", text.strip())))


def _is_list(text: str) -> bool:
    try:
        return text[:1] in ("[", "{") and isinstance(json.loads(text), list | dict)
    except (ValueError, RecursionError):
        return False


def kind_of(labels: Collection[str], answers: Counter[str | None], examples: int) -> str:
    """Return the kind of labels and answers: ``regression``, ``classification`` or ``texts``, compared literally.

    If labels and most answers are numbers, two of three signs make them a regression: a label has decimals; there are
    more than 20 different labels; most answers are none of the labels. Other labels are classes if they are few: up to
    20 whole numbers, or at most 50 (one in ten examples, if that is more) that have two examples on average.

    Parameters
    ----------
    labels
        The different labels.
    answers
        How often each answer occurs.
    examples
        How many examples there are.

    Raises
    ------
    L3DError
        If the labels do not show their kind, see :func:`check_labels`.
    """
    check_labels(labels)
    numbers = [plain_number(label) for label in labels]
    counts = {answer: count for answer, count in answers.items() if answer is not None}
    half = sum(counts.values()) / 2
    if None not in numbers and sum(count for text, count in counts.items() if plain_number(text)) > half:
        same = {*map(_folded, labels)}
        outside = sum(count for text, count in counts.items() if _folded(text) not in same) > half
        if any("." in number for number in numbers if number) + (len({*numbers}) > FEW) + outside >= 2:
            return "regression"
    few = max(2, min(_MANY, examples // 2), examples // 10)
    if len(labels) > (max(few, FEW) if all(map(_is_whole, labels)) else few):
        return "texts"
    check_sets(labels, counts)
    return "classification"


def _folded(text: str) -> str:
    """Return a text without differences of spelling: letter case, blanks around it, a final dot, ``0.0`` for ``0``."""
    return plain_number(text) or " ".join(text.split()).casefold().removesuffix(".")


_SPELLINGS: Final[tuple[Callable[[str], str], ...]] = (_folded, str.strip, str)
"""Functions that map all spellings of a class to one text, the most tolerant first."""


@dataclass(frozen=True)
class Classes:
    """The classes of labels and answers in all their spellings.

    Attributes
    ----------
    names
        In the order of their numbers: classes of labels, then classes that are only predicted.
    labelled
        Number of the classes of labels.
    spelling
        Text -> a text that all spellings of one class share; the labels of each run stay different.
    """

    names: tuple[str, ...]
    labelled: int
    spelling: Callable[[str], str]

    @classmethod
    def named(cls, names: Sequence[str], labels: Collection[str] = ()) -> Classes:
        """Return the named classes; labels that are numbers, unlike the names, are their places from 0."""
        places = {str(place): name for place, name in enumerate(names)}
        tolerant = _tolerant([names])
        if labels and not any(map(plain_number, names)) and {*map(plain_number, labels)} <= {*places}:
            return cls(tuple(names), len(names), lambda text: tolerant(places.get(plain_number(text) or "", text)))
        return cls(tuple(names), len(names), tolerant)

    @classmethod
    def found(cls, labels: Sequence[Collection[str]], answers: Iterable[str | None]) -> Classes:
        """Return the classes of labels (of each run) and answers.

        An answer without a label is a class of its own if it reads like one: a whole number among numbers, else a
        text of no more words than a label has. Any other names no class.
        """
        spelling = _tolerant(labels)
        names = _names((label for each in labels for label in each), spelling)
        labelled = cls(names, len(names), spelling)
        number = labelled.number
        others = {each for each in answers if each and spelling(each) not in number and labelled.reads_like_one(each)}
        return replace(labelled, names=(*names, *_names(others, spelling)))

    @cached_property
    def number(self) -> Mapping[str, int]:
        """The text that all spellings of a class share -> its number."""
        return {self.spelling(name): number for number, name in enumerate(self.names)}

    @cached_property
    def _words(self) -> int:
        """Words of the longest label; 0 if all are numbers."""
        names = self.names[: self.labelled]
        return 0 if all(map(plain_number, names)) else max(len(name.split()) for name in names)

    def reads_like_one(self, answer: str) -> bool:
        """Return whether an answer that is none of the labels reads like a class."""
        if not self._words:
            return _is_whole(answer)
        return 0 < len(answer.split()) <= self._words and answer.strip() not in _NAN

    def numbers(self, texts: Sequence[str | None]) -> IntArray:
        """Return class numbers, shape (n,); -1 for a text that names no class."""
        number = {text: self.number.get(self.spelling(text), UNPARSED) if text else UNPARSED for text in {*texts}}
        return np.fromiter((number[text] for text in texts), dtype=np.int64, count=len(texts))

    def strangers(self, labels: Iterable[str], answers: Iterable[str | None]) -> list[str]:
        """Return labels that name no class, and answers that name none but read like one."""
        truth = {*labels}
        others = {text for text in {*truth, *answers} if text is not None and self.spelling(text) not in self.number}
        return sorted(text for text in others if text in truth or self.reads_like_one(text))

    def mismatch(self, answers: Sequence[str | None]) -> str:
        """Return the problem if no answer is a label, or most are decimals that are not labels; else the empty text."""
        numbers = self.numbers(answers)
        labels = ", ".join(map(shorten, self.names[: min(self.labelled, _SHOWN)]))
        unread = [text for text, number in zip(answers, numbers, strict=True) if number < 0 and text is not None]
        decimals = [text for text in unread if "." in (plain_number(text) or "")]
        if 2 * len(decimals) > len(answers):
            return (
                f"most predictions are decimals ({decimals[0]}, ...) and no label ({labels}): scores, or probabilities"
            )
        if ((numbers >= 0) & (numbers < self.labelled)).any():
            return ""
        return f"no prediction is one of the labels ({labels}), but {_listed(Counter(answers))}"

    def remarks(self, labels: Iterable[str], answers: Counter[str | None]) -> list[str]:
        """Return remarks on spellings of one class, and on answers that are not labels, with their counts."""
        spelt: dict[int, Counter[str | None]] = defaultdict(Counter)
        for text, count in (Counter[str | None](labels) + answers).items():
            spelt[int(self.numbers([text])[0])][text] = count
        unread = spelt.pop(UNPARSED, Counter())
        equal = {self.names[place]: each for place, each in sorted(spelt.items()) if len(each) > 1}
        new = Counter({self.names[place]: each.total() for place, each in spelt.items() if place >= self.labelled})
        never = [
            repr(self.names[place]) for place in sorted({*range(self.labelled)} - {*self.numbers([*answers]).tolist()})
        ]
        other = f" None is {', '.join(never[:_SHOWN])}: write a class alike in labels and answers." if never else ""
        alike = [f"{_listed(each - Counter({name: each[name]}))} as {name!r}" for name, each in equal.items()]
        lines = (
            f"Spellings that are read as one class: {'; '.join(alike)}." if alike else "",
            f"Answers that no label has, read as classes of their own: {_listed(new)}.{other}" if new else "",
            f"Answers that name no class ({unread.total()}), counted as wrong: {_listed(unread)}." if unread else "",
        )
        return [line for line in lines if line]


def _tolerant(labels: Sequence[Collection[str]]) -> Callable[[str], str]:
    """Return the most tolerant spelling under which the labels of each run stay different."""
    distinct = (each for each in _SPELLINGS if all(len({*map(each, run)}) == len({*run}) for run in labels))
    return next(distinct, str)


def _names(texts: Iterable[str], spelling: Callable[[str], str]) -> tuple[str, ...]:
    """Return one name for each class, numbers in their order; a whole number is written without decimals."""
    names: dict[str, str] = {}
    for text in sorted({*texts}):
        whole = plain_number(text) if "." in text and _is_whole(text) else None
        names.setdefault(spelling(text), (whole or text.strip()) if spelling is _folded else spelling(text))
    return tuple(sorted(names.values(), key=order))


def order(name: str) -> tuple[int, Decimal, str]:
    """Return the key that sorts names of classes: whole numbers first, in their order."""
    is_number = name.isascii() and name.removeprefix("-").isdecimal()
    return (0, Decimal(name), name) if is_number else (1, Decimal(0), name)


def _listed(counts: Counter[Any]) -> str:
    shown = [f"{'(empty)' if text is None else repr(shorten(text))} ({n})" for text, n in counts.most_common(_SHOWN)]
    return ", ".join(shown) + (f" and {len(counts) - _SHOWN} more" if len(counts) > _SHOWN else "")
