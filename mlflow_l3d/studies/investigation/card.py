"""What the parent of an investigation says of itself."""

from __future__ import annotations

from mlflow_l3d.parameters.values import public_name
from mlflow_l3d.studies.investigation.specification import Specification
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.parent import Card


def investigation_card(specification: Specification) -> Card:
    """Return what the parent of an investigation says of itself."""
    return Card(
        role="investigation",
        key=specification.investigation_key,
        title=run_title(specification),
        tags={
            names.FACTOR: ",".join(specification.factors),
            names.DESIGN: specification.given["design"],
            names.CONTEXT_KEY: specification.context_key,
            **({names.SEARCH: searched} if (searched := specification.origin.search_run_id) else {}),
        },
        params={
            **{name: public_name(value) for name, value in specification.given.items()},
            **{f"resolved.{name}": value for name, value in specification.resolved().items()},
        },
    )


def run_title(specification: Specification) -> str:
    """Return the name of the parent as people read it."""
    design = "" if specification.plan.design == "crossed" else f" ({specification.plan.design})"
    return f"{specification.approach.name} {specification.task.name}: {factor_words(specification)}{design}"


def factor_words(specification: Specification) -> str:
    """Return the names of one or two investigated factors, or how many they are."""
    many = len(specification.factors) > 2
    return f"{len(specification.factors)} factors" if many else ", ".join(specification.factors)
