"""What a request holds: defaults, several factors, objects from Python, and what may be shown to others."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from specification_helpers import SMALL, FakeApproach, fake, small

from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.synthetic import FACTORS, NO_EFFECT, Synthetic
from mlflow_l3d.metrics.known import named
from mlflow_l3d.parameters import read_arguments
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.studies.seeds.parameters import SEEDS
from mlflow_l3d.tasks.sources.packaged import generate


def test_defaults_are_those_of_the_paper() -> None:
    defaults = {"investigation_runs": "10", "mitigation_runs": "auto", "golden_runs": "auto", "root_seed": "0"}
    assert {name: MAIN[name].default for name in defaults} == defaults
    request = specify({"approach": "synthetic"})
    assert request.factors == ("data_order",)
    assert request.setup.all_factors == FACTORS
    plan = request.plan
    assert (plan.investigation_runs, plan.mitigation_runs, plan.golden_runs) == (10, 20, 200)
    assert len(request.design()) == 400
    assert request.metric.name == "f1_macro"
    assert dict(request.given) == {name: p.default for name, p in MAIN.items()} | {"approach": "synthetic"}


def test_none_is_recorded_as_the_default_is_typed() -> None:
    nothing = read_arguments(dict.fromkeys(SEEDS), SEEDS)
    assert nothing.texts == read_arguments({}, SEEDS).texts | {"validation_fraction": "0", "cell_timeout": "none"}
    assert nothing["validation_fraction"] == 0


def test_a_metric_may_be_an_object_that_has_an_entry_point_or_is_ours() -> None:
    request = small(metric=named("accuracy"))
    assert request.metric is named("accuracy")
    assert request.given["metric"] == "accuracy"


def test_all_is_every_factor_that_has_an_effect() -> None:
    request = small(factor="all", hyperparameters={"a_sample_choice": NO_EFFECT})
    assert request.factors == request.setup.all_factors == tuple(f for f in FACTORS if f != "sample_choice")
    assert "a_sample_choice is 1e+06 or more" in request.setup.fixed_factors["sample_choice"]
    assert request.resolved()["factor"] == ",".join(request.factors)
    assert all("sample_choice" not in cell.seeds for cell in request.design().cells())


def test_several_factors_in_the_order_given() -> None:
    wanted = ("model_initialisation", "data_order")
    assert small(factor="model_initialisation, data_order").factors == wanted
    assert small(factor=list(wanted)).factors == small(factor=wanted).factors == wanted


def test_factor_of_the_task_without_an_effect_is_left_out() -> None:
    """400 examples, 160 of each class in the training part, 40 in the test part: all are taken."""
    request = fake(generate(400), factor="all", num_labelled=320, test_size=80)
    assert request.factors == ("data_split", "data_order")
    assert "lower num_labelled" in request.setup.fixed_factors["label_selection"]


def test_objects_from_python() -> None:
    approach, task = FakeApproach(), generate(400)
    request = fake(task, approach, root_seed=0, hyperparameters={"rate": 0.25, "deep": True})
    assert request.setup.approach is approach
    assert request.given["approach"] == "fake"
    assert (request.setup.task.name, request.setup.task.fingerprint) == (task.name, task.fingerprint)
    assert request.setup.task.settings.num_labelled == 20
    assert request.setup.hyperparameters == {"rate": 0.25, "steps": 3, "deep": True, "kind": "plain"}
    assert task.settings.num_labelled is None  # the caller's object is as it was


def test_object_and_name_give_the_same_keys() -> None:
    parameters = {name: value for name, value in SMALL.items() if name != "approach"}
    by_object = specify(parameters, approach=Synthetic(), task=generate())
    assert by_object.context_key == small().context_key
    assert by_object.key == small().key


def test_task_object_has_the_same_remarks_as_a_task_by_name() -> None:
    notes = fake(generate(400), num_labelled="auto", test_size="auto").setup.task.notes
    assert [note.partition(":")[0] for note in notes] == ["synthetic", "synthetic"]
    assert "320 training examples labelled instead of the default 1,000" in notes[0]


def test_function_as_an_approach() -> None:
    about = {"name": "mine", "version": "1", "factors": ["data_order"], "default_task": "synthetic"}
    approach = FunctionApproach(lambda *_: [0], **about)
    request = specify({"factor": "all"}, approach=approach)
    assert request.factors == ("label_selection", "data_split", "data_order")
    assert request.setup.task.name == "synthetic"


def test_approach_may_complete_its_hyperparameters() -> None:
    class Completing(FakeApproach):
        def complete(self, hyperparameters: dict[str, object]) -> dict[str, object]:
            return {**hyperparameters, "steps": 99}

    assert fake(approach=Completing()).setup.hyperparameters["steps"] == 99


def test_document_repeats_the_investigation(tmp_path: Path) -> None:
    file = tmp_path / "private" / "data.csv"
    file.parent.mkdir()
    file.write_text("text,label\n" + "".join(f"row {row},{row % 2}\n" for row in range(100)))
    request = small(task=str(file), num_labelled=20, test_size=10)
    document = request.document()
    text = json.dumps(document, allow_nan=False)
    assert str(tmp_path) not in text
    assert "row 1" not in text
    assert document["parameters"]["task"] == "data.csv"
    assert document["task"]["fingerprint"] == request.setup.task.fingerprint
    runs = {"investigation_runs": 3, "mitigation_runs": 4, "golden_runs": 12, "golden_pooled": False}
    more = {"joint": "paired", "mitigation": [], "stop": ["none"], "root_seed": 0}
    assert document["design"] == {"name": "crossed", **runs, **more}
    again = specify({**document["parameters"], "task": str(file)})
    assert again.key == document["investigation_key"]
    assert document["mitigated_factors"] == [name for name in FACTORS if name != "data_order"]


def test_resolved_holds_what_was_not_typed_and_nothing_else() -> None:
    resolved = small().resolved()
    assert set(resolved) == {"task", "design", "golden_runs", "device", "metric", "hyperparameters"}
    assert resolved["golden_runs"] == "12"
    assert json.loads(resolved["hyperparameters"])["noise"] == 0.0
    assert "golden_runs" not in small(golden_runs=12).resolved()


@pytest.mark.slow
def test_nothing_heavy_is_loaded_for_the_synthetic_approach() -> None:
    import subprocess

    code = (
        "import sys; from mlflow_l3d.studies.investigation.request import specify\n"
        "specify({'approach': 'synthetic'})\n"
        "print([n for n in ('mlflow', 'torch', 'transformers', 'datasets', 'matplotlib') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_machine_without_torch_runs_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    approach = FakeApproach(default_model="tiny", revisions={"tiny": "r"})
    assert fake(approach=approach).setup.device == "cpu"


def test_device_that_is_there() -> None:
    import torch

    approach = FakeApproach(default_model="tiny", revisions={"tiny": "r"})
    device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert fake(approach=approach).setup.device == device
    assert fake(approach=approach, device="cpu").setup.device == "cpu"
