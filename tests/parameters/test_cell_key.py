"""What is part of a cell's identity, and what is not: too little reuses wrong results, too much reuses none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from specification_helpers import FakeApproach, fake, keys, small

from mlflow_l3d.studies.investigation.request import InvestigationRequest
from mlflow_l3d.studies.request import identity
from mlflow_l3d.tasks.base import Task, may_lack_a_class
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.settings import SPLITS_VERSION, Split
from mlflow_l3d.tasks.sources.packaged import generate


def task(examples: int = 400, **changes: object) -> Task:
    numbers = np.arange(examples, dtype=np.int64)
    content = {"name": "mine", "texts": [[f"text {number}" for number in numbers]], "labels": numbers % 2}
    content |= {"class_names": ["no", "yes"], "example_ids": numbers, **changes}
    return make_task(**content)  # type: ignore[arg-type]


def swapped() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    labels = np.arange(400, dtype=np.int64) % 2
    labels[[0, 1]] = labels[[1, 0]]
    return labels


def parted(evaluated: list[int]) -> Task:
    labels = np.array([0, 1, 0, 1, *evaluated])
    parts = np.array([0] * 4 + [1] * len(evaluated))
    texts = [[f"text {number}" for number in range(len(labels))]]
    own = task(len(labels), texts=texts, labels=labels, parts=parts)
    return replace(own, settings=replace(own.settings, source="own"))


CHANGED: dict[str, Callable[[], InvestigationRequest]] = {
    "one text": lambda: fake(task(texts=[[f"text {number}" for number in range(399)] + ["other"]])),
    "second column": lambda: fake(task(texts=[[f"text {number}" for number in range(400)]] * 2)),
    "two labels": lambda: fake(task(labels=swapped())),
    "class names": lambda: fake(task(class_names=["yes", "no"])),
    "ids": lambda: fake(task(example_ids=np.arange(1, 401, dtype=np.int64))),
    "textual ids": lambda: fake(task(example_ids=np.arange(400).astype(str))),
    "examples": lambda: fake(task(402)),
    "num_labelled": lambda: fake(task(), num_labelled=22),
    "test_size": lambda: fake(task(), test_size=22),
    "test_selection": lambda: fake(task(), test_selection="fixed"),
    "approach": lambda: fake(task(), FakeApproach(name="other")),
    "approach version": lambda: fake(task(), FakeApproach(version="2")),
    "model revision": lambda: fake(task(), FakeApproach(revisions={"": "abc"})),
    "hyperparameter": lambda: fake(task(), hyperparameters="rate=0.51"),
    "kind of a number": lambda: fake(task(), hyperparameters="deep=true"),
    "root seed": lambda: fake(task(), root_seed=1),
    "numerics": lambda: fake(task(), FakeApproach(library="1.1")),
}
SAME: dict[str, Callable[[], InvestigationRequest]] = {
    "executor": lambda: fake(task(), executor="inline"),
    "workers": lambda: fake(task(), workers=2),
    "cell_timeout": lambda: fake(task(), cell_timeout=30),
    "metric": lambda: fake(task(), metric="accuracy"),
    "own metric": lambda: fake(task(), metric="own_metric"),
    "name of the task": lambda: fake(task(name="renamed")),
    "notes of the task": lambda: fake(replace(task(), notes=("a remark",))),
    "a fingerprint that lies": lambda: fake(replace(task(), fingerprint="no")),
    "default spelt out": lambda: fake(task(), hyperparameters="rate=0.50"),
    "device spelt out": lambda: fake(task(), device="cpu"),
    "order of hyperparameters": lambda: fake(task(), hyperparameters='{"steps": 3, "rate": 0.5}'),
    "golden_runs spelt out": lambda: fake(task(), golden_runs=12),
}


@pytest.fixture(scope="module")
def original() -> InvestigationRequest:
    return fake(task())


@pytest.mark.parametrize("what", CHANGED)
def test_every_cell_has_another_key_after_a_change_of(what: str, original: InvestigationRequest) -> None:
    changed = CHANGED[what]()
    assert keys(changed).isdisjoint(keys(original))
    assert changed.key != original.key


@pytest.mark.parametrize("what", SAME)
def test_every_cell_keeps_its_key_after_a_change_of(what: str, original: InvestigationRequest) -> None:
    assert keys(SAME[what]()) == keys(original)


def test_version_of_the_splits_is_part_of_the_key(original, monkeypatch) -> None:
    monkeypatch.setattr("mlflow_l3d.studies.request.SPLITS_VERSION", SPLITS_VERSION + 1)
    assert keys(fake(task())).isdisjoint(keys(original))


def test_keys_are_those_of_the_runs_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "__version__", "2.4.0")
    assert small().context_key == "b70bcd47f1667a3770604e59d7bd80c9"
    assert small(test_selection="fixed").context_key == "b9797a9215fb21441475a59eaefe5137"
    assert "018817f178faa9217b0ef4c2a983e1f5" in keys(small())


def test_fixed_test_set_depends_on_the_root_seed() -> None:
    seeds = [fake(task(), test_selection="fixed", root_seed=root).setup.task.settings.fixed_seed for root in (0, 1)]
    assert seeds[0] != seeds[1]
    assert fake(task(), root_seed=1).setup.task.settings.fixed_seed == 0


def test_task_objects_without_a_fingerprint_are_told_apart() -> None:
    first, second = (replace(generate(examples), fingerprint="") for examples in (400, 402))
    assert keys(fake(first)).isdisjoint(keys(fake(second)))
    assert fake(first).setup.task.fingerprint == generate(400).fingerprint


def test_larger_designs_and_other_factors_reuse_cells() -> None:
    base = keys(small())
    assert base < keys(small(investigation_runs=5, mitigation_runs=6, golden_runs=40))
    other = keys(small(factor="data_split"))
    assert len(base & other) == 12  # the golden runs
    assert base | other == keys(small(factor="data_order,data_split"))


def test_what_makes_two_parents_one_investigation() -> None:
    base = small().key
    assert small(executor="inline", workers=1).key == base
    assert small(golden_runs=12, root_seed="0").key == base
    changes: list[tuple[str, object]] = [("investigation_runs", 4), ("mitigation_runs", 5), ("golden_runs", 13)]
    changes += [("metric", "accuracy"), ("factor", "data_split"), ("factor", "data_order,data_split"), ("root_seed", 1)]
    assert len({base, *(small(**{name: value}).key for name, value in changes)}) == 1 + len(changes)


def test_keys_are_what_they_always_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells on tracking servers are found by these: after a change none of them is."""
    monkeypatch.setattr("numpy.__version__", "2.4.6")
    request = fake(task())
    first = next(request.design().cells())
    assert (request.context_key, first.key) == ("219e3772bd3d4bd174cb128886523643", "29808da9f486550c6a5ebf3a26245458")


