"""Parameters of executors: checked before anything is loaded."""

import math

import pytest
from refusals import refusal
from specification_helpers import small

from mlflow_l3d import registry
from mlflow_l3d.approaches.hyperparameters import Hyperparameter
from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.studies.base import executor_of


class Elsewhere(ProcessExecutor):
    options = {  # noqa: RUF012
        "num_gpus": Hyperparameter(1.0, "GPUs of a worker", low=0.0),
        "queue": Hyperparameter("", "where jobs wait", choices=("short", "long")),
    }

    def __init__(self, *, job, workers=None, options=None):
        super().__init__(job=job, workers=workers)
        self.given = options


@pytest.fixture
def elsewhere(monkeypatch):
    load = registry.load
    monkeypatch.setattr(registry, "load", lambda kind, name: Elsewhere if kind == "executor" else load(kind, name))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", {}),
        ('{"num_gpus": 0.5}', {"num_gpus": 0.5}),
        ({"num_gpus": 0.5, "queue": "long"}, {"num_gpus": 0.5, "queue": "long"}),
        ("num_gpus=2, queue=short", {"num_gpus": 2.0, "queue": "short"}),
    ],
)
def test_options_arrive_where_cells_run(elsewhere, text, expected):
    setup = small(executor_options=text).setup
    assert setup.how.options == expected
    assert executor_of(setup).given == (expected or None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("num_gpu=1", "executor_options='num_gpu': must be one of num_gpus, queue. Did you mean 'num_gpus'?"),
        ('{"num_gpus": -1}', "executor_options.num_gpus=-1: must lie in [0, inf]."),
        ("queue=shrt", "executor_options.queue='shrt': must be one of long, short. Did you mean 'short'?"),
        ("num_gpus", "executor_options.num_gpus=true: must be"),
        ('{"num_gpus": 1', 'executor_options={"num_gpus": 1: is not valid JSON'),
    ],
)
def test_options_that_are_none(elsewhere, text, said):
    assert refusal(small, executor_options=text).startswith(said)


def test_a_model_on_the_cpu_asks_for_no_gpu():
    said = "executor_options.num_gpus=0.5: asks for GPUs, and device=cpu uses none. Use device=cuda."
    assert refusal(small, approach="finetuning", executor="ray", executor_options="num_gpus=0.5", device="cpu") == said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"executor_options": "a=1"}, "executor_options=a=1: executor=processes has none. Leave it out."),
        ({"cell_timeout": 5, "executor": "inline"}, "cell_timeout=5: executor=inline cannot stop a cell. Use"),
        ({"cell_timeout": 0}, "cell_timeout=0: must be auto or none or a number above 0."),
        ({"workers": 2, "executor": "inline"}, "workers=2: executor=inline has one. Use executor=processes."),
    ],
)
def test_what_an_executor_does_not_take(given, said):
    assert refusal(small, **given).startswith(said)


@pytest.mark.parametrize(("text", "expected"), [("auto", None), ("none", math.inf), ("2.5", 2.5)])
def test_time_limits(text, expected):
    assert small(cell_timeout=text).setup.how.cell_timeout == expected
