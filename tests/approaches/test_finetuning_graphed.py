"""Steps of whole models as a GPU takes them, on the CPU: batches that are staged, one optimiser, captures that fail."""

import pytest
import torch
from finetuning_helpers import cell, content, handmade_task, run
from finetuning_models import session_of, tiny_bert

from mlflow_l3d.approaches.finetuning import full, graphed
from mlflow_l3d.approaches.finetuning.graphed import GraphedSteps

TASK = handmade_task(100, num_labelled=30, test_size=8)
SETTINGS = {"trainable": "full", "epochs": 2, "max_length": 16, "batch_size": 4}
REFUSED = "cannot be captured as a CUDA graph"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def session(encoder, tmp_path, monkeypatch):
    """Return a session whose device makes its steps by itself, though it is the CPU."""
    monkeypatch.setattr(full, "BY_PYTHON", ())
    return session_of(TASK, encoder, tmp_path, **SETTINGS)


@pytest.fixture
def captures(session, monkeypatch):
    """Return a function that lets a session capture further steps; what a CPU lacks is left out."""
    monkeypatch.setattr(GraphedSteps, "_close_capture", lambda self: None)

    def begin(replay):
        session._steps.capture = True
        monkeypatch.setattr(GraphedSteps, "_replay", replay)

    return begin


def test_a_bounded_number_of_batches_is_on_the_device_with_the_same_result(session, monkeypatch):
    staged, on_device = [], GraphedSteps._on_device

    def counted(self, steps):
        staged.append(len(steps))
        return on_device(self, steps)

    monkeypatch.setattr(GraphedSteps, "_on_device", counted)
    (whole,) = run(session, cell(0))
    assert staged == [6, 6]  # 24 examples an epoch
    monkeypatch.setattr(graphed, "STAGED", 4 * 4 * 16 + 1)
    (parts,) = run(session, cell(0))
    assert staged[2:] == [4, 2, 4, 2]
    monkeypatch.setattr(graphed, "STAGED", 1)
    (single,) = run(session, cell(0))
    assert staged[6:] == [1] * 12
    assert content(whole) == content(parts) == content(single)


def test_steps_of_all_cells_have_one_optimiser(session, monkeypatch):
    made, plain = [], torch.optim.AdamW

    def counted(*given, **settings):
        made.append(plain(*given, **settings))
        return made[-1]

    monkeypatch.setattr(torch.optim, "AdamW", counted)
    run(session, cell(0), cell(1))
    assert len(made) == 1


def test_a_step_that_can_be_computed_but_not_captured_is_announced_once(session, captures, caplog):
    (expected,) = run(session, cell(0))

    def refused(self, batch):
        raise RuntimeError("operation not permitted when stream is capturing")

    captures(refused)
    found = run(session, cell(0), cell(1))
    assert content(found[0]) == content(expected)
    (line,) = (message for message in caplog.messages if REFUSED in message)
    assert line.endswith("RuntimeError: operation not permitted when stream is capturing")
    assert not session._steps.capture


def test_an_error_of_the_model_says_nothing_of_captures(session, captures, monkeypatch, caplog):
    run(session, cell(0))
    captures(GraphedSteps._compute)

    def forward(inputs):
        raise IndexError("index 7 is out of bounds")

    with monkeypatch.context() as patch:
        patch.setattr(session, "training_logits", forward)
        (failed,) = session.run([cell(1)])
    assert failed.error == "IndexError: index 7 is out of bounds"
    assert not [message for message in caplog.messages if REFUSED in message]
    run(session, cell(2))
    assert session._steps.capture  # a later cell is captured as before
