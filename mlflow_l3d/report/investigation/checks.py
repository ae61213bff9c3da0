"""Checks as people read them: one paragraph a code, which names its factors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mlflow_l3d.analysis.importance.results import Check


class Paragraph(NamedTuple):
    """Checks of one code, severity and title; `message` says once what all have in common."""

    code: str
    severity: str
    title: str
    factors: tuple[str, ...]
    message: str


def by_code(checks: Iterable[Check]) -> list[Paragraph]:
    """Return a paragraph for each code, severity and title, in the order in which they come."""
    groups: dict[tuple[str, str, str], list[Check]] = {}
    for check in checks:
        groups.setdefault((check.code, check.severity, check.title), []).append(check)
    found = []
    for head, group in groups.items():
        sentences = [check.message.split(". ") for check in group]
        common = [each for each in sentences[0] if all(each in other for other in sentences)]
        # A check of the whole investigation has no name to stand before what it says alone.
        own = [
            (f"{check.factor}: " if check.factor and len(group) > 1 else "")
            + ". ".join(each for each in said if each not in common).rstrip(".")
            for check, said in zip(group, sentences, strict=True)
            if not set(said) <= set(common)
        ]
        factors = tuple(dict.fromkeys(check.factor for check in group if check.factor))
        message = ". ".join([*own, *common])
        found.append(Paragraph(*head, factors, message if message.endswith(".") else f"{message}."))
    return found
