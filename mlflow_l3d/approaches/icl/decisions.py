"""From what a model says to predictions: which class a text names (Pecher et al. 2024, section D), or scores choose."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.cells.factors import stream

UNPARSED: Final = -1

_BEFORE: Final = r"(?<![^\W_])"
_AFTER: Final = r"(?![^\W_])"
_NUMBERS: Final = r"\d+(?:\s*(?:,|/|&|\+|-|and|or)\s*\d+)*"
_OPTION: Final = re.compile(
    # A number counts where it stands for an option: "option 2", "answer is (2)", "2)", "[2]", or in front: "2. ...".
    r"(?<!\w)(?:options?|choices?|class(?:es)?|answers?|numbers?)\s*(?:is|are|:|=|no\.)?"
    rf"\s*[(\[#]?({_NUMBERS})(?!\w|[.,]\d)"
    rf"|(?<![\w.,])({_NUMBERS})\s?[)\]]"
    rf"|^\W*({_NUMBERS})(?=\s*$|\s*[:;,\u2013\u2014-]|\.(?!\d))"
)
_JOINTS: Final = re.compile(r"[\s_-]+")
_UNSPACED: Final = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR")


_NAMES: Final = "think(?:ing)?|thoughts?|reasoning|reflection|seed:think"
_OPENED: Final = re.compile(
    rf"<(?:{_NAMES})(?:\s[^<>]*)?>|\[THINK\]|<\|begin_of_thought\|>|\u25c1think\u25b7"
    r"|<\|channel\|>analysis<\|message\|>",
    re.IGNORECASE,
)
_CLOSED: Final = re.compile(
    rf"</(?:{_NAMES})>|\[/THINK\]|<\|end_of_thought\|>|\u25c1/think\u25b7|<\|channel\|>final<\|message\|>|assistantfinal",
    re.IGNORECASE,
)
"""What ends a thought; of the last one nothing is left but words if a tokenizer drops special tokens."""
_THOUGHT: Final = re.compile(f"(?:{_OPENED.pattern}).*?(?:{_CLOSED.pattern})", re.IGNORECASE | re.DOTALL)


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


@dataclass(frozen=True, slots=True)
class Written:
    """What a model wrote.

    Attributes
    ----------
    text
        All of it, thoughts included.
    ended
        Why it ended: ``length`` at the limit of tokens, ``content_filter`` if the provider withheld it.
    thought
        Whether the server gave a thought next to it.
    """

    text: str
    ended: str = ""
    thought: bool = False

    def answer(self, *, thinks: bool) -> tuple[str, bool]:
        """Return what is behind thoughts, and whether it ended inside one.

        Of a model that `thinks` a text that was cut off without an end of a thought is one: templates open it.
        """
        rest, inside = behind_thought(self.text)
        if thinks and self.ended == "length" and rest == self.text and not self.thought:
            return "", True
        return rest, inside or (self.thought and not rest.strip())

    def reason(self, *, thinks: bool) -> str:
        """Return why nothing can be read: one of :data:`mlflow_l3d.metrics.classification.REASONS`."""
        rest, inside = self.answer(thinks=thinks)
        ended = {"content_filter": "filtered", "length": "cut"}.get(self.ended, "other")
        return "thought" if inside else "empty" if not rest.strip() and ended != "filtered" else ended


def behind_thought(text: str) -> tuple[str, bool]:
    """Return the text after the last thought, or before it if nothing follows, and whether the thought has no end."""
    rest = _CLOSED.split(text)[-1]
    if not rest.strip():
        rest = _CLOSED.split(_THOUGHT.sub("", text))[-1]
    opened = _OPENED.search(rest)
    return (rest, False) if opened is None else (rest[: opened.start()], True)


def parse_answer(text: str, verbaliser: Sequence[str], options: Sequence[int] = ()) -> int:
    """Return the class that `text` names, or -1 if it names none or two different ones.

    Only the first line that is not blank counts: in the layout of the prompts a line break ends the answer, and what a
    model writes after it is an example of its own, whose answer is not the one asked for.

    A class is named by its words in any case, as whole words ("Number" is not "No"), whatever punctuation stands
    around them and whether blanks, hyphens or underscores stand between them. Words inside a longer class name that is
    there do not count ("not acceptable" does not name "acceptable"); two that merely overlap both count. The same class
    may be named again. Negations are not understood ("not positive" names "positive"), as in the paper.

    Parameters
    ----------
    text
        What the model wrote after the prompt.
    verbaliser
        The word or words of each class, in label order.
    options
        Classes in the order in which the prompt numbers them from 1 (empty: it does not). An answer may then name a
        class by its number, too; "1) Positive" if 1 is another class names two. Numbers are ignored if a class
        word is itself a number.

    Returns
    -------
    Class number in ``[0, len(verbaliser))``, or -1.

    Notes
    -----
    Pecher et al. (2024), section D: a text with words of several classes is treated as incorrect, "with the exception
    of specific prompts where some classes are subsets of each other". The authors' public code looks for substrings and
    for digits counted from 0, so its results can differ from these if a class word is part of another word.
    """
    lines = text.strip().splitlines()
    if not lines:
        return UNPARSED
    line = fold(lines[0])
    matches = [*_words(line, tuple(verbaliser))]
    if options and not any(fold(word).strip().isdigit() for word in verbaliser):
        matches += _options(line, options)
    named = {
        label
        for start, end, label in matches
        if not any(left <= start and end <= right and right - left > end - start for left, right, _ in matches)
    }
    return named.pop() if len(named) == 1 else UNPARSED


def has_ended(text: str, stops: Sequence[str], *, thinks: bool = False) -> bool:
    """Return whether what is generated behind `text` could not change its answer: a stop is there, behind thoughts."""
    rest, inside = behind_thought(text)
    return not inside and not (thinks and rest == text) and any(stop in rest.lstrip() for stop in stops)


def answer_text(text: str, stops: Sequence[str]) -> str:
    """Return the answer in a generated text: what stands before the first whole one of `stops`, without blanks around.

    What is empty in front does not count: a model may begin with the line break that would end its answer.
    """
    text = text.strip()
    ends = [(place + len(stop), place) for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(ends)[1]].rstrip() if ends else text


def _words(line: str, verbaliser: tuple[str, ...]) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, class) of every class name in `line`, also if they overlap."""
    for label, pattern in enumerate(_patterns(verbaliser)):
        for match in pattern.finditer(line):
            yield *match.span(1), label


