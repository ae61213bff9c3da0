"""Sessions of one process share what they load, and are as they would be alone."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import icl_helpers
import numpy as np
import pytest
from finetuning_helpers import cell as finetuning_cell
from finetuning_helpers import handmade_task, opened
from finetuning_models import tiny_bert
from icl_helpers import tiny_model

from mlflow_l3d.approaches.base import Approach, Session
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.icl import InContextLearning
from mlflow_l3d.approaches.models.pretrained import lent
from mlflow_l3d.execution import sessions as sessions_module
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.sessions import JointSession, free_share

TASK = handmade_task(60, num_labelled=16, test_size=8)
FULL: dict[str, Any] = {"trainable": "full", "epochs": 1, "max_length": 16}


class Thing:
    """Something that takes long to make."""


def test_an_object_lives_as_long_as_somebody_holds_it() -> None:
    first = lent("a key", Thing)
    assert lent("a key", Thing) is first
    assert lent("another", Thing) is not first
    others: list[Thing] = []
    thread = threading.Thread(target=lambda: others.append(lent("a key", Thing)))
    thread.start()
    thread.join()
    assert others[0] is not first  # two threads may use theirs at the same time
    watched = weakref.ref(first)
    del first
    gc.collect()
    assert watched() is None


def test_a_language_model_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow_l3d.approaches.icl import models as module

    folder = tiny_model(tmp_path / "model")
    loads, load = [], module.load_model
    monkeypatch.setattr(module, "load_model", lambda *given, **named: loads.append(given) or load(*given, **named))
    settings = [{"shots": 1}, {"shots": 2, "prompt_format": "B"}, {"shots": 0, "truncation": "right"}, {"shots": 1}]
    together = [opened(InContextLearning(), TASK, tmp_path, folder, **each) for each in settings]
    assert len(loads) == 1
    found = [next(iter(session.run([icl_helpers.cell()]))) for session in reversed(together)]
    for session in together:
        session.close()
    alone = []
    for each in reversed(settings):
        session = opened(InContextLearning(), TASK, tmp_path, folder, **each)
        alone.append(next(iter(session.run([icl_helpers.cell()]))))
        session.close()
    assert len(loads) == 1 + len(settings)
    for one, other in zip(found, alone, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)


@pytest.mark.slow
def test_a_trained_model_is_loaded_once_for_recipes_that_do_not_shape_it(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "model")

    def session(**given: Any) -> Any:
        return opened(Finetuning(), TASK, tmp_path, folder, **{**FULL, **given})

    first, second, longer, other = session(), session(learning_rate=1e-3), session(max_length=32), session(dropout=0.3)
    assert first.model is second.model is longer.model
    assert first.inputs is second.inputs
    assert first.inputs is not longer.inputs
    assert other.model is not first.model
    cells = [finetuning_cell(0), finetuning_cell(1)]
    # In turn, so that each begins with what the other has trained.
    mixed = [next(iter(which.run([cell]))) for cell in cells for which in (first, second)]
    for which in (first, second, longer, other):
        which.close()
    for place, given in enumerate(({}, {"learning_rate": 1e-3})):
        alone = session(**given)
        for number, outcome in enumerate(alone.run(cells)):
            assert outcome.error is None
            np.testing.assert_array_equal(outcome.scores, mixed[2 * number + place].scores)
        alone.close()


class Counting(Approach):
    """Notes which of its sessions are open."""

    name, version, factors = "counting", "1", ("data_order",)

    def __init__(self) -> None:
        self.open: list[str] = []

    def prepare(self, task: Any, hyperparameters: Any, *, model: str, device: str, cache: Path) -> Session:
        which, register = str(hyperparameters["name"]), self.open
        register.append(which)

        class Noted(Session):
            def run(self, cells: Any) -> Any:
                return iter(())

            def close(self) -> None:
                register.remove(which)

        return Noted()


def job(approach: Approach, name: str, model: str = "m") -> Job:
    return Job(approach, TASK, {"name": name}, model, "cpu", Path())


def test_open_sessions_are_the_latest_used_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "MOST_OPEN", 2)
    approach = Counting()
    sessions = JointSession([job(approach, name) for name in "abc"])
    assert sessions.session(0) is sessions.session(0)
    for number in (1, 0, 2):
        sessions.session(number)
    assert approach.open == ["a", "c"]
    sessions.close()
    assert approach.open == []


def test_where_memory_is_short_one_session_stays_open_with_the_model_of_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions_module, "free_share", lambda _device: 0.1)
    approach = Counting()
    sessions = JointSession([*(job(approach, name) for name in "ab"), job(approach, "c", model="other")])
    for number in (0, 1):
        sessions.session(number)
    assert approach.open == ["a", "b"]  # b began with what a had loaded
    sessions.session(2)
    assert approach.open == ["c"]  # both went before another model was loaded
    assert 0 < free_share("cpu") <= 1
