"""The parameters of `seeds`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, TypedDict

from mlflow_l3d.annotations import Of
from mlflow_l3d.parameters.declaration import Auto, Parameters, declared
from mlflow_l3d.parameters.shared import SEED, TASK, Approach, Columns, Metric, Place, SelfTest, Settings, Trained
from mlflow_l3d.parameters.verbs import Verb


class _SeedsTask(TypedDict, total=False):
    task: Annotated[
        str,
        replace(
            TASK,
            help="a task of GLUE or SuperGLUE by name, or a file with a column split: its own parts are used; another "
            "task is split once, as main splits it first",
        ),
    ]


class _Seeds(TypedDict, total=False):
    seeds: Annotated[
        int | str | Sequence[int],
        Of("10", "how many (42, 52, 62, ... as the papers'), or the seeds themselves, separated by commas"),
    ]
    metric: Annotated[
        Metric, Of("auto", "the metric in the headline; auto is the task's own (mcc for cola, pearson for stsb)")
    ]
    hyperparameters: Annotated[
        Settings,
        Of(
            "auto",
            "as in main; auto trains the whole model where the approach can (trainable=full; the packaged encoder with "
            "learning_rate=2e-4), and may be followed by name=value pairs",
        ),
    ]
    validation_fraction: Annotated[
        float,
        Of(
            "0",
            "share of the train part that is held out, for early stopping and the best epoch; 0: the last epoch counts",
            high=1,
            closed=True,
        ),
    ]
    num_labelled: Annotated[
        int | Auto, Of("auto", "training examples, drawn once from the task's train part; auto is all of them", low=2)
    ]
    test_size: Annotated[
        int | Auto, Of("auto", "evaluated examples, drawn once from its validation part; auto is all of them", low=2)
    ]
    root_seed: Annotated[int, replace(SEED, help="the number that these draws are derived from; the seeds are not")]


class SeedsOptions(_Seeds, SelfTest, Trained, Columns, Place, total=False):
    """Of `seeds`, in addition to task and approach."""


SEEDS: Final[Parameters] = declared(_SeedsTask, Approach, SeedsOptions)
"""Of `seeds`."""

VERB = Verb(
    "seeds",
    SEEDS,
    "mlflow_l3d.studies.seeds.run:seeds",
    "train one task with several seeds: scores and single predictions",
    question="How far apart are runs that differ in the seed alone, and do they predict the same?",
    examples=(
        "seeds reviews.csv",
        "seeds mrpc --seeds 10",
        "seeds -- python train.py --seed {seed}",
    ),
    usual="task approach command model seeds metric hyperparameters",
    order=40,
    plans="mlflow_l3d.studies.seeds.run:plan_seeds",
    instead={"self_test": ("only", "mlflow_l3d.studies.seeds.run:self_test_seeds")},
    returns=("mlflow_l3d.studies.seeds.run:SeedsRun", "mlflow_l3d.studies.dry_run:StudyPlan"),
)
