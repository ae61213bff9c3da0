"""What the declaration of a parameter says in addition to its type: ``name: Annotated[type, Of(...)]``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Of:
    """What a declaration says in addition to the type.

    Attributes
    ----------
    default, help
        The default as it is typed on the command line, and one line of help.
    low, high
        Bounds of a number: those of a whole number are allowed values, those of another are not.
    closed
        Whether `low` is allowed for a number that is not whole.
    registered
        Whether the value is the name of an entry point.
    approach
        The one approach that takes the parameter, which the shown help begins with; empty if every approach does.
    text
        ``words`` for several words, which may hold commas and paths; ``address`` for a folder or a URL.
    """

    default: str
    help: str
    low: float = 0
    high: float = math.inf
    closed: bool = False
    registered: bool = False
    approach: str = ""
    text: Literal["", "words", "address"] = ""
