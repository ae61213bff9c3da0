"""Scoring functions: values by hand and from libraries, symmetry, range, truth, bad input, missing libraries."""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.analysis.consistency.choice import SCORINGS, scoring
from mlflow_l3d.analysis.consistency.scoring import Similarity
from mlflow_l3d.analysis.consistency.texts import Rouge, normalised
from mlflow_l3d.errors import L3DError, ParameterError

WORDS = st.sampled_from(["the", "a", "cat", "Cat!", "sat", "mat", "on", "été", "日本", ""])
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)
TAGS = st.lists(st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]), max_size=6)
RANKINGS = st.permutations(list("abcdefgh")).flatmap(lambda ids: st.integers(0, 8).map(lambda count: list(ids)[:count]))
ARCS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["nsubj", "obj"])), max_size=5)
ANY = {
    "exact_match": (scoring("exact_match"), st.one_of(st.integers(0, 2), TEXTS)),
    "closeness": (scoring("closeness", scale=2.0), st.floats(-5, 5)),
    "bleu": (scoring("bleu"), TEXTS),
    "chrf": (scoring("chrf"), TEXTS),
    "rouge1": (scoring("rouge1"), TEXTS),
    "rouge2": (scoring("rouge2"), TEXTS),
    "rougeL": (scoring("rougeL"), TEXTS),
    "rougeLsum": (scoring("rougeLsum"), TEXTS.map(lambda text: text.replace(" sat", "\nsat"))),
    "token_match": (scoring("token_match"), TAGS),
    "entity_f1": (scoring("entity_f1"), TAGS),
    "set_f1": (scoring("set_f1"), ARCS),
    "las": (scoring("las"), ARCS),
    "uas": (scoring("uas"), ARCS),
    "squad_exact": (scoring("squad_exact"), TEXTS),
    "squad_f1": (scoring("squad_f1"), TEXTS),
    "overlap": (scoring("overlap", k=3), RANKINGS),
    "rbo": (scoring("rbo", p=0.8), RANKINGS),
    "ndcg": (scoring("ndcg", k=4), RANKINGS),
}


def test_every_name_is_tested_here():
    assert set(ANY) == set(SCORINGS)


@pytest.mark.parametrize("name", ANY)
def test_symmetric_in_range_and_one_for_equal_predictions(name):
    function, predictions = ANY[name]

    @given(predictions, predictions, predictions)
    @settings(max_examples=15, deadline=None)
    def check(one, other, truth):
        value = function(one, other)
        assert 0 <= value <= 1
        assert value == function(other, one)
        assert function(one, one) == pytest.approx(1)
        with_truth = function(one, other, truth)
        assert 0 <= with_truth <= 1
        assert with_truth == function(other, one, truth)
        assert function(truth, truth, truth) == pytest.approx(1)
        if isinstance(function, Similarity):
            alone = [function(each, each, truth) for each in (one, other)]
            assert with_truth == pytest.approx(sum(alone) / 2)
        else:
            assert with_truth <= value + 1e-12

    check()


@pytest.mark.parametrize("name", ANY)
def test_an_unparsed_answer_agrees_with_nothing(name):
    function, _ = ANY[name]
    example = {"closeness": 1.5, "exact_match": 1, "set_f1": [1], "las": [(0, "x")], "uas": [0]}
    value = example.get(name, ["O"] if name in ("token_match", "entity_f1") else "text")
    value = ["a", "b"] if name in ("overlap", "rbo", "ndcg") else value
    assert function(None, None) == function(value, None) == 0
    assert function(None, None, value) == 0
    assert function(value, None, value) == (pytest.approx(0.5) if isinstance(function, Similarity) else 0)


def test_exact_match_knows_no_equal_nan():
    # One and the same nan is found in a table of forms, although it equals nothing.
    assert scoring("exact_match")(math.nan, math.nan) == scoring("exact_match")(math.nan, math.nan, math.nan) == 0


def test_exact_match():
    match = scoring("exact_match")
    assert [match(1, 1), match(1, 2), match("a", "a"), match([1, 2], (1, 2))] == [1, 0, 1, 1]
    assert match({"a": [1]}, {"a": [1]}) == 1
    assert [match(1, 1, 1), match(1, 1, 2), match(1, 2, 1)] == [1, 0, 0]


