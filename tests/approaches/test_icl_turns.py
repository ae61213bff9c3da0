"""Chats turn by turn: what the authors' code builds for each of its models, and the tokens of whole conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from icl_helpers import APPROACH, cell, complete, log_likelihoods, prepared, shares, small_task, tiny_model
from icl_tiny_models import byte_tokenizer

from mlflow_l3d.approaches.icl.encoding import answers_ids, conversation_of, prompt_text, prompts_ids
from mlflow_l3d.approaches.icl.formats import custom_format, format_for
from mlflow_l3d.approaches.icl.models import LoadedModel, load_model
from mlflow_l3d.errors import ParameterError

LLAMA = (
    "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}"
    "{% else %}{% set rest = messages %}{% set system = false %}{% endif %}"
    "{% for m in rest %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system != false %}"
    "{% set content = '<<SYS>>\n' + system + '\n<</SYS>>\n\n' + m['content'] %}"
    "{% else %}{% set content = m['content'] %}{% endif %}"
    "{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif m['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
    "{% elif m['role'] == 'assistant' %}{{ m['content'] + eos_token + ' ' }}"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
)
ZEPHYR = (
    "{% for m in messages %}\n{% if m['role'] == 'user' %}\n{{ '<|user|>\n' + m['content'] + eos_token }}\n"
    "{% elif m['role'] == 'system' %}\n{{ '<|system|>\n' + m['content'] + eos_token }}\n"
    "{% elif m['role'] == 'assistant' %}\n{{ '<|assistant|>\n' + m['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"
)
TEMPLATES = {"llama": LLAMA, "mistral": MISTRAL, "zephyr": ZEPHYR}
SHOTS = [(("a joy ",), 1), (("a dull mess",), 0)]
OPTIONS = "Determine sentiment of the sentence using following options: 1) Negative 2) Positive."
YES = "Ok, I will determine the sentiment of the Sentences you will give me using only the options provided!"
SYSTEM = "<<SYS>>\nYou are a helpful assistant that will follow every instruction from the user\n<</SYS>>\n\n"


def speaker(template: str) -> LoadedModel:
    return LoadedModel(None, byte_tokenizer(template), True, 4096, True, "chatty", "its configuration")


def text_of(model: str, task: str, letter: str, names: tuple[str, ...], shots: Any, texts: tuple[str, ...]) -> str:
    loaded = speaker(TEMPLATES[model])
    assert conversation_of(loaded) == model
    form = format_for(task, letter, names, columns=len(texts))
    return prompt_text(loaded, form.messages(shots, texts, conversation_of(loaded)), chat=True)


# What the authors' functions run_zephyr, run_mistral and prepare_llama2_icl build, with the words of Table 4; the blank
# behind LLaMA's last "Answer:" is left out, and format B's last turn is closed.
@pytest.mark.parametrize(
    ("model", "letter", "expected"),
    [
        (
            "llama",
            "A",
            f"<s>[INST] {SYSTEM}{OPTIONS} [/INST] {YES} </s><s>[INST] Sentence: a joy [/INST] Answer: Positive </s>"
            "<s>[INST] Sentence: a dull mess [/INST] Answer: Negative </s><s>[INST] Sentence: fine [/INST] Answer:",
        ),
        (
            "llama",
            "B",
            "<s>[INST] a joy; Sentiment? [/INST] Positive </s><s>[INST] a dull mess; Sentiment? [/INST] Negative </s>"
            "<s>[INST] fine; Sentiment? [/INST]",
        ),
        (
            "mistral",
            "A",
            f"<s>[INST] {OPTIONS} [/INST]{YES}</s> [INST] a joy [/INST]Positive</s> "
            "[INST] a dull mess [/INST]Negative</s> [INST] fine [/INST]",
        ),
        (
            "mistral",
            "B",
            "<s>[INST] a joy Sentiment?  [/INST]Positive</s> [INST] a dull mess Sentiment?  [/INST]Negative</s> "
            "[INST] fine Sentiment?  [/INST]",
        ),
        (
            "zephyr",
            "A",
            f"<|user|>\n{OPTIONS}</s>\n<|user|>\na joy</s>\n<|assistant|>\nPositive</s>\n"
            "<|user|>\na dull mess</s>\n<|assistant|>\nNegative</s>\n<|user|>\nfine</s>\n<|assistant|>\n",
        ),
        (
            "zephyr",
            "D",
            "<|user|>\na joy It was </s>\n<|assistant|>\ngreat</s>\n"
            "<|user|>\na dull mess It was </s>\n<|assistant|>\nterrible</s>\n"
            "<|user|>\nfine It was </s>\n<|assistant|>\n",
        ),
    ],
)
def test_a_conversation_is_that_of_the_authors(model: str, letter: str, expected: str) -> None:
    assert text_of(model, "sst2", letter, ("negative", "positive"), SHOTS, ("fine",)) == expected


def test_pairs_and_other_data_sets() -> None:
    pair = ((("A b.", "B a."), 1),)
    found = text_of("llama", "mrpc", "A", ("0", "1"), pair, ("C.", "D."))
    assert "I will determine the semantical equivalence of the Sentences you will give me" in found
    assert "[INST] Sentence Pair: Sentence 1: A b.; Sentence 2: B a. [/INST] Answer: Yes </s>" in found
    assert "[INST] Sentence 1: A b.; Sentence 2: B a. [/INST]Yes</s>" in text_of(
        "mistral", "mrpc", "A", ("0", "1"), pair, ("C.", "D.")
    )
    intents = ("AddToPlaylist", "GetWeather")
    # Format D of SNIPS has "User:" in plain prompts only.
    found = text_of("zephyr", "snips", "D", intents, [(("rain?",), 1)], ("play it",))
    assert found.startswith("<|user|>\nrain? User requested </s>\n<|assistant|>\nWeather</s>")


def test_a_template_of_the_users_own_is_the_users_turn() -> None:
    form = custom_format("Review: {text}\\nSentiment:", "bad;good", 1, instruction="Choose {options}")
    found = form.messages([(("so so",), 0)], ("fine",), "mistral")
    assert [turn["role"] for turn in found] == ["user", "assistant", "user", "assistant", "user"]
    assert [turn["content"] for turn in found[2:]] == ["Review: so so\nSentiment:", "bad", "Review: fine\nSentiment:"]
    assert found[0]["content"] == "Choose 1) bad 2) good"
    assert [turn["role"] for turn in form.messages([], ("fine",), "zephyr")] == ["user", "user"]


@pytest.mark.parametrize("model", TEMPLATES)
@pytest.mark.parametrize("letter", ["A", "C"])
def test_prompt_and_answer_are_the_tokens_of_the_whole_conversation(model: Any, letter: str) -> None:
    loaded = speaker(TEMPLATES[model])
    form = format_for("sst2", letter, ("negative", "positive"))
    turns = form.messages(SHOTS, ("fine",), model)
    (prompt,) = prompts_ids(loaded, [turns], True)
    label = form.lead(model)
    asked = turns[:-1] if label else turns
    answers = answers_ids(loaded, form, True, model)
    for word, answer in zip(form.verbaliser, answers, strict=True):
        whole = [*asked, {"role": "assistant", "content": f"{label} {word}".strip()}]
        ids = loaded.tokenizer.apply_chat_template(whole, return_dict=False)
        assert [*prompt, *answer] == ids[: len(prompt) + len(answer)]
    assert answers[0] != answers[1]


@pytest.mark.parametrize("model", TEMPLATES)
def test_likelihoods_are_those_of_the_whole_conversation(model: Any, tmp_path: Path) -> None:
    """The tokens that all conversations of a cell begin with are run once; nothing else changes."""
    folder, one = tiny_model(tmp_path, TEMPLATES[model]), cell()
    session = prepared(folder, tmp_path, small_task(test_size=6), chat="turns", calibration="none")
    (found,) = session.run([one])
    assert found.error is None
    prompts = session._asked(one).prompts
    assert all(prompt[:-2] == prompts[0][:-2] for prompt in prompts)
    tokenizer = load_model(folder, "cpu", cache=tmp_path).tokenizer
    for row, turns in list(zip(found.scores, prompts, strict=True))[:2]:
        logs = []
        for word in session.choices.formats[0].verbaliser:
            begun = turns[-1]["role"] == "assistant"
            whole = [
                *(turns[:-1] if begun else turns),
                {"role": "assistant", "content": f"Answer: {word}" * begun or word},
            ]
            ids = tokenizer.apply_chat_template(whole, return_dict=False)
            text = tokenizer.apply_chat_template(whole, tokenize=False)
            end = len(tokenizer(text[: text.rindex(word) + len(word)], add_special_tokens=False)["input_ids"])
            start = len(prompts_ids(session.loaded, [turns], True)[0])
            logs += log_likelihoods(session.loaded.model, ids[:start], [ids[start:end]])
        np.testing.assert_allclose(row, shares(logs), atol=1e-4)


def test_keys_have_chat_as_it_was_called_before() -> None:
    in_key = {"single": "true", "none": "false", "auto": "auto", "turns": "turns"}
    assert {chat: APPROACH.identity(complete(chat=chat))["chat"] for chat in in_key} == in_key
    with pytest.raises(ParameterError, match=r"^hyperparameters\.chat='turn': .*Did you mean 'turns'"):
        complete(chat="turn")


def test_a_template_that_takes_one_turn_only_is_refused_before_the_first_cell(tmp_path: Path) -> None:
    fussy = "{% if messages|length > 1 %}{{ raise_exception('one turn') }}{% endif %}{{ messages[0]['content'] }}"
    folder = tiny_model(tmp_path, fussy)
    for more in ({}, {"truncation": "left"}):
        refused = r"chat=turns: the chat template of .* cannot be used \(one turn\)\. Use"
        with pytest.raises(ParameterError, match=refused):
            prepared(folder, tmp_path, chat="turns", **more)
