"""Steps of whole models as CUDA graphs: the numbers of steps that Python starts, whether or not a model allows it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from device_ways import WAYS
from test_gpu_numbers import job_of, outcomes

from mlflow_l3d.approaches.finetuning.full import FullSession
from mlflow_l3d.approaches.finetuning.graphed import GraphedSteps

WHOLE = [name for name in WAYS if name.startswith("full")]
REFUSED = "cannot be captured as a CUDA graph"


def furthest(found, other) -> float:
    assert all(
        np.array_equal(a.predictions, b.predictions) or a.scores is None for a, b in zip(found, other, strict=True)
    )
    pairs = [
        (a.predictions, b.predictions) if a.scores is None else (a.scores, b.scores)
        for a, b in zip(found, other, strict=True)
    ]
    return max(float(np.abs(a - b).max()) for a, b in pairs)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", WHOLE)
def test_replayed_steps_give_the_numbers_of_others(
    note, name, dtype, gpu, models, device, tmp_path, monkeypatch, caplog
):
    job, replays = job_of(WAYS[name], models, device, tmp_path, dtype=dtype), []
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", counted(torch.cuda.CUDAGraph.replay, replays))
    replayed = outcomes(job, 2)
    assert replays
    assert not any(REFUSED in message for message in caplog.messages), caplog.messages
    taken = len(replays)
    monkeypatch.setattr(GraphedSteps, "_replay", GraphedSteps._compute)
    difference = furthest(replayed, outcomes(job, 2))
    note(f"graphs | {name}, {dtype} | {taken} steps replayed | scores differ by {difference:.1e}")
    assert len(replays) == taken
    # Where no text of a batch is padded, a step that Python starts takes another kernel of attention.
    assert difference < (1e-6 if dtype == "float32" else 5e-3)


def counted(function, calls):
    def call(*given):
        calls.append(given)
        return function(*given)

    return call


def test_a_model_that_waits_for_the_device_is_trained_without_graphs(
    note, gpu, models, device, tmp_path, monkeypatch, caplog
):
    job = job_of(WAYS["full"], models, device, tmp_path)
    expected = outcomes(job, 2)
    forward = FullSession._forward

    def waiting(self, inputs):
        logits = forward(self, inputs)
        assert float(logits.sum()) == float(logits.sum())
        return logits

    monkeypatch.setattr(FullSession, "_forward", waiting)
    found = outcomes(job, 2)
    note(f"graphs | refused | {[message for message in caplog.messages if REFUSED in message]}")
    assert any(REFUSED in message for message in caplog.messages)
    assert furthest(found, expected) < 1e-5
