"""Which number is the score of a command, and whether it is a fraction or in per cent: the first run shows both."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Final, NamedTuple

from mlflow_l3d.metrics.known import is_share, registered, sounds_like_metric
from mlflow_l3d.paths import read_notes, write_whole

_TEST: Final = re.compile(
    r"(?<![^\W_])(?:test(?:ing)?|te|tst|held[ _-]?out|holdout|oos|out[ _-]of[ _-]sample)(?![^\W_])"
)
_HELD_OUT: Final = frozenset({"val", "valid", "validation", "eval", "evaluation", "dev"})
_TRAINING: Final = frozenset({"train", "training", "tr", "trn"})
SPLITS: Final = _HELD_OUT | _TRAINING | {"test", "te", "tst"}
"""Words that name a part of the data."""
_IN_SAMPLE: Final = re.compile(r"(?<![^\W_])in[ _-]sample(?![^\W_])")
_LOSSES: Final = frozenset({"loss", "logloss", "mlogloss", "perplexity", "brier"})
_HALVES: Final = frozenset({"precision", "recall"})  # of F1
_MEANS: Final = frozenset({"mean", "average", "avg", "cv", "best"})
_REWARDS: Final = frozenset({"reward", "return", "pearson", "spearman", "correlation"})
_BASELINES: Final = r"baseline|dummy|majority(?![ _-]vot)|chance(?![ _-]correct)|naive(?![ _-]bayes)"
# A fold, a class, a baseline, the first five answers: part of a score, or the score of something else.
_PART: Final = re.compile(
    rf"(?<![^\W_])(?:fold|class|label|{_BASELINES}|teacher|human|before|worst)(?![^\W\d_])"
    r"|(?:top|acc_at|pass_at)[_-]?(?:[2-9]|1\d)|(?:^|/)\d+/"
)
# Last words of names that a score has part in: accuracy_std, best_f1_epoch.
_NO_SCORE: Final = re.compile(
    "epochs?|steps?|iter(ations?)?|batch(es)?|seeds?|time|runtime|duration|ms|secs?|seconds?|size|count|num|workers|version"
    "|std|stddev|stderr|sem|var|variance|ci|threshold|patience|weight|coef|dim|index|id|support"
)
ONE_UNIT: Final = "Write all as fractions (0 to 1), or with a per-cent sign"
"""Ends the error of a score in another unit than the first run's: which of the two was meant, nobody knows."""
_BITS: Final = frozenset({8.0, 16.0, 32.0, 64.0})  # precision: 16


class Printed(NamedTuple):
    """A number as it was printed."""

    number: float
    has_sign: bool = False  # whether a per-cent sign follows it


def has_result(values: Mapping[str, Printed]) -> bool:
    """Return whether one of some numbers is a score, and neither a loss nor of the training data."""
    return any(_is_score(name, value) and _standing(name) == 0 for name, value in values.items())


def is_of_test(name: str) -> bool:
    """Return whether a name says that a number is of the test part of the data."""
    return bool(_TEST.search(name))


def is_of_baseline(name: str) -> bool:
    """Return whether a name says that a number is of a baseline, such as a majority class, and not of naive Bayes."""
    return bool(re.search(rf"\b(?:{_BASELINES})\b", name.lower()))


def chosen_score(values: Mapping[str, Printed]) -> str:
    """Return the score among numbers in the order in which they were printed; empty if none of them is one.

    Scores of the training data and losses come last, and parts of a score, as of a class or a fold, behind the whole.
    Of the others the last with the name of a held-out part is the score, a test part first; else one of our metrics,
    and else the last. If there is an F1, precision and recall, which it sums up, come behind others of the same part.

    Examples
    --------
    >>> chosen_score(dict.fromkeys(["val_loss", "accuracy", "auc"], Printed(0.5)))
    'accuracy'
    >>> chosen_score({"acc": Printed(0.9), "test_acc": Printed(0.8), "val_acc": Printed(0.8), "hidden_dim": Printed(8)})
    'test_acc'
    """
    scores = [name for name, value in values.items() if _is_score(name, value)]
    words = {name: words_of(name.replace("average_precision", "ap")) for name in scores}
    has_f1 = any("f" in each for each in words.values())  # words hold no digits

    def rank(name: str) -> tuple[int | bool, ...]:
        is_mean = bool(words[name] & {"overall", "final"}) or words[name] - _MEANS in [
            words[other] for other in scores if words[name] & _MEANS and other != name
        ]
        is_test = is_of_test(name)
        is_held_out = is_test or not _HELD_OUT.isdisjoint(words[name])
        is_half = has_f1 and not _HALVES.isdisjoint(words[name])
        return _standing(name), bool(_PART.search(name)), not is_held_out, not is_test, not is_mean, is_half

    best = [name for name in scores if rank(name) == min(map(rank, scores))]
    wholes = [name for name in best if not any(words[other] < words[name] for other in best)]
    ours = (words_of(metric) for metric in ("f1_macro", *registered()))
    return next(
        (name for metric in ours for name in best if words[name] - SPLITS - {"top", "score"} == metric),
        "".join(wholes[-1:]),
    )


