"""What a candidate of a gate changes: as it is typed, and as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_l3d.approaches.command.template import changed_options
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.shared import OWN_PARAMETERS
from mlflow_l3d.parameters.values import check_names, json_of, public_parameter
from mlflow_l3d.studies.gate.golden import OF_A_PLAN, GoldenRequest
from mlflow_l3d.studies.investigation.parameters import MAIN


def typed_changes(candidate: object) -> dict[str, Any]:
    """Return the parameters of `investigate` that a candidate names."""
    text = str(candidate).strip()
    if isinstance(candidate, Mapping) or text.startswith("{"):
        changes = dict(candidate if isinstance(candidate, Mapping) else json_of("candidate", text, text))
    else:
        pairs = [part.partition("=") for part in text.split(";") if part.strip()]
        if not pairs or not all(equals for _, equals, _ in pairs):
            allowed = "must be a run id, or what differs from the baseline as model=...;num_labelled=500 or JSON"
            raise ParameterError("candidate", text or "''", allowed)
        changes = {key.strip(): value.strip() for key, _, value in pairs}
    allowed_names = [name for name in MAIN if name not in OF_A_PLAN]
    check_names("candidate", changes, allowed_names, "hyperparameters=NAME=VALUE, or another parameter of investigate:")
    return changes


def differences_from(document: Mapping[str, Any], candidate: GoldenRequest) -> dict[str, str]:
    """Return each difference of a candidate from the document of the baseline, see :class:`Side`."""
    setup, parameters = candidate.setup, document["parameters"]
    both: dict[str, tuple[object, object]] = {
        "approach": (parameters["approach"], candidate.given["approach"]),
        "cure": (parameters.get("cure", "none"), candidate.given["cure"]),
        "model": (document["model"]["name"], setup.model),
        **{name: (parameters.get(name, of.default), candidate.given[name]) for name, of in OWN_PARAMETERS.items()},
        "root_seed": (int(parameters["root_seed"]), candidate.root_seed),
        "num_labelled": (document["task"].get("num_labelled"), setup.task.settings.num_labelled),
    }
    changed = {}
    for name, values in both.items():
        if values[0] != values[1]:
            before, after = (public_parameter(name, str(value)) for value in values)
            changed[changed_options(before, after) if name == "command" else f"{name}={after}"] = f"{name}={after}"
    of_baseline, tuned = document["hyperparameters"], setup.public_hyperparameters
    texts = [f"{name}={value}" for name, value in tuned.items() if of_baseline.get(name) != value]
    return changed | {text: f"hyperparameters={text}" for text in texts}
