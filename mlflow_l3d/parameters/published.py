"""What ``hyperparameters=paper`` means for the other parameters: the model, the runs, the metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlflow_l3d import registry
from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.hooks import PublishedStudy
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.declaration import Arguments
from mlflow_l3d.parameters.sources import parse
from mlflow_l3d.parameters.values import Choice

PUBLISHED: Final = "crossed"
"""The design of the paper."""


def as_published(asked: Arguments, approach: Approach) -> tuple[Arguments, tuple[str, ...]]:
    """Return the parameters with those of the paper in place of `auto`, and a sentence on what differs from the paper.

    Parameters
    ----------
    asked
        The arguments. Without ``hyperparameters=paper`` they are returned as they are.
    approach
        The approach; nothing changes for one without a published study.

    Raises
    ------
    ParameterError
        If the paper has several models and none is named, or a published rate does not suit the approach's own model.
    """
    study, source = approach.published_study, parse(asked["hyperparameters"])
    if study is None or source.source != "paper":
        return asked, ()
    asked = asked.changed(model=_model(asked["model"], study, approach, rate_is_given=study.rate in source.overrides))
    if "mitigation_runs" not in asked:  # a search has no runs of its own
        return asked, ()
    if asked["design"] == "auto":
        asked = asked.changed(design=PUBLISHED)
    design = registry.load("design", asked["design"])
    if (asked["mitigation_runs"], asked["stop"]) == ("auto", "none") and getattr(design, "has_columns", False):
        asked = asked.changed(mitigation_runs=study.mitigation_runs)
    if asked["metric"] == "auto":
        asked = asked.changed(metric=study.metric)
    return asked, _differences(asked.texts, study, baseline=getattr(design, "baseline", False))


def _model(model: str, study: PublishedStudy, approach: Approach, *, rate_is_given: bool) -> str:
    """Return the model that is meant."""
    named = study.models[0] if len(study.models) == 1 else str(Choice(study.models))
    if model == "auto":
        if len(study.models) > 1:
            allowed = f"the paper has several models for {approach.name}, and hyperparameters=paper needs to know which"
            raise ParameterError("model", model, allowed, f"Use model={named}.")
        return study.models[0]
    if study.rate and model == approach.default_model and not rate_is_given:
        allowed = f"is not a model that the published {study.rate} was found for; it is far smaller"
        fix = f"Use model={named}, or give a rate (hyperparameters=paper,{study.rate}=...), or leave paper out."
        raise ParameterError("model", model, allowed, fix)
    return model


def _differences(texts: Mapping[str, str], study: PublishedStudy, *, baseline: bool) -> tuple[str, ...]:
    """Return what is not as the paper has it, in one sentence; models are another one's business."""
    rows, columns, examples = study.mitigation_runs, study.investigation_runs, study.examples
    theirs = {
        "design": (PUBLISHED, *((texts["design"],) if baseline else ())),
        "investigation_runs": (str(columns),),
        "mitigation_runs": (str(rows),),
        "golden_runs": (str(rows * columns), "auto"),
        "joint": ("paired",),
        "mitigation": ("none",),
        "stop": ("none",),
        "metric": (study.metric,),
        "num_labelled": (str(examples), "auto"),
        "test_size": (str(examples), "auto"),
        "test_selection": ("label_selection",),
        "reference_size": ("0",),
    }
    others = {name: texts[name] for name, values in theirs.items() if texts[name].strip() not in values}
    text = ", ".join(f"{name}={value} ({theirs[name][0]})" for name, value in others.items())
    return (f"Not as in the paper, whose values are in brackets: {text}.",) if others else ()
