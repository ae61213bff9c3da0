"""Numbers in the text that a command printed: ``name: value``, ``name=value``, JSON, and dictionaries of Python."""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from mlflow_l3d.approaches.command.scores import SPLITS, Printed, has_result, is_of_baseline, is_of_test, words_of
from mlflow_l3d.metrics.known import is_share, sounds_like_metric
from mlflow_l3d.privacy import public_text

MOST: Final = 50  # scores that are kept
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_NUMBER: Final = r"(?P<number>[+-]?(?>(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?))"
# The number may be wrapped: np.float64(0.5), '0.5', [0.5].
# Not meant are 3.2s, 1.2.3, 10:50:09, x.py:3:, 0,87, 1 234, 45%|, 5-fold, 0.8 / 0.9, 0.8 -> 0.9.
_VALUE: Final = re.compile(
    r"(?P<equals>[:=│])\s*(?:[a-z_][\w.]*\(|[\"']|\[\s*(?=[\w.+-]+\s*\]))?"
    rf"(?![+-]?\d{{1,3}}[ \xa0\u202f']\d{{3}}\b){_NUMBER}"
    r"(?:(?P<percent>\s?%)(?!\|)|/(?P<whole>\d+)(?![\w.])|(?!\s?%|[\w:]|[.,/]\d|-\w|\s+(?:/|[-=]>|→)\s))",
    re.IGNORECASE,
)
_BARE: Final = re.compile(
    r"(?P<name>[a-z][\w /@()-]{0,60}?)\s+(?:(?:is|was|of|[-=]>)\s+)?(?P<number>\d*\.\d+|\d+(?=\s?%))(?P<percent>\s?%)?"
    r"(?=\.?(?:\s|[,;|)]|$))",
    re.IGNORECASE,
)
"""A number with nothing between it and its name, which must end like that of a metric: ``test acc 0.87``."""
_LONGEST_DICTIONARY: Final = 20_000
_JSON_START: Final = re.compile(r"\{\s*[\"}]")
_FRACTION: Final = re.compile(r"\.\d|\d\s?%")
_DELIMITER: Final = re.compile(r"[,;:|=\[\]{}<>\"'│]|\s-+\s|\t|\s{3,}")
_COUNTED: Final = re.compile(
    r"\b(?:(?:for|at|after)\s+)?(?:(?:epochs?|steps?|iter(?:ation)?|batch|seed)[\s=#]+\d+(?:/\d+)?|\d+\s+epochs?)\b"
    r"|^.*\b(?:info|debug|warning)\b|^\d{3}\s|\d+/\d+"
)
_BASELINE: Final = "baseline"
_OF_HEADINGS: Final = frozenset({"results", "result", "report", "metrics", "scores", "performance", "set"})
_EVALUATED: Final = re.compile(
    r"(?:(?:^|\b(?:evaluat\w+|results?|scores?|performance) )(?:on|for) (?:the )?|\w \()"
    r"(\w+)(?: data| (?:data)?set)?\W*$"
)
"""``Evaluating on the test set ...``, ``Report (test set):``, headings, and not ``Training on the train set``."""
_BY_SPLIT: Final = re.compile(
    r"(?P<name>[a-z][\w @-]{0,60}?)\s{0,9}[:=]\s{0,9}"
    rf"(?P<values>(?:[,;/]?\s*[\d.]+\s?%?\s*\((?:{'|'.join(SPLITS)})(?: set)?\))+)",
    re.IGNORECASE,
)
"""``accuracy: 0.99 (train), 0.80 (test)``"""
_MEAN: Final = re.compile(r"\s\(\s?([\d.]+)\)")
_FOLD: Final = re.compile(r"\bfold\W*\d+", re.IGNORECASE)
# Words in names of other numbers.
_NO_SCORE: Final = re.compile(
    "epochs?|steps?|iter(ations?)?|batch(es)?|lr|learning|rate|seeds?|random|state|time|runtime|elapsed|duration|eta|m?s"
    "|secs?|seconds?|per|samples?|examples?|size|total|n|num|count|device|cuda|[gc]pu|port|localhost|version|workers"
    "|memory|[mg]b|it"
)


