"""The parameters that only one approach takes, each declared in the folder of its approach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_type_hints

from mlflow_l3d.annotations import Of
from mlflow_l3d.approaches.command.parameters import CommandParameters
from mlflow_l3d.approaches.project.parameters import ProjectParameters


class OwnParameters(CommandParameters, ProjectParameters, total=False):
    """Those of all approaches."""


OWN_PARAMETERS: Final[Mapping[str, Of]] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(OwnParameters, include_extras=True).items()
}
"""Name -> declaration."""
