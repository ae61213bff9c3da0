"""The parameters of `strategies`."""

from __future__ import annotations

from typing import Final

from mlflow_l3d.parameters import Parameters, declared
from mlflow_l3d.parameters.shared import Approach, Columns, Place, Runs, SelfTest, Sizes, Task, Trained
from mlflow_l3d.parameters.verbs import USUAL, Verb


class StrategiesOptions(Runs, SelfTest, Trained, Sizes, Columns, Place, total=False):
    """Of `strategies`, in addition to task and approach: those of `investigate` that all three strategies share."""


STRATEGIES: Final[Parameters] = declared(Task, Approach, StrategiesOptions)
"""Of `strategies`."""

VERB = Verb(
    "strategies",
    STRATEGIES,
    "mlflow_l3d.studies.strategies.run:strategies",
    "compare the published method with simpler strategies on one task",
    question="What would simpler strategies have said about the same factors?",
    examples=("strategies reviews.csv", "strategies rotten_tomatoes --factor all", "strategies --num-labelled 200"),
    usual=USUAL,
    order=60,
    plans="mlflow_l3d.studies.strategies.run:plan_strategies",
    returns=("mlflow_l3d.studies.strategies.run:ComparedStrategies",),
)
