"""What `icl` says before the first cell, in one line, with nothing computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from finetuning_helpers import handmade_task
from hypothesis import given, settings
from hypothesis import strategies as st
from icl_helpers import APPROACH, prepared, tiny_model
from icl_tiny_models import CHAT, byte_tokenizer, llama, save
from refusals import refusal
from run_helpers import sqlite_place

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.icl import InContextLearning, approach, models
from mlflow_l3d.approaches.icl.encoding import check_answers
from mlflow_l3d.approaches.icl.recipe import Recipe
from mlflow_l3d.approaches.models import pretrained
from mlflow_l3d.approaches.shots import check_shots, chosen_classes
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import SplitSettings

ROOMY = 4096


def uneven_task(**sizes: Any) -> Task:
    """Return 90 texts of 3 classes, 60, 20 and 10 of them."""
    texts = tuple(f"text {'x' * (number % 7)}" for number in range(90))
    labels = np.repeat(np.arange(3, dtype=np.int64), [60, 20, 10])
    return Task("uneven", (texts,), labels, ("many", "some", "few"), np.arange(90), SplitSettings(**sizes), "uneven")


def recipe(**given: Any) -> Recipe:
    return Recipe.of(resolve_hyperparameters(APPROACH, {"chat": "none", **given}))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_model(tmp_path_factory.mktemp("tiny"), CHAT, initializer_range=0.02)


@pytest.fixture(scope="module")
def loaded(model: str, tmp_path_factory: pytest.TempPathFactory) -> models.LoadedModel:
    return models.load_model(model, "cpu", cache=tmp_path_factory.mktemp("cache"))


def test_shots_are_counted_before_the_model_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(
        ParameterError, match=r"^hyperparameters\.shots=9: class '.*' has 8 labelled examples"
    ) as caught:
        prepared("./no-such-model", tmp_path, shots=9)
    assert str(caught.value).endswith("Use at most 8, or raise num_labelled.")
    with pytest.raises(ParameterError, match=r"^model="):
        prepared("./no-such-model", tmp_path, shots=8)


@pytest.mark.parametrize("selection", ["label_selection", "fixed"])
@pytest.mark.parametrize("sizes", [{}, {"num_labelled": 9}, {"num_labelled": 17, "test_size": 6}])
def test_shots_are_refused_where_every_split_is_too_small_and_nowhere_else(
    selection: str, sizes: dict[str, int]
) -> None:
    data = uneven_task(test_selection=selection, **sizes)
    for classes in ((0, 1, 2), (0, 1), (0,)):
        seeds = [{"data_split": seed, "label_selection": 3 * seed + 1} for seed in range(3)]
        smallest = {
            min(int((data.labels[data.split(seed).train] == number).sum()) for number in classes) for seed in seeds
        }
        (most,) = smallest
        check_shots(data, classes, most)
        with pytest.raises(ParameterError, match=f"Use at most {most}, or"):
            check_shots(data, classes, most + 1)


def test_a_task_that_divides_in_its_own_way_is_left_to_its_cells() -> None:
    class Own(Task):
        def split(self, seeds: Any) -> Any:
            raise AssertionError

    data = uneven_task()
    own = Own(data.name, data.texts, data.labels, data.class_names, data.example_ids)
    check_shots(own, (0, 1, 2), 50)


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3), min_size=2, max_size=4), st.booleans())
@settings(max_examples=150, deadline=None)
def test_answers_are_refused_exactly_where_scores_cannot_tell_them_apart(
    answers: list[list[int]], calibrated: bool
) -> None:
    pairs = [(one, other) for at, one in enumerate(answers) for place, other in enumerate(answers) if place != at]
    same = any(one == other for one, other in pairs)
    inside = any(one == other[: len(one)] for one, other in pairs)
    words = [str(at) for at in range(len(answers))]
    if same or (inside and not calibrated):
        with pytest.raises(ParameterError, match=r"^hyperparameters\.verbaliser=0;1"):
            check_answers(answers, words, calibrated=calibrated)
    else:
        check_answers(answers, words, calibrated=calibrated)


def test_words_that_begin_alike(model: str, tmp_path: Path) -> None:
    prepared(model, tmp_path, verbaliser="good news;good grief").close()  # the trie tells them apart
    line = r"verbaliser=no;no way: 'no way' begins with 'no' and can never score higher\. Give other words, or use deci"
    with pytest.raises(ParameterError, match=line):
        prepared(model, tmp_path, verbaliser="no;no way", calibration="none")
    prepared(model, tmp_path, verbaliser="no;no way", decision="generate").close()
    prepared(model, tmp_path, verbaliser="no;no way", calibration="contextual").close()
    prepared(model, tmp_path, verbaliser="positive;not positive").close()


def test_words_that_are_the_same_to_the_tokenizer(tmp_path: Path) -> None:
    from tokenizers import normalizers

    tokenizer = byte_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizers.StripAccents()
    tiny = str(save(tmp_path / "deaf", llama(max_position_embeddings=ROOMY), tokenizer))
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
    tokenizer.save_pretrained(tiny)
    with pytest.raises(ParameterError, match=r"'sûr' and 'sur' are the same tokens to this model"):
        prepared(tiny, tmp_path, verbaliser="sûr;sur")


@pytest.mark.parametrize("words", ["no;NO", "not good;Not-Good", "a; a", "a;", "one"])
def test_class_words_are_checked_before_there_is_a_task(words: str) -> None:
    one = APPROACH
    with pytest.raises(ParameterError, match=r"^hyperparameters\.verbaliser="):
        one.complete(resolve_hyperparameters(one, {"verbaliser": words}))


def test_weights_are_not_read_for_what_cannot_work(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def weights(*_: object, **__: object) -> None:
        raise AssertionError("the weights were read")

    monkeypatch.setattr(models.pretrained, "load_weights", weights)
    short = str(save(tmp_path / "short", llama(), byte_tokenizer()))
    with pytest.raises(
        ParameterError, match=r"^hyperparameters\.chat=turns: the tokenizer of short has no chat template"
    ):
        prepared(short, tmp_path, chat="turns")
    with pytest.raises(ParameterError, match=r"can never score higher"):
        prepared(model, tmp_path, verbaliser="a;ab", calibration="none")


def test_quantised_weights_have_their_library_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    one = APPROACH
    plain = resolve_hyperparameters(one, {})
    four = resolve_hyperparameters(one, {"quantise": "4bit"})
    bits = {"bitsandbytes": "0.50"}
    monkeypatch.setattr(pretrained, "find_spec", lambda _: object())
    monkeypatch.setattr(approach, "minor_version", lambda package, _: {"bitsandbytes": "0.50"}[package])
    assert one.dependencies(plain, "smollm2-135m-instruct") == {}
    assert one.dependencies(plain, "zephyr-7b-alpha") == bits
    assert one.dependencies(four, "./folder") == bits
    assert one.dependencies(resolve_hyperparameters(one, {"quantise": "none"}), "zephyr-7b-alpha") == {}
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None if name == "bitsandbytes" else object())
    with pytest.raises(ParameterError, match=r"needs the package bitsandbytes\. Run: pip install bitsandbytes$"):
        one.dependencies(four, "./folder")


def test_the_key_of_a_specification_holds_it(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow_l3d.studies.investigation.request import specify

    def numerics(version: str, quantise: str) -> tuple[str, dict[str, str]]:
        monkeypatch.setattr(InContextLearning, "dependencies", dependencies(version))
        chosen = {"hyperparameters": f"shots=1,quantise={quantise}", "model": model, "device": "cpu"}
        found = specify({**chosen, "num_labelled": 20, "test_size": 12}, approach=InContextLearning(), task=data)
        return found.context_key, dict(found.setup.numerics)

    def dependencies(version: str) -> Any:
        return lambda _, given, __: {"bitsandbytes": version} if given["quantise"] == "4bit" else {}

    data = handmade_task(80)
    assert numerics("0.50", "4bit")[1]["bitsandbytes"] == "0.50"
    assert numerics("0.50", "4bit")[0] != numerics("0.51", "4bit")[0]
    assert numerics("0.50", "none") == numerics("0.51", "none")


def test_the_encoder_of_a_selection_is_found_before_anything_runs(tmp_path: Path) -> None:
    from mlflow_l3d.approaches.models import folder_revision

    one = APPROACH
    similar = {"selection": "similarity", "selection_encoder": str(tmp_path)}
    with pytest.raises(ParameterError, match=r"^hyperparameters\.selection_encoder=.* config\.json is missing"):
        one.dependencies(resolve_hyperparameters(one, similar), "m")
    save(tmp_path, llama(), byte_tokenizer())
    revision = folder_revision(tmp_path)
    assert one.dependencies(resolve_hyperparameters(one, similar), "m") == {"selection_encoder": revision}
    assert one.dependencies(resolve_hyperparameters(one, similar | {"selection": "random"}), "m") == {}


@pytest.mark.parametrize("text", ["0+²", "0+" + "1" * 5000, "0+-1", "0+", "+", "", "0+0", "0+a"])
def test_classes_that_are_none(text: str) -> None:
    with pytest.raises(L3DError, match=r"^hyperparameters\.classes="):
        chosen_classes(text, ("a", "b"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "line"),
    [
        ("shots=50", "hyperparameters.shots=50: class 'negative' has 8 labelled examples"),
        (
            "shots=1,calibration=none,verbaliser=a;ab",
            "hyperparameters.verbaliser=a;ab: 'ab' begins with 'a' and can never score higher",
        ),
        ("shots=1,prompt_format=custom,template=So:,verbaliser=a;b", "hyperparameters.template=So:: the input slot"),
    ],
)
def test_a_mistake_leaves_a_failed_parent_and_no_cells(
    model: str, tmp_path: Path, migrated_store: Path, mistake: str, line: str
) -> None:
    place = sqlite_place(migrated_store, tmp_path)
    given = {"investigation_runs": 2, "mitigation_runs": 2, "golden_runs": 2, "num_labelled": 20, "test_size": 6}
    given |= {"approach": "icl", "task": "rotten_tomatoes", "metric": "f1_macro", "factor": "data_order"}
    given |= {"model": model, "hyperparameters": f"chat=none,{mistake}", "device": "cpu"}
    assert refusal(place.investigate, **given).startswith(line)
    assert [run.info.status for run in place.runs()] == ["FAILED"]


def test_a_mistake_that_needs_no_data_leaves_no_run(model: str, tmp_path: Path, migrated_store: Path) -> None:
    place = sqlite_place(migrated_store, tmp_path)
    for mistake in ("verbaliser=a;a", "trust_remote_code=yes", "selection=similarity,selection_encoder=./nowhere"):
        with pytest.raises(ParameterError, match=f"^hyperparameters.{mistake.split('=')[0].split(',')[0]}"):
            place.investigate(approach="icl", model=model, metric="f1_macro", hyperparameters=mistake, device="cpu")
    assert place.runs() == []
