"""The parameters of `investigate` that only approach=project has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from mlflow_l3d.annotations import Of


class ProjectParameters(TypedDict, total=False):
    """Which project is run, and how."""

    uri: Annotated[
        str, Of("", "folder of an MLflow project, or address of a git repository", approach="project", text="address")
    ]
    entry_point: Annotated[str, Of("main", "an entry point of it, or a script", approach="project")]
    project_parameters: Annotated[
        str | Mapping[str, Any],
        Of(
            "",
            "name=value pairs or JSON, with {factor} where a seed belongs: seed={data_order},epochs=3",
            approach="project",
            text="words",
        ),
    ]
