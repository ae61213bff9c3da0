from dataclasses import replace

import pytest
from icl_tiny_models import ALPHABET, byte_tokenizer, llama, refusal, save
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers import models as tokenizer_models
from transformers import PreTrainedTokenizerFast

from mlflow_l3d.approaches.icl.encoding import answer_ids, check_length, decode, prompts_ids, stop_ids
from mlflow_l3d.approaches.icl.models import LoadedModel, load_model


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = save(tmp_path_factory.mktemp("plain"), llama(), byte_tokenizer())
    return load_model(str(folder), "cpu", quantise="none", cache=folder)


def test_plain_prompts_have_the_tokenizers_own_tokens(causal, seq2seq):
    letters = [2 + ALPHABET.index(letter) for letter in "ab"]
    assert prompts_ids(causal, ["ab"], False)[0] == [0, *letters]
    assert prompts_ids(seq2seq, ["ab"], False)[0] == [*letters, 1]
    assert prompts_ids(causal, ["ab", "b"], False) == [[0, *letters], [0, letters[1]]]
    assert prompts_ids(causal, [], False) == []
    assert decode(causal, [*prompts_ids(causal, ["naïve  café — 🙂 it 's"], False)[0], 1]) == "naïve  café — 🙂 it 's"


def test_chat_prompts_are_what_the_template_says(causal):
    turns = [{"role": "user", "content": "Is it so?\nYes or no:"}]
    expected = causal.tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
    assert prompts_ids(causal, [turns[0]["content"]], True)[0] == expected
    assert expected.count(0) == 0
    assert expected.count(1) == 1


def test_answers_continue_the_prompt(causal, plain, seq2seq):
    tokenizer = causal.tokenizer
    spell = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]  # noqa: E731
    assert answer_ids(plain, " good", False) == spell(" good")
    assert answer_ids(plain, "good", False) == spell("good")
    assert answer_ids(seq2seq, " good", False) == spell("good")
    # This template has a line break between the model's turn and its answer.
    assert answer_ids(causal, " good", True) == spell("\ngood")


def test_answers_behind_a_template_without_a_lead(plain):
    template = "{% for m in messages %}[{{ m['content'] }}]{% endfor %}"
    tokenizer = byte_tokenizer(template)
    loaded = LoadedModel(None, tokenizer, True, 9, True, "fussy", "its configuration")
    assert answer_ids(loaded, " s", True) == tokenizer("[s", add_special_tokens=False)["input_ids"]
    refusing = byte_tokenizer("{% if messages|length > 1 %}{{ raise_exception('one turn') }}{% endif %}hello:")
    loaded = LoadedModel(None, refusing, True, 9, True, "fussy", "its configuration")
    assert answer_ids(loaded, " good", True) == refusing("good", add_special_tokens=False)["input_ids"]


def test_a_word_is_cut_as_in_the_middle_of_a_text():
    vocabulary = {"<s>": 0, "</s>": 1, "▁": 2, ":": 3, "▁:": 4, "▁good": 5, "good": 6, "<unk>": 7}
    backend = Tokenizer(tokenizer_models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", pad_token="</s>")
    assert tokenizer("  good")["input_ids"] != [5]
    loaded = LoadedModel(None, tokenizer, True, 9, False, "fussy", "its configuration")
    assert answer_ids(loaded, " good", False) == [5]


def test_bad_texts(causal):
    for chat in (False, True):
        assert "has no tokens" in refusal(answer_ids, causal, " ", chat)
    broken = byte_tokenizer("{{ raise_exception('only about the weather') }}")
    loaded = LoadedModel(None, broken, True, 9, True, "fussy", "its configuration")
    text = refusal(prompts_ids, loaded, ["x"], True)
    assert "the chat template of fussy cannot be used (only about the weather)" in text


def test_stop_tokens(causal, monkeypatch):
    assert stop_ids(causal) == {1}
    monkeypatch.setattr(causal.model.generation_config, "eos_token_id", [7, 8])
    assert stop_ids(causal) == {1, 7, 8}


def test_the_longest_prompt_that_fits_runs(causal):
    check_length([[5] * 64], [], causal)
    check_length([[5] * 62, [5]], [[1] * 3, [1]], causal)
    check_length([[5] * 55], [], causal, new_tokens=10)
    check_length([], [], causal)


@pytest.mark.parametrize(
    ("length", "answers", "new_tokens", "words"),
    [
        (65, [], 0, "has 65 tokens, 1 more than the 64 of the context of"),
        (65, [[3]], 0, "has 65 tokens, 1 more"),
        (63, [[3], [3] * 4], 0, "has 63 tokens and 3 of the answer, 2 more"),
        (60, [], 10, "has 60 tokens and 9 of the answer, 5 more"),
    ],
)
def test_too_long_says_by_how_much(causal, length, answers, new_tokens, words):
    text = refusal(check_length, [[5], [5] * length], answers, causal, new_tokens=new_tokens)
    assert words in text
    assert "(max_position_embeddings of its configuration). Use fewer shots" in text


def test_an_encoder_decoder_reads_the_prompt_alone(seq2seq):
    absolute = replace(seq2seq, bounded=True)
    check_length([[5] * 40], [[3] * 9], absolute, new_tokens=40)
    assert "has 41 tokens, 1 more than the 40" in refusal(check_length, [[5] * 41], [], absolute)


def test_what_has_no_places_for_tokens_reads_any_length(seq2seq):
    check_length([[5] * 4000], [[3] * 90], seq2seq, new_tokens=400)
