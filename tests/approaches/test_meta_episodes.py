"""What meta-learning draws: tasks and adaptation examples."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.approaches import shots
from mlflow_l3d.approaches.shots import Episodes, Pieces, random_shots
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.errors import ParameterError


def pieces(size, length, seed=0):
    return Pieces(np.random.default_rng(seed), size, length)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 12), st.integers(0, 20), st.lists(st.integers(1, 90), min_size=1, max_size=6), st.integers(0, 9))
def test_every_example_is_seen_equally_often_and_never_twice_in_a_piece(length, more, counts, seed):
    size, source = length + more, pieces(length + more, length, seed)
    seen: Counter[int] = Counter(dict.fromkeys(range(size), 0))
    for count in counts:
        drawn = source.draw(count)
        assert drawn.shape == (count, length)
        assert all(len(set(row)) == length for row in drawn.tolist())
        seen.update(drawn.reshape(-1).tolist())
        assert set(seen) == set(range(size))
        assert max(seen.values()) - min(seen.values()) <= 1


def by_definition(size, length, count, seed):
    """Pass after pass, one at a time: what an unfinished piece holds goes behind what completes it."""
    rng, line = np.random.default_rng(seed), []
    while len(line) < count * length:
        order = rng.permuted(np.arange(size)).tolist()
        held = line[len(line) - len(line) % length :]
        completing = [number for number in order if number not in held][: length - len(held)] if held else []
        line += completing + [number for number in order if number not in completing]
    return np.array(line[: count * length]).reshape(count, length)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.integers(0, 12), st.integers(1, 120), st.integers(0, 5))
def test_pieces_are_consecutive_parts_of_random_orders(length, more, count, seed):
    expected = by_definition(length + more, length, count, seed)
    np.testing.assert_array_equal(pieces(length + more, length, seed).draw(count), expected)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 70), min_size=1, max_size=5), st.integers(1, 200))
def test_what_is_drawn_depends_neither_on_the_calls_nor_on_the_block(counts, block):
    whole = pieces(23, 10).draw(sum(counts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shots, "_BLOCK", block)
        source = pieces(23, 10)
        np.testing.assert_array_equal(np.concatenate([source.draw(count) for count in counts]), whole)


MEMBERS = [np.arange(100, 124), np.arange(200, 231), np.arange(300, 321)]


def tasks(seed=3, members=MEMBERS, numbers=(0, 4, 7), shots=5, queries=3, count=40):
    return Episodes(seed, members, numbers, shots=shots, queries=queries).draw(count)


def test_support_comes_first_class_after_class():
    drawn = tasks()
    assert drawn.shape == (40, 24)
    hundreds = [1] * 5 + [2] * 5 + [3] * 5 + [1] * 3 + [2] * 3 + [3] * 3
    assert (drawn // 100 == hundreds).all()
    assert all(len(set(row)) == 24 for row in drawn.tolist())


def test_a_task_is_one_piece_of_each_class():
    drawn = tasks()
    first = np.concatenate([drawn[:, :5], drawn[:, 15:18]], axis=1) - 100

    np.testing.assert_array_equal(first, Pieces(stream(3, "tasks", "0"), 24, 8).draw(40))


def test_a_class_is_drawn_in_the_same_way_whatever_the_others_and_its_examples():
    both, alone = tasks(), tasks(members=[MEMBERS[1] + 1000], numbers=(4,))
    np.testing.assert_array_equal(both[:, 5:10] + 1000, alone[:, :5])


def test_only_the_seed_decides_the_order():
    np.testing.assert_array_equal(tasks(), tasks())
    assert (tasks() != tasks(seed=4)).any()
    assert (tasks(seed=0) != tasks(seed=1)).any()


def test_without_queries_there_is_a_support_set_only():
    assert (tasks(queries=0) // 100 == [1] * 5 + [2] * 5 + [3] * 5).all()


def test_the_error_names_the_hyperparameter_that_the_user_typed():
    labels = np.repeat([0, 1], 6)
    with pytest.raises(ParameterError, match=r"^hyperparameters.adaptation_shots=7: class 0 has 6 labelled examples"):
        random_shots(1, np.arange(12), labels, (0, 1), 7, hyperparameter="adaptation_shots")
