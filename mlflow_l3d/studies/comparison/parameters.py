"""The parameters of `compare`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, TypedDict

from mlflow_l3d.parameters import No, Of, Parameters, declared
from mlflow_l3d.parameters.shared import SEED
from mlflow_l3d.parameters.verbs import Verb


class _Compared(TypedDict, total=False):
    runs: Annotated[
        object,
        Of(
            "none",
            "(required) parent runs (or latest) separated by commas, or a JSON list of objects with parameters of "
            "investigate, which are run first",
        ),
    ]


class CompareOptions(TypedDict, total=False):
    """Of `compare`, in addition to the compared runs."""

    metric: Annotated[str, Of("auto", "metric that is compared; auto is the metric of the parent runs")]
    smallest_effect: Annotated[
        float | No,
        Of(
            "none",
            "largest difference that does not matter (percentage points, or the unit of the metric): systems within "
            "it are equivalent",
        ),
    ]
    level: Annotated[float, Of("0.95", "confidence level of intervals and verdicts", high=1)]
    self_check: Annotated[
        int,
        Of(
            "0",
            "number of A/A comparisons of each system with itself, which show how often a claim is false; 0 is none",
            high=100_000,
        ),
    ]
    root_seed: Annotated[int, replace(SEED, help="number from which the halves of A/A comparisons are derived")]


COMPARE: Final[Parameters] = declared(_Compared, CompareOptions)
"""Of `compare`."""

VERB = Verb(
    "compare",
    COMPARE,
    "mlflow_l3d.studies.comparison.run:compare",
    "decide which of several systems is better, counting the luck of all factors and of the test examples",
    question="Which of these systems is better, if all luck is counted?",
    examples=(
        "compare --runs RUN_ID,RUN_ID",
        "compare --runs RUN_ID,RUN_ID --smallest-effect 1",
        "compare --runs RUN_ID,RUN_ID --self-check 1000",
    ),
    order=80,
    returns=(
        "mlflow_l3d.studies.comparison.results:ComparedRuns",
        "mlflow_l3d.studies.judged.results:JudgedComparison",
    ),
)
