"""The parameters of `investigate` that only one approach takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypedDict, get_type_hints

from mlflow_l3d.annotations import Of


class CommandParameters(TypedDict, total=False):
    """What is run."""

    command: Annotated[
        str, Of("", "program and its arguments, with {factor} in place of a seed", approach="command", text="words")
    ]


class ProjectParameters(TypedDict, total=False):
    """Which project is run, and how."""

    uri: Annotated[
        str, Of("", "folder of an MLflow project, or address of a git repository", approach="project", text="address")
    ]
    entry_point: Annotated[str, Of("main", "entry point of the project, or a script", approach="project")]
    project_parameters: Annotated[
        str | Mapping[str, Any],
        Of(
            "",
            "name=value pairs or JSON, with {factor} in place of a seed: seed={data_order},epochs=3",
            approach="project",
            text="words",
        ),
    ]


class OwnParameters(CommandParameters, ProjectParameters, total=False):
    """Those of all approaches."""


OWN_PARAMETERS: Final[Mapping[str, Of]] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(OwnParameters, include_extras=True).items()
}
"""Name -> declaration."""
