"""What a candidate of a gate changes, also in a command: as it is typed, and as people read it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

from mlflow_l3d.approaches.own_parameters import OWN_PARAMETERS
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.values import check_names, json_of
from mlflow_l3d.studies.gate.golden import OF_A_PLAN, GoldenRequest
from mlflow_l3d.studies.investigation.parameters import MAIN

_OPTION: Final = re.compile("--?[A-Za-z]")


def options_of(command: str) -> dict[str, str]:
    """Return the options of a command, and the rest of it as ``script``; without what each run has of its own.

    Examples
    --------
    >>> options_of("python train.py --seed {seed} --fast -b 8")
    {'script': 'python train.py', 'fast': 'yes', 'b': '8'}
    """
    options: dict[str, str] = {}
    rest: list[str] = []
    words = shlex.split(command)
    for before, word in zip(["", *words], words, strict=False):
        name, equals, value = word.partition("=")
        if "{" in word:
            options.pop(before.lstrip("-"), None)
            continue
        if _OPTION.match(word):
            options[name.lstrip("-")] = value if equals else "yes"
        elif _OPTION.match(before) and "=" not in before:
            options[before.lstrip("-")] = word
        else:
            rest.append(word)
    return {"script": " ".join(rest), **options} if words else {}


def changed_options(before: str, after: str) -> str:
    """Return in which options the second command differs from the first; the whole of it if in others.

    Examples
    --------
    >>> changed_options("python train.py --seed {seed}", "python train.py --seed {seed} --epochs 20")
    'epochs=20'
    """
    old, new = options_of(before), options_of(after)
    changed = [f"{name}={new.get(name, 'default')}" for name in {**old, **new} if old.get(name) != new.get(name)]
    return " ".join(changed if old and new else ()) or f"command={after}"


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
    changed = {
        changed_options(str(before), str(after)) if name == "command" else f"{name}={after}": f"{name}={after}"
        for name, (before, after) in both.items()
        if after != before
    }
    of_baseline, tuned = document["hyperparameters"], setup.public_hyperparameters
    texts = [f"{name}={value}" for name, value in tuned.items() if of_baseline.get(name) != value]
    return changed | {text: f"hyperparameters={text}" for text in texts}
