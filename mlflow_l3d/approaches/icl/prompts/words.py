"""Class words (the verbaliser): how they are given, compared and checked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from mlflow_l3d.errors import ParameterError

PARAMETER: Final = "hyperparameters.verbaliser"

_JOINTS: Final = re.compile(r"[\s_-]+")
_CAMEL: Final = re.compile(r"(?<=[a-z\d])(?=[A-Z])")


def fold(text: str) -> str:
    """Return `text` with letters that differ only in case or width made equal."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def parts(word: str) -> list[str]:
    """Return the folded parts of a class word, which blanks, hyphens and underscores join.

    A word that begins or ends with a hyphen or underscore (``-``, ``A-``) is taken as it is: there it is not a joint.
    """
    folded = fold(word).strip()
    pieces = _JOINTS.split(folded)
    return pieces if all(pieces) else folded.split()


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
            raise ParameterError(PARAMETER, shown, allowed, "Give every class a word.")
        if len(word.splitlines()) > 1:
            raise ParameterError(PARAMETER, shown, f"word {number} holds a line break, where an answer ends")
    if class_names is not None and len(words) != len(class_names):
        listed = ", ".join(class_names[:20]) + (", ..." if len(class_names) > 20 else "")
        allowed = f"{len(words)} word(s) for {len(class_names)} classes ({listed})"
        raise ParameterError(PARAMETER, shown, allowed, "Give one for each class, in this order, with ; between them.")
    if len(words) < 2:
        raise ParameterError(PARAMETER, shown, "must have two words or more", "Write ; between them.")
    seen: dict[tuple[str, ...], int] = {}
    for place, word in enumerate(words):
        first = seen.setdefault(tuple(parts(word)), place)
        if first != place:
            allowed = f"{words[first]!r} and {word!r} cannot be distinguished in an answer"
            raise ParameterError(PARAMETER, shown, allowed, "Give the classes different words.")
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
