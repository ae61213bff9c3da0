"""In what a candidate differs from the baseline of a gate: as it is named, and as it comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.values import check_names, json_of
from mlflow_l3d.studies.investigation.parameters import MAIN

if TYPE_CHECKING:
    from mlflow_l3d.studies.gate.golden import GoldenRequest

OF_A_PLAN: Final = (
    *("factor", "design", "investigation_runs", "mitigation_runs", "golden_runs", "joint", "mitigation"),
    *("stop", "half_width", "epsilon", "missing"),
)
"""Parameters of `main` that say nothing of a golden run."""


def changes_of(text: object) -> dict[str, Any]:
    """Return the parameters of `main` that a candidate names."""
    changes = dict(text) if isinstance(text, Mapping) else _typed(str(text).strip())
    allowed_names = [key for key in MAIN if key not in OF_A_PLAN]
    check_names("candidate", changes, allowed_names, "with parameters of an investigation's runs:")
    return changes


def _typed(text: str) -> dict[str, Any]:
    if text.startswith("{"):
        return dict(json_of("candidate", text, text))
    pairs = [part.partition("=") for part in text.split(";") if part.strip()]
    if not pairs or not all(equals for _, equals, _ in pairs):
        allowed = "must be a run id, or what differs from the baseline as model=...;num_labelled=500 or JSON"
        raise ParameterError("candidate", text or "''", allowed)
    return {key.strip(): value.strip() for key, _, value in pairs}


def title_of(document: Mapping[str, Any], request: GoldenRequest) -> str:
    """Return in what a candidate differs from the document of the baseline, in a few words."""
    return ", ".join(f"{name}={value}" for name, value in _differences(document, request).items())


def _differences(document: Mapping[str, Any], candidate: GoldenRequest) -> dict[str, object]:
    """Return what the candidate has otherwise than the baseline."""
    before, after = document["hyperparameters"], candidate.setup.public_hyperparameters
    found, setup = {name: value for name, value in after.items() if before.get(name) != value}, candidate.setup
    own: dict[str, object] = {"approach": setup.approach.name, "model": setup.model, "root_seed": candidate.root_seed}
    known: dict[str, object] = {"approach": document["approach"]["name"], "model": document["model"]["name"]}
    known["root_seed"] = int(document["parameters"]["root_seed"])
    own["num_labelled"], known["num_labelled"] = setup.task.settings.num_labelled, document["task"].get("num_labelled")
    return {**{name: value for name, value in own.items() if value != known[name]}, **found}
