"""Numbers of a real GPU: those of the CPU, the same twice, and the contract of approaches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from device_ways import TASKS, WAYS, Way, golden_cell

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.icl import InContextLearning
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.testing import check_approach, differences

CONTRACT = ("heads", "full", "lora", "lora, beside", "protonet", "maml", "reptile, Adam", "score")


def job_of(way: Way, models, device: str, cache, *, deterministic: bool = True, **given) -> Job:
    approach = way.approach()
    encoder = {"selection_encoder": models("encoder")} if "selection" in way.given else {}
    complete = approach.complete(resolve_hyperparameters(approach, {**way.given, **encoder, **given}))
    return Job(approach, TASKS[way.task](), complete, models(way.model), device, cache, deterministic)


def outcomes(job: Job, cells: int) -> list[Outcome]:
    found = list(InlineExecutor(job=job).run([golden_cell(job.approach, index) for index in range(cells)]))
    assert [outcome.traceback for outcome in found] == [None] * cells
    return sorted(found, key=lambda outcome: outcome.key)


@pytest.mark.parametrize("name", WAYS)
def test_numbers_are_those_of_the_cpu(note, name, models, device, tmp_path):
    way = WAYS[name]
    plain = {} if way.approach is InContextLearning else {"dropout": 0.0}  # a GPU draws others
    if name == "protonet":  # Adam moves a weight as far by a gradient that rounding alone makes
        plain["meta_optimizer"] = "sgd"
    there, here = (
        outcomes(job_of(way, models, where, tmp_path / where, **plain), way.cells) for where in (device, "cpu")
    )
    furthest = 0.0
    for own, other in zip(there, here, strict=True):
        if own.scores is not None:
            furthest = max(furthest, float(np.abs(own.scores - other.scores).max()))
        if own.labels.dtype.kind == "f":  # of a regression, whose predictions are its numbers
            same = np.isclose(own.predictions, other.predictions, rtol=0, atol=5e-3)
        else:
            same = own.predictions == other.predictions
        note(f"numbers of the cpu | {name} | {np.mean(same):.2f} equal | scores differ by {furthest:.1e}")
        assert np.mean(same) >= 0.9  # a tie may fall to either side
    assert furthest < 5e-3


@pytest.mark.parametrize("name", WAYS)
def test_a_cell_is_the_same_twice(name, models, device, tmp_path):
    job = job_of(WAYS[name], models, device, tmp_path)
    first, second = (outcomes(each, WAYS[name].cells) for each in (job, replace(job, cache=tmp_path / "other")))
    assert [differences(one, other) for one, other in zip(first, second, strict=True)] == [[]] * len(first)


@pytest.mark.parametrize("name", CONTRACT)
def test_the_contract_holds(name, models, device, tmp_path):
    job = job_of(WAYS[name], models, device, tmp_path)
    check_approach(
        job.approach,
        job.task,
        hyperparameters=WAYS[name].given,
        model=job.model,
        device=device,
        cache=tmp_path,
        configurations=6,
        tolerance=1e-3,  # a GPU computes products of other sizes by other kernels
    )


@pytest.mark.parametrize("name", ["lora, decoder"])
def test_weights_in_four_bits(note, name, models, device, tmp_path):
    pytest.importorskip("bitsandbytes")
    way = WAYS[name]
    job = job_of(way, models, device, tmp_path, quantise="4bit")
    first, second = (outcomes(each, 1)[0] for each in (job, replace(job, cache=tmp_path / "other")))
    (plain,) = outcomes(job_of(way, models, device, tmp_path), 1)
    moved = float(np.abs(first.scores - plain.scores).max())
    note(f"four bits | {name} | scores differ from whole weights by {moved:.1e}")
    assert differences(first, second) == []
    assert 0 < moved < 0.5
