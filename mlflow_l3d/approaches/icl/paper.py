"""Prompt formats and class words as published, and for which tasks: Pecher et al. (2024), Table 4."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

LETTERS: Final[tuple[str, ...]] = ("A", "B", "C", "D")
"""The formats of the table."""
SENTENCE: Final = "{text}"
PAIR: Final = "Sentence 1: {text_1}; Sentence 2: {text_2}"


@dataclass(frozen=True, slots=True)
class Wording:
    """The four formats of one data set.

    Attributes
    ----------
    instruction
        Format A, up to the options.
    label
        Format A: what stands before the input.
    asked
        What stands between input and answer in formats B, C and D.
    user
        Whether ``User:`` stands before the input in format D.
    sentence
        How the text columns of one example are put together.
    topic
        What is determined, in the assistant's words.
    """

    instruction: str
    label: str
    asked: tuple[str, str, str]
    user: bool = False
    sentence: str = SENTENCE
    topic: str = "class"


@dataclass(frozen=True, slots=True)
class Table:
    """One data set of the paper: its wording and its class words.

    Attributes
    ----------
    wording
        The four formats.
    classes
        Word of each class, in the order in which format A numbers them -> names that data sets give this class (in
        lower case, letters and digits only), the word itself left out.
    other
        Format -> words that stand there in place of the usual ones, in the same order.
    numbered
        Whether class numbers of the public data set follow the order of `classes`.
    """

    wording: Wording
    classes: Mapping[str, tuple[str, ...]]
    other: Mapping[str, tuple[str, ...]]
    numbered: bool = True


SENTIMENT: Final = Wording(
    "Determine sentiment of the sentence", "Sentence", ("Sentiment?", "Sentiment is", "It was"), topic="sentiment"
)
TOPIC: Final = Wording(
    "Determine topic of the sentence", "Sentence", ("Topic?", "Topic is", "This is about"), user=True, topic="topic"
)

_DBPEDIA: Final = (
    "Company;Educational Institution;Artist;Athlete;Office Holder;Transportation;Building;Natural Place;Village;"
    "Animal;Plant;Album;Film;Written Work"
)
TABLES: Final[Mapping[str, Table]] = {
    "sst2": Table(SENTIMENT, {"Negative": ("neg",), "Positive": ("pos",)}, {"D": ("terrible", "great")}),
    "cola": Table(
        Wording(
            "Determine grammatical acceptability of the sentence",
            "Sentence",
            ("Grammatically acceptable?", "Grammar problems?", "It is"),
            topic="grammatical acceptability",
        ),
        {"No": ("unacceptable", "notacceptable"), "Yes": ("acceptable",)},
        {"C": ("Yes", "No"), "D": ("not acceptable", "acceptable")},
    ),
    "mrpc": Table(
        Wording(
            "Determine whether the sentence pair is semantically equivalent",
            "Sentence Pair",
            ("Semantically equivalent sentences?", "Semantically different sentences?", "Sentences are"),
            sentence=PAIR,
            topic="semantical equivalence",
        ),
        {"No": ("notequivalent", "notparaphrase"), "Yes": ("equivalent", "paraphrase")},
        {"C": ("Yes", "No"), "D": ("not equivalent", "equivalent")},
    ),
    "ag_news": Table(
        TOPIC,
        {"World": (), "Sports": ("sport",), "Business": (), "Science and Technology": ("scitech", "sciencetechnology")},
        {},
    ),
    "trec": Table(
        TOPIC,
        {
            "Expression": ("abbr", "abbreviation"),
            "Entity": ("enty",),
            "Description": ("desc",),
            "Human": ("hum",),
            "Location": ("loc",),
            "Number": ("num", "numeric"),
        },
        {},
    ),
    "snips": Table(
        Wording(
            "Determine intent of the sentence",
            "Sentence",
            ("Intent?", "Intent is", "User requested"),
            user=True,
            topic="intent",
        ),
        {
            "Playlist": ("addtoplaylist",),
            "Weather": ("getweather",),
            "Event": ("searchscreeningevent",),
            # Spelt like this in the paper and in the authors' code.
            "Musing": ("playmusic", "music"),
            "Creative Work": ("searchcreativework",),
            "Rate Book": (),
            "Book Restaurant": (),
        },
        {},
        numbered=False,
    ),
    "dbpedia": Table(TOPIC, dict.fromkeys(_DBPEDIA.split(";"), ()) | {"Transportation": ("meanoftransportation",)}, {}),
}
"""Name of a task -> its table."""

ALIASES: Final[Mapping[str, str]] = {"agnews": "ag_news", "dbpedia14": "dbpedia", "trecqc": "trec", "sst": "sst2"}
"""Other names of these data sets (lower case, letters and digits only)."""


def paper_task(name: str) -> str | None:
    """Return which data set of the paper the name of a task means (``hf:glue/sst2``, ``trec.parquet``), or None."""
    bare = PurePosixPath(name.replace("\\", "/").removeprefix("hf:").rstrip("/")).name
    key = _key(re.sub(r"\.(parquet|csv|tsv|jsonl)$", "", bare, flags=re.IGNORECASE))
    return {_key(task): task for task in TABLES}.get(key) or ALIASES.get(key)


def places_of(table: Table, class_names: Sequence[str]) -> list[int] | None:
    """Return the place of each class in the table; None if one is not in it, or two are the same."""
    position_of: dict[str, int] = {}
    for position, (word, names) in enumerate(table.classes.items()):
        position_of.update(dict.fromkeys((_key(word), *names), position))
    keys = [_key(name) for name in class_names]
    if table.numbered and len(keys) == len(table.classes) and all(re.fullmatch(r"-?\d+", name) for name in class_names):
        return [sorted(map(int, class_names)).index(int(name)) for name in class_names]
    if not all(key in position_of for key in keys) or len({position_of[key] for key in keys}) < len(keys):
        return None
    return [position_of[key] for key in keys]


def _key(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())
