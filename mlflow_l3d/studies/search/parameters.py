"""The parameters of `search`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal, TypedDict

from mlflow_l3d.parameters import Auto, Of, Parameters, declared
from mlflow_l3d.parameters.shared import SEED, Approach, Columns, Metric, Place, Settings, Sizes, Task, Trained
from mlflow_l3d.parameters.verbs import Verb

MOST_TRIALS: Final = 100_000


class _Search(TypedDict, total=False):
    metric: Annotated[Metric, Of("auto", "metric of a trial on the validation part; auto as in investigate")]
    hyperparameters: Annotated[
        Settings, Of("default", "fixed hyperparameters and the first trial; same forms as in investigate")
    ]
    space: Annotated[
        Settings,
        Of(
            "auto",
            "search space: name=low..high, name=a|b|c or a name, separated by commas; or JSON; auto is the "
            "approach's space",
        ),
    ]
    coarse_trials: Annotated[
        int | Auto, Of("auto", "trials of level 1; auto is the size of the grid, at most 40", low=2, high=MOST_TRIALS)
    ]
    fine_trials: Annotated[
        int, Of("20", "trials of level 2, around the best of level 1; 0 omits level 2", high=MOST_TRIALS)
    ]
    search_seeds: Annotated[int, Of("1", "seeds per trial, whose scores are averaged", low=1, high=1000)]
    coarse_sampler: Annotated[
        str, Of("auto", "sampler of level 1: auto (the grid, or a random part of a large grid) or a sampler of Optuna")
    ]
    fine_sampler: Annotated[
        str, Of("auto", "sampler of level 2: auto (tpe), random, grid, or another sampler of Optuna")
    ]
    pruner: Annotated[
        str, Of("auto", "pruner that ends poor trials early: auto (median), none, or another pruner of Optuna")
    ]
    held_out_runs: Annotated[
        int, Of("10", "new seeds on which the found setting is compared with the first one; 0 is none", high=100_000)
    ]
    self_test: Annotated[Literal["auto", "run", "skip"], Of("auto", "trial runs first, as in investigate")]
    root_seed: Annotated[int, replace(SEED, help="number from which seeds and samplers of the search are derived")]


class SearchOptions(_Search, Trained, Sizes, Columns, Place, total=False):
    """Of `search`, in addition to task and approach."""


SEARCH: Final[Parameters] = declared(Task, Approach, SearchOptions)
"""Of `search`."""

VERB = Verb(
    "search",
    SEARCH,
    "mlflow_l3d.studies.search.run:search",
    "search hyperparameters on two levels, before an investigation",
    question="Which hyperparameters should I fix before I ask about luck?",
    examples=(
        "search reviews.csv",
        "search reviews.csv --space learning_rate=1e-4..1e-2,batch_size=4|8",
        "search reviews.csv --approach meta_learning --fine-trials 0",
    ),
    usual="task approach space metric hyperparameters coarse_trials fine_trials",
    order=30,
    plans="mlflow_l3d.studies.search.engine:plan_search",
    returns=("mlflow_l3d.studies.search.run:HyperparameterSearch",),
)