@lru_cache(maxsize=256)
def _patterns(verbaliser: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    patterns = []
    for word in verbaliser:
        word_parts = parts(word)
        body = r"[\s_-]+".join(re.escape(part) for part in word_parts)
        before = "" if _unspaced(word_parts[0][0]) else _BEFORE
        after = "" if _unspaced(word_parts[-1][-1]) else _AFTER
        patterns.append(re.compile(rf"{before}(?=({body}){after})"))
    return tuple(patterns)


def _unspaced(letter: str) -> bool:
    """Whether words of this letter's script are written without blanks between them (or with endings attached)."""
    return unicodedata.name(letter, "").startswith(_UNSPACED)


def _options(line: str, options: Sequence[int]) -> list[tuple[int, int, int]]:
    options_named = []
    for match in _OPTION.finditer(line):
        group = match.lastindex or 0
        start, _ = match.span(group)
        for digits in re.finditer(r"\d+", match[group]):
            # The length first: Python refuses to convert thousands of digits.
            number = int(digits[0]) if len(digits[0]) < 10 else 0
            if 1 <= number <= len(options):
                options_named.append((start + digits.start(), start + digits.end(), options[number - 1]))
    return options_named


FloatArray = npt.NDArray[np.float64]


def probabilities(scores: FloatArray) -> FloatArray:
    """Return class probabilities, shape (n, C), from log-likelihoods of the class words: a softmax over classes."""
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: FloatArray = shifted / shifted.sum(axis=1, keepdims=True)
    return shares


def calibrated(scores: FloatArray, inputs: FloatArray) -> FloatArray:
    """Return scores without the leaning of the prompt itself: contextual or batch calibration.

    Contextual (Zhao et al. 2021): the leaning is computed from inputs without content. Batch (Zhou et al. 2024, Batch
    Calibration): it is computed from the texts themselves, whose classes need not be known.

    Parameters
    ----------
    scores
        Shape (n, C): log-likelihoods.
    inputs
        Shape (k, C): those of the inputs that show the leaning, in the same prompt.

    Returns
    -------
    ndarray
        Shape (n, C): log of the class probabilities over the mean probabilities of the inputs.
    """
    leaning = probabilities(inputs).mean(axis=0)
    tiny = np.finfo(np.float64).tiny
    corrected: FloatArray = np.log(np.maximum(probabilities(scores), tiny)) - np.log(np.maximum(leaning, tiny))
    return corrected


def token_draws(seed: int, texts: int, tokens: int) -> FloatArray:
    """Return a number in [0, 1) for each token of each generated answer, (texts, tokens), from ``model_randomness``."""
    return stream(seed, "tokens").random((texts, tokens))


def chosen(scores: FloatArray, temperature: float, seed: int) -> npt.NDArray[np.int64]:
    """Return the place of the chosen class for every example, shape (n,).

    Parameters
    ----------
    scores
        Shape (n, C).
    temperature
        0 takes the highest score, the first of equals; above, classes are drawn from softmax(scores / temperature).
    seed
        That of ``model_randomness``; one number is drawn for each example.
    """
    places: npt.NDArray[np.int64] = scores.argmax(axis=1)
    if temperature:
        shares = probabilities(scores / temperature).cumsum(axis=1)
        draws = stream(seed, "answers").random(len(scores))
        places = np.minimum((draws[:, np.newaxis] >= shares).sum(axis=1), scores.shape[1] - 1)
    return places
