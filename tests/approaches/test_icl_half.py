"""Half precision: a cell's answers follow from the cell, whatever was run before it, beside it, or in which process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import icl_helpers
import numpy as np
import pytest
import torch
from icl_helpers import APPROACH, tiny_model
from icl_tiny_models import encoder_decoder, llama, refusal

from mlflow_l3d.approaches.base import Session, resolve_hyperparameters
from mlflow_l3d.approaches.icl import models
from mlflow_l3d.approaches.icl.engine import CausalEngine
from mlflow_l3d.approaches.icl.models import load_model
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.errors import L3DError
from mlflow_l3d.testing import changed, one_cell

BASE = one_cell(APPROACH.factors)
CELLS = [BASE, *(changed(BASE, factor, 1) for factor in ("sample_choice", "label_selection"))]


@pytest.fixture(autouse=True)
def native(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let CPUs that only emulate bfloat16 compute in it, too: they do so slowly, and these models are tiny."""
    monkeypatch.setattr(models, "computes_in_bfloat16", lambda _: True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def prepared(folder: str, tmp_path: Path) -> Iterator[Any]:
    """Prepare sessions, each with a model of its own, as every worker has one."""
    opened: list[Session] = []

    def session(**given: Any) -> Session:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mlflow_l3d.approaches.models.pretrained.lent", lambda _, load: load())
            opened.append(icl_helpers.prepared(folder, tmp_path, dtype="bfloat16", **given))
        return opened[-1]

    yield session
    for one in opened:
        one.close()


def answers(session: Session, *cells: Cell) -> dict[str, bytes]:
    """Return what each cell says, to the last bit: its scores, or the tokens that it wrote."""
    found, written = {}, list[Sequence[int]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlflow_l3d.approaches.icl.encoding.decode", lambda _, ids: written.append(ids) or "")
        for outcome in session.run(cells):
            assert outcome.error is None
            found[outcome.key] = repr(written).encode() if outcome.scores is None else outcome.scores.tobytes()
            written.clear()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"decision": "generate", "max_new_tokens": 3}], ids=["score", "generate"])
def test_cells_do_not_depend_on_other_cells_workers_or_threads(prepared: Any, given: dict[str, Any]) -> None:
    one = prepared(**given)
    expected = answers(one, *CELLS)
    assert len(set(expected.values())) == len(CELLS)
    assert answers(one, *CELLS[::-1]) == expected
    # Another worker, whose first cell is another, and which runs it by itself on more threads.
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        other = prepared(**given)
        assert {key: own for cell in CELLS[::-1] for key, own in answers(other, cell).items()} == expected
    finally:
        torch.set_num_threads(before)


class Spent:
    """Fails like a device without memory, so often."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self, *_: Any) -> None:
        if self.times:
            self.times -= 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")


def test_spent_memory_is_an_error_and_changes_no_later_cell(prepared: Any) -> None:
    expected = answers(prepared(), BASE)
    session = prepared()
    head = session.loaded.model.lm_head
    with session.loaded.precision():
        session.engine.score([[1, 2], [1, 3]], [[4], [5]])  # the trial is over
        handle = head.register_forward_pre_hook(Spent(1))
        said = refusal(session.engine.score, [[7], [8], [9]], [[4], [5]])
        handle.remove()
    assert "memory is spent by 3 prompts at once" in said
    assert "batch_size=1" in said
    assert answers(session, BASE) == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_batches_stay_if_memory_is_spent(dtype: torch.dtype) -> None:
    engine = CausalEngine(llama().to(dtype), 0)
    engine.score([[2, 3], [2, 4]], [[5], [6]])
    handle = engine.model.register_forward_pre_hook(Spent(3))
    with pytest.raises(L3DError, match="batch_size=2"):
        engine.generate([[7], [8], [9], [10]], 2, ())
    for work in (lambda: engine.generate([[7]], 2, ()), lambda: engine.score([[7, 8, 9]], [[5], [6]])):
        said = refusal(work)  # of one prompt, no smaller batch helps
        assert "memory is spent by a single prompt" in said
        assert "Use fewer shots, dtype=bfloat16 or quantise=4bit" in said
        assert "batch_size" not in said
    handle.remove()


def test_products_are_in_bfloat16_and_all_else_is_not(folder: str, tmp_path: Path) -> None:
    whole = load_model(folder, "cpu", cache=tmp_path)
    mixed = load_model(folder, "cpu", dtype="bfloat16", cache=tmp_path)
    ids, seen = torch.tensor([[2, 3, 4, 5]]), {}
    for name in ("model.layers.0.mlp.up_proj", "model.layers.1", "lm_head"):
        module = mixed.model.get_submodule(name)
        module.register_forward_hook(lambda _, __, output, name=name: seen.update({name: output}))
    with torch.inference_mode(), mixed.precision():
        logits = mixed.model(ids).logits
    types = {name: (output[0] if isinstance(output, tuple) else output).dtype for name, output in seen.items()}
    assert types == {
        "model.layers.0.mlp.up_proj": torch.bfloat16,
        "model.layers.1": torch.float32,
        "lm_head": torch.float32,
    }
    with torch.inference_mode(), whole.precision():
        expected = whole.model(ids).logits
    apart = float((logits - expected).abs().max() / expected.std())
    assert 0 < apart < 0.1


def test_an_encoder_decoder_in_bfloat16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow_l3d.approaches.icl.engine import Seq2SeqEngine

    whole = encoder_decoder(tmp_path)
    mixed = load_model(str(tmp_path), "cpu", dtype="bfloat16", cache=tmp_path)
    scores = []
    for loaded in (whole, mixed):
        with torch.inference_mode(), loaded.precision():
            scores.append(Seq2SeqEngine(loaded.model, 0).score([[4, 5, 1], [6, 1]], [[7, 8], [9]]))
    np.testing.assert_allclose(scores[0], scores[1], atol=0.1)
    assert not np.array_equal(*scores)
    monkeypatch.setattr(models, "computes_in_bfloat16", lambda _: False)
    said = refusal(load_model, str(tmp_path), "cpu", dtype="bfloat16", cache=tmp_path)
    assert "hyperparameters.dtype" in said
    assert "dtype=float32" in said


def test_a_dtype_is_refused_for_weights_of_four_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlflow_l3d.approaches.icl.approach.need_bitsandbytes", lambda: None)
    for model, given in [("zephyr-7b-alpha", {}), ("x", {"quantise": "4bit"})]:
        settings = resolve_hyperparameters(APPROACH, {"dtype": "bfloat16", **given})
        assert "4-bit" in refusal(APPROACH.dependencies, settings, model)


def test_a_model_whose_own_code_names_no_output_layer_is_mixed() -> None:
    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = torch.nn.Linear(2, 3)

        def get_output_embeddings(self) -> None:
            return None

    model = Own()
    models.mix(model)
    assert model.out.weight.dtype == torch.bfloat16
