"""The parameters of `cure`."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypedDict

from mlflow_l3d.parameters import Auto, Of, Parameters, declared
from mlflow_l3d.parameters.shared import PARENT, Place
from mlflow_l3d.parameters.verbs import Verb


class _Parent(TypedDict, total=False):
    parent_run_id: Annotated[str, PARENT]


class _Cure(TypedDict, total=False):
    verify: Annotated[int, Of("0", "number of best remedies to train and compare; remedies tried before count")]
    remedy: Annotated[
        str, Of("auto", "verify: the remedy to train, as the table Every remedy names it; auto: those predicted best")
    ]
    budget: Annotated[Any, Of("none", "limit of verify: none, a time as in 2h, or a number of trainings")]
    runs: Annotated[
        int | Auto,
        Of(
            "auto",
            "verify: golden runs of each remedy; auto is as many as the parent run has, at most 40",
            low=5,
            high=10_000,
        ),
    ]
    most_members: Annotated[int, Of("10", "limit of runs behind one prediction", low=2, high=100)]
    smallest_effect: Annotated[
        float | Auto,
        Of(
            "auto",
            "verify: largest fall of the mean that counts as none (percentage points, or the unit of the metric); auto "
            "is half of golden_std",
        ),
    ]
    metric: Annotated[str, Of("auto", "metric whose luck is reduced; auto is the parent's metric")]


class CureOptions(_Cure, Place, total=False):
    """Of `cure`, in addition to the parent."""


CURE: Final[Parameters] = declared(_Parent, CureOptions)
"""Of `cure`."""

VERB = Verb(
    "cure",
    CURE,
    "mlflow_l3d.studies.cure.run:cure",
    "predict from existing runs what leaves less luck, and verify it",
    question="What would make my score depend less on luck?",
    examples=("cure", "cure RUN_ID", "cure RUN_ID --verify 3 --budget 2h", "cure RUN_ID --verify 1 --dry-run"),
    usual="parent_run_id verify budget runs metric",
    order=55,
    plans="mlflow_l3d.studies.cure.run:plan_cure",
    returns=("mlflow_l3d.studies.cure.run:Cure",),
)