def printed_scores(text: str, without: Collection[str] = ()) -> dict[str, Printed]:
    """Return name -> value of the last scores in a text, in the order in which they were printed last.

    If the last line with a score is a JSON object with a result, its scores are the only ones, unless only others are
    of a test part. A number that :mod:`mlflow_l3d.privacy` hides, as behind ``password:``, is left out.

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
    lines: dict[str, str] = {}
    left_out = {normalised(name) for name in without}
    last: dict[str, Printed] = {}
    heading = Heading()
    plain = re.sub(r"\x08+", "\n", _ESCAPES.sub("", text))
    for line, record in _lines(re.sub(r"\n(?:[ \t]*\n)+", "\n\n", plain)):
        is_record = record is not None
        pairs = {
            name: value
            for typed, value in (_pairs(line) if record is None else _items(record))
            if (name := _whole_name(normalised(typed), scores)) and name not in left_out and not _is_no_score(name)
        }
        pairs = pairs or dict(_bare_pairs(line, scores))
        heading = heading.after(line, has_scores=bool(pairs))
        pairs = {heading.over(name): value for name, value in pairs.items()}
        if pairs:
            lines |= dict.fromkeys(pairs, "" if is_record else line)
            others = [each for each in scores.items() if each[0] not in pairs]
            scores = dict([*others, *pairs.items()][-MOST:])
            is_better = any(map(is_of_test, pairs)) or not any(map(is_of_test, scores))
            last = dict([*pairs.items()][-MOST:]) if is_record and has_result(pairs) and is_better else {}
    return {name: value for name, value in (last or scores).items() if is_public(name, value, lines[name])}


def is_public(name: str, value: Printed, line: str = "") -> bool:
    """Return whether neither the name of a number nor the line that it was read from shows that it is a credential."""
    text = f"{name}: {value.number:g}"
    shown = public_text(line)
    names = {normalised(typed) for typed, _ in (*_pairs(shown), *_bare_pairs(shown, {}))} if shown != line else {name}
    return public_text(text) == text and name in names


def normalised(name: str) -> str:
    """Return a name in lower case, with ``_`` for blanks, without counts of epochs and seeds; empty for a sentence.

    Examples
    --------
    >>> normalised("Epoch 3/10 Val F1 (macro)"), normalised("recall@5"), normalised("Seed 3 accuracy")
    ('val_f1_macro', 'recall_at_5', 'accuracy')
    """
    words = _COUNTED.sub(" ", name.lower()).replace("@", "_at_").replace("^2", "2").replace("²", "2")
    name = re.sub(r"_{2,}", "_", re.sub(r"[^\w./-]+", "_", words)).strip("_./-")
    return name if len(name) <= 80 and re.search(r"[^\W\d_]", name) else ""


def _is_no_score(name: str) -> bool:
    words = words_of(name)
    others = {word for word in words if not _NO_SCORE.fullmatch(word)}
    return others <= SPLITS and others != words


class Heading(NamedTuple):
    """The part of the data of the lines below ``== Test ==``, ``Test results`` or, if they are indented, ``test:``.

    Attributes
    ----------
    split
        The part; empty if there is none.
    indent
        How far the heading is indented, if it holds for lines that are indented further; else -1.
    is_used
        Whether scores followed: an empty line ends it then.
    """

    split: str = ""
    indent: int = -1
    is_used: bool = False

    def after(self, line: str, *, has_scores: bool) -> Heading:
        """Return the heading that holds for a line, or from it on."""
        text = line.strip()
        bare = text.strip("=#*-_~:[] ")
        words = words_of(bare)
        indent = len(line) - len(line.lstrip())
        if has_scores or not text:
            ended = indent <= self.indent if has_scores else self.is_used
            return Heading() if ended else self._replace(is_used=self.is_used or has_scores)
        if (evaluated := _EVALUATED.search(text.lower())) and evaluated[1] in SPLITS:
            return Heading(evaluated[1])
        is_decorated = bool(re.match(r"[=*~_-]{2}|#+ ", text))
        if words - _OF_HEADINGS and words - _OF_HEADINGS <= SPLITS and not re.search(r"\d", bare):
            split = " ".join(sorted(words - _OF_HEADINGS))
            if is_decorated or words & _OF_HEADINGS:
                return Heading(split)
            if text.endswith(":"):
                return Heading(split, indent)
        return Heading() if is_decorated and words else self

    def over(self, name: str) -> str:
        """Return the name of a score below it."""
        return f"{self.split}_{name}" if self.split and SPLITS.isdisjoint(words_of(name)) else name


def _whole_name(name: str, scores: Collection[str]) -> str:
    """Return a name; if it says only that it is a mean, that of the scores of folds before it follows."""
    folds = [each for each in scores if each.startswith("fold_")]
    if folds and words_of(name) and words_of(name) <= {"cv", "mean", "average", "avg", "overall", "score"}:
        return f"{name}_{re.sub(r'^fold_[0-9]+_', '', folds[-1])}"
    return name


def _lines(text: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield each line with the JSON object or dictionary that ends it, if one does; its lines are one then."""
    end, open_braces, ends = 0, list[int](), dict[int, int]()
    for match in re.finditer("[{}]", text):
        if match[0] == "{":
            open_braces.append(match.start())
        elif open_braces:
            ends[open_braces.pop()] = match.end()
    for match in re.finditer(r"[^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+|(?<=\n)(?=\n)", text):
        if match.start() < end:
            continue
        line, record, brace = match[0], None, match.start() + match[0].find("{")
        with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            if "{" in line:
                document, stop = _mapping_at(text, brace, ends.get(brace, 0))
                if not text[stop:].partition("\n")[0].strip():
                    before = re.findall("[a-z]+", text[match.start() : brace].lower())  # INFO test results:
                    *_, split = ["", *(word for word in before if word not in _OF_HEADINGS)]
                    record, line, end = document, text[match.start() : stop], stop
                    if split in SPLITS:
                        record = {split: document}
        yield line, record


