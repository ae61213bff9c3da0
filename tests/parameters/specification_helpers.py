"""A cheap request, and an approach whose every part of a cell's key can be changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.studies.investigation.request import InvestigationRequest, specify
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.sources.packaged import generate

SIZES = {"investigation_runs": 3, "mitigation_runs": 4, "num_labelled": 20, "test_size": 20}
SMALL: dict[str, object] = {"approach": "synthetic", "factor": "data_order", **SIZES}


def small(**changes: object) -> InvestigationRequest:
    """Specify a small investigation of the synthetic approach."""
    return specify({**SMALL, **changes})


def keys(request: InvestigationRequest) -> set[str]:
    """Return the keys of all cells."""
    return {cell.key for cell in request.design().cells()}


@dataclass
class FakeApproach(Approach):
    """An approach that can be specified, but not run."""

    name: str = "fake"
    version: str = "1"
    factors: tuple[str, ...] = ("label_selection", "data_split", "data_order")
    hyperparameters: Mapping[str, Hyperparameter] = field(
        default_factory=lambda: {
            "rate": Hyperparameter(0.5, "a share", low=0.0, high=1.0),
            "steps": Hyperparameter(3, "a number", low=1),
            "deep": Hyperparameter(False, "a switch"),
            "kind": Hyperparameter("plain", "a word", choices=("plain", "fancy")),
        }
    )
    metrics: tuple[str, ...] = ("own_metric",)
    default_model: str = ""
    default_task: str = "synthetic"
    revisions: Mapping[str, str] = field(default_factory=lambda: {"": "none"})
    library: str = "1.0"
    inactive: Mapping[str, str] = field(default_factory=dict)

    def inactive_factors(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:
        """Return what the test asks for."""
        return self.inactive

    def model_revision(self, model: str) -> str:
        """Return the revision of one of the models that the test knows."""
        return self.revisions[model]

    def numerics(self, device: str) -> Mapping[str, str]:
        """Return the library's version."""
        return {"library": self.library}

    def prepare(self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path) -> Any:
        """Never called here."""
        raise NotImplementedError


def fake(task: Task | None = None, approach: FakeApproach | None = None, **changes: object) -> InvestigationRequest:
    """Specify an investigation of a fake approach on a small task object."""
    parameters = {name: value for name, value in SMALL.items() if name != "approach"}
    return specify({**parameters, **changes}, approach=approach or FakeApproach(), task=task or generate(400))
