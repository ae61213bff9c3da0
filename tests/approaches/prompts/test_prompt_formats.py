"""Parts of a prompt, names of tasks and classes, and bad input."""

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_l3d.approaches.icl.formats import format_for
from mlflow_l3d.approaches.icl.paper import LETTERS, TABLES, paper_task
from mlflow_l3d.approaches.icl.prompts import PromptFormat
from mlflow_l3d.errors import ParameterError

SST2 = format_for("sst2", "A", ("negative", "positive"))
PAIRS = format_for("mrpc", "B", ("not_equivalent", "equivalent"))


def one_line(text: str) -> str:
    lines = text.strip().replace("\r", "\n").split("\n")
    return " ".join([line.strip() for line in lines if line.strip()])


@given(st.lists(st.tuples(st.text(max_size=30), st.integers(0, 1)), max_size=4), st.text(max_size=30))
def test_a_prompt_is_its_prefix_and_its_block(examples: list[tuple[str, int]], text: str) -> None:
    shots = [((example,), label) for example, label in examples]
    rendered = SST2.render(shots, (text,))
    assert rendered == SST2.prefix(shots) + SST2.block((text,))
    assert rendered == "\n".join(
        [
            "Determine sentiment of the sentence using following options: 1) Negative 2) Positive.",
            *(f"Sentence: {one_line(e)}\nAnswer: {('Negative', 'Positive')[label]}" for e, label in examples),
            f"Sentence: {one_line(text)}\nAnswer:",
        ]
    )


def test_texts_that_hold_slots_or_backslashes_are_left_as_they_are() -> None:
    first, second = r"{text_2} \1 \g<0>", "{text} {answer}"
    assert PAIRS.block((first, second)).startswith(f"Sentence 1: {first}; Sentence 2: {second}\n")


def test_a_line_break_in_a_text_ends_nothing() -> None:
    assert (
        SST2.block((" Headline\r\n\n  First line\nlast\tline \n",))
        == "Sentence: Headline First line last\tline\nAnswer:"
    )


def test_a_prompt_without_examples_is_instruction_and_input() -> None:
    assert SST2.render([], ("x",)).splitlines()[1:] == ["Sentence: x", "Answer:"]
    assert PAIRS.prefix([]) == ""


def test_answers_continue_the_prompt() -> None:
    assert SST2.answers == (" Negative", " Positive")
    shots = [(("x",), 1)]
    assert SST2.prefix(shots).endswith(SST2.block(("x",)) + SST2.answers[1] + SST2.separator)


def test_a_format_knows_its_columns() -> None:
    assert (SST2.columns, PAIRS.columns) == (1, 2)


def test_a_format_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        SST2.shot = "{text}"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sst2", "sst2"),
        ("SST-2", "sst2"),
        ("hf:glue/sst2", "sst2"),
        ("hf:nyu-mll/glue/mrpc", "mrpc"),
        ("hf:fancyzhx/dbpedia_14", "dbpedia"),
        ("hf:fancyzhx/ag_news", "ag_news"),
        ("trec.parquet", "trec"),
        ("hf:SetFit/TREC-QC", "trec"),
        ("AG_News.TSV", "ag_news"),
        ("data/snips.csv", "snips"),
        ("data\\cola", "cola"),
        ("rotten_tomatoes", None),
        ("trec50", None),
        ("", None),
    ],
)
def test_names_of_the_papers_data_sets(name: str, expected: str | None) -> None:
    assert paper_task(name) == expected


def test_trec_words_by_meaning() -> None:
    found = format_for("trec", "B", ("NUM", "ABBR", "HUM", "LOC", "DESC", "ENTY"))
    assert found.verbaliser == ("Number", "Expression", "Human", "Location", "Description", "Entity")


def test_a_part_of_the_classes_lists_only_these() -> None:
    found = format_for("snips", "A", ("BookRestaurant", "GetWeather"))
    assert found.verbaliser == ("Book Restaurant", "Weather")
    assert found.instruction.endswith("options: 1) Weather 2) Book Restaurant.")
    assert (found.parse("1)"), found.parse("2)")) == (1, 0)


@pytest.mark.parametrize("names", [("0", "1", "2", "3"), ("1", "2", "3", "4")])
def test_numbered_classes_are_those_of_the_public_data_set(names: tuple[str, ...]) -> None:
    assert format_for("ag_news", "B", names).verbaliser == ("World", "Sports", "Business", "Science and Technology")


def test_numbers_in_another_order_keep_their_meaning() -> None:
    assert format_for("sst2", "B", ("1", "-1")).verbaliser == ("Positive", "Negative")
    # Ten comes after nine, though its text comes first.
    names = sorted(map(str, range(14)))
    assert format_for("dbpedia", "B", names).verbaliser[names.index("10")] == "Plant"


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("snips", tuple("0123456")),
        ("ag_news", ("0", "1")),
        ("sst2", ("negative", "neutral")),
        ("sst2", ("negative", "neg")),
    ],
)
def test_classes_that_the_table_does_not_know(task: str, names: tuple[str, ...]) -> None:
    assert format_for(task, "A", names).name == "generic-A"
    words = [f"word {name}" for name in names]
    assert format_for(task, "A", names, verbaliser=words).verbaliser == tuple(words)


def test_pairs_where_the_paper_has_sentences_get_the_generic_format() -> None:
    assert format_for("sst2", "B", ("negative", "positive"), columns=2).columns == 2
    assert format_for("rotten_tomatoes", "A", ("negative", "positive"), columns=2).name == "generic-A"
    assert format_for("anything", "D", ("a", "b"), columns=3).columns == 3


def test_own_words_stand_in_every_place() -> None:
    for task, names in (("cola", ("unacceptable", "acceptable")), ("rotten_tomatoes", ("negative", "positive"))):
        found = format_for(task, "A", names, verbaliser="bad;good")
        assert found.answers == (" bad", " good")
        assert found.instruction.endswith("1) bad 2) good.")
        assert (found.parse("1)"), found.parse("Good")) == (0, 1)


def test_class_names_become_words() -> None:
    found = format_for("mine.csv", "B", ("not_equivalent", "NaturalPlace", "Sci/Tech", "two  words", "USA"))
    assert found.verbaliser == ("not equivalent", "Natural Place", "Sci/Tech", "two words", "USA")


def test_class_names_that_differ_only_in_case() -> None:
    with pytest.raises(ParameterError, match="'yes' and 'Yes' cannot be distinguished"):
        format_for("mine.csv", "A", ("yes", "Yes"))


def test_only_format_a_numbers_its_options() -> None:
    assert tuple(TABLES) == ("sst2", "cola", "mrpc", "ag_news", "trec", "snips", "dbpedia")
    for letter in LETTERS:
        found = format_for("sst2", letter, ("negative", "positive"))
        assert (found.parse("2)") == 1) == (letter == "A")
        assert bool(found.options) == bool(found.instruction) == (letter == "A")


def test_default_separator_is_a_blank_line() -> None:
    assert (
        PromptFormat("x", ("a", "b"), "Do it.", "{text} is").render([(("1",), 0)], ("2",)) == "Do it.\n\n1 is a\n\n2 is"
    )
