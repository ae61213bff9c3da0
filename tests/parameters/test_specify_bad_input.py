"""Every wrong parameter: one line with its name, its value, what is allowed, and the name that was meant."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import refusal
from specification_helpers import FakeApproach, fake, small

from mlflow_l3d.approaches.synthetic import FACTORS, NO_EFFECT, Synthetic
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.parameters.values import as_text
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.tasks.sources.packaged import generate

TWO = "needs two factors with an effect, one to investigate and one to mitigate"
NAMES: list[tuple[str, str, str | None]] = [
    ("factor", "data_ordr", "data_order"),
    ("factor", "Data_Order", "data_order"),
    ("factor", "shuffling", None),
    ("factor", "", None),
    ("factor", "data_order,", None),
    ("factor", "ALL", "all"),
    ("task", "sintetic", "synthetic"),
    ("task", "nothing like it", None),
    ("approach", "syntetic", "synthetic"),
    ("approach", "finetunning", "finetuning"),
    ("approach", "", None),
    ("metric", "f1", None),
    ("metric", "f1_makro", "f1_macro"),
    ("metric", "ACCURACY", "accuracy"),
    ("executor", "process", "processes"),
    ("executor", "Inline", "inline"),
    ("design", "crosed", "crossed"),
    ("design", "nestd", "nested"),
    ("missing", "reml2", "reml"),
    ("stop", "intervall", "interval"),
    ("joint", "pairs", "paired"),
    ("test_selection", "fix", "fixed"),
    ("hyperparameters", "a_data_ordr=1", "a_data_order"),
]


@pytest.mark.parametrize(("name", "value", "meant"), NAMES)
def test_unknown_name(name: str, value: str, meant: str | None) -> None:
    with pytest.raises(ParameterError) as caught:
        small(**{name: value})
    line = str(caught.value)
    wrong = value.split(",")[-1].partition("=")[0]
    assert line.startswith(f"{name}={wrong!r}: must be ")
    assert line.endswith(f"Did you mean {meant!r}?") is (meant is not None)
    assert "\n" not in line
    assert caught.value.name == name


def test_unknown_name_lists_what_is_allowed() -> None:
    shown = refusal(small, factor="shuffling")
    assert all(factor in shown for factor in (*FACTORS, "all"))
    with pytest.raises(ParameterError, match=r"accuracy, auto, .*f1_macro, .*pearson, .*synthetic_score"):
        small(metric="f1")


@pytest.mark.parametrize("name", ["mine", "accuracy"])
def test_a_metric_that_no_entry_point_names(name: str) -> None:
    fix = "Give its function, or declare it as an entry point of the group mlflow_l3d.metrics."
    assert refusal(small, metric=Metric(name)) == f"metric={name}: is an object that no entry point names. {fix}"


@pytest.mark.parametrize("name", ["investigation_runs", "mitigation_runs"])
@pytest.mark.parametrize(
    "value", [1, 0, -1, 1.5, "2.0", "ten", "", "Auto", "None", True, "nan", "2;ls", 1_000_001, "1_0"]
)
def test_runs_that_are_none(name: str, value: object) -> None:
    allowed = "must be auto or a whole number" if name == "mitigation_runs" else "must be a whole number"
    assert refusal(small, **{name: value}) == f"{name}={as_text(name, value)}: {allowed} from 2 to 1000000."


@pytest.mark.parametrize(
    ("name", "value", "ends"),
    [
        *(("golden_runs", value, "from 2 to 10000000") for value in (1, 0, -5, "all", "2.5", "")),
        *(("num_labelled", value, "of at least 2") for value in (1, 0, "many")),
        *(("test_size", value, "of at least 2") for value in (1, -1, "0.2")),
        *(("workers", value, "from 1 to 10000") for value in (0, -1, "two")),
    ],
)
def test_numbers_that_are_none(name: str, value: object, ends: str) -> None:
    auto = "auto, pooled, or" if name == "golden_runs" else "auto or"
    assert refusal(small, **{name: value}) == f"{name}={value}: must be {auto} a whole number {ends}."


@pytest.mark.parametrize("value", [-1, "-7", "x", "0.5", ""])
def test_root_seed(value: object) -> None:
    assert refusal(small, root_seed=value) == f"root_seed={value}: must be a whole number of at least 0."


@pytest.mark.parametrize("factor", [[], "", ["data_order", ""], ["data_order,"]])
def test_no_factor(factor: object) -> None:
    with pytest.raises(ParameterError, match=r"^factor='': must be a factor of synthetic"):
        small(factor=factor)


@pytest.mark.parametrize("value", ["data_order,data_order", "data_order, data_split,data_order"])
def test_factor_named_twice(value: str) -> None:
    assert refusal(small, factor=value) == f"factor={value}: must name each factor once."


@pytest.mark.parametrize("value", ["all,data_order", "data_order,all", "all,replicate,data_order"])
def test_all_beside_names(value: str) -> None:
    allowed = "must be `all`, `all,replicate`, `all,test_sample`, or names without it."
    assert refusal(small, factor=value) == f"factor={value}: {allowed}"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"hyperparameters": f"a_data_order={NO_EFFECT}"}, "factor=data_order: has no effect here: a_data_order is 1e"),
        (
            {"factor": "label_selection", "num_labelled": 1600, "test_size": 400},
            "factor=label_selection: has no effect here: every training example of synthetic is labelled",
        ),
        (
            {"hyperparameters": ",".join(f"a_{f}={NO_EFFECT}" for f in FACTORS if f != "data_order")},
            f"factor=data_order: {TWO}, and only data_order has",
        ),
        (
            {"factor": "all", "hyperparameters": ",".join(f"a_{factor}={NO_EFFECT}" for factor in FACTORS)},
            f"factor=all: {TWO}, and none has",
        ),
    ],
)
def test_seed_that_would_have_no_effect(changes: dict[str, object], line: str) -> None:
    assert refusal(small, **changes).startswith(line)


def test_dropout_of_zero_switches_model_randomness_off() -> None:
    parameters = {"approach": "finetuning", "task": "synthetic", "hyperparameters": "dropout=0"}
    parameters |= {"num_labelled": "20", "test_size": "20", "device": "cpu"}
    with pytest.raises(ParameterError, match=r"^factor=model_randomness: has no effect here: dropout is 0"):
        specify({**parameters, "factor": "model_randomness"})
    assert "model_randomness" not in specify({**parameters, "factor": "all"}).setup.all_factors


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("mitigation_run", 3, "parameter='mitigation_run': must be "),
        ("num_labelled", 10_000, "num_labelled=10000: "),
        ("test_size", 10_000, "test_size=10000: "),
        ("text_column", "body", "text_column=body: has no effect on the task synthetic"),
        ("label_column", "y", "label_column=y: has no effect on the task synthetic"),
        ("model", "bert-base-uncased", "model=bert-base-uncased: approach synthetic has no model, so it must be auto"),
        ("device", "cuda", "device=cuda: synthetic runs on the cpu only"),
        ("device", "gpu", "device=gpu: synthetic runs on the cpu only"),
        ("task", "missing.csv", "task=missing.csv: "),
    ],
)
def test_value_that_does_not_fit(name: str, value: object, line: str) -> None:
    assert refusal(small, **{name: value}).startswith(line)


def mine(*_: object) -> list[int]:
    return []


TINY = FakeApproach(default_model="tiny", revisions={"tiny": "r"})


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"approach": Synthetic}, "approach=Synthetic: must be an object, not its class. Give an instance: Synth"),
        ({"task": Synthetic}, "task=Synthetic: must be an object, not its class. Give an instance: Synthetic(...)."),
        ({"approach": mine}, "approach=function: is not an approach: it is not a subclass of"),
        ({"task": [("a text", 1)]}, "task=list: must be a name, a data frame or set, or a task of mlflow_l"),
        ({"text_column": "body"}, "text_column=body: has no effect on a task object. Leave it out."),
        ({"label_column": "body"}, "label_column=body: has no effect on a task object. Leave it out."),
        ({"approach": TINY, "device": "cdua"}, "device='cdua': must be one of auto, cpu, cuda, cuda:N, mps. Did you"),
    ],
)
def test_objects_that_do_not_fit(given: dict[str, Any], line: str) -> None:
    shown = refusal(fake, **given)
    assert shown.startswith(line)
    assert shown.endswith("Wrap a function in mlflow_l3d.FunctionApproach.") == (given.get("approach") is mine)


def test_device_that_is_not_there() -> None:
    import torch

    absent = "mps" if torch.cuda.is_available() else "cuda:0"
    said = f"device={absent}: no such device on this machine. Use device=cpu or device=auto."
    assert refusal(fake, approach=TINY, device=absent) == said


def test_device_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(L3DError, match=r"^device=cuda: needs torch\. Run: pip install 'mlflow-l3d\[models\]'$"):
        fake(approach=TINY, device="cuda")


def test_task_object_that_breaks_the_contract() -> None:
    with pytest.raises(L3DError, match=r"^task=synthetic: example_ids are not unique\.$"):
        fake(replace(generate(400), example_ids=np.zeros(400, dtype=np.int64)))


def test_cheap_checks_come_before_data_and_models() -> None:
    """A wrong number is reported although the model, which would take long, is wrong, too."""
    approach = FakeApproach(default_model="tiny", revisions={})
    with pytest.raises(ParameterError, match=r"^mitigation_runs=1"):
        fake(approach=approach, mitigation_runs=1)
    with pytest.raises(ParameterError, match=r"^hyperparameters\.rate=2"):
        fake(approach=approach, hyperparameters="rate=2")


def test_more_cells_than_anybody_can_wait_for() -> None:
    with pytest.raises(ParameterError, match=r"=1000 x 1000000, \d+ golden runs: make \d,.* days of 10 ms each"):
        fake(investigation_runs=1000, mitigation_runs=1_000_000)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("model", Path("/m"), "/m"),
        ("device", 0, "0"),
        ("model", {}, "{}"),
        ("executor_options", {"a": 1}, {"a": 1}),
        ("mitigation_runs", np.array(3), 3),
        ("mitigation_runs", np.int64(3), 3),
        ("deterministic", np.bool_(True), True),
        ("text_column", ["a,b", "c"], ["a,b", "c"]),
    ],
)
def test_what_python_has_is_read_as_it_would_be_typed(name: str, value: object, text: object) -> None:
    assert MAIN[name].read(value) == text


@pytest.mark.parametrize("name", ["mitigation_runs", "metric", "design", "model"])
def test_a_frame_or_an_array_is_refused(name: str) -> None:
    assert refusal(MAIN[name].read, pd.DataFrame({"a": [1, 2]})) == f"{name}=DataFrame: must be a text or a number."
    assert name == "model" or refusal(small, **{name: np.array([1, 2])}).startswith(f"{name}=")
