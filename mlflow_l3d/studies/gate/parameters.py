"""The parameters of `gate`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from mlflow_l3d.parameters import Auto, Of, Parameters, declared
from mlflow_l3d.parameters.shared import MOST_RUNS, Place
from mlflow_l3d.parameters.verbs import Verb


class _Gate(TypedDict, total=False):
    baseline: Annotated[
        str, Of("latest", "parent run to compare with; `latest` is the latest investigation of the experiment")
    ]
    candidate: Annotated[
        Any,
        Of(
            "none",
            "(required) the changed system: name=value pairs that differ from the baseline, separated by "
            "semicolons; or JSON; or the run id of an investigation",
        ),
    ]
    smallest_effect: Annotated[
        float | Auto,
        Of(
            "auto",
            "smallest difference that matters: auto is 1 percentage point; a metric in another unit needs a number in "
            "that unit",
        ),
    ]
    alpha: Annotated[float, Of("0.05", "probability of a false claim, over all interim analyses", high=0.5)]
    power: Annotated[float, Of("0.8", "most_runs=auto: planned probability of the right verdict", high=1)]
    most_runs: Annotated[
        int | Auto,
        Of("auto", "limit of golden runs per side; auto: what power needs, at most 200", low=5, high=MOST_RUNS),
    ]
    looks: Annotated[int, Of("5", "limit of interim analyses", low=1, high=50)]
    spending: Annotated[
        Literal["pocock", "obrien_fleming"],
        Of("pocock", "how interim analyses spend alpha: evenly (pocock) or late (obrien_fleming)"),
    ]
    examples: Annotated[
        Literal["fixed", "random"],
        Of("fixed", "fixed: the verdict is about these test examples; random: also about new ones"),
    ]
    metric: Annotated[str, Of("auto", "metric that is compared; auto is the baseline's metric")]


class GateOptions(_Gate, Place, total=False):
    """Of `gate`."""


GATE: Final[Parameters] = declared(GateOptions)
"""Of `gate`."""

VERB = Verb(
    "gate",
    GATE,
    "mlflow_l3d.studies.gate.run:gate",
    "train until a candidate is better, worse or equivalent, for a CI job",
    failed=3,
    question="Is my change better, or did I only draw a lucky seed?",
    examples=(
        "gate --candidate model=bert-base",
        "gate --candidate hyperparameters=learning_rate=1e-4",
        "gate --baseline RUN_ID --candidate RUN_ID --dry-run",
    ),
    usual="baseline candidate smallest_effect alpha power most_runs metric",
    order=50,
    plans="mlflow_l3d.studies.gate.run:plan_gate",
    returns=("mlflow_l3d.studies.gate.record:Gate", "mlflow_l3d.studies.gate.run:GatePlan"),
)