def _mapping_at(text: str, start: int, end: int) -> tuple[dict[Any, Any], int]:
    """Return the JSON object at a place, or the dictionary that pprint wrote there over several lines, and its end."""
    if _JSON_START.match(text, start):  # elsewhere json would count all lines up to here for its message
        with suppress(ValueError):
            return json.JSONDecoder().raw_decode(text, start)
    literal = text[start:end] if end - start < _LONGEST_DICTIONARY else ""
    if "\n" not in literal:
        raise ValueError
    with warnings.catch_warnings(action="ignore"):
        return dict(ast.literal_eval(re.sub(r"[a-zA-Z_][\w.]*\(([^(),]*)\)", r"\1", literal))), end


def _items(record: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Printed]]:
    """Yield names and numbers of a mapping and of those in it, whose names follow a slash."""
    for key, values in record.items():
        value = values[0] if isinstance(values, list) and len(values) == 1 else values
        if isinstance(value, dict):
            yield from _items(value, f"{above}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            with suppress(OverflowError):
                yield f"{above}{key}", Printed(float(value))


def _pairs(line: str) -> Iterator[tuple[str, Printed]]:
    """Yield names and numbers with a sign between them."""
    end, split, metric = 0, "", ""
    line = _BY_SPLIT.sub(_named_each, line.replace("[%]", "(%)"))
    for match in _VALUE.finditer(line):
        before, end = _MEAN.sub("", line[end : match.start()]), match.end()
        name, split = _name_of(before, split)
        fold = _FOLD.findall(before)
        if match["equals"] == "=" and not before.endswith(" "):
            *others, name = re.split(r"[\s(]", name)
            parts = [word for word in others if word.lower() in {*SPLITS, "cv"}][-1:]
            name = " ".join([*[word for word in others if word == _BASELINE], *parts, name])
        if fold and "fold" not in name.lower():
            name = f"{fold[-1]} {name}"
        *_, metric = [metric, *(each for each in _DELIMITER.split(before) if sounds_like_metric(normalised(each)))]
        if metric and words_of(name) and words_of(name) <= SPLITS:  # accuracy train: 0.99, test: 0.90
            name = f"{name} {' '.join(word for word in metric.split() if word.lower() not in SPLITS)}"
        number, whole = _number(match, name), match["whole"]
        if whole is not None:  # 87/100 correct: a share, and else the place in a list
            if not is_share(normalised(name)) or not 0 <= number <= float(whole) or not float(whole):
                continue
            number /= float(whole)
        yield name, Printed(number, match["percent"] is not None or before.rstrip().endswith("(%)"))


def _named_each(match: re.Match[str]) -> str:
    """Return the numbers of parts of the data, each with its part and the name before it."""
    values = re.findall(r"([\d.]+\s?%?)\s*\(([a-z]+)", match["values"], re.IGNORECASE)
    return ", ".join(f"{split} {match['name']}: {value}" for value, split in values)


def _name_of(before: str, split: str) -> tuple[str, str]:
    """Return the name at the end of a text, and the part of the data that it is of: ``Test: loss 0.3, acc``.

    `split` is the part that was named before the text in the same line.
    """
    *others, name = ["", *filter(str.strip, _DELIMITER.split(before))]
    for other in others:
        words = words_of(other) - {"epoch", "on", "the", *_OF_HEADINGS}
        if words and words <= SPLITS:
            split = " ".join(sorted(words))
        elif is_of_baseline(other) or (words and split == _BASELINE):
            split = _BASELINE if is_of_baseline(other) else ""
    is_of_split = split == _BASELINE or SPLITS.isdisjoint(words_of(name))
    return f"{split} {name}".strip() if is_of_split else name, split


def _bare_pairs(line: str, before: Mapping[str, Printed]) -> Iterator[tuple[str, Printed]]:
    """Yield metrics behind whose name a number follows at once; if the number before had more digits, it stays."""
    end, split = 0, ""
    for match in _BARE.finditer(line) if _FRACTION.search(line) else ():
        typed, split = _name_of(f"{line[end : match.start()]}|{match['name']}", split)
        name, end = normalised(typed), match.end()
        value = Printed(_number(match, typed), match["percent"] is not None)
        digits, former = len(match["number"].partition(".")[2]), before.get(name, Printed(math.nan))
        is_rounded = round(former.number * 100.0 ** (value.has_sign - former.has_sign), digits) == value.number
        if sounds_like_metric(re.sub(r"_at_\d+$", "", name).rpartition("_")[2]) and not is_rounded:
            yield name, value


def _number(match: re.Match[str], name: str) -> float:
    """Return a number, or the mean behind it that loops over batches print: ``Acc@1 60.00 (70.10)``."""
    number = float(match["number"])
    mean = _MEAN.match(match.string, match.end()) if "@" in name else None
    # Acc@1 78.250 (21.750) ends with the error.
    return number if mean is None or math.isclose(number + float(mean[1]), 100) else float(mean[1])
