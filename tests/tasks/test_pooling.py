"""One pool of all splits: nothing twice, and the same for every order of the rows."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.tasks.sources.benchmark_set import content_id, pool_examples

ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", " x ", "y", "x\ny"]), st.integers(0, 2)))


def test_blanks_do_not_make_another_text_and_capitals_do() -> None:
    pool = pool_examples([["a  b ", "a b", "\ta\u00a0b\n", "ab", "Ab"]], np.array([1, 1, 1, 0, 1]))
    assert sorted(pool.texts[0]) == ["Ab", "a b", "ab"]
    assert (pool.repeats, pool.contradictions) == (2, 0)
    assert pool.labels.dtype == np.int64


def test_a_pair_is_one_text_and_its_order_counts() -> None:
    pool = pool_examples([["a", "b", "ab", "a"], ["b", "a", "", "b"]], np.array([0, 1, 1, 1]))
    assert sorted(zip(*pool.texts, strict=True)) == [("ab", ""), ("b", "a")]
    assert pool.contradictions == 1


def test_an_id_is_the_hash_of_the_texts() -> None:
    assert content_id(["é"]) == hashlib.sha256(b"\2\0\0\0\0\0\0\0\xc3\xa9").hexdigest()[:16]
    assert content_id(["one", "two"]) == content_id(("one", "two")) == "a5aceaae72938b67"
    assert len({content_id(texts) for texts in (["ab"], ["a", "b"], ["ab", ""], ["", "ab"], ["b", "a"], [""])}) == 6
    assert content_id(["\ud800"]) != content_id(["?"])


@settings(deadline=None)
@given(rows=ROWS, data=st.data())
def test_the_pool_is_that_of_a_count_by_hand_in_any_order(rows, data) -> None:
    shuffled = data.draw(st.permutations(rows))
    first, again = (
        pool_examples([[row[0] for row in some], [row[1] for row in some]], np.array([r[2] for r in some], np.int64))
        for some in (rows, shuffled)
    )
    assert first.texts == again.texts
    assert first.labels.tolist() == again.labels.tolist()
    assert first.ids.tolist() == again.ids.tolist() == sorted(set(first.ids.tolist()))
    tidy = Counter((a, " ".join(b.split()), label) for a, b, label in rows)
    labels = Counter((a, b) for a, b, _ in tidy)
    expected = {(a, b, label) for a, b, label in tidy if labels[a, b] == 1}
    assert set(zip(*first.texts, first.labels.tolist(), strict=True)) == expected
    assert first.repeats == again.repeats == sum(tidy[row] - 1 for row in expected)
    assert first.contradictions == again.contradictions == sum(count > 1 for count in labels.values())
    assert [content_id(row) for row in zip(*first.texts, strict=True)] == first.ids.tolist()
