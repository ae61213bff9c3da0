"""Chunks of cells, whatever is trained in them."""

import ast
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from finetuning_helpers import cell

import mlflow_l3d.approaches
from mlflow_l3d.approaches.chunks import StackedSession
from mlflow_l3d.approaches.failures import LostDeviceError
from mlflow_l3d.approaches.stack import Rows
from mlflow_l3d.cells.cell import Outcome

CELLS = [cell(i) for i in range(7)]


class Chunks(StackedSession):
    def __init__(self, most, draw, together):
        self.cells_at_once, self.draw, self.together = most, draw, together

    draw = together = None


def in_chunks(cells, most, draw, together):
    return Chunks(most, draw, together).run(cells)


def one_each(drawn):
    return [(Outcome(key=own.key), 1.0) for own in drawn]


def test_cells_are_taken_a_chunk_at_a_time_and_come_in_their_order():
    taken = []
    outcomes = in_chunks((taken.append(own) or own for own in CELLS), 3, lambda own: own, one_each)
    assert taken == []
    keys = [next(outcomes).key]
    assert len(taken) == 3
    keys += [outcome.key for outcome in outcomes]
    assert keys == [own.key for own in CELLS]


def test_no_cells():
    assert list(in_chunks([], 3, lambda own: own, one_each)) == []


def test_the_wall_clock_of_a_chunk_is_shared_by_the_work():
    def together(drawn):
        time.sleep(0.02)
        return [(Outcome(key=own.key), own.index + 1.0) for own in drawn]

    started = time.perf_counter()
    seconds = [outcome.duration_seconds for outcome in in_chunks(CELLS, 7, lambda own: own, together)]
    whole = time.perf_counter() - started
    assert 0.02 <= sum(seconds) <= whole
    np.testing.assert_allclose(np.array(seconds) / sum(seconds), np.arange(1, 8) / 28)


def test_a_chunk_computes_with_one_thread_and_puts_the_number_back():
    before, inside = torch.get_num_threads(), []

    def together(drawn):
        inside.append(torch.get_num_threads())
        return one_each(drawn)

    for _ in in_chunks(CELLS, 4, lambda own: own, together):
        assert torch.get_num_threads() == before
    assert inside == [1, 1]


@pytest.mark.parametrize("guilty", [(), (0,), (3, 6), tuple(range(7))])
def test_every_cell_has_one_outcome_whoever_is_to_blame(guilty):
    def together(drawn):
        if any(own.index in guilty for own in drawn):
            raise KeyError("no")
        return one_each(drawn)

    def draw(own):
        if own.index == 5:
            raise ZeroDivisionError
        return own

    outcomes = {outcome.key: outcome.error for outcome in in_chunks(CELLS, 5, draw, together)}
    expected = {own.key: "KeyError: 'no'" if own.index in guilty else None for own in CELLS}
    assert outcomes == expected | {CELLS[5].key: "ZeroDivisionError"}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_are_the_features_with_a_constant_behind_them(kind):
    features = np.random.default_rng(0).normal(size=(9, 4)).astype(kind)
    rows = Rows(features, [np.array([2, 7]), np.array([7, 5])], "cpu")
    found = rows.at(rows.places(np.array([[7, 2], [5, 5]])))
    assert found.dtype == rows.dtype == (torch.float64 if kind == np.float64 else torch.float32)
    assert np.array_equal(found[..., :-1].numpy(), features[[[7, 2], [5, 5]]])
    assert bool((found[..., -1] == 1).all())
    assert rows.at(rows.places(np.empty(0, dtype=np.int64))).shape == (0, 5)


def test_approaches_share_what_is_stacked_and_not_each_other():
    root = Path(mlflow_l3d.approaches.__file__).parent
    both = ("finetuning", "meta_learning")
    for pattern, others in (("stack.py", both), ("chunks.py", both), ("meta_learning/*.py", both[:1])):
        files = sorted(root.glob(pattern))
        assert files
        for file in files:
            modules = {
                node.module or "" for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)
            }
            assert not [
                name for name in modules if name.startswith(tuple(f"mlflow_l3d.approaches.{o}" for o in others))
            ], file


def test_after_a_lost_device_no_half_is_tried():
    calls = []

    def together(drawn):
        calls.append(len(drawn))
        raise RuntimeError("CUDA error: unspecified launch failure")

    with pytest.raises(LostDeviceError):
        list(in_chunks(CELLS, 7, lambda own: own, together))
    assert calls == [7]


def test_what_did_not_fit_is_not_tried_again():
    sizes = []

    def together(drawn):
        sizes.append(len(drawn))
        if len(drawn) > 2:
            raise MemoryError
        return one_each(drawn)

    outcomes = list(in_chunks([*CELLS, *CELLS], 7, lambda own: own, together))
    assert [outcome.error for outcome in outcomes] == [None] * 14
    assert sizes[:4] == [7, 3, 1, 2]
    assert max(sizes[4:]) <= 2