def test_bleu_is_sacrebleus_averaged_over_directions():
    from sacrebleu.metrics import BLEU

    one, other = "the cat sat on the mat", "the cat sat on a small mat today"
    metric = BLEU(effective_order=True)
    forth, back = (metric.sentence_score(*each).score / 100 for each in ((one, [other]), (other, [one])))
    assert forth != pytest.approx(back, abs=0.01)
    assert scoring("bleu")(one, other) == pytest.approx((forth + back) / 2)
    truth = ["a cat sat on the mat", "there was a cat"]
    expected = sum(metric.sentence_score(each, truth).score for each in (one, other)) / 200
    assert scoring("bleu")(one, other, truth) == pytest.approx(expected)


def test_rouge_by_hand():
    one, other = "the cat sat on the mat", "the cat on the mat"
    assert scoring("rouge1")(one, other) == pytest.approx(2 * 5 / 11)
    assert scoring("rouge2")(one, other) == pytest.approx(2 * 3 / 9)
    assert scoring("rougeL")(one, other) == pytest.approx(2 * 5 / 11)
    assert scoring("rougeL")(one, one, [other, "nothing alike"]) == pytest.approx(2 * 5 / 11)
    assert scoring("rouge1", stemmer=True)("cats sitting", "cat sits") == 1
    assert scoring("rouge1")("cats sitting", "cat sits") == 0


def test_rouge_needs_a_tokenizer_for_other_scripts():
    class Letters:
        def tokenize(self, text):
            return list(text)

    assert scoring("rouge1")("日本", "日本人") == 0
    assert Rouge("rouge1", tokenizer=Letters())("日本", "日本人") == pytest.approx(0.8)


def test_chrf_is_sacrebleus():
    from sacrebleu.metrics import CHRF

    scores = [CHRF().sentence_score(*each).score for each in (("the cat", ["the cats"]), ("the cats", ["the cat"]))]
    assert scoring("chrf")("the cat", "the cats") == pytest.approx(sum(scores) / 200)


def test_token_match_by_hand():
    match = scoring("token_match")
    assert match(["O", "B", "O"], ["O", "B", "B"]) == pytest.approx(2 / 3)
    assert match(["O", "B", "O"], ["O", "B", "B"], ["O", "O", "B"]) == pytest.approx(1 / 3)
    assert match(["O", "B"], ["O", "B", "B", "B"]) == 0.5
    assert match(["O"], ["O"], ["O", "B"]) == 0.5
    assert match([], [], []) == 1


def test_entities_by_hand():
    score = scoring("entity_f1")
    one = ["B-PER", "I-PER", "O", "B-LOC", "B-LOC"]
    assert score.prepare(one) == {("PER", 0, 1), ("LOC", 3, 3), ("LOC", 4, 4)}
    assert score.prepare(["B-PER", "E-PER", "O", "S-LOC", "S-LOC"]) == score.prepare(one)
    assert score.prepare(["B-PER", "L-PER", "O", "U-LOC", "U-LOC"]) == score.prepare(one)
    assert score(one, ["B-PER", "I-PER", "O", "B-LOC", "I-LOC"]) == pytest.approx(2 * 1 / (3 + 2))
    assert score(["O", "O"], ["O", "O"]) == 1
    assert score(["O", "O"], ["B-PER", "O"]) == 0
    for tag in ("PER", "X-PER", "B-", 3):
        with pytest.raises(ParameterError, match="a tag must be O or like B-PER"):
            score([tag], ["O"])


def test_structures_by_hand():
    triples = [("a", "likes", "b"), ("b", "likes", "c")]
    assert scoring("set_f1")(triples, {("b", "likes", "c")}) == pytest.approx(2 / 3)
    assert scoring("set_f1")(triples, triples[::-1]) == 1
    arcs, other = [(2, "det"), (0, "root"), (2, "obj")], [(2, "det"), (0, "root"), (2, "iobj")]
    assert scoring("las")(arcs, other) == pytest.approx(2 / 3)
    assert scoring("uas")(arcs, other) == 1
    assert scoring("uas")([2, 0, 2], arcs) == 1
    with pytest.raises(ParameterError, match="an arc must be"):
        scoring("las")([2, 0], [2, 0])


def test_squad_normalisation():
    assert normalised("The  U.S.A.'s  a-team, an answer") == ("usas", "ateam", "answer")
    assert normalised("theatre") == ("theatre",)
    assert normalised(" the ") == ()