def words_of(name: str) -> frozenset[str]:
    """Return the words of a name, in lower case."""
    return frozenset(re.findall(r"[^\W\d_]+", name.lower()))


def _is_score(name: str, value: Printed) -> bool:
    """Return whether a number has the name of a score and can be one."""
    words = words_of(name)
    is_of_a_score = any(map(_NO_SCORE.fullmatch, re.findall(r"[^\W\d_]+", name.lower())[-1:]))
    is_count = is_share(name) and 100 < abs(value.number) < math.inf
    is_count |= words == {"precision"} and value.number in _BITS and not value.has_sign
    return not (is_of_a_score or is_count) and (sounds_like_metric(name) or not _REWARDS.isdisjoint(words))


def _standing(name: str) -> int:
    """Return 0 for a score, 1 for a loss of held-out data, 2 for a score of the training data, 3 for another loss."""
    words = words_of(name)
    is_training = not _TRAINING.isdisjoint(words) or bool(_IN_SAMPLE.search(name))
    if _LOSSES.isdisjoint(words):
        return 2 * is_training
    return 1 if not is_training and (is_of_test(name) or not _HELD_OUT.isdisjoint(words)) else 3


def scale_of(name: str, value: Printed) -> str:
    """Return how a score is written: ``%`` with a sign, ``100`` without one, ``1`` as it is; empty if unclear.

    It is unclear of 0 and 1, which are the same number of something else in per cent.
    """
    size = abs(value.number)
    if value.has_sign:
        return "%"
    if not is_share(name) or 0 < size < 1:
        return "1"
    return "100" if 1.5 < size <= 100 else ""


def unscaled(name: str, value: Printed, scale: str | None) -> float:
    """Return a score, as a fraction if it is written in per cent.

    Parameters
    ----------
    name, value
        The score.
    scale
        How the first run wrote it, see :func:`scale_of`; None or empty if that is not known.

    Raises
    ------
    ValueError
        If it is not finite, or is not written as in the first run; the text continues the name of the program.
    """
    number = value.number
    if not math.isfinite(number):
        raise ValueError(f"{name} {number}, which is not a finite number")
    is_fraction = not is_share(name) or abs(number) <= 1 + 1e-6
    how = "%" if value.has_sign else "1" if is_fraction else "100" if abs(number) <= 100 else ""
    if number == 0 or how in ((scale,) if scale else ("%", "1")):
        return number if how == "1" else number / 100
    first = {"%": "with a per-cent sign", "100": "in per cent", "1": "as a fraction"}.get(scale or "")
    where = f"and in its first run {first}" if first else "which is neither a fraction nor marked as per cent"
    raise ValueError(f"{name} {number:g}{' %' if value.has_sign else ''}, {where}. {ONE_UNIT}")


@dataclass(frozen=True)
class FirstRun:
    """What is kept of the first run of a command, with all seeds 0.

    Attributes
    ----------
    classes, metrics
        The classes of its predictions, and the names of its metrics, sorted.
    numbers
        Whether it predicted numbers.
    score
        The metric that is chosen if none is asked for; empty if there is none.
    scales
        Metric -> how it is written, see :func:`scale_of`.
    alone
        Why runs wait for one another; empty if they may be side by side; None if that is not known.
    is_last
        Whether other values of the score were printed before, as in earlier epochs.
    """

    classes: Sequence[str] = ()
    metrics: Sequence[str] = ()
    numbers: bool = False
    score: str = ""
    scales: Mapping[str, str] = field(default_factory=dict)
    alone: str | None = None
    is_last: bool = False

    @property
    def has_predictions(self) -> bool:
        """Whether it predicted numbers or classes."""
        return self.numbers or bool(self.classes)

    @classmethod
    def read(cls, path: Path) -> FirstRun | None:
        """Return what a file holds; None if there is none, or it is damaged, so that it is made again."""
        with suppress(LookupError, TypeError):
            document = read_notes(path)
            return cls(**{each.name: document[each.name] for each in fields(cls)})
        return None

    def write(self, path: Path) -> None:
        """Write it to a file, which is whole whenever somebody reads it."""
        write_whole(path, json.dumps(asdict(self)))

    def shows_scale(self, score: str) -> bool:
        """Return whether it is known how a score is written, or does not matter, since predictions have another one."""
        return self.has_predictions or self.scales.get(score) != ""
