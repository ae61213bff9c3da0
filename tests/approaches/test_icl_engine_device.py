"""The numbers of packed rows by kind of device: how long rows are, how many run at once, and that scores stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from icl_engine_models import PAD, prompts_of, recorded
from icl_engine_models import causal as model

from mlflow_l3d.approaches.icl.engine import CausalEngine, causal, rows
from mlflow_l3d.approaches.icl.engine import packed as packed_rows
from mlflow_l3d.approaches.icl.engine.base import Batches
from mlflow_l3d.approaches.icl.engine.packed import PackedModel
from mlflow_l3d.approaches.icl.engine.rows import lay_out


@pytest.mark.parametrize(
    ("count", "prefix", "most", "row_tokens", "expected"),
    [
        (100, 10, 512, None, 128),
        (100, 200, 512, None, 200),
        (100, 3000, 512, None, 512),
        (100, 3000, 4096, None, 2232),  # all of them in one
        *((1000, prefix, 16_384, 512, expected) for prefix, expected in [(10, 128), (200, 200), (3000, 512)]),
    ],
)
def test_rows_are_about_as_long_as_their_prefix_but_on_a_gpu_not_as_a_long_one(
    count: int, prefix: int, most: int, row_tokens: int | None, expected: int
) -> None:
    lengths = np.random.default_rng(0).integers(5, 40, count)
    rows, width = lay_out([[1] * length for length in lengths], None, prefix, most, row_tokens=row_tokens).tokens.shape
    assert 0.8 * expected <= width <= 1.15 * expected
    assert rows * width <= 1.2 * lengths.sum()


def test_batches_follow_from_device_prefix_and_model(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = PackedModel(model("llama"), None)
    prefix = packed.prefix(list(range(2, 42)), 512)
    assert (packed.row_tokens, causal.packed_tokens(packed, prefix, Batches(512))) == (None, 512)
    packed.device, packed.row_tokens = torch.device("cuda"), packed_rows.ROW_TOKENS["cuda"]
    assert causal.packed_tokens(packed, prefix, Batches(4096)) == 16_384
    assert causal.packed_tokens(packed, prefix, Batches(40, are_chosen=True)) == 40
    # Two layers with two sets of keys and values of 8 numbers in 4 bytes; rows of 128 behind 40.
    for room in (0.5, 1.0, 2.0, 3.9):
        monkeypatch.setattr(causal, "PACKED_BYTES", int(room * (40 + 128) * 2 * 2 * 2 * 8 * 4))
        assert causal.packed_tokens(packed, prefix, Batches(4096)) == 128 * max(1, int(room))


def test_numbers_of_a_gpu_change_batches_and_not_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts, answers = prompts_of([9] * 30, 40, seed=40), [[5], [6, 7]]
    monkeypatch.setattr(rows, "_NARROWEST", 1)
    runs = recorded(monkeypatch)

    def run(**bounds: Any) -> tuple[Any, Any, list[tuple[int, int]]]:
        engine = CausalEngine(model("llama"), PAD, **bounds)
        engine.score(prompts[:2], answers)  # the trial
        runs.clear()
        scores, texts = engine.score(prompts, answers), engine.generate(prompts, 2, ())
        return scores, texts, [shape for kind, shape in runs if kind == "texts"]

    expected, expected_texts, whole = run()
    monkeypatch.setitem(packed_rows.ROW_TOKENS, "cpu", 20)
    monkeypatch.setitem(causal.PACKED_TOKENS, "cpu", 100)
    scores, texts, short = run()
    # Texts of ten tokens, an inner node among them; then of nine.
    assert whole == [(6, 50), (6, 45)]
    assert short == [*[(5, 20)] * 3, *[(3, 27)] * 3, (2, 27)]
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    assert texts == expected_texts
    assert run(batch_tokens=40)[2][:7] == [(2, 20)] * 7
    assert run(batch_size=4)[2][:7] == [(2, 20)] * 7
