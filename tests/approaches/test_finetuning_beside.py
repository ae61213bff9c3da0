"""Adapters of several cells in one program: what each would be alone, whoever is beside it and whoever leaves first."""

import re

import pytest
import torch
from finetuning_helpers import cell, handmade_task, run, spent
from finetuning_models import choice_task, regression_task, session_of
from refusals import refusal

from mlflow_l3d.approaches.device_draws import counted, places
from mlflow_l3d.approaches.finetuning.lora import CountedDropout, Keys
from mlflow_l3d.errors import L3DError

SETTINGS = {"num_labelled": 20, "test_size": 8}
TASKS = {make.__name__: make(100, **SETTINGS) for make in (handmade_task, regression_task, choice_task)}
TASK = TASKS["handmade_task"]
LORA = {"trainable": "lora", "learning_rate": 1e-2, "max_length": 96, "lora_r": 4, "lora_dropout": 0.3}


def same(found, expected):
    """Assert that cells have the predictions of others, and their course."""
    for own, other in zip(found, expected, strict=True):
        assert own.key == other.key
        assert own.metrics == pytest.approx(other.metrics, abs=1e-4)
        for name, curve in other.curves.items():
            assert own.curves[name] == pytest.approx(curve, abs=1e-4)
        if other.scores is None:
            assert own.predictions == pytest.approx(other.predictions, abs=1e-4)
        else:
            assert own.predictions.tolist() == other.predictions.tolist()
            assert own.scores == pytest.approx(other.scores, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "task", "given"),
    [
        ("encoder", "handmade_task", {"epochs": 6, "early_stopping_patience": 1, "gradient_clipping": 0.5}),
        ("encoder", "regression_task", {"epochs": 2, "gradient_accumulation": 2, "batch_size": 3}),
        ("encoder", "choice_task", {"epochs": 2, "gradient_checkpointing": True}),
        ("decoder", "handmade_task", {"epochs": 3, "selection": "last"}),
        ("decoder", "choice_task", {"epochs": 1}),
        ("gpt2", "handmade_task", {"epochs": 1, "lora_dropout": 0}),
    ],
)
def test_cells_side_by_side_are_what_they_are_alone(model, task, given, folders, tmp_path):
    alone, beside = (
        session_of(TASKS[task], folders[model], tmp_path, **{**LORA, **given}, lora_cells=cells) for cells in (1, 4)
    )
    cells = [cell(index) for index in range(5)]
    expected = run(alone, *cells)
    assert beside.cells_at_once == 4
    found = run(beside, *cells)
    same(found, expected)
    if "early_stopping_patience" in given:
        assert len({len(own.curves["train_loss"]) for own in found}) > 1, "all leave at once: the test shows less"
    # The model is as it was: what trains one cell finds its own layers there.
    same(run(alone, cells[0]), expected[:1])


def test_the_cells_beside_one_change_nothing(folders, tmp_path):
    session = session_of(TASK, folders["encoder"], tmp_path, **LORA, lora_cells=3)
    whole = run(session, *(cell(index) for index in range(3)))
    same(run(session, cell(2), cell(7), cell(0)), [whole[2], *run(session, cell(7)), whole[0]])


def diverging(session, index, monkeypatch):
    """Let a cell begin with weights that are no numbers."""
    start, wild = session._start, cell(index).seeds["model_initialisation"]

    def started(seed):
        start(seed)
        if seed == wild:
            with torch.no_grad():
                session.model.classifier.weight.fill_(torch.nan)

    monkeypatch.setattr(session, "_start", started)


def test_one_that_diverges_leaves_the_others_as_they_are(folders, tmp_path, monkeypatch):
    session = session_of(TASK, folders["encoder"], tmp_path, **{**LORA, "epochs": 2}, lora_cells=3)
    expected = run(session, *(cell(index) for index in range(3)))
    diverging(session, 1, monkeypatch)
    found = list(session.run([cell(index) for index in range(3)]))
    assert found[1].error.startswith("training diverged: nan or inf in epoch 1")
    same([found[0], found[2]], [expected[0], expected[2]])


def test_cells_that_do_not_fit_side_by_side_are_fewer_from_then_on(folders, tmp_path, monkeypatch, caplog):
    plain, tight = (session_of(TASK, folders["encoder"], tmp_path, **LORA, lora_cells=4) for _ in range(2))
    expected = run(plain, *(cell(index) for index in range(4)))
    spent(tight, monkeypatch, lambda _, examples: examples <= 16)
    same(run(tight, *(cell(index) for index in range(4))), expected)
    assert tight.most == 2
    (line,) = caplog.messages
    assert line.startswith("4 cells side by side are tried again in halves: RuntimeError: CUDA out of memory.")


