"""The parameters of `plan`."""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

from mlflow_l3d.parameters import Of, Parameters, declared
from mlflow_l3d.parameters.shared import Approach, Task
from mlflow_l3d.parameters.verbs import Verb
from mlflow_l3d.studies.investigation.parameters import InvestigateOptions


class PlanOptions(TypedDict, total=False):
    """Of `plan`, in addition to those of `investigate`."""

    pilot: Annotated[
        str,
        Of(
            "auto",
            "source of cost and variances: auto (past runs of the same kind), the id of a parent run, run (train a "
            "pilot), or none",
        ),
    ]
    assurance: Annotated[float, Of("0.8", "probability that the interval becomes as narrow as half_width", high=1)]
    budget: Annotated[
        object,
        Of(
            "none",
            "budget for the mean score: 2h, 90m (of one worker), 500 cells or 10000 requests; plan shows the best "
            "numbers of cells and test examples",
        ),
    ]


PLAN: Final[Parameters] = declared(Task, Approach, InvestigateOptions, PlanOptions)
"""Of `plan`."""

VERB = Verb(
    "plan",
    PLAN,
    "mlflow_l3d.studies.planning.run:plan",
    "compute how many runs an investigation has, what they cost, and how many it needs; trains nothing",
    is_study=False,
    question="How many runs do I need, and what do they cost?",
    examples=(
        "plan reviews.csv",
        "plan reviews.csv --factor all --pilot run",
        "plan reviews.csv --half-width 0.2 --budget 2h",
    ),
    usual="task approach factor design half_width pilot assurance budget",
    order=90,
    returns=("mlflow_l3d.studies.planning.result:Plan",),
)