def test_only_where_a_class_may_lack_evaluated_examples_is_the_macro_average_part_of_the_key() -> None:
    class OwnWay(Task):
        def split(self, seeds: Mapping[str, int]) -> Split:
            return super().split(seeds)

    drawn = task()
    one_each = replace(drawn, settings=replace(drawn.settings, num_labelled=2))
    on_validation = replace(drawn, settings=replace(drawn.settings, num_labelled=6, evaluated="validation"))
    whole, lacking = [drawn, one_each, parted([0, 1]), on_validation], [parted([1, 1]), OwnWay(**vars(drawn))]
    lacks = [False] * len(whole) + [True] * len(lacking)
    assert [may_lack_a_class(each) for each in (*whole, *lacking)] == lacks
    keys_of = [identity(each, FakeApproach(), model_revision="", numerics={}) for each in (*whole, *lacking)]
    assert ["macro_averages" in key for key in keys_of] == lacks


def test_a_validation_part_may_lack_a_class() -> None:
    labels = np.array([0] * 40 + [1, 1])  # one to train on, one to test, none for validation
    few = task(len(labels), texts=[[f"text {number}" for number in range(len(labels))]], labels=labels)
    assert not may_lack_a_class(few)
    assert may_lack_a_class(replace(few, settings=replace(few.settings, evaluated="validation")))