@pytest.mark.slow
def test_adapters_with_dropout_are_computed_in_parts(folders, tmp_path, monkeypatch):
    given = {**LORA, "batch_size": 6}
    plain, parts = (session_of(TASK, folders["encoder"], tmp_path, **given) for _ in range(2))
    expected = run(plain, cell(0))
    spent(parts, monkeypatch, lambda _, examples: examples <= 2)
    same(run(parts, cell(0)), expected)
    assert parts.batch == 2


def mixes(session, monkeypatch):
    forward = session._forward
    monkeypatch.setattr(session, "_forward", lambda inputs: forward(inputs).roll(1, 0))


def draws(session, monkeypatch):
    forward = session._forward
    monkeypatch.setattr(session, "_forward", lambda inputs: forward(inputs) + torch.rand(()))


@pytest.mark.parametrize(
    ("odd", "line"),
    [
        (mixes, "the model does not keep cells apart that are trained side by side. Use lora_cells=1."),
        (draws, "the model draws random numbers of its own. Use lora_cells=1."),
    ],
)
@pytest.mark.parametrize("wild", [None, 0, 1])
def test_a_model_that_cannot_hold_several_cells_is_found_out(odd, line, wild, folders, tmp_path, monkeypatch):
    session = session_of(TASK, folders["encoder"], tmp_path, **LORA, lora_cells=3)
    odd(session, monkeypatch)
    if wild is not None:
        diverging(session, wild, monkeypatch)
    with pytest.raises(L3DError, match=f"^{re.escape(line)}$"):
        session.train([session.draw(cell(index)) for index in range(3)])


def test_what_cannot_be_side_by_side_is_one_line(folders, tmp_path):
    def refused(**given):
        return refusal(session_of, TASK, folders["encoder"], tmp_path, **LORA, lora_cells=2, **given)

    line = "hyperparameters.lora_cells=2: needs "
    assert refused(dropout=0.1).startswith(f"{line}dropout=0, since the model draws")
    assert refused(dtype="bfloat16").startswith(f"{line}float32, since bfloat16 rounds")
    session, two = (session_of(TASK, folders["encoder"], tmp_path, **LORA, lora_cells=cells) for cells in (1, 2))
    session.model.bert.embeddings.LayerNorm.weight.requires_grad_(True)
    loaded = "new weights in linear layers, and bert.embeddings.LayerNorm is none. Use lora_cells=1"
    assert refusal(type(session), TASK, session.loaded, two.recipe, "cpu").startswith(f"{line}{loaded}")


def splitmix(state):
    """Return the next state and number of SplitMix64, as its authors wrote it."""
    whole = 2**64
    state = (state + 0x9E3779B97F4A7C15) % whole
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % whole
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % whole
    return state, z ^ (z >> 31)


def test_bits_by_counter_are_those_of_splitmix64():
    for start in (0, 1, 12345, 2**63, 2**64 - 1):
        signed = start - 2**64 if start >= 2**63 else start
        found, state = counted(torch.tensor([signed]), places(5, "cpu"))[0].tolist(), start
        for number in found:
            state, expected = splitmix(state)
            assert number % 2**64 == expected
    # The first number of seed 0 that the literature prints.
    assert counted(torch.tensor([0]), places(1, "cpu")).item() % 2**64 == 0xE220A8397B1DCDAF


def test_dropout_knows_its_example_and_its_place_alone():
    keys = Keys()
    first, second = (CountedDropout(0.5, 10, keys) for _ in range(2))
    ones = torch.ones

    def dropped(module, seeds, part, length, width=10):
        keys.begin(seeds, 6, 1, "cpu")
        keys.take(part)
        count = len(seeds) * (part.stop - part.start)
        return module(ones(count, length, width)).view(len(seeds), -1, length, width)

    whole = dropped(first, [3, 5], slice(0, 6), 7)
    assert set(whole.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(dropped(first, [5, 3], slice(2, 4), 12)[:, :, :7], whole.flip(0)[:, 2:4])
    flat = first(ones(2 * 2 * 12, 10)).view(2, 2, 12, 10)
    assert torch.equal(flat[:, :, :7], whole.flip(0)[:, 2:4])
    # Cells, examples, places and adapters differ.
    others = (
        whole[1],
        whole[0].roll(1, 0),
        whole[0].roll(1, 1),
        whole[0].roll(1, 2),
        dropped(second, [3], slice(0, 6), 7)[0],
    )
    for other in others:
        assert 0.3 < float((other == whole[0]).float().mean()) < 0.7
    with pytest.raises(L3DError, match="does not keep the texts of a batch apart: 6 rows, but 7 at an adapter"):
        first(ones(7, 6, 10))
    first.eval()
    assert torch.equal(first(ones(7, 6, 10)), ones(7, 6, 10))
