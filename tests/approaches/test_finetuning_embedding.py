"""Word vectors of a cell's own vocabulary: the same numbers to the last bit, and fewer of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from finetuning_helpers import cell, content, handmade_task, run
from finetuning_models import session_of, tiny_bert, tiny_llama

from mlflow_l3d.approaches.finetuning.full import weights as embedding
from mlflow_l3d.approaches.finetuning.full.weights import OwnVocabulary, own_vocabulary

TASK = handmade_task(100, num_labelled=40, test_size=16)


class Small(torch.nn.Module):
    """Word vectors, and a layer on their mean."""

    def __init__(self, padding: int | None = None, **other) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(50, 6, padding_idx=padding, **other)
        self.last = torch.nn.Linear(6, 2)

    def get_input_embeddings(self):
        return self.words

    def forward(self, ids):
        return self.last(self.words(ids).mean(1))


def trained(model, batches, words=None):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.01, fused=True)
    for ids in batches:
        model.last.zero_grad()
        if words is None:
            model.zero_grad()
        else:
            words.clear()
        torch.nn.functional.cross_entropy(model(ids), torch.arange(len(ids)) % 2).backward()
        optimizer.step()


@pytest.mark.parametrize("padding", [None, 0, 3])
def test_steps_are_those_of_the_whole_table(padding) -> None:
    batches = torch.randint(0, 12, (6, 8, 5), generator=torch.Generator().manual_seed(1))
    whole, own = Small(padding), Small(padding)
    trained(whole, batches)
    with own_vocabulary(own, np.arange(12)) as words:
        assert isinstance(own.words, OwnVocabulary)
        assert words.weight.shape == (12, 6)
        trained(own, batches, words)
        assert torch.equal(own(batches[0]), whole(batches[0]))
    assert type(own.words) is torch.nn.Embedding
    assert torch.equal(own.words.weight[:12], whole.words.weight[:12])
    assert torch.equal(own.last.weight, whole.last.weight)
    # Nothing happens to words that do not occur.
    assert torch.equal(own.words.weight[12:], Small(padding).words.weight[12:])


def test_what_is_more_than_a_table_is_left_as_it_is() -> None:
    shared = Small()
    shared.out = torch.nn.Linear(6, 50)
    shared.out.weight = shared.words.weight
    twice = Small()
    twice.again = torch.nn.Module()
    twice.again.words = twice.words
    frozen = Small()
    frozen.words.weight.requires_grad_(False)
    for model in (shared, twice, frozen, Small(max_norm=1.0), Small(scale_grad_by_freq=True)):
        before = model.words
        with own_vocabulary(model, np.arange(5)) as words:
            assert words is None
            assert model.words is before


def test_the_whole_table_is_back_after_an_error() -> None:
    model = Small()
    before = model.words
    with pytest.raises(ZeroDivisionError), own_vocabulary(model, np.arange(5)):
        raise ZeroDivisionError
    assert model.words is before


@pytest.mark.slow
@pytest.mark.parametrize("make", [tiny_bert, tiny_llama])
def test_a_cell_is_the_same_with_the_whole_vocabulary(make, tmp_path, monkeypatch) -> None:
    folder = make(tmp_path / "model")
    given = {"epochs": 2, "learning_rate": 1e-3, "dropout": 0.1}
    session = session_of(TASK, folder, tmp_path, **given)
    sizes = []
    make_own = embedding.OwnVocabulary.__init__

    def spy(self, whole, tokens):
        sizes.append((len(tokens), whole.num_embeddings))
        make_own(self, whole, tokens)

    monkeypatch.setattr(embedding.OwnVocabulary, "__init__", spy)
    (own,) = run(session, cell(0))
    assert sizes
    assert sizes[0][0] < sizes[0][1]
    monkeypatch.setattr(embedding, "plain", lambda whole: False)
    (whole,) = run(session, cell(0))
    assert len(sizes) == 1
    assert content(own) == content(whole)
