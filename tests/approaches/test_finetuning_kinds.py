"""Every kind of task on encoders and decoders: what is learned, what comes out, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from finetuning_helpers import cell, content, handmade_task, run
from finetuning_models import choice_task, own_parts, regression_task, session_of, tiny_bert, tiny_llama
from scipy.stats import pearsonr
from transformers import AutoModelForSequenceClassification, XLNetConfig

from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.finetuning.session import loss_of
from mlflow_l3d.approaches.finetuning.training import validate
from mlflow_l3d.approaches.models.tokens import Tokens, check_length, columns_of
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.checks import check_kind
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.testing import check_approach

SETTINGS = {"num_labelled": 32, "test_size": 18}
TASKS = {
    "classification": handmade_task(100, **SETTINGS),
    "pairs": handmade_task(100, columns=2, **SETTINGS),
    "regression": regression_task(100, **SETTINGS),
    "multiple_choice": choice_task(100, **SETTINGS),
    "three choices": choice_task(100, 3, **SETTINGS),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    return {"encoder": tiny_bert(place / "bert"), "decoder": tiny_llama(place / "llama")}


LEARNED = [(name, model) for name in ("classification", "pairs", "regression") for model in ("encoder", "decoder")]
LEARNED += [("multiple_choice", "decoder"), ("three choices", "encoder")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "model"), LEARNED)
def test_every_kind_is_learned_by_every_model(name, model, folders, tmp_path) -> None:
    task = TASKS[name]
    given = {"epochs": 8, "learning_rate": 5e-3, "batch_size": 4, "dropout": 0, "early_stopping_patience": 0}
    given |= {"max_length": 160 if model == "decoder" else 48}
    (outcome,) = run(session_of(task, folders[model], tmp_path, **given), cell(0))
    assert outcome.curves["train_loss"][-1] < 0.5 * outcome.curves["train_loss"][0]
    assert outcome.labels.tolist() == task.labels[task.split(cell(0).seeds).test].tolist()
    if task.kind == "regression":
        assert outcome.predictions.dtype == np.float64
        assert outcome.scores is None
        assert set(outcome.curves) == {"train_loss", "validation_pearson", "validation_loss"}
        assert pearsonr(outcome.labels, outcome.predictions).statistic > 0.7
    else:
        assert outcome.predictions.dtype == np.int64
        assert outcome.scores.shape == (len(outcome.labels), len(task.class_names))
        assert outcome.scores.sum(1) == pytest.approx(1)
        assert np.mean(outcome.predictions == outcome.labels) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "model"),
    [("classification", "encoder"), *product(("regression", "multiple_choice"), ("encoder", "decoder"))],
)
def test_the_contract_of_an_approach(name, model, folders, tmp_path) -> None:
    task = replace(TASKS[name], settings=SplitSettings(num_labelled=10, test_size=8))
    given = {"trainable": "full", "epochs": 1, "max_length": 48, "learning_rate": 1e-2, "dropout": 0.3}
    check_approach(Finetuning(), task, hyperparameters=given, model=folders[model], cache=tmp_path, configurations=1)


def test_the_decoders_head_is_that_of_transformers(folders, tmp_path) -> None:
    session = session_of(TASKS["classification"], folders["decoder"], tmp_path)
    session._start(12)
    theirs = AutoModelForSequenceClassification.from_pretrained(folders["decoder"], num_labels=2)
    theirs.config.pad_token_id = 1
    theirs.score.weight.data.copy_(session.model.score.weight.data)
    batch = session.inputs.batch(np.arange(5), "cpu")
    with torch.no_grad():
        expected = theirs.eval()(**batch).logits.numpy()
        assert session.model.eval()(**batch).logits.numpy() == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_choices_are_scored_one_by_one(folders, tmp_path) -> None:
    for model in folders.values():
        session = session_of(TASKS["three choices"], model, tmp_path)
        positions = np.arange(7)
        (together,) = session.logits([positions])
        whole = session.inputs
        rows = Tokens(whole.columns, whole.starts, whole.padding, whole.is_cut)
        session.model.eval()
        for position in positions:
            for choice in range(3):
                row = rows.batch(np.array([position * 3 + choice]), "cpu")
                inputs = {name: tensor[None] for name, tensor in row.items()}
                with torch.no_grad():
                    alone = float(session.model(**inputs).logits)
                assert alone == pytest.approx(float(together[position, choice]), abs=1e-5)


def test_rows_of_choices_hold_the_common_columns_and_one_choice() -> None:
    first, second = columns_of(choice_task(4, 3), " | ")
    assert len(first) == len(second) == 12
    assert first[:4] == ["film 0 | how was it"] * 3 + ["film 1 | how was it"]
    task = choice_task(4, 3)
    assert list(second[3:6]) == [column[1] for column in task.choices]


@pytest.mark.parametrize("name", ["classification", "multiple_choice", "regression"])
def test_a_watcher_changes_nothing_and_sees_what_fits_the_kind(name, folders, tmp_path) -> None:
    session = session_of(TASKS[name], folders["encoder"], tmp_path, epochs=2)
    (unwatched,) = run(session, cell(0))
    seen = []
    session.on_epoch_end = lambda key, epoch, scores: bool(seen.append((epoch, dict(scores))))
    (watched,) = run(session, cell(0))
    assert content_of(watched) == content_of(unwatched)
    wanted = "validation_pearson" if name == "regression" else "validation_f1_macro"
    assert [scores[wanted] for _, scores in seen] == watched.curves[wanted]


def content_of(outcome):
    return content(replace(outcome, scores=outcome.predictions) if outcome.scores is None else outcome)


def test_losses_are_the_textbooks() -> None:
    logits = torch.tensor([[1.0, 3.0], [0.0, 0.0]])
    expected = (np.log(1 + np.exp(-2)) + np.log(2)) / 2
    assert float(loss_of(logits, torch.tensor([1, 0]))) == pytest.approx(expected)
    assert float(loss_of(logits[:, :1], torch.tensor([0.0, 3.0]))) == pytest.approx((1 + 9) / 2)
    scores = torch.tensor([[1.0], [2.0], [4.0]])
    labels = np.array([1.0, 3.0, 3.5])
    correlation, error = validate(scores, labels)
    assert correlation == pytest.approx(pearsonr(labels, [1, 2, 4]).statistic)
    assert error == pytest.approx((0 + 1 + 0.25) / 3)
    assert validate(torch.ones(3, 1), labels)[0] == 0


def test_a_head_on_features_compares_no_choices() -> None:
    refused = (
        "is a multiple choice task, and finetuning takes classification and regression only under these .* Use .*full"
    )
    with pytest.raises(ParameterError, match=refused):
        check_kind(TASKS["multiple_choice"], Finetuning(), {"trainable": "head"})


def test_without_a_validation_part_the_last_epoch_counts(folders, tmp_path) -> None:
    task = own_parts(handmade_task(40), 10)
    (outcome,) = run(session_of(task, folders["encoder"], tmp_path, epochs=2), cell(0))
    assert outcome.metrics["best_epoch"] == 2
    assert list(outcome.curves) == ["train_loss"]
    assert outcome.example_ids.tolist() == task.example_ids[-10:].tolist()
    for given in ({"early_stopping_patience": 2}, {"early_stopping_metric": "loss"}):
        with pytest.raises(ParameterError, match="needs a validation part, and there is none"):
            session_of(task, folders["encoder"], tmp_path, **given)


def test_the_last_epoch_can_be_asked_for(folders, tmp_path) -> None:
    given = {"epochs": 4, "learning_rate": 5e-3}
    best, last = (
        run(session_of(TASKS["classification"], folders["encoder"], tmp_path, selection=name, **given), cell(0))[0]
        for name in ("best", "last")
    )
    assert best.curves == last.curves
    assert last.metrics["best_epoch"] == len(last.curves["train_loss"])
    scores = best.curves["validation_f1_macro"]
    assert scores[int(best.metrics["best_epoch"]) - 1] == max(scores)


def test_long_sequences_are_refused_where_they_may_not_be_cut(folders, tmp_path) -> None:
    task = handmade_task(20)
    long = replace(task, texts=((f"{task.texts[0][0]} " + "very " * 60, *task.texts[0][1:]),))
    for model, longer in (("encoder", "1"), ("decoder", r"\d+")):
        with pytest.raises(ParameterError) as caught:
            session_of(long, folders[model], tmp_path, truncation="false")
        text = str(caught.value)
        assert re.search(rf"truncation=false: {longer} of 20 sequences are longer than max_length=48 \(the long", text)
        assert "superb" not in text
        assert "\n" not in text
    session_of(task, folders["encoder"], tmp_path, truncation="false")


def test_a_model_takes_so_many_tokens(folders, tmp_path) -> None:
    with pytest.raises(ParameterError, match="the model takes at most 64 tokens"):
        session_of(handmade_task(20), folders["encoder"], tmp_path, max_length=65)


def test_a_model_without_a_largest_number_of_tokens_is_refused_by_its_name() -> None:
    config = XLNetConfig()
    with pytest.raises(
        ParameterError, match=r"model=xlnet: names no largest number of tokens.* such as BERT or RoBERTa"
    ):
        check_length(128, MagicMock(model_max_length=10**30), config)


def test_the_texts_of_a_pair_do_not_run_together(folders, tmp_path) -> None:
    session = session_of(TASKS["pairs"], folders["decoder"], tmp_path, max_length=256)
    tokens = session.inputs
    ids = tokens.columns["input_ids"][tokens.starts[0] : tokens.starts[1]]
    text = session.loaded.tokenizer.decode(ids, skip_special_tokens=True)
    assert text == "\n".join(column[0] for column in TASKS["pairs"].texts)
