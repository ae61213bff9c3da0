"""The parameters of `ablation`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, TypedDict

from mlflow_l3d.parameters import Of, Parameters, declared
from mlflow_l3d.parameters.shared import PARENT, SEED
from mlflow_l3d.parameters.verbs import Verb


class _Parent(TypedDict, total=False):
    parent_run_id: Annotated[str, PARENT]


class AblationOptions(TypedDict, total=False):
    """Of `ablation`, in addition to the parent."""

    metric: Annotated[str, Of("auto", "metric whose spread is investigated; auto is the parent's metric")]
    rows: Annotated[object, Of("auto", "numbers of rows (mitigation runs) to try, separated by commas")]
    columns: Annotated[object, Of("auto", "numbers of columns (investigation runs) to try, separated by commas")]
    test_sizes: Annotated[
        object, Of("auto", "numbers of test examples to try, separated by commas; all uses every example")
    ]
    repeats: Annotated[int, Of("10", "random choices per setting", low=1, high=10_000)]
    root_seed: Annotated[int, replace(SEED, help="number from which these choices are derived")]


ABLATION: Final[Parameters] = declared(_Parent, AblationOptions)
"""Of `ablation`."""

VERB = Verb(
    "ablation",
    ABLATION,
    "mlflow_l3d.studies.ablation.run:ablation",
    "show what fewer runs and test examples would have found, without new runs",
    question="Would fewer runs have been enough?",
    examples=("ablation", "ablation RUN_ID --rows 5,10", "ablation --test-sizes 100,500"),
    order=70,
    returns=("mlflow_l3d.studies.ablation.run:Ablation",),
)
