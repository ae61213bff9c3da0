"""Tiny random encoders and decoders, and tasks of every kind, for the tests of fine-tuning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from finetuning_helpers import THINGS, WORDS, handmade_task, opened
from icl_tiny_models import byte_tokenizer, llama, save
from transformers import AutoTokenizer, BertConfig, BertModel, BertTokenizer, GPT2Config, GPT2Model

from mlflow_l3d.approaches import models
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import SplitSettings

SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def tiny_bert(folder: Path, **other) -> str:
    """Save a random BERT with those tokens of the packaged encoder that are common or ours: 30,000 take longer."""
    torch.manual_seed(1)
    packaged = AutoTokenizer.from_pretrained(models.resolve(Finetuning.default_model).path_or_id)
    ours = set(packaged.tokenize(" ".join([*THINGS, *sum(WORDS, ())])))
    tokens = sorted(packaged.get_vocab().items(), key=lambda each: each[1])
    kept = [token for token, number in tokens if (number < 2400 and "unused" not in token) or token in ours]
    tokenizer = BertTokenizer(vocab={token: number for number, token in enumerate(kept)}, model_max_length=512)
    config = BertConfig(**{**SMALL, "vocab_size": len(tokenizer), "max_position_embeddings": 64, **other})
    return str(save(folder, BertModel(config), tokenizer))


def tiny_llama(folder: Path, **special) -> str:
    """Save a random LLaMA that has no padding token, with a tokenizer of bytes."""
    # Blocks of 4-bit weights hold 64 numbers.
    sizes = {"hidden_size": 64, "intermediate_size": 128}
    return str(save(folder, llama(max_position_embeddings=256, **sizes), byte_tokenizer(**special)))


def model_folders(place: Path) -> dict[str, str]:
    """Save an encoder, a decoder, and one whose layers keep their weights the other way round."""
    torch.manual_seed(5)
    gpt2 = GPT2Model(GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=258, n_positions=256))
    return {
        "encoder": tiny_bert(place / "bert", max_position_embeddings=128),
        "decoder": tiny_llama(place / "llama"),
        "gpt2": str(save(place / "gpt2", gpt2, byte_tokenizer())),
    }


def regression_task(n: int = 60, **settings) -> Task:
    """Scores from 0 to 5 that the number of superb things in a text decides."""
    counts = np.random.default_rng(2).integers(0, 6, n)
    texts = tuple(
        " ".join(["superb"] * int(k) + ["dull"] * (5 - int(k)) + [f"number {i}"]) for i, k in enumerate(counts)
    )
    plain = handmade_task(n, **settings)
    return replace(
        plain, texts=(texts,), labels=counts.astype(np.float64), class_names=(), kind="regression", metric="pearson"
    )


def choice_task(n: int = 60, choices: int = 2, **settings) -> Task:
    """The right choice says superb, the others dull; two columns come before the choices."""
    labels = np.random.default_rng(3).integers(0, choices, n)
    columns = tuple(
        tuple(f"a {'superb' if label == choice else 'dull'} one" for label in labels) for choice in range(choices)
    )
    plain = handmade_task(n, **settings)
    return replace(
        plain,
        texts=(tuple(f"film {i}" for i in range(n)), ("how was it",) * n),
        labels=labels.astype(np.int64),
        class_names=tuple(f"choice{number + 1}" for number in range(choices)),
        choices=columns,
        kind="multiple_choice",
    )


def own_parts(task: Task, validation: int, **settings) -> Task:
    """Give a task a split of its own: the last examples are its validation part."""
    parts = np.zeros(len(task), dtype=np.int64)
    parts[-validation:] = 1
    return replace(task, parts=parts, settings=SplitSettings(source="own", **settings))


def session_of(task: Task, model: str, cache: Path, **given):
    """Prepare a session; nothing is left at a slow default."""
    return opened(Finetuning(), task, cache, model, **{"trainable": "full", "epochs": 1, "max_length": 48, **given})
