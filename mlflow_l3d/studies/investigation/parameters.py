"""The parameters of `investigate`, the entry point `main`."""

from __future__ import annotations

from typing import Final

from mlflow_l3d.parameters import Parameters, declared
from mlflow_l3d.parameters.shared import Approach, Columns, Layout, Place, Runs, SelfTest, Shown, Sizes, Task, Trained
from mlflow_l3d.parameters.verbs import USUAL, Verb


class InvestigateOptions(Runs, Layout, SelfTest, Trained, Sizes, Columns, Shown, Place, total=False):
    """Of `investigate`, in addition to task and approach."""


MAIN: Final[Parameters] = declared(Task, Approach, InvestigateOptions)
"""Of `investigate`."""

VERB = Verb(
    "investigate",
    MAIN,
    "mlflow_l3d.studies.investigation.run:investigate",
    "repeat the training with other seeds, one kind of luck at a time",
    question="How much of my score is luck, and which kind of luck?",
    examples=(
        "investigate reviews.csv",
        "investigate reviews.csv --factor all --dry-run",
        "investigate -- python train.py -s {data_split} -o {data_order}",
    ),
    usual=USUAL,
    order=10,
    plans="mlflow_l3d.studies.planning.run:plan",
    instead={"self_test": ("only", "mlflow_l3d.studies.investigation.run:self_test")},
    returns=("mlflow_l3d.studies.investigation.results:Investigation", "mlflow_l3d.studies.self_test:SelfTest"),
)