@pytest.mark.parametrize(
    ("answers", "truths", "exact", "f1"),
    [
        # The three examples of the card of the SQuAD metric in Hugging Face's evaluate.
        (["1976"], ["1976"], 1, 1),
        (["1999"], ["1976"], 0, 0),
        (["1976", "Beyonce", "climate change"], ["1976", "Beyoncé and Bruno Mars", "climate change"], 2 / 3, 2 / 3),
    ],
)
def test_published_examples_of_squad(answers, truths, exact, f1):
    for function, expected in ((scoring("squad_exact"), exact), (scoring("squad_f1"), f1)):
        scores = [function(answer, answer, truth) for answer, truth in zip(answers, truths, strict=True)]
        assert sum(scores) / len(scores) == pytest.approx(expected)


@given(TEXTS, TEXTS)
@settings(max_examples=60, deadline=None)
def test_squad_f1_is_precision_and_recall_of_words(one, other):
    a, b = (Counter(normalised(each)) for each in (one, other))
    shared = sum(min(a[word], b[word]) for word in a)
    if not a or not b:
        expected = float(a == b)
    elif not shared:
        expected = 0.0
    else:
        precision, recall = shared / sum(a.values()), shared / sum(b.values())
        expected = 2 * precision * recall / (precision + recall)
    assert scoring("squad_f1")(one, other) == pytest.approx(expected)


def test_the_closest_of_several_answers_counts():
    assert scoring("squad_f1")("big cat", "dog", ["cat", "big dog"]) == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert scoring("squad_exact")("cat", "dog", ["a cat", "cow"]) == 0.5
    with pytest.raises(ParameterError, match=r"truth=\(\)"):
        scoring("squad_f1")("cat", "cat", [])


def test_overlap_by_hand():
    overlap = scoring("overlap", k=3)
    assert overlap(list("abcd"), list("xbay")) == pytest.approx(2 / 3)
    assert overlap(["a"], ["a", "b"]) == 0.5
    assert overlap(list("abc"), list("abx"), ["a", "x"]) == pytest.approx((1 / 2 + 1) / 2)
    assert overlap(list("abc"), list("xyz"), list("abcdef")) == 0.5
    assert overlap([], [], []) == 1


def rbo_by_definition(one, other, p):
    """Sum to a depth at which the rest has no weight, of two rankings of the same length; extrapolated agreement."""
    k = len(one)
    total = 0.0
    for depth in range(1, 2000):
        agreement = len(set(one[: min(depth, k)]) & set(other[: min(depth, k)])) / min(depth, k)
        total += (1 - p) * p ** (depth - 1) * agreement
    return total


@given(st.permutations(list("abcdefgh")), st.permutations(list("efghijkl")), st.sampled_from([0.5, 0.9]))
@settings(max_examples=40, deadline=None)
def test_rank_biased_overlap_is_its_definition_for_equal_lengths(one, other, p):
    assert scoring("rbo", p=p)(list(one), list(other)) == pytest.approx(rbo_by_definition(one, other, p), abs=1e-9)


@pytest.mark.parametrize(
    "function", [scoring("rbo", p=0.8), scoring("ndcg", k=3), scoring("overlap", k=2), scoring("ndcg", k=10)]
)
def test_chance_is_the_mean_over_all_orders(function):
    orders = list(itertools.permutations(range(4)))
    assert function.chance(4) == pytest.approx(sum(function(orders[0], each) for each in orders) / len(orders))


def test_rank_biased_overlap_of_uneven_rankings():
    # Worked out from equation 32 with s=1, l=2: X_1 = 1, X_2 = 1.
    p = 0.9
    expected = (1 - p) / p * (p + p**2 / 2 + p**2 * (2 - 1) / (1 * 2)) + (0 + 1 / 1) * p**2
    assert scoring("rbo", p=p)(["a"], ["a", "b"]) == pytest.approx(expected) == pytest.approx(1)
    p = 0.5
    # s=1, l=2 with X_1 = 0, X_2 = 1.
    expected = (1 - p) / p * (p**2 / 2) + (1 / 2) * p**2
    assert scoring("rbo", p=p)(["b"], ["a", "b"]) == pytest.approx(expected)
    assert scoring("rbo", p=p)([], ["a"]) == 0


def dcg(gains):
    return sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains))


