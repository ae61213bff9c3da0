"""What a real GPU does to workers: dead contexts, kills, spent memory, two workers that share it."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from device_ways import golden_cell
from finetuning_helpers import handmade_task
from finetuning_models import tiny_bert
from gpu_faults import Harmed
from icl_tiny_models import byte_tokenizer, llama, save

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.icl import InContextLearning
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.testing import differences

TASK = handmade_task(60, num_labelled=30, test_size=10)
GIVEN = {"trainable": "full", "epochs": 1, "max_length": 48}
CELLS = [golden_cell(Finetuning(), index) for index in range(6)]


def job_of(approach, model, device, cache, task=TASK, **given) -> Job:
    return Job(approach, task, approach.complete(resolve_hyperparameters(approach, given)), model, device, cache)


def by_key(executor, cells) -> dict:
    found = {outcome.key: outcome for outcome in executor.run(iter(cells))}
    assert len(found) == len(cells)
    return found


@pytest.fixture(scope="module")
def expected(models, device, tmp_path_factory):
    job = job_of(Finetuning(), models("encoder"), device, tmp_path_factory.mktemp("cache"), **GIVEN)
    return by_key(InlineExecutor(job=job), CELLS)


def same(found, expected):
    return {key: differences(found[key], expected[key]) for key in found if differences(found[key], expected[key])}


def test_two_workers_on_one_gpu_give_the_same(expected, models, device, tmp_path):
    job = job_of(Finetuning(), models("encoder"), device, tmp_path, **GIVEN)
    assert same(by_key(ProcessExecutor(job=job, workers=2), CELLS), expected) == {}


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (
            "dead context",
            "worker lost its device (CUDA error: device-side assert triggered); the cell was tried 2 times",
        ),
        ("kill", "worker ended with signal 9 (SIGKILL, often a lack of memory); the cell was tried 2 times"),
        ("spent", "memory"),
    ],
)
def test_a_cell_that_harms_the_gpu_ends_nothing_else(note, harm, said, expected, models, device, tmp_path):
    job = job_of(Harmed(CELLS[2].key, harm, once=False), models("encoder"), device, tmp_path, **GIVEN)
    found = by_key(ProcessExecutor(job=job, workers=1), CELLS)
    error = found.pop(CELLS[2].key).error
    note(f"harm | {harm} | {error}")
    assert said in error
    assert same(found, expected) == {}


@pytest.mark.parametrize("harm", ["dead context", "kill"])
def test_a_second_attempt_counts(harm, expected, models, device, tmp_path):
    job = job_of(Harmed(CELLS[2].key, harm, once=True), models("encoder"), device, tmp_path, **GIVEN)
    assert same(by_key(ProcessExecutor(job=job, workers=2), CELLS), expected) == {}


def peak_of(job: Job, cells) -> tuple[list, float]:
    """Return outcomes of a fresh session, and the most memory that they took."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return list(InlineExecutor(job=job).run(cells)), float(torch.cuda.max_memory_reserved())


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"trainable": "full", "dtype": "float32"}, "activations are computed twice"),
        ({"trainable": "full", "dtype": "float32", "dropout": 0.0}, "batches are computed in parts"),
        ({"trainable": "lora", "lora_cells": 4}, "side by side are tried again in halves"),
    ],
)
def test_a_training_that_does_not_fit_takes_less_memory(note, given, line, at_most, tmp_path, caplog):
    sizes = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 4}
    model = tiny_bert(tmp_path / "model", **sizes, max_position_embeddings=256)
    words = tuple(f"{text} " * 30 for text in TASK.texts[0])
    task = replace(TASK, texts=(words,))
    settings = {"epochs": 1, "max_length": 256, "batch_size": 20, **given}
    cells = CELLS[: settings.get("lora_cells", 1)]
    job = job_of(Finetuning(), model, "cuda", tmp_path, task, **settings)
    whole, peak = peak_of(job, cells)
    for share in (0.6, 0.5, 0.45, 0.41, 0.38, 0.36, 0.345, 0.33, 0.32, 0.31):
        at_most(share * peak)
        tight, less = peak_of(job, cells)
        if any(line in message for message in caplog.messages):
            break
    note(f"memory | {given} | {peak / 2**20:.0f} MiB, then {less / 2**20:.0f} | {[own.error for own in tight]}")
    assert [outcome.error for outcome in (*whole, *tight)] == [None] * 2 * len(cells)
    assert any(line in message for message in caplog.messages), caplog.messages
    furthest = max(float(np.abs(a.scores - b.scores).max()) for a, b in zip(whole, tight, strict=True))
    note(f"memory | scores differ by {furthest:.1e}")
    assert furthest < 1e-3


