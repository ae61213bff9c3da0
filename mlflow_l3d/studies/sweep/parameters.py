"""The parameters of `sweep`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypedDict

from mlflow_l3d.parameters import Of, Parameters, declared
from mlflow_l3d.parameters.shared import Approach, Task
from mlflow_l3d.parameters.verbs import Verb
from mlflow_l3d.studies.investigation.parameters import InvestigateOptions


class SweepOptions(TypedDict, total=False):
    """Of `sweep`, in addition to those of `investigate`, which may be lists."""

    over: Annotated[
        str | Mapping[str, Any],
        Of("none", 'hyperparameters or placeholders, as JSON: {"shots": [2, 4, 8], "prompt_format": ["A", "B"]}'),
    ]
    file: Annotated[str, Of("none", "YAML or JSON file of the points, also with sets, exclusions and overrides")]
    budget: Annotated[object, Of("none", "limit of this call: 2h, 90m, or 5000 cells; the same command continues")]


SWEEP: Final[Parameters] = declared(Task, Approach, InvestigateOptions, SweepOptions)
"""Of `sweep`: those of `investigate`, which may be lists, and its own."""

VERB = Verb(
    "sweep",
    SWEEP,
    "mlflow_l3d.studies.sweep.run:sweep",
    "run an investigation for each of several models, tasks or hyperparameters",
    question="Does the luck change with the model, the data or a hyperparameter?",
    examples=(
        "sweep --task rotten_tomatoes,trec --budget 2h",
        "sweep reviews.csv --approach finetuning,meta_learning --factor all",
        "sweep reviews.csv --num-labelled 50,100,200 --dry-run",
    ),
    usual="task approach factor num_labelled over budget golden_runs",
    order=20,
    plans="mlflow_l3d.studies.sweep.run:plan_sweep",
    returns=("mlflow_l3d.studies.sweep.run:Sweep", "mlflow_l3d.studies.sweep.engine:SweepPlan"),
)
