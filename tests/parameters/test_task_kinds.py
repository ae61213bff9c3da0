"""Where tasks meet approaches: which kinds an approach takes, and a task's own split in a setup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from refusals import refusal
from specification_helpers import SMALL, FakeApproach

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.approaches.shots import check_shots
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.known import named
from mlflow_l3d.parameters.checks import check_kind
from mlflow_l3d.parameters.setup import Setup, read_parameters, set_up
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.tasks.base import KINDS, Task
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.resolve import bind_task
from mlflow_l3d.tasks.settings import SplitSettings

FEW = {**SMALL, "num_labelled": 8, "test_size": 4}


def a_task(kind: str, *, parts: bool = False) -> Task:
    count = 40
    labels = np.arange(count) % 2
    own = np.arange(count) // 2 % 2 if parts else None
    texts = [[f"t{k}" for k in range(count)]]
    if kind == "regression":
        return make_task("mine", texts, labels / 2, kind="regression", parts=own)
    if kind == "multiple_choice":
        return make_task("mine", texts, labels, kind="multiple_choice", choices=texts * 2, parts=own)
    return make_task("mine", texts, labels, ("no", "yes"), parts=own)


@dataclass
class TakesAll(FakeApproach):
    """An approach that takes every kind, or with the kind=fancy only two of them."""

    task_kinds: tuple[str, ...] = KINDS

    def task_kinds_under(self, hyperparameters: Mapping[str, Value]) -> tuple[str, ...]:
        return KINDS if hyperparameters["kind"] == "plain" else KINDS[:2]


@pytest.mark.parametrize("approach", ["synthetic", "icl", "meta_learning"])
@pytest.mark.parametrize("kind", ["regression", "multiple_choice"])
def test_an_approach_of_classes_refuses_other_kinds(approach: str, kind: str) -> None:
    from mlflow_l3d import registry

    built = registry.load("approach", approach)()
    given = built.complete(resolve_hyperparameters(built, {"decision": "generate"} if approach == "icl" else {}))
    what = kind.replace("_", " ")
    taken = "classification and generation" if approach == "icl" else "classification"
    said = f"task=mine: is a {what} task, and {approach} takes {taken} only. Use another approach."
    assert refusal(check_kind, a_task(kind), built, given) == said
    check_kind(a_task("classification"), built, given)


def test_an_investigation_says_so_in_one_line() -> None:
    with pytest.raises(ParameterError, match=r"^task=mine: is a multiple choice task, and synthetic takes"):
        specify(FEW, task=a_task("multiple_choice"))


def test_what_hyperparameters_allow() -> None:
    for kind in KINDS:
        check_kind(a_task(kind), TakesAll(), {"kind": "plain"})
    check_kind(a_task("regression"), TakesAll(), {"kind": "fancy"})
    assert refusal(check_kind, a_task("multiple_choice"), TakesAll(), {"kind": "fancy"}) == (
        "task=mine: is a multiple choice task, and fake takes classification and regression only under these "
        "hyperparameters. Use hyperparameter kind=plain."
    )


def test_a_metric_of_classes_on_scores() -> None:
    said = r"^metric=f1_macro: is a metric of class numbers, and mine is a regression task.* Use pearson, "
    with pytest.raises(ParameterError, match=said):
        specify({**FEW, "approach": "fake", "metric": "f1_macro"}, approach=TakesAll(), task=a_task("regression"))
    with pytest.raises(ParameterError, match=r"^metric=rmse: is a metric of finite numbers, and mine is a"):
        specify({**FEW, "approach": "fake", "metric": "rmse"}, approach=TakesAll(), task=a_task("classification"))
    check_kind(a_task("regression"), TakesAll(), {"kind": "plain"}, named("pearson"))


@pytest.mark.parametrize(
    ("kind", "metric"), [("classification", "f1_macro"), ("regression", "pearson"), ("multiple_choice", "accuracy")]
)
def test_an_investigation_is_about_the_metric_of_the_kind(kind: str, metric: str) -> None:
    found = specify({**FEW, "approach": "fake"}, approach=TakesAll(), task=a_task(kind))
    assert (found.metric.name, found.setup.task.kind) == (metric, kind)


def set_up_own(bound: Task | None, root_seed: int = 0, fraction: float = 0.0, **changes: object) -> Setup:
    given, approach = read_parameters({"executor": "inline", **changes}, MAIN, TakesAll(), bound)
    how = {"root_seed": root_seed, "predefined_split": True, "validation_fraction": fraction}
    return set_up(given, approach, bound, searches=None, **how)


def test_the_own_split_of_a_setup() -> None:
    setup = set_up_own(a_task("classification", parts=True))
    assert setup.task.settings == SplitSettings(source="own")
    assert set(setup.fixed_factors) == {"label_selection", "data_split"}
    assert setup.all_factors == ("data_order",)
    assert "mine: its own split is used: 20 train, 20 evaluated examples" in setup.task.notes
    # The root seed has no part in it until something is drawn.
    assert set_up_own(a_task("classification", parts=True), 5).task.settings == setup.task.settings
    own = a_task("classification", parts=True)
    held = [set_up_own(own, seed, 0.2, num_labelled=10, test_size=6) for seed in (0, 5)]
    assert [(s.task.settings.num_labelled, s.task.settings.test_size) for s in held] == [(10, 6)] * 2
    assert len({s.task.settings.fixed_seed for s in held}) == 2
    split = held[0].task.split({})
    assert [len(split.train), len(split.validation), len(split.test)] == [8, 2, 6]


def test_a_task_without_parts_is_split_once() -> None:
    setup = set_up_own(a_task("classification"), 5, num_labelled=10, test_size=6)
    assert setup.task.settings == SplitSettings(num_labelled=10, test_size=6)
    sizes = "10 labelled (8 to train on, 2 held out) and 6 evaluated examples"
    once = "has no train and test parts, so all runs share one split, which root_seed draws"
    assert setup.task.notes[0] == f"mine: {once}: {sizes}"
    with pytest.raises(ParameterError, match=r"^validation_fraction=0.2: is a share of a train part, and task=m"):
        set_up_own(a_task("classification"), 5, 0.2)


def test_what_an_entry_point_may_say_about_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    columns = {name: [f"{name}{row}" for row in range(8)] for name in ("text", "left", "right")}
    pd.DataFrame({**columns, "label": [0, 1] * 4, "split": ["train"] * 4 + ["dev"] * 4}).to_csv(path, index=False)
    more = {"metric": "accuracy", "task": str(path)}
    assert set_up_own(None, **more).task.kind == "classification"
    assert set_up_own(None, choice_columns="left,right", **more).task.choices[0] == tuple(columns["left"])
    with pytest.raises(ParameterError, match=r"^metric=accuracy: is a metric of class numbers"):
        set_up_own(None, task_kind="regression", **more)
    with pytest.raises(ParameterError, match=r"^choice_columns=a,b: has no effect on a task object"):
        set_up_own(a_task("classification", parts=True), choice_columns="a,b")


def test_shots_are_counted_in_the_own_train_part() -> None:
    task = bind_task(a_task("classification", parts=True), SplitSettings(source="own"))
    check_shots(task, (0, 1), 10)
    with pytest.raises(ParameterError, match=r"class 'no' has 10 labelled examples .* at most 10"):
        check_shots(task, (0, 1), 11)
    fewer = replace(task, settings=SplitSettings(num_labelled=8, source="own"))
    with pytest.raises(ParameterError, match=r"class 'no' has 4 labelled examples .* or raise num_labelled"):
        check_shots(fewer, (0, 1), 5)
