"""The parameter of `investigate` that only approach=command has."""

from __future__ import annotations

from typing import Annotated, TypedDict

from mlflow_l3d.annotations import Of


class CommandParameters(TypedDict, total=False):
    """What is run."""

    command: Annotated[
        str,
        Of("", "a program and its arguments, with {factor} where a seed belongs", approach="command", text="words"),
    ]
