"""The verbs that help with studies and are none: `names` and `new`."""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

from mlflow_l3d.annotations import Of
from mlflow_l3d.parameters.declaration import Parameters, declared
from mlflow_l3d.parameters.verbs import Verb


class _New(TypedDict):
    kind: Annotated[str, Of("", "what is written: approach")]
    name: Annotated[str, Of("", "what it is to be called: small letters, digits and underscores")]


NEW_WORDS: Final[Parameters] = declared(_New)
"""What stands behind `new`."""

NAMES_VERB = Verb(
    "names",
    {},
    "mlflow_l3d.studies.names:names",
    "name the factors, tasks, approaches, designs, metrics and executors there are",
    is_study=False,
    in_project=False,
    examples=("names",),
    order=120,
    returns=("mlflow_l3d.studies.names:Names",),
)

NEW_VERB = Verb(
    "new",
    {},
    "mlflow_l3d.testing.skeleton:new",
    "write a package with an approach of your own, which passes the conformance suite",
    is_study=False,
    in_project=False,
    words=NEW_WORDS,
    examples=("new approach mine",),
    order=140,
)
