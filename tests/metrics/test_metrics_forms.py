"""Texts, tags and rankings: how they are held, and their scores against other people's code and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_l3d.metrics import known
from mlflow_l3d.metrics.forms import form_of
from mlflow_l3d.metrics.known import scores_of


@pytest.mark.parametrize(
    ("kind", "given", "held"),
    [
        ("generation", ["yes", ["one", "1"], ["alone"]], ["yes", '["one","1"]', "alone"]),
        ("tagging", [["O", "B-PER"], '["O"]', (1, 2), []], ['["O","B-PER"]', '["O"]', '["1","2"]', "[]"]),
        ("ranking", [["d1", "d2"], {"d1": 2, "d2": 0}, "[7]"], ['["d1","d2"]', '{"d1":2,"d2":0}', '["7"]']),
    ],
)
def test_labels_as_they_are_held(kind: str, given: list[Any], held: list[str]) -> None:
    found = form_of(kind).labels(given)
    assert found.dtype == object
    assert found.tolist() == held
    assert form_of(kind).labels(found).tolist() == held


@pytest.mark.parametrize(
    ("kind", "labels", "said"),
    [
        ("generation", ["a", " "], "label 1 is empty"),
        ("generation", ["a", 3], "label 1 must be a text, or a list of texts .* of type int"),
        ("generation", [["a", ""]], "label 0 holds no text, or an empty one"),
        ("generation", ["\ud800"], "label 0 is not valid Unicode"),
        ("generation", "abc", "labels must be a list with one entry per example, got str"),
        ("tagging", ["B-PER"], "label 0 must be a list of tags, also written as JSON, and is another text"),
        ("tagging", [[None]], "label 0 must be a text"),
        ("ranking", [["a", "a"]], "label 0 has an id twice"),
        ("ranking", [["1", 1]], "label 0 has an id twice"),
        ("ranking", [[]], "label 0 names no relevant id"),
        ("ranking", [{"a": 0}], "label 0 names no id with a gain above 0"),
        ("ranking", [{"a": -1}], "label 0 has a gain that is not a finite number"),
    ],
)
def test_what_is_no_label(kind: str, labels: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        form_of(kind).labels(labels)


def test_texts_by_hand() -> None:
    labels = ["the red house", '["Paris","the city of Paris"]', "a"]
    found = scores_of(labels, ["The red house!", "city of Paris", "an"], "generation")
    assert found["exact_match"] == 0
    assert found["squad_exact"] == pytest.approx(1)  # articles do not count, so that "a" and "an" are both nothing
    assert found["squad_f1"] == pytest.approx(1)
    found = scores_of(["red house by the sea"], ["red boat"], "generation")
    assert found["squad_f1"] == pytest.approx(2 * 1 / (4 + 2))
    assert found["rouge1"] == pytest.approx(2 * 1 / (5 + 2))
    assert found["rouge2"] == 0


def test_scores_of_all_texts_are_sacrebleus() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    labels = ["the cat sat on the mat today", '["a dog ran away fast","one dog ran off quickly"]']
    predictions = ["the cat sat on a mat today", "a dog ran off very fast"]
    found = scores_of(labels, predictions, "generation")
    streams = [[labels[0], "a dog ran away fast"], [None, "one dog ran off quickly"]]
    assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(predictions, streams).score / 100)
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(predictions, streams).score / 100)


def test_tags_by_hand() -> None:
    labels = [["B-PER", "I-PER", "O"], ["O", "B-LOC"], ["O"]]
    found = scores_of(labels, [["B-PER", "O", "O"], ["O", "B-LOC"], ["O", "O"]], "tagging")
    assert found["token_accuracy"] == pytest.approx(5 / 7)  # the tag too many is a wrong one
    assert found["entity_f1"] == pytest.approx(2 * 1 / (2 + 2))
    assert "entity_f1" not in scores_of([["NOUN", "VERB"]], [["NOUN", "NOUN"]], "tagging")
    assert scores_of([["B-PER"]], [["nonsense"]], "tagging")["entity_f1"] == 0


def test_rankings_by_hand() -> None:
    labels = [{"a": 1, "c": 1}, ["b"], ["x"]]
    found = scores_of(labels, [["a", "b", "c"], ["a", "b"], ["a"]], "ranking")
    assert found["mrr"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert found["average_precision"] == pytest.approx(((1 + 2 / 3) / 2 + 1 / 2 + 0) / 3)
    assert found["recall_at_10"] == pytest.approx((1 + 1 + 0) / 3)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=14), st.randoms())
def test_rankings_are_scikit_learns(gains: list[int], random: Any) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    if not any(gains):
        return
    ids = [f"d{number}" for number in range(len(gains))]
    random.shuffle(ids)
    truth = dict(zip(sorted(ids), gains, strict=True))
    relevance, places = [truth[each] for each in ids], -np.arange(len(ids))
    found = scores_of([truth], [ids], "ranking")
    assert found["ndcg_at_10"] == pytest.approx(metrics.ndcg_score([relevance], [places], k=10))
    expected = metrics.average_precision_score([gain > 0 for gain in relevance], places)
    assert found["average_precision"] == pytest.approx(expected)


def test_a_metric_whose_package_is_missing_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "find_spec", lambda name: None)
    known._installed.cache_clear()
    try:
        assert set(scores_of(["a"], ["a"], "generation")) == {"exact_match", "squad_exact", "squad_f1"}
        with pytest.raises(known.L3DError, match=r"^metric=rougeL: needs the package rouge-score. Run: pip install"):
            known.check_installed(known.named("rougeL"))
    finally:
        known._installed.cache_clear()


@pytest.mark.parametrize("kind", ["generation", "tagging", "ranking"])
def test_a_mean_is_that_of_its_examples(kind: str) -> None:
    labels = {"generation": ["a b", "c"], "tagging": [["O"], ["O", "X"]], "ranking": [["a"], {"b": 2, "c": 1}]}[kind]
    predictions = {"generation": ["a", "c"], "tagging": [["O"], ["X", "X"]], "ranking": [["b"], ["c", "b"]]}[kind]
    held = form_of(kind).labels(labels), form_of(kind).predictions(predictions)
    for metric in known.of_kind(kind):
        if metric.of_each is not None:
            own = [metric.function(held[0][[at]], held[1][[at]]) for at in range(2)]
            assert metric.of_each(*held).tolist() == pytest.approx(own)


@pytest.mark.parametrize("name", ["exact_match", "squad_exact", "squad_f1", "rougeL", "chrf"])
def test_an_answer_that_is_the_whole_json_list_is_right(name):
    labels = form_of("generation").labels([["yes", "yeah"], '["alpha", "beta"]'])
    assert labels.tolist() == ['["yes","yeah"]', '["alpha", "beta"]'], "a task may ask for a list"
    assert scores_of(labels, labels, "generation")[name] == pytest.approx(1)
    assert scores_of(labels, ["yeah", "beta"], "generation")[name] == pytest.approx(1)
