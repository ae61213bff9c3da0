"""What a generated text is taken to say: known answers, a brute-force oracle, and texts that nobody foresees."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.approaches.icl.decisions import parse_answer

SENTIMENT = ("Negative", "Positive")
YES_NO = ("No", "Yes")
COLA_D = ("not acceptable", "acceptable")
MRPC_D = ("not equivalent", "equivalent")
NEWS = ("World", "Sports", "Business", "Science and Technology")
TREC = ("Expression", "Entity", "Description", "Human", "Location", "Number")
SNIPS = ("Playlist", "Weather", "Event", "Musing", "Creative Work", "Rate Book", "Book Restaurant")


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        (" Positive", SENTIMENT, 1),
        ("POSITIVE!!!", SENTIMENT, 1),
        ("**positive**", SENTIMENT, 1),
        ("__Positive__", SENTIMENT, 1),
        ('"Negative".', SENTIMENT, 0),
        ("Positive</s>", SENTIMENT, 1),
        ("The sentiment is positive, very positive", SENTIMENT, 1),
        ("\uff30\uff4f\uff53itive", SENTIMENT, 1),
        ("positively charming", SENTIMENT, -1),
        ("nonpositive", SENTIMENT, -1),
        ("Positive or negative", SENTIMENT, -1),
        ("positive/negative", SENTIMENT, -1),
        ("neutral", SENTIMENT, -1),
        ("", SENTIMENT, -1),
        (" \n \n", SENTIMENT, -1),
        ("...", SENTIMENT, -1),
        # Only the first line that says something counts.
        ("\n\nPositive", SENTIMENT, 1),
        ("Positive\nSentence: awful\nAnswer: Negative", SENTIMENT, 1),
        ("Positive\n\nNegative", SENTIMENT, 1),
        ("Positive\r\nNegative", SENTIMENT, 1),
        ("Let me think:\nPositive", SENTIMENT, -1),
        # Whole words.
        ("Number", YES_NO, -1),
        ("Not at all", YES_NO, -1),
        ("No.", YES_NO, 0),
        ("Yes, there is no problem", YES_NO, -1),
        ("no_", YES_NO, 0),
        # Classes whose names are inside others.
        ("acceptable", COLA_D, 1),
        ("not acceptable", COLA_D, 0),
        ("Not  Acceptable.", COLA_D, 0),
        ("not-acceptable", COLA_D, 0),
        ("unacceptable", COLA_D, -1),
        ("not quite acceptable", COLA_D, 1),
        ("not acceptable, not acceptable", COLA_D, 0),
        ("acceptable, not acceptable", COLA_D, -1),
        ("not equivalent", MRPC_D, 0),
        ("not_equivalent", MRPC_D, 0),
        ("equivalent", MRPC_D, 1),
        ("nonequivalent", MRPC_D, -1),
        # Several words.
        ("Science and Technology", NEWS, 3),
        ("science-and-technology news", NEWS, 3),
        ("Science", NEWS, -1),
        ("World Business", NEWS, -1),
        ("Rate Book", SNIPS, 5),
        ("Rate Book Restaurant", SNIPS, -1),
        ("creative  work", SNIPS, 4),
        # Words that are not letters, and scripts without blanks.
        ("C++", ("C", "C++"), 1),
        ("C.", ("C", "C++"), 0),
        ("+", ("-", "+"), 1),
        ("-", ("-", "+"), 0),
        ("这是正面的", ("负面", "正面"), 1),
        ("긍정입니다", ("부정", "긍정"), 1),
        ("Straße", ("Weg", "STRASSE"), 1),
        ("1", ("0", "1"), 1),
        ("10", ("0", "1"), -1),
    ],
)
def test_known_answers(text: str, words: tuple[str, ...], expected: int) -> None:
    assert parse_answer(text, words) == expected


@pytest.mark.parametrize(
    ("text", "expected", "expected_without_numbers"),
    [
        ("1)", 0, -1),
        ("2) Positive", 1, 1),
        ("1) Positive", -1, 1),
        ("1) Negative 2) Positive", -1, -1),
        ("(2)", 1, -1),
        ("[2]", 1, -1),
        ("2", 1, -1),
        ("2.", 1, -1),
        ("2: Positive", 1, 1),
        ("2 - Positive", 1, 1),
        ("1 - Positive", -1, 1),
        ("Option 2", 1, -1),
        ("option #2 is right", 1, -1),
        ("The answer is 1.", 0, -1),
        ("Answer: (2) Positive", 1, 1),
        ("Options 1 and 2", -1, -1),
        ("1 or 2", -1, -1),
        ("Option 1/2", -1, -1),
        ("3)", -1, -1),
        ("0)", -1, -1),
        ("12)", -1, -1),
        ("2.5", -1, -1),
        ("1.5)", -1, -1),
        ("option 2.5", -1, -1),
        ("2nd", -1, -1),
        ("in 2 minutes", -1, -1),
        ("positive, in 1 word", 1, 1),
        ("9" * 5000 + ")", -1, -1),
    ],
)
def test_numbers_count_only_where_the_prompt_numbers_the_options(
    text: str, expected: int, expected_without_numbers: int
) -> None:
    assert parse_answer(text, SENTIMENT, options=(0, 1)) == expected
    assert parse_answer(text, SENTIMENT) == expected_without_numbers


def test_numbers_follow_the_order_of_the_options() -> None:
    assert parse_answer("1)", SENTIMENT, options=(1, 0)) == 1
    assert parse_answer("1) Negative", SENTIMENT, options=(1, 0)) == -1


def test_numbers_are_no_options_where_they_are_class_words() -> None:
    # Option 1 is the class "0": the text means the class "1".
    assert parse_answer("1", ("0", "1"), options=(0, 1)) == 1
    assert parse_answer("Option 1", ("Option 2", "Option 1"), options=(0, 1)) == 1


WORDS = st.sampled_from(["red", "blue", "dark", "dark red", "red wine", "light blue"])
OTHER = st.sampled_from(["the", "darker", "answer", "redness", "is"])


@given(
    st.lists(WORDS, min_size=2, max_size=4, unique=True),
    st.lists(st.one_of(WORDS, OTHER), max_size=5),
    st.sampled_from([str.upper, str.lower, str.title]),
)
def test_against_brute_force_over_words(verbaliser: list[str], said: list[str], case: object) -> None:
    text = case(" ".join(said))  # type: ignore[operator]
    spoken = text.lower().split()
    spans = {
        (start, start + len(word.split()), label)
        for label, word in enumerate(verbaliser)
        for start in range(len(spoken))
        if spoken[start : start + len(word.split())] == word.split()
    }
    kept = {
        label
        for start, end, label in spans
        if not any(left <= start and end <= right and (left, right) != (start, end) for left, right, _ in spans)
    }
    assert parse_answer(text, verbaliser) == (kept.pop() if len(kept) == 1 else -1)


@settings(max_examples=50)
@given(st.text(), st.sampled_from([SENTIMENT, YES_NO, COLA_D, NEWS, TREC, ("-", "+"), ("0", "1")]))
def test_any_text_is_a_class_or_unparsed(text: str, words: tuple[str, ...]) -> None:
    for options in ((), tuple(range(len(words)))):
        assert -1 <= parse_answer(text, words, options) < len(words)


@given(
    st.sampled_from(TREC),
    st.text(alphabet=" .,;:!?*'\"()[]<>", max_size=4),
    st.text(alphabet=" .,;:!?*'\"()[]<>", max_size=4),
    st.text(max_size=10),
)
def test_punctuation_and_later_lines_change_nothing(word: str, before: str, after: str, later: str) -> None:
    assert parse_answer(f"{before}{word.upper()}{after}\n{later}", TREC) == (TREC.index(word))
