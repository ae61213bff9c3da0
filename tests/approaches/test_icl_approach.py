"""The approach `icl` on a tiny random model: contract, factors, choices, and mistakes in one line."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from icl_helpers import (
    APPROACH,
    cell,
    complete,
    log_likelihoods,
    outcome,
    prepared,
    shares,
    small_task,
    tiny_model,
    written_by,
)
from icl_tiny_models import CHAT, byte_tokenizer, llama, refusal, save

from mlflow_l3d.approaches.icl.decisions import calibrated, chosen
from mlflow_l3d.approaches.icl.encoding import answer_ids, decode, prompts_ids
from mlflow_l3d.approaches.shots import nearest_shots, random_shots, shot_order
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import Split
from mlflow_l3d.testing.approaches import check_approach


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_model(tmp_path_factory.mktemp("tiny"), CHAT)


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [{"temperature": 2.0}, {"shots": 0, "calibration": "batch"}],
    ids=["score", "zero-shot"],
)
def test_keeps_the_contract_of_an_approach(model: str, tmp_path: Path, given: dict[str, Any]) -> None:
    settings = {"shots": 1, "chat": "none", "verbaliser": "a;b", **given}
    check_approach(APPROACH, small_task(), hyperparameters=settings, model=model, cache=tmp_path, configurations=2)


def test_scores_are_those_of_the_model(model: str, tmp_path: Path) -> None:
    data = small_task()
    session = prepared(model, tmp_path, data, calibration="none")
    (found,) = session.run([cell()])
    assert found.error is None
    np.testing.assert_allclose(found.scores.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(found.predictions, found.scores.argmax(axis=1))
    one, split = cell(), data.split(cell().seeds)
    drawn = random_shots(one.seeds["sample_choice"], split.train, data.labels, (0, 1), 1)
    drawn = drawn[shot_order(one.seeds["data_order"], 2)]
    shots = [((data.texts[0][at],), int(data.labels[at])) for at in drawn.tolist()]
    form, loaded = session.choices.formats[0], session.loaded
    answers = [answer_ids(loaded, answer, False, before="Answer:") for answer in form.answers]
    for place, at in enumerate(split.test.tolist()[:3]):
        (ids,) = prompts_ids(loaded, [form.render(shots, (data.texts[0][at],))], False)
        np.testing.assert_allclose(found.scores[place], shares(log_likelihoods(loaded.model, ids, answers)), atol=1e-4)


def test_generated_answers_are_those_of_the_model(model: str, tmp_path: Path) -> None:
    session = prepared(model, tmp_path, decision="generate", max_new_tokens=6, verbaliser="good;bad")
    prompts = session._asked(cell()).prompts
    written = written_by(session, prompts_ids(session.loaded, prompts, False), 6)
    expected = [session.choices.formats[0].parse(decode(session.loaded, tokens)) for tokens in written]
    (found,) = session.run([cell()])
    assert found.error is None
    assert found.scores is None
    np.testing.assert_array_equal(found.predictions, expected)
    assert found.metrics["unparsed_share"] == np.mean(np.array(expected) < 0)


def test_one_factor_moves_what_it_feeds_and_nothing_else() -> None:
    data = small_task(num_labelled=40)
    split = data.split(cell().seeds)
    base = random_shots(3, split.train, data.labels, (0, 1), 4)
    assert set(data.labels[base[:4]]) == {0}
    assert set(data.labels[base[4:]]) == {1}
    assert set(base) <= set(split.train)
    np.testing.assert_array_equal(random_shots(3, split.train, data.labels, (0, 1), 2), [*base[:2], *base[4:6]])
    np.testing.assert_array_equal(random_shots(3, split.train, data.labels, (1,), 4), base[4:])
    assert any((random_shots(seed, split.train, data.labels, (0, 1), 4) != base).any() for seed in range(4, 8))
    assert sorted(shot_order(0, 8)) == list(range(8))
    assert any((shot_order(seed, 8) != shot_order(0, 8)).any() for seed in range(1, 4))
    with pytest.raises(ParameterError, match=r"^hyperparameters\.shots=30: class 0 has 16 labelled examples"):
        random_shots(3, split.train, data.labels, (0, 1), 30)


def test_nearest_examples_are_the_nearest_of_each_class() -> None:
    generator = np.random.default_rng(0)
    features = generator.standard_normal((30, 5)).astype(np.float32)
    labels = np.arange(30, dtype=np.int64) % 3
    candidates, test = np.arange(20, dtype=np.int64), np.arange(20, 30, dtype=np.int64)
    found = nearest_shots(features, candidates, labels, (0, 2), 2, test)
    assert found.shape == (10, 4)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    for row, at in zip(found, test, strict=True):
        for place, number in enumerate((0, 2)):
            own = [other for other in candidates if labels[other] == number]
            best = sorted(own, key=lambda other: -float(unit[at] @ unit[other]))[:2]
            assert list(row[2 * place : 2 * place + 2]) == best


@pytest.mark.slow
def test_similarity_needs_no_sample_choice(model: str, tmp_path: Path) -> None:
    found = outcome(model, tmp_path, selection="similarity")
    other = outcome(model, tmp_path, cell(sample_choice=5), selection="similarity")
    assert found.error is None
    np.testing.assert_array_equal(found.scores, other.scores)
    assert "sample_choice" in APPROACH.inactive_factors(complete(selection="similarity"))


def test_classes_are_a_systematic_choice(model: str, tmp_path: Path) -> None:
    data = small_task()
    labels = np.arange(80, dtype=np.int64) % 4
    four = Task("four", data.texts, labels, ("w", "x", "y", "z"), data.example_ids, data.settings, "four")
    found = outcome(model, tmp_path, task=four, classes="1+z")
    assert found.error is None
    assert found.labels is not None
    assert found.predictions is not None
    assert set(found.labels) == {1, 3}
    assert set(found.predictions) <= {1, 3}
    assert found.scores is not None
    assert found.scores.shape == (len(found.labels), 4)
    assert not found.scores[:, [0, 2]].any()


def test_contextual_calibration() -> None:
    scores = np.log(np.array([[0.8, 0.2], [0.4, 0.6]]))
    empty = np.log(np.array([[0.9, 0.1], [0.7, 0.3]]))
    expected = np.array([[0.8 / 0.8, 0.2 / 0.2], [0.4 / 0.8, 0.6 / 0.2]])
    np.testing.assert_allclose(np.exp(calibrated(scores, empty)), expected)


def test_batch_calibration_takes_away_what_all_texts_share() -> None:
    """A leaning that turns every answer into one class is gone; which of two texts is the more positive stays."""
    content = np.array([[0.0, 1.0], [0.0, -1.0], [0.0, 0.5], [0.0, -0.5]])
    leaning = np.array([0.0, 5.0])
    assert set(chosen(content + leaning, 0.0, 0)) == {1}
    own = calibrated(content + leaning, content + leaning)
    assert chosen(own, 0.0, 0).tolist() == [1, 0, 1, 0]
    np.testing.assert_allclose(np.diff(own, axis=1).argsort(axis=0), np.diff(content, axis=1).argsort(axis=0))


@pytest.mark.parametrize(
    ("given", "resolved"), [({}, "batch"), ({"selection": "similarity"}, "batch"), ({"decision": "generate"}, "none")]
)
def test_which_calibration_auto_is(given: dict[str, Any], resolved: str) -> None:
    assert complete(**given)["calibration"] == resolved
    assert complete(**given, calibration="none")["calibration"] == "none"


def test_temperature_draws_with_the_shares() -> None:
    scores = np.tile(np.log([0.2, 0.5, 0.3]), (20_000, 1))
    drawn = np.bincount(chosen(scores, 1.0, 5), minlength=3) / 20_000
    np.testing.assert_allclose(drawn, [0.2, 0.5, 0.3], atol=0.015)
    np.testing.assert_array_equal(chosen(scores, 1.0, 5), chosen(scores, 1.0, 5))
    assert (chosen(scores, 1.0, 6) != chosen(scores, 1.0, 5)).any()
    assert set(chosen(scores, 0.0, 5)) == {1}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"classes": "bad+worse"}, "hyperparameters.classes=bad+worse: 'worse' is none of the classes 0 good, 1 bad"),
        ({"classes": "1"}, "hyperparameters.classes=1: must name two different classes at least"),
        ({"template": "x"}, "hyperparameters.template=x: is for prompt_format=custom only"),
        (
            {"prompt_format": "custom"},
            "hyperparameters.template=auto: must be given for prompt_format=custom. For example: template=",
        ),
        ({"prompt_format": "custom", "template": "Text: {txt}", "verbaliser": "a;b"}, "hyperparameters.template="),
        ({"verbaliser": "same;same"}, "hyperparameters.verbaliser="),
        ({"decision": "generate", "calibration": "contextual"}, "hyperparameters.calibration=contextual: needs deci"),
        ({"selection": "similarity", "calibration": "contextual"}, "hyperparameters.calibration=contextual: needs sel"),
        ({"selection": "similarity", "shots": 0}, "hyperparameters.selection=similarity: has nothing to select"),
    ],
)
def test_mistakes(model: str, tmp_path: Path, given: dict[str, Any], line: str) -> None:
    assert refusal(outcome, model, tmp_path, **given).startswith(line)


def test_too_long_prompts_are_named(model: str, tmp_path: Path) -> None:
    """Three examples are much longer than the others: only the cells that draw one fail, before the model runs."""
    data = small_task()
    texts = (tuple("x" * 9000 if at < 3 else text for at, text in enumerate(data.texts[0])),)
    uneven = Task("uneven", texts, data.labels, data.class_names, data.example_ids, data.settings, "uneven")
    errors = [outcome(model, tmp_path, cell(label_selection=at), uneven).error for at in range(8)]
    assert any(error is None for error in errors)
    said = [error for error in errors if error is not None]
    assert said
    assert all("more than the 4096 of the context" in error and "\n" not in error for error in said)


def test_a_chat_needs_a_template(tmp_path: Path) -> None:
    plain = tiny_model(tmp_path / "plain")
    with pytest.raises(
        ParameterError, match=r"^hyperparameters\.chat=single: the tokenizer of .* has no chat template"
    ):
        outcome(plain, tmp_path, chat="single")
    assert outcome(plain, tmp_path, chat="auto").error is None


class OnlyTested(Task):
    """Cells predict their test examples alone, of the split that also has a reference set."""

    def split(self, seeds: Any) -> Split:
        whole = super().split(seeds)
        return Split(whole.train, whole.validation, whole.scored)


@pytest.mark.parametrize(
    "given",
    [
        {"calibration": "batch", "temperature": 2.0},
        {"decision": "generate", "max_new_tokens": 6, "verbaliser": "a;e", "temperature": 1.0},
        {"truncation": "left"},
    ],
    ids=["batch", "generate", "truncation"],
)
def test_a_reference_set_changes_no_answer_and_no_metric(model: str, tmp_path: Path, given: dict[str, Any]) -> None:
    task = small_task(reference_size=20)
    alone = OnlyTested(**{each.name: getattr(task, each.name) for each in fields(task)})
    more, fewer = (outcome(model, tmp_path, task=each, **given) for each in (task, alone))
    assert len(more.predictions) == len(fewer.predictions) + 20
    np.testing.assert_array_equal(more.predictions[: len(fewer.predictions)], fewer.predictions)
    assert more.metrics == pytest.approx(fewer.metrics)
    if "unparsed_share" in more.metrics:
        assert (more.predictions == -1).mean() != pytest.approx(more.metrics["unparsed_share"])


@pytest.mark.parametrize("thinks", [True, False])
def test_class_words_are_not_scored_where_a_local_model_thinks_first(tmp_path: Path, thinks: bool) -> None:
    tokenizer, model = byte_tokenizer(CHAT), llama(vocab_size=260, max_position_embeddings=4096, initializer_range=0.4)
    tokenizer.add_tokens(["<think>", "<thinking>"])
    with torch.no_grad():  # opposite weights: one of the two is the likeliest token, or neither
        model.lm_head.weight[258] = 1000.0 * thinks * model.lm_head.weight[0]
        model.lm_head.weight[259] = -model.lm_head.weight[258]
    folder = str(save(tmp_path / "model", model, tokenizer))
    found = outcome(folder, tmp_path / "cache", chat="single")
    assert (found.predictions is None) == thinks, found.error
    assert not thinks or "Use decision=generate" in found.error
    assert outcome(folder, tmp_path / "cache", chat="single", decision="generate").error is None


def test_what_a_template_opens_as_a_thought_is_no_answer(tmp_path: Path) -> None:
    template = CHAT.replace("<|assistant|>", "<|assistant|><think>\n")
    folder = str(save(tmp_path / "model", llama(max_position_embeddings=4096), byte_tokenizer(template)))
    for given in ({}, {"decision": "generate"}, {"thought_tokens": 5}):
        error = outcome(folder, tmp_path / "cache", chat="single", **given).error
        assert error is not None, given
        assert "Use decision=generate,thought_tokens=2000" in error
    found = outcome(folder, tmp_path / "cache", chat="single", decision="generate", thought_tokens=5)
    assert found.metrics["unparsed_thought_share"] == 1
    assert outcome(folder, tmp_path / "cache", chat="none").error is None