def test_prompts_that_do_not_fit_name_a_smaller_batch(note, at_most, tmp_path):
    model = llama(max_position_embeddings=4096, hidden_size=512, intermediate_size=2048, num_hidden_layers=4)
    folder = str(save(tmp_path / "model", model, byte_tokenizer()))
    task = replace(TASK, texts=(tuple(f"{text} " * 8 for text in TASK.texts[0]),))
    job = job_of(InContextLearning(), folder, "cuda", tmp_path, task, shots=1, verbaliser="good;bad", batch_size=10)
    cells = [golden_cell(job.approach, 0)]
    (whole,), peak = peak_of(job, cells)
    assert whole.error is None
    held = sum(weight.nbytes for weight in model.parameters())
    for share in (0.9, 0.6, 0.3):
        at_most(held + share * (peak - held))
        (tight,), _ = peak_of(job, cells)
        note(f"memory | prompts, {peak / 2**20:.0f} MiB, {share} of it | {tight.error}")
        assert tight.error is None or "memory is spent" in tight.error
    assert tight.error is not None


@pytest.fixture
def study(models, device, tmp_path, monkeypatch):
    """Return a function that returns a small investigation."""
    from mlflow_l3d import investigate

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("L3D_CACHE", str(tmp_path / "l3d"))
    hyperparameters = {**GIVEN, "epochs": 8, "learning_rate": 3e-3}
    runs = {"golden_runs": 4, "investigation_runs": 3, "mitigation_runs": 3}
    shared = {"approach": "finetuning", "model": models("encoder"), "device": device, **runs}
    return lambda **given: investigate(TASK, hyperparameters=hyperparameters, **shared, **given)


@pytest.mark.parametrize("deterministic", [True, False])
def test_the_factor_replicate_shows_the_part_of_the_machine(note, deterministic, study, device):
    if device == "cpu" and not deterministic:
        pytest.skip("is about what only a GPU does")

    found = study(factor="data_order,replicate", deterministic=deterministic)
    frame = found.to_frame().set_index("factor")
    note(f"replicate | deterministic={deterministic} | {frame.to_dict('index')}")
    assert frame["consistency (%)"].notna().all()
    if deterministic:
        assert not frame.loc["replicate", "moves score by (pp)"] > 0  # nan if all runs of all rows are equal
        assert frame.loc["replicate", "consistency (%)"] == 100


def test_a_cure_is_verified(note, study):
    soup = "averaged weights of 5 trainings"
    achieved = study(factor="data_order").cure(verify=1, remedy=soup).to_frame().set_index("remedy").loc[soup]
    note(f"cure | {soup} | std {achieved['achieved_std']:.4f}, mean {achieved['achieved_mean_change']:+.4f}")
    assert achieved["achieved_std"] >= 0  # else nan


@pytest.mark.parametrize(
    ("package", "executor", "options"),
    [
        ("submitit", "slurm.executor:SubmititExecutor", {"cluster": "local", "silence_s": 60.0}),
        # Ray listens everywhere: only where nobody else is.
        pytest.param("ray", "ray.executor:RayExecutor", {}, marks=pytest.mark.cluster),
    ],
)
def test_tasks_of_a_cluster_compute_the_same(
    package, executor, options, expected, models, device, tmp_path, monkeypatch
):
    pytest.importorskip(package)
    module, _, name = executor.partition(":")
    made = getattr(import_module(f"mlflow_l3d.execution.{module}"), name)
    monkeypatch.setenv("L3D_CACHE", str(tmp_path / "l3d"))
    job = job_of(Finetuning(), models("encoder"), device, tmp_path, **GIVEN)
    assert same(by_key(made(job=job, workers=1, options=options), CELLS), expected) == {}
