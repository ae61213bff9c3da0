"""Scores in the text that a command printed: ``name: value``, ``name=value``, JSON, and dictionaries of Python."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from mlflow_l3d.metrics.known import is_share, registered, sounds_like_metric

MOST: Final = 50
"""How many scores are kept."""
_LONGEST_NAME: Final = 80
_LONGEST_RECORD: Final = 1 << 16
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_NUMBER: Final = r"(?P<number>[+-]?(?>(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?))"
# The number may be wrapped, as np.float64(0.5); 3.2s, 1.2.3, 10:50:09, x.py:3:, 0,87 and the bar behind 45%| are none.
_VALUE: Final = re.compile(
    rf"(?P<equals>[:=│])\s*(?:[a-z_][\w.]*\()?{_NUMBER}"
    r"(?:(?P<percent>\s?%)(?!\|)|/(?P<whole>\d+)(?![\w.])|(?!\s?%|[\w:]|[.,/-]\d))",
    re.IGNORECASE,
)
_TEXT: Final = re.compile(rf"\s*{_NUMBER}(?P<percent>\s?%)?\s*", re.IGNORECASE)
_DELIMITER: Final = re.compile(r"[,;:|=\[\]{}<>\"'│]|\s-+\s|\t|\s{3,}")
_COUNTED: Final = re.compile(
    r"\b(?:epochs?|steps?|iter(?:ation)?|batch|info|debug|warning)\b(?:\s+\d+(?:/\d+)?)?|\d+/\d+"
)
_SPLITS: Final = frozenset({"test", "val", "valid", "validation", "eval", "evaluation", "dev"})
_TRAINING: Final = frozenset({"train", "training"})
_NO_SCORE: Final = re.compile(
    "epochs?|steps?|iter(ations?)?|batch(es)?|lr|learning|rate|seeds?|random|state|time|runtime|elapsed|duration|eta|m?s"
    "|secs?|seconds?|per|samples?|examples?|size|total|n|num|count|device|cuda|[gc]pu|port|localhost|version|workers"
    "|memory|[mg]b|it"
)
"""Words in names of what is no score."""


class Printed(NamedTuple):
    """A number as it was printed."""

    number: float
    has_sign: bool = False
    """Whether a per-cent sign follows it."""

    @property
    def text(self) -> str:
        """The number with its sign."""
        return f"{self.number:g}{'%' * self.has_sign}"


def printed_scores(text: str, without: Collection[str] = ()) -> dict[str, Printed]:
    """Return name -> value of the last scores in a text, in the order in which they were printed last.

    If the last line with a score is a JSON object, its scores are the only ones.

    Parameters
    ----------
    text
        The output of a program; progress bars and colours may be in it.
    without
        Names that are left out, in addition to those of seeds, epochs, times and the like.

    Examples
    --------
    >>> printed_scores("epoch 3: loss=0.34 val_acc=0.91")
    {'loss': Printed(number=0.34, has_sign=False), 'val_acc': Printed(number=0.91, has_sign=False)}
    >>> printed_scores("Test accuracy: 87.1%")
    {'test_accuracy': Printed(number=87.1, has_sign=True)}
    """
    scores: dict[str, Printed] = {}
    left_out = {normalised(name) for name in without}
    last: dict[str, Printed] | None = None
    for line in re.sub(r"\x08+", "\n", _ESCAPES.sub("", text)).splitlines():
        record, is_json = _record(line)
        pairs = {
            name: value
            for typed, value in (_pairs(line) if record is None else _items(record))
            if (name := normalised(typed)) and name not in left_out and not _is_no_score(name)
        }
        for name, value in pairs.items():
            scores.pop(name, None)
            scores[name] = value
        if pairs:
            last = pairs if is_json else None
    return dict(list((scores if last is None else last).items())[-MOST:])


def normalised(name: str) -> str:
    """Return a name in lower case, with ``_`` for blanks, and without counters of epochs; empty for a sentence.

    Examples
    --------
    >>> normalised("Epoch 3/10 Val F1 (macro)"), normalised("recall@5")
    ('val_f1_macro', 'recall_at_5')
    """
    words = _COUNTED.sub(" ", name.lower()).replace("@", "_at_")
    name = re.sub(r"_{2,}", "_", re.sub(r"[^\w./-]+", "_", words)).strip("_./-")
    return name if len(name) <= _LONGEST_NAME and re.search(r"[^\W\d_]", name) else ""


def _words(name: str) -> set[str]:
    return {*re.findall(r"[^\W\d_]+", name)}


def _is_no_score(name: str) -> bool:
    others = {word for word in _words(name) if not _NO_SCORE.fullmatch(word)}
    return others <= _SPLITS | _TRAINING and others != _words(name)


def _record(line: str) -> tuple[dict[Any, Any] | None, bool]:
    """Return the mapping at the end of a line, if there is one, and whether the line is JSON."""
    line = line.strip()
    if not line.endswith("}") or len(line) > _LONGEST_RECORD:
        return None, False
    with suppress(ValueError, RecursionError):
        record = json.loads(line)
        return (record, True) if isinstance(record, dict) else (None, False)
    with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        record = ast.literal_eval(line[max(line.find("{"), 0) :])
        return (record, False) if isinstance(record, dict) else (None, False)
    return None, False


def _items(record: Mapping[Any, Any], above: str = "") -> Iterator[tuple[str, Printed]]:
    """Yield names and numbers of a mapping and of those in it, whose names follow a slash."""
    for key, value in record.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            yield from _items(value, f"{name}/")
        elif isinstance(value, str) and (match := _TEXT.fullmatch(value)):
            yield name, Printed(float(match["number"]), match["percent"] is not None)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            with suppress(OverflowError):
                yield name, Printed(float(value))


def _pairs(line: str) -> Iterator[tuple[str, Printed]]:
    end = 0
    for match in _VALUE.finditer(line):
        before, end = line[end : match.start()], match.end()
        parts = [part.strip() for part in _DELIMITER.split(before) if part.strip()]
        name = parts[-1] if parts else ""
        if name.count("(") > name.count(")"):
            name = name.rpartition("(")[2]
        if match["equals"] == "=" and before and not before[-1].isspace():
            name = name.split()[-1] if name else ""
        number, whole = float(match["number"]), match["whole"]
        if whole is not None:  # 87/100 correct: a share, and else the place in a list
            if not is_share(normalised(name)) or not 0 <= number <= float(whole) or not float(whole):
                continue
            number /= float(whole)
        yield name, Printed(number, match["percent"] is not None)


def chosen_score(names: Collection[str]) -> str:
    """Return the score among names in the order in which they were printed; empty if there is none.

    It is one of our metrics, or the same with the name of a held-out part if that is printed later; else the last one
    that sounds like a metric, and else the only name. Losses and scores of the training data come last.

    Examples
    --------
    >>> chosen_score(["val_loss", "accuracy", "auc"]), chosen_score(["accuracy", "val_accuracy"]), chosen_score(["x"])
    ('accuracy', 'val_accuracy', 'x')
    """
    sounding = [name for name in names if sounds_like_metric(name)]
    no_losses = [name for name in sounding if _words(name).isdisjoint({"loss", "perplexity"})]
    held_out = [name for name in no_losses if _words(name).isdisjoint(_TRAINING)]
    best = held_out or no_losses or [name for name in sounding if _words(name).isdisjoint(_TRAINING)] or sounding
    if not best:
        return next(iter(names)) if len(names) == 1 else ""
    ours = next((name for name in ("f1_macro", *registered()) if name in best), "")
    if not ours:
        return best[-1]
    later = best[best.index(ours) + 1 :]
    return next((name for name in reversed(later) if _words(name) - _SPLITS == _words(ours) != _words(name)), ours)


def scale_of(name: str, value: Printed) -> str:
    """Return how a score is written: ``%`` with a sign, ``100`` without one, ``1`` as it is; empty if unclear."""
    size = abs(value.number)
    if value.has_sign:
        return "%"
    if not is_share(name) or size <= 1 + 1e-6:
        return "1"
    return "100" if 1.5 < size <= 100 else ""


def unscaled(name: str, value: Printed, scale: str | None) -> float:
    """Return a score, as a fraction if it is written in per cent.

    Parameters
    ----------
    name, value
        The score.
    scale
        How the first run wrote it, see :func:`scale_of`; None if there was none.

    Raises
    ------
    ValueError
        If it is not finite, or is not written as in the first run; the text continues the name of the program.
    """
    number, own = value.number, scale_of(name, value)
    if not math.isfinite(number):
        msg = f"{name} {number}, which is not a finite number"
        raise ValueError(msg)
    if number == 0 or own == scale == "1" or (scale is None and own == "1"):
        return number
    if (
        (own == scale and own)
        or (scale is None and own == "%")
        or (scale == "100" and own == "" and abs(number) <= 100)
    ):
        return number / 100
    first = {"%": "with a per-cent sign", "100": "in per cent", "1": "as a fraction"}.get(scale or "")
    where = f"and in its first run {first}" if first else "which is neither a fraction nor marked as per cent"
    msg = f"{name} {value.text}, {where}. Write all of them as fractions (0 to 1), or with a per-cent sign"
    raise ValueError(msg)
