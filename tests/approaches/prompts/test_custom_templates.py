"""Templates and class words of the user's own: what they become, and one clear line for each mistake."""

import pytest

from mlflow_l3d.approaches.icl.formats import check_words, custom_format
from mlflow_l3d.errors import ParameterError


def test_a_template_with_and_without_its_answer_is_the_same() -> None:
    first = custom_format("Review: {text}\nSentiment: {answer}", "bad;good", 1)
    second = custom_format("Review: {text}\nSentiment:", ("bad", "good"), 1)
    assert first == second
    expected = "Review: dull\nSentiment: bad\n\nReview: fine\nSentiment:"
    assert first.render([(("dull",), 0)], ("fine",)) == expected


def test_line_breaks_as_a_command_line_holds_them() -> None:
    found = custom_format(r"Review: {text}\nSentiment: {answer}", "bad|good", 1)
    assert found.render([(("dull",), 0)], ("fine",)) == "Review: dull\nSentiment: bad\n\nReview: fine\nSentiment:"


def test_an_instruction_lists_the_options() -> None:
    found = custom_format("{text} =>", "bad;good", 1, instruction="Choose from {options}.")
    assert found.render([], ("x",)) == "Choose from 1) bad 2) good.\n\nx =>"
    assert found.parse("Option 2") == 1
    assert custom_format("{text} =>", "bad;good", 1, instruction="Choose.").parse("Option 2") == -1


def test_sentence_pairs_in_either_order() -> None:
    found = custom_format("{text_2} / {text_1}: {answer}", "no;yes", 2)
    assert found.block(("a", "b")) == "b / a:"


def test_braces_that_are_no_slot_are_kept() -> None:
    found = custom_format('{"review": "{text}", "label": {answer}', "bad;good", 1)
    assert found.render([], ("x",)) == '{"review": "x", "label":'


@pytest.mark.parametrize(
    ("template", "columns", "message"),
    [
        ("Review: {answer}", 1, r"the input slot \{text\} is missing"),
        ("", 1, r"the input slot \{text\} is missing"),
        ("{text_1} is", 2, r"the input slot \{text_2\} is missing"),
        ("{text} is", 2, r"\{text\} is not a slot; the slots here are \{text_1\}, \{text_2\}, \{answer\}"),
        ("{text_1} {text_2} is", 1, r"\{text_1\} is not a slot; the slots here are \{text\}, \{answer\}"),
        ("{text} {sentence} is", 1, r"\{sentence\} is not a slot"),
        ("{text} {}", 1, r"\{\} is not a slot"),
        ("Review: {{text}} is", 1, r"\{\{text\}\} has a pair of braces too many"),
        ("{answer} is the class of {text}", 1, "must stand once, at the very end"),
        ("{text} is {answer}.", 1, "must stand once, at the very end"),
        ("{text} {answer} {answer}", 1, "must stand once, at the very end"),
        ("{text}\n{answer}", 1, "must follow something on its own line"),
        (r"{text}\n {answer}", 1, "must follow something on its own line"),
    ],
)
def test_bad_templates(template: str, columns: int, message: str) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        custom_format(template, "bad;good", columns)
    assert caught.value.name == "hyperparameters.template"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("bad;bad", "'bad' and 'bad' cannot be distinguished"),
        ("a;a", "'a' and 'a' cannot be distinguished"),
        ("Bad;bad", "'Bad' and 'bad' cannot be distinguished"),
        ("not bad;not_bad", "cannot be distinguished"),
        ("bad;", "word 2 of 2 is empty"),
        (";;", "word 1 of 3 is empty"),
        ("", "word 1 of 1 is empty"),
        (("bad", "  "), "word 2 of 2 is empty"),
        (("bad", "go\nod"), "word 2 holds a line break"),
        ("bad;so so;good", r"3 word\(s\) for 2 classes \(negative, positive\)"),
        ("bad", r"1 word\(s\) for 2 classes"),
        ("bad,good", r"1 word\(s\) for 2 classes"),
    ],
)
def test_bad_class_words(words: str | tuple[str, ...], message: str) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        custom_format("{text} is", words, 1, class_names=("negative", "positive"))
    assert caught.value.name == "hyperparameters.verbaliser"
    assert "\n" not in str(caught.value)


def test_one_word_is_too_few_even_where_the_classes_are_not_known() -> None:
    with pytest.raises(ParameterError, match="must have two words or more"):
        check_words("good")


def test_words_are_stripped_and_keep_their_case() -> None:
    assert check_words(" Bad ; very GOOD ") == ("Bad", "very GOOD")


def test_other_bad_parts() -> None:
    with pytest.raises(ParameterError, match=r"hyperparameters.instruction=.*\{text\} is not a slot"):
        custom_format("{text} is", "bad;good", 1, instruction="Look at {text}.")
