"""The parameters of `seeds`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, TypedDict

from mlflow_l3d.parameters import Auto, Of, Parameters, declared, shared
from mlflow_l3d.parameters.verbs import Verb


class _SeedsTask(TypedDict, total=False):
    task: Annotated[
        str,
        replace(shared.TASK, help="labelled data, a file or a task; split once if it has no parts (column `split`)"),
    ]


class _Asked(TypedDict, total=False):
    metric: Annotated[shared.Metric, Of("auto", "metric of the headline; auto: usual for the task (mcc for cola)")]
    hyperparameters: Annotated[
        shared.Settings, Of("auto", "as in investigate; auto, and values alone, train the whole model if possible")
    ]
    num_labelled: Annotated[int | Auto, Of("auto", "training examples, drawn once; auto: all of the train part", low=2)]
    root_seed: Annotated[int, replace(shared.SEED, help="number from which these draws are derived (not the seeds)")]


class _Seeds(TypedDict, total=False):
    seeds: Annotated[
        int | str | Sequence[int],
        Of("10", "number of seeds (42, 52, 62, ... as in Zhou et al.), or a list such as 42,52"),
    ]
    validation_fraction: Annotated[
        float,
        Of("0", "share of the train part held out to choose the best epoch; 0: the last counts", high=1, closed=True),
    ]
    test_size: Annotated[int | Auto, Of("auto", "test examples, drawn once from the validation part; auto: all", low=2)]
    reference_size: shared.ReferenceSize


class SeedsOptions(_Seeds, _Asked, shared.SelfTest, shared.Trained, shared.Columns, shared.Place, total=False):
    """Of `seeds`, in addition to task and approach."""


SEEDS: Final[Parameters] = declared(_SeedsTask, shared.Approach, SeedsOptions)
"""Of `seeds`."""

VERB = Verb(
    "seeds",
    SEEDS,
    "mlflow_l3d.studies.seeds.run:seeds",
    "train with several seeds and compare scores and single predictions",
    question="How far apart are runs that differ in the seed alone, and do they predict the same?",
    examples=("seeds reviews.csv", "seeds mrpc --seeds 10", "seeds -- python train.py --seed {seed}"),
    usual="task approach command model seeds metric hyperparameters",
    order=40,
    plans="mlflow_l3d.studies.seeds.run:plan_seeds",
    instead={"self_test": ("only", "mlflow_l3d.studies.seeds.run:self_test_seeds")},
    returns=("mlflow_l3d.studies.seeds.run:SeedsRun", "mlflow_l3d.studies.dry_run:StudyPlan"),
)


class RepeatsOptions(_Asked, shared.Columns, shared.Place, total=False):
    """Of `replicate`, in addition to the task."""

    model: Annotated[str, Of("auto", "(required) model behind an endpoint, openai:NAME")]
    repeats: Annotated[int, Of("20", "number of times a request is sent", low=2, high=100_000)]
    hyperparameters: Annotated[shared.Settings, Of("auto", "those of icl")]
    test_size: Annotated[int | Auto, Of("50", "rows: test examples to ask about", low=2)]


REPEATS: Final[Parameters] = declared(_SeedsTask, RepeatsOptions)
"""Of `replicate`."""

REPLICATE_VERB = Verb(
    "replicate",
    REPEATS,
    "mlflow_l3d.studies.seeds.run:replicate",
    "send identical requests to an endpoint and count the rows whose answer changes",
    question="Does a model behind an endpoint answer the same request in the same way?",
    examples=("replicate --model openai:NAME", "replicate cola --model openai:NAME --hyperparameters concurrency=32"),
    usual="task model repeats test_size hyperparameters",
    order=45,
    plans="mlflow_l3d.studies.seeds.run:plan_replicate",
)
