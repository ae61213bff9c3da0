"""Answers that are texts: prompts, what is read, factors, and mistakes in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import icl_helpers
import numpy as np
import pytest
from endpoint_server import Server
from icl_helpers import APPROACH, tiny_model, written_by
from icl_tiny_models import CHAT
from refusals import refusal

from mlflow_l3d.approaches.icl.decisions import Written, answer_text, behind_thought, has_ended
from mlflow_l3d.approaches.icl.encoding import decode, prompts_ids
from mlflow_l3d.approaches.icl.formats import PromptChoices
from mlflow_l3d.approaches.icl.recipe import CHOSEN, Recipe
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.checks import check_kind
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.resolve import bind_task
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.testing import check_approach, one_cell

GENERATE = {"decision": "generate", "chat": "none", "max_new_tokens": 6}


def questions(columns: int = 1) -> Task:
    texts = [[f"which letter\n follows {chr(97 + at)} {column}?" for at in range(24)] for column in range(columns)]
    answers = [[f"letter\n{chr(98 + at)}", "another"] for at in range(24)]
    return bind_task(
        make_task("letters", texts, answers, kind="generation"), SplitSettings(num_labelled=12, test_size=4)
    )


def complete(**given: Any) -> dict[str, Any]:
    return icl_helpers.complete(**{**GENERATE, **given})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_model(tmp_path_factory.mktemp("tiny"), CHAT)


def prepared(model: str, cache: Path, task: Task | None = None, **given: Any) -> Any:
    return APPROACH.prepare(task or questions(), complete(**given), model=model, device="cpu", cache=cache)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>\na\n</think>\n\nb", ("\n\nb", False)),
        ("a</THINK> b", (" b", False)),
        ("<think>a</think>b<think>c</think>d", ("d", False)),
        ("<think>a</think>b<think>c</think>\n", ("b\n", False)),
        ("<reflection>a</reflection>b", ("b", False)),
        ('b<think type="long">a', ("b", True)),
        ("[THINK]a[/THINK]b", ("b", False)),
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b", ("b", False)),
        ("analysisThe answer.assistantfinalb", ("b", False)),
        ("<reasoning>a", ("", True)),
        ("b <thinking>a", ("b ", True)),
        ("I think: a < b", ("I think: a < b", False)),
    ],
)
def test_what_stands_behind_a_thought(text: str, answer: tuple[str, bool]) -> None:
    assert behind_thought(text) == answer


def test_a_thought_has_no_end_at_a_line_break_and_a_cut_one_no_answer() -> None:
    texts = ["<think>\na\n", "<think>\na</think>\n", "<think>\na</think>\nb\n"]
    assert [has_ended(text, ("\n",)) for text in texts] == [False, False, True]
    assert [has_ended(text, ("\n",), thinks=True) for text in ("a\n", "a</think>b\n")] == [False, True]
    assert [Written("yes", ended).answer(thinks=True) for ended in ("length", "stop")] == [("", True), ("yes", False)]
    assert Written("yes", "length").answer(thinks=False) == ("yes", False)


ONE = one_cell(APPROACH.factors)


@pytest.mark.parametrize(
    ("given", "columns", "prompt"),
    [
        ({}, 1, "Answer the text.\nText: q {}\nAnswer: one two\nText: x\nAnswer:"),
        ({"prompt_format": "B"}, 1, "q {}\nAnswer? one two\nx\nAnswer?"),
        (
            {"prompt_format": "D"},
            2,
            "Text 1: q {}; Text 2: r\nThe answer is one two\nText 1: x; Text 2: y\nThe answer is",
        ),
        (
            {"prompt_format": "custom", "template": "{text} => {answer}", "instruction": "Go.", "stop": r"\n\n||#"},
            1,
            "Go.\n\nq\n{} => one\ntwo\n\nx =>",
        ),
    ],
)  # fmt: skip
def test_prompts(given: dict[str, Any], columns: int, prompt: str) -> None:
    choices = PromptChoices(questions(columns), Recipe.of(complete(**given)), (0,))
    form = choices.of(dict.fromkeys(CHOSEN, 0))
    assert form.render([(("q\n{}", "r")[:columns], "one\ntwo")], ("x", "y")[:columns]) == prompt


def test_turns() -> None:
    form = PromptChoices(questions(), Recipe.of(complete(chat="turns")), (0,)).of(dict.fromkeys(CHOSEN, 0))
    said = [turn["content"] for turn in form.messages([(("q",), "one\ntwo")], ("x",), "mistral")]
    assert said == ["Answer the text.", "Ok, I will answer every text that you will give me.", "q", "one two", "x"]


def test_what_ends_an_answer() -> None:
    assert answer_text("\n\n one two \nthree", ("\n",)) == "one two"
    assert answer_text(" one # two\n\nthree", ("\n\n", "#")) == "one"
    assert answer_text(" one\ntwo ", ()) == "one\ntwo"
    assert answer_text(" \n", ("\n",)) == ""
    assert answer_text("abcd", ("bcd", "c")) == answer_text("abc", ("bcd", "c")) == "ab", "as if nothing came behind"
    assert [has_ended(text, ("\n", "##")) for text in ("\n one", "one\n", "on#", "#x##")] == [False, True, False, True]
    recipes = {stop: Recipe.of(complete(stop=stop)) for stop in ("auto", "none", r"\n", r"\n\n||Q:")}
    assert [(each.stops(chat=False), each.stops(chat=True)) for each in recipes.values()] == [
        (("\n",), ()),
        ((), ()),
        (("\n",), ("\n",)),
        (("\n\n", "Q:"), ("\n\n", "Q:")),
    ]
    assert [each.line_ends for each in recipes.values()] == [True, False, True, False]


def test_answers_are_what_the_model_writes(model: str, tmp_path: Path) -> None:
    session = prepared(model, tmp_path, stop="t")  # which no line break is
    asked = session._asked(ONE)
    test, prompts = asked.test, asked.prompts
    shots = [line for line in prompts[0].splitlines() if line.startswith("Answer: ")]
    assert len(shots) == 2
    assert all(line.startswith("Answer: letter") for line in shots), "the first reference"
    written = written_by(session, prompts_ids(session.loaded, prompts, False), 6)
    expected = [decode(session.loaded, tokens).strip().split("t")[0].rstrip() for tokens in written]
    (found,) = session.run([ONE])
    session.close()
    assert found.error is None, found.traceback
    assert found.scores is None
    assert found.predictions.tolist() == expected
    assert len({*expected}) > 1
    np.testing.assert_array_equal(found.labels, questions().labels[test])
    assert found.metrics["unparsed_share"] == np.mean([not answer for answer in expected])


@pytest.mark.slow
@pytest.mark.parametrize("given", [{"temperature": 1.0, "prompt_format": "A|B"}, {"selection": "random", "shots": 1}])
def test_keeps_the_contract_of_an_approach(model: str, tmp_path: Path, given: dict[str, Any]) -> None:
    settings = {**GENERATE, **given}
    check_approach(APPROACH, questions(), hyperparameters=settings, model=model, cache=tmp_path, configurations=3)


def test_an_endpoint_writes_answers(server: Server, tmp_path: Path) -> None:
    server.gives = "nothing"
    session = prepared("openai:tiny", tmp_path, chat="single", base_url=server.url)
    (found,) = session.run([ONE])
    session.close()
    assert found.error is None, found.traceback
    assert {*found.predictions.tolist()} <= {"negative", "positive"}
    assert found.metrics["generated"] == 1


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"classes": "0+1"}, "hyperparameters.classes=0+1: has no effect: the answers of letters are texts."),
        ({"verbaliser": "a;b"}, "hyperparameters.verbaliser=a;b: has no effect: the answers of letters are texts."),
        ({"choice_order": "random"}, "hyperparameters.choice_order=random: has no effect"),
        ({"shots": 11}, "hyperparameters.shots=11: class 'all' has 10 labelled examples to take them from"),
        (
            {"prompt_format": "custom", "template": "{text} x", "instruction": "One of {options}."},
            "hyperparameters.instruction=One of {options}.: {options} is not a slot; the slots here are (none)",
        ),
    ],
)
def test_what_does_not_go_with_texts(model: str, tmp_path: Path, given: dict[str, Any], line: str) -> None:
    assert refusal(prepared, model, tmp_path, **given).startswith(line)


def test_texts_must_be_generated() -> None:
    approach = APPROACH
    with pytest.raises(ParameterError, match=r"task=letters: is a generation task, .*Use hyperparameter decision=gen"):
        check_kind(questions(), approach, icl_helpers.complete())
    check_kind(questions(), approach, complete())


def test_a_template_without_class_words_is_for_texts(model: str, tmp_path: Path) -> None:
    given = {"prompt_format": "custom", "template": "{text} =>"}
    prepared(model, tmp_path, **given).close()
    classes = make_task("two", [[f"t {at}" for at in range(20)]], [0, 1] * 10, ("a", "b"))
    with pytest.raises(
        ParameterError,
        match=r"hyperparameters\.verbaliser=auto: must be given for .*=custom\. For example: .* verbaliser=neg",
    ):
        prepared(model, tmp_path, classes, **given)
    with pytest.raises(ParameterError, match=r"hyperparameters\.stop=#: has no effect: two has classes"):
        prepared(model, tmp_path, classes, stop="#")


def test_keys_of_classes_stay() -> None:
    found = APPROACH.identity(complete())
    assert not {"stop", "judge", "judge_words", "judge_base_url"} & set(found)
    assert APPROACH.identity(complete(stop="#"))["stop"] == "#"
