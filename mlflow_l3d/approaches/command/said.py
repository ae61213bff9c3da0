"""Scores in the text that a command printed: ``name: value``, ``name=value``, JSON, and dictionaries of Python."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from mlflow_l3d.metrics.known import is_share, registered, sounds_like_metric

MOST: Final = 50  # scores that are kept
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_NUMBER: Final = r"(?P<number>[+-]?(?>(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?))"
# The number may be wrapped, as np.float64(0.5) or '0.5'. Not meant are 3.2s, 1.2.3, 10:50:09, x.py:3:, 0,87 and 45%|.
_VALUE: Final = re.compile(
    rf"(?P<equals>[:=│])\s*(?:[a-z_][\w.]*\(|[\"'])?{_NUMBER}"
    r"(?:(?P<percent>\s?%)(?!\|)|/(?P<whole>\d+)(?![\w.])|(?!\s?%|[\w:]|[.,/-]\d))",
    re.IGNORECASE,
)
_DELIMITER: Final = re.compile(r"[,;:|=\[\]{}<>\"'│]|\s-+\s|\t|\s{3,}")
_COUNTED: Final = re.compile(
    r"\b(?:epochs?|steps?|iter(?:ation)?|batch|info|debug|warning)\b(?:\s+\d+(?:/\d+)?)?|\d+/\d+"
)
_SPLITS: Final = frozenset({"test", "val", "valid", "validation", "eval", "evaluation", "dev"})
_TRAINING: Final = frozenset({"train", "training"})
# Words in names of other numbers.
_NO_SCORE: Final = re.compile(
    "epochs?|steps?|iter(ations?)?|batch(es)?|lr|learning|rate|seeds?|random|state|time|runtime|elapsed|duration|eta|m?s"
    "|secs?|seconds?|per|samples?|examples?|size|total|n|num|count|device|cuda|[gc]pu|port|localhost|version|workers"
    "|memory|[mg]b|it"
)


class Printed(NamedTuple):
    """A number as it was printed."""

    number: float
    has_sign: bool = False  # whether a per-cent sign follows it


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
        record = _record(line)
        pairs = {
            name: value
            for typed, value in (_items(record) if isinstance(record, dict) else _pairs(line))
            if (name := normalised(typed)) and name not in left_out and not _is_no_score(name)
        }
        if pairs:
            others = [each for each in scores.items() if each[0] not in pairs]
            scores = dict([*others, *pairs.items()][-MOST:])
            last = dict([*pairs.items()][-MOST:]) if isinstance(record, dict) else None
    return scores if last is None else last


def normalised(name: str) -> str:
    """Return a name in lower case, with ``_`` for blanks, and without counters of epochs; empty for a sentence.

    Examples
    --------
    >>> normalised("Epoch 3/10 Val F1 (macro)"), normalised("recall@5")
    ('val_f1_macro', 'recall_at_5')
    """
    words = _COUNTED.sub(" ", name.lower()).replace("@", "_at_")
    name = re.sub(r"_{2,}", "_", re.sub(r"[^\w./-]+", "_", words)).strip("_./-")
    return name if len(name) <= 80 and re.search(r"[^\W\d_]", name) else ""


def _words(name: str) -> set[str]:
    return {*re.findall(r"[^\W\d_]+", name.lower())}


def _is_no_score(name: str) -> bool:
    others = {word for word in _words(name) if not _NO_SCORE.fullmatch(word)}
    return others <= _SPLITS | _TRAINING and others != _words(name)


def _record(line: str) -> Any:
    """Return the JSON that a line is; None if it is anything else."""
    with suppress(ValueError, RecursionError):
        return json.loads(line) if line.rstrip().endswith("}") else None


def _items(record: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Printed]]:
    """Yield names and numbers of a mapping and of those in it, whose names follow a slash."""
    for key, value in record.items():
        if isinstance(value, dict):
            yield from _items(value, f"{above}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            with suppress(OverflowError):
                yield f"{above}{key}", Printed(float(value))


def _pairs(line: str) -> Iterator[tuple[str, Printed]]:
    end = 0
    for match in _VALUE.finditer(line):
        before, end = line[end : match.start()], match.end()
        name = ["", *filter(str.strip, _DELIMITER.split(before))][-1]
        if match["equals"] == "=" and not before.endswith(" "):
            name = re.split(r"[\s(]", name)[-1]
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

    def rank(name: str) -> tuple[bool, bool]:
        return not _words(name).isdisjoint({"loss", "perplexity"}), not _words(name).isdisjoint(_TRAINING)

    sounding = [name for name in names if sounds_like_metric(name)]
    best = [name for name in sounding if rank(name) == min(map(rank, sounding))]
    if not best:
        return next(iter(names)) if len(names) == 1 else ""
    ours = next((name for name in ("f1_macro", *registered()) if name in best), best[-1])
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
    if number == 0 or (own == "1" and scale in (None, "1")):
        return number
    if (own == "%" and scale in (None, "%")) or (scale == "100" and own in ("100", "") and abs(number) <= 100):
        return number / 100
    first = {"%": "with a per-cent sign", "100": "in per cent", "1": "as a fraction"}.get(scale or "")
    where = f"and in its first run {first}" if first else "which is neither a fraction nor marked as per cent"
    msg = f"{name} {number:g}{'%' * value.has_sign}, {where}. Write all as fractions (0 to 1), or with a per-cent sign"
    raise ValueError(msg)