@given(RANKINGS, RANKINGS, st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_ndcg_is_its_definition(one, other, k):
    def one_way(answer, reference):
        gains = {each: k - rank for rank, each in enumerate(reference[:k])}
        best = dcg(sorted(gains.values(), reverse=True)[:k])
        return dcg([gains.get(each, 0) for each in answer[:k]]) / best if best else float(not answer)

    assert scoring("ndcg", k=k)(one, other) == pytest.approx((one_way(one, other) + one_way(other, one)) / 2)


def test_ndcg_with_true_gains():
    truth = {"a": 3, "b": 1, "c": 0}
    best = dcg([3, 1])
    assert scoring("ndcg", k=2)(["b", "a"], ["b", "a"], truth) == pytest.approx(dcg([1, 3]) / best)
    assert scoring("ndcg", k=2)(["a", "b"], ["c", "b"], truth) == pytest.approx((1 + dcg([0, 1]) / best) / 2)
    assert scoring("ndcg", k=2)(["a"], ["a"], {"a"}) == 1
    with pytest.raises(ParameterError, match="gains must be 0 or above"):
        scoring("ndcg", k=2)(["a"], ["a"], {"a": -1})


def test_closeness_by_hand():
    assert scoring("closeness", scale=5)(1, 2) == pytest.approx(0.8)
    assert scoring("closeness", scale=5)(1, 9) == 0
    assert scoring("closeness", scale=5)(1, 2, 2) == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("function", "prediction", "words"),
    [
        (scoring("bleu"), 3, "prediction=int: must be a text"),
        (scoring("squad_f1"), ["a"], "prediction=list: must be a text"),
        (scoring("token_match"), "O O", "prediction=str: must be a sequence of tags"),
        (scoring("overlap"), ["a", "a"], "a ranking must have each id once"),
        (scoring("closeness", scale=1), math.nan, "must be a finite number"),
        (scoring("closeness", scale=1), "1", "must be a number"),
        (scoring("exact_match"), bytearray(b"x"), "must be hashable"),
    ],
)
def test_predictions_of_the_wrong_kind_are_refused(function, prediction, words):
    with pytest.raises(ParameterError, match=words):
        function(prediction, prediction)


def test_names_and_options():
    assert scoring("ndcg", k=3).name == "ndcg@3"
    assert scoring("las").name == "las"
    assert scoring("rouge2", stemmer=True).name == "rouge2"


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("rouge-L", {}, r"Did you mean 'rougeL'\?"),
        ("rbo", {"k": 3}, "options=k: rbo takes p"),
        ("closeness", {}, "options=scale: closeness takes scale"),
        ("exact_match", {"p": 1}, "options=p: exact_match takes no options"),
        ("overlap", {"k": 0}, "k=0: must be a whole number"),
        ("rbo", {"p": 1}, "p=1: must be above 0 and below 1"),
        ("closeness", {"scale": 0}, "scale=0: must be a positive number"),
    ],
)
def test_names_and_options_that_are_none(name, options, words):
    with pytest.raises(ParameterError, match=words):
        scoring(name, **options)


@pytest.mark.parametrize(
    ("module", "function", "prediction", "other", "package"),
    [
        ("sacrebleu.metrics", scoring("bleu"), "a b", "a c", "sacrebleu"),
        ("sacrebleu.metrics", scoring("chrf"), "a b", "a c", "sacrebleu"),
        ("rouge_score.rouge_scorer", scoring("rougeL"), "a b", "a c", "rouge-score"),
        ("nervaluate", scoring("entity_f1"), ["B-X"], ["O"], "nervaluate"),
    ],
)
def test_a_missing_library_names_the_command_that_installs_it(
    monkeypatch, module, function, prediction, other, package
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(L3DError, match=rf"needs the package {package}\. Run: pip install 'mlflow-l3d\[agreement\]'"):
        function(prediction, other)


def test_rounding_does_not_leave_the_unit_interval() -> None:
    """Rank-biased overlap of some equal rankings comes out as 1 + 2e-16."""
    function = scoring("rbo")
    ranked = [[f"d{k}" for k in range(length)] for length in range(1, 60)]
    raw = [function.similarity(each, each) for each in ranked]
    assert max(raw) > 1
    assert all(0 <= function(each, each) <= 1 for each in ranked)
    assert all(0 <= function(each, each, each) <= 1 for each in ranked)
