"""The parameters of `search`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, TypedDict

from mlflow_l3d.annotations import Of
from mlflow_l3d.parameters.declaration import Auto, Parameters, declared
from mlflow_l3d.parameters.shared import SEED, Approach, Columns, Metric, Place, Settings, Sizes, Task, Trained
from mlflow_l3d.parameters.verbs import Verb

MOST_TRIALS: Final = 100_000


class _Search(TypedDict, total=False):
    metric: Annotated[Metric, Of("f1_macro", "what a trial is scored by, on the validation part")]
    hyperparameters: Annotated[
        Settings, Of("default", "what holds for all trials, and the first trial itself; forms as in main")
    ]
    space: Annotated[
        Settings,
        Of(
            "auto",
            "what is searched: auto, name=low..high, name=a|b|c or a name, separated by commas, or JSON (a file)",
        ),
    ]
    coarse_trials: Annotated[
        int | Auto, Of("auto", "trials of level 1; auto is the grid, and 40 at most", low=2, high=MOST_TRIALS)
    ]
    fine_trials: Annotated[
        int, Of("20", "trials of level 2, around the best of level 1; 0 leaves level 2 out", high=MOST_TRIALS)
    ]
    search_seeds: Annotated[
        int, Of("1", "configurations that a trial is trained on and averaged over", low=1, high=1000)
    ]
    coarse_sampler: Annotated[
        str, Of("auto", "level 1: auto (grid; a random part of it if it is large), or one of Optuna's")
    ]
    fine_sampler: Annotated[str, Of("auto", "level 2: auto (tpe), random, grid, or another sampler of Optuna's")]
    pruner: Annotated[
        str, Of("auto", "what ends poor trials early: auto (median), none, or another pruner of Optuna's")
    ]
    held_out_runs: Annotated[
        int,
        Of(
            "10",
            "configurations not searched on, on which the found setting and the given one are compared; 0 for none",
            high=100_000,
        ),
    ]
    root_seed: Annotated[
        int, replace(SEED, help="the number that the search's configurations and samplers are derived from")
    ]


class SearchOptions(_Search, Trained, Sizes, Columns, Place, total=False):
    """Of `search`, in addition to task and approach."""


SEARCH: Final[Parameters] = declared(Task, Approach, SearchOptions)
"""Of `search`."""

VERB = Verb(
    "search",
    SEARCH,
    "mlflow_l3d.studies.search.run:search",
    "find hyperparameters on two levels, before an investigation",
    question="Which hyperparameters should I fix before I ask about luck?",
    examples=(
        "search reviews.csv",
        "search reviews.csv --space learning_rate=1e-4..1e-2,batch_size=4|8",
        "search reviews.csv --approach meta_learning --fine-trials 0",
    ),
    usual="task approach space metric hyperparameters coarse_trials fine_trials held_out_runs",
    order=30,
    returns=("mlflow_l3d.studies.search.results:HyperparameterSearch",),
)
