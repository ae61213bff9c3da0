"""Every data set x format, character for character, against files in ``golden`` (their last line break is not part)."""

import re
from pathlib import Path

import pytest

from mlflow_l3d.approaches.icl.formats import format_for
from mlflow_l3d.approaches.icl.paper import LETTERS, TABLES
from mlflow_l3d.approaches.icl.prompts import PromptFormat

GOLDEN = Path(__file__).parent / "golden"

SNIPS = ("AddToPlaylist", "BookRestaurant", "GetWeather", "PlayMusic", "RateBook")
SNIPS += ("SearchCreativeWork", "SearchScreeningEvent")
DBPEDIA = ("Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder", "MeanOfTransportation", "Building")
DBPEDIA += ("NaturalPlace", "Village", "Animal", "Plant", "Album", "Film", "WrittenWork")
# Class names as the data sets give them, two labelled examples, and an input.
EXAMPLES = {
    "sst2": (
        ("negative", "positive"),
        [(("a dull and lifeless film",), 0), (("a warm , funny story",), 1)],
        ("the acting is superb",),
    ),
    "cola": (
        ("unacceptable", "acceptable"),
        [(("Him likes the cake.",), 0), (("The cat sat on the mat.",), 1)],
        ("She have gone home.",),
    ),
    "mrpc": (
        ("not_equivalent", "equivalent"),
        [
            (("The bank closed on Monday.", "The bank opened on Friday."), 0),
            (("Shares rose by 2%.", "Shares went up 2%."), 1),
        ],
        ("He left early.", "He went away before the end."),
    ),
    "ag_news": (
        ("World", "Sports", "Business", "Sci/Tech"),
        [(("Leaders meet to discuss the treaty.",), 0), (("New chip doubles battery life.",), 3)],
        ("The striker scored twice.",),
    ),
    "trec": (
        ("ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM"),
        [(("What does NATO stand for ?",), 0), (("Who wrote Hamlet ?",), 3)],
        ("How many legs has a spider ?",),
    ),
    "snips": (
        SNIPS,
        [(("Add this song to my road trip list",), 0), (("Reserve a table for two in Rome",), 1)],
        ("Will it rain tomorrow?",),
    ),
    "dbpedia": (
        DBPEDIA,
        [(("Acme Ltd. makes anvils.",), 0), (("The Old Mill is a novel of 1921.",), 13)],
        ("The red kite is a bird of prey.",),
    ),
    "rotten_tomatoes": (("negative", "positive"), [(("a dull film",), 0), (("a warm story",), 1)], ("superb",)),
    "bbc_news": (
        ("business", "entertainment", "politics", "sports", "tech"),
        [(("Profits fell again.",), 0), (("A new phone is out.",), 4)],
        ("He won the final.",),
    ),
    "generic": (("spam", "not_spam"), [(("Win now!",), 0), (("See you at noon.",), 1)], ("Free prize",)),
    "generic_pair": (
        ("entailment", "not_entailment"),
        [(("It rains.", "It is wet."), 0), (("It rains.", "It is Monday."), 1)],
        ("He ran.", "He moved."),
    ),
}


def golden(task: str, letter: str) -> str:
    return (GOLDEN / f"{task}_{letter}.txt").read_text(encoding="utf-8").removesuffix("\n")


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("task", EXAMPLES)
def test_prompt_is_the_expected_text(task: str, letter: str) -> None:
    class_names, shots, texts = EXAMPLES[task]
    prompt_format = format_for(task, letter, class_names, columns=len(texts))
    assert prompt_format.render(shots, texts) == golden(task, letter)


def test_every_file_is_looked_at() -> None:
    expected = {f"{task}_{letter}.txt" for task in EXAMPLES for letter in LETTERS}
    assert {file.name for file in GOLDEN.iterdir()} == expected
    assert set(TABLES) <= set(EXAMPLES)


@pytest.mark.parametrize("task", EXAMPLES)
def test_every_class_word_answers_to_its_own_class(task: str) -> None:
    for letter in LETTERS:
        found = format_for(task, letter, EXAMPLES[task][0], columns=len(EXAMPLES[task][2]))
        assert [found.parse(answer) for answer in found.answers] == list(range(len(found.verbaliser)))


@pytest.mark.parametrize("task", EXAMPLES)
def test_numbers_of_format_a_answer_to_the_class_that_they_stand_before(task: str) -> None:
    found = format_for(task, "A", EXAMPLES[task][0], columns=len(EXAMPLES[task][2]))
    _, *listed = re.split(r" ?\b\d+\) ", found.instruction.removesuffix("."))
    assert len(listed) == len(found.verbaliser)
    for number, word in enumerate(listed, 1):
        assert found.verbaliser[found.parse(f"{number})")] == word


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("task", TABLES)
def test_prompt_does_not_depend_on_how_a_file_orders_its_classes(task: str, letter: str) -> None:
    class_names, shots, texts = EXAMPLES[task]
    turned = tuple(reversed(class_names))
    moved = [(example, len(turned) - 1 - label) for example, label in shots]
    assert format_for(task, letter, turned).render(moved, texts) == golden(task, letter)


def test_dispatch_and_direct_call_agree() -> None:
    for task in TABLES:
        names, _, texts = EXAMPLES[task]
        direct: PromptFormat = format_for(task, "A", names)
        assert direct == format_for(task, "A", names, columns=len(texts))
