"""The parameters of `gate`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from mlflow_l3d.annotations import Of
from mlflow_l3d.parameters.declaration import Auto, Parameters, declared
from mlflow_l3d.parameters.shared import MOST_RUNS, Place
from mlflow_l3d.parameters.verbs import Verb


class _Gate(TypedDict, total=False):
    baseline: Annotated[
        str, Of("latest", "the parent run to compare with; `latest` is the experiment's latest investigation")
    ]
    candidate: Annotated[
        Any,
        Of(
            "none",
            "what is compared with it: an investigation, or name=value of `main` where it differs from the baseline, "
            "separated by semicolons, or JSON of these",
        ),
    ]
    smallest_effect: Annotated[
        float, Of("1.0", "the smallest difference that matters (percentage points, score): a smaller one is equivalent")
    ]
    alpha: Annotated[float, Of("0.05", "probability of a false claim, over all looks", high=0.5)]
    power: Annotated[float, Of("0.8", "most_runs=auto: probability of the right answer that is planned for", high=1)]
    most_runs: Annotated[
        int | Auto,
        Of(
            "auto",
            "the budget: golden runs of either side; auto is what power takes, and 200 at most",
            low=5,
            high=MOST_RUNS,
        ),
    ]
    looks: Annotated[int, Of("5", "how often the runs so far are looked at, at most", low=1, high=50)]
    spending: Annotated[
        Literal["pocock", "obrien_fleming"], Of("pocock", "how alpha is spent over the looks: evenly, or late")
    ]
    examples: Annotated[
        Literal["fixed", "random"],
        Of("fixed", "what the answer is about: these test data, or new examples, too (random)"),
    ]
    metric: Annotated[str, Of("auto", "what is compared; auto is the baseline's own")]


class GateOptions(_Gate, Place, total=False):
    """Of `gate`."""


GATE: Final[Parameters] = declared(GateOptions)
"""Of `gate`."""

VERB = Verb(
    "gate",
    GATE,
    "mlflow_l3d.studies.gate.run:gate",
    "run until a candidate is better, worse or equivalent, for a CI job",
    failed=3,
    question="Is my change better, or did I only draw a lucky seed?",
    examples=(
        "gate --candidate model=bert-base",
        "gate --candidate 'hyperparameters=learning_rate=1e-4' --smallest-effect 2",
        "gate --baseline RUN_ID --candidate RUN_ID --dry-run",
    ),
    usual="baseline candidate smallest_effect alpha power most_runs metric",
    order=50,
    plans="mlflow_l3d.studies.gate.run:plan_gate",
    returns=("mlflow_l3d.studies.gate.conduct:Gate", "mlflow_l3d.studies.gate.run:GatePlan"),
)
