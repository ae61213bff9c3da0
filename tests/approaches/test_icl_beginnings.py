"""Tokens of texts that begin alike are those of the whole texts."""

from __future__ import annotations

from typing import Any

import pytest
from icl_tiny_models import byte_tokenizer
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors, trainers
from tokenizers import models as tokenizer_models
from transformers import PreTrainedTokenizerFast

from mlflow_l3d.approaches.icl.encoding import WORTH, tokenised

SHOTS = "".join(f"Sentence: a small river, number {number}, naïve 🙂 it's\nAnswer: good\n" for number in range(20))
ENDS = [
    "Sentence: a river\nAnswer:",
    "Sentence: riverriver\n\nAnswer:",
    "Sentence:",
    "Sentences 🙂🙂 it\nAnswer: ",
    "x",
]


class Counted:
    """A tokenizer that counts the characters it is given."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer, self.characters, self.is_fast = tokenizer, 0, True

    def __call__(self, texts: Any, **settings: Any) -> Any:
        self.characters += sum(map(len, [texts] if isinstance(texts, str) else texts))
        return self.tokenizer(texts, **settings)


def trained(kind: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer with merges: by words of bytes, by words, or over the whole text as in LLaMA."""
    backend = Tokenizer(tokenizer_models.BPE(unk_token="<u>"))
    if kind == "bytes":
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    elif kind == "words":
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
    else:
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<u>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    backend.train_from_iterator([SHOTS, *ENDS], trainer)
    ends = [("<s>", 1), ("</s>", 2)]
    backend.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<u>")


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("kind", ["bytes", "words", "whole", "single bytes"])
def test_tokens_are_those_of_whole_texts(kind: str, special: bool) -> None:
    tokenizer = byte_tokenizer() if kind == "single bytes" else trained(kind)
    texts = [SHOTS + end for end in [*ENDS, *ENDS]]
    assert len(SHOTS) > WORTH
    counted = Counted(tokenizer)
    assert (
        tokenised(counted, texts, add_special_tokens=special)
        == tokenizer(texts, add_special_tokens=special)["input_ids"]
    )
    if kind in ("bytes", "words", "single bytes"):
        assert counted.characters < sum(map(len, texts)) / 2


def test_texts_that_the_end_changes_are_cut_as_a_whole() -> None:
    """Tokens of one text all differ, as where a mark at its end is moved to the front: no text's end says so."""

    class Moved(Counted):
        def __call__(self, texts: Any, **settings: Any) -> Any:
            found = super().__call__(texts, **settings)
            rows, given = found["input_ids"], texts
            if isinstance(texts, str):
                rows, given = [rows], [texts]
            for row, text in zip(rows, given, strict=True):
                if text.endswith("x") and len(text) > WORTH:
                    row[0] = 9
            return found

    tokenizer = Moved(byte_tokenizer())
    texts = [SHOTS + "a", SHOTS + "b", SHOTS + "longest of all x"]
    assert tokenised(tokenizer, texts) == tokenizer(texts)["input_ids"]


def test_short_beginnings_are_cut_as_they_were() -> None:
    tokenizer = byte_tokenizer()
    texts = ["ab", "abc", "a"]
    assert tokenised(tokenizer, texts) == tokenizer(texts)["input_ids"]
