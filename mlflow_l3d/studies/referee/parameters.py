"""The parameters of `referee`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from mlflow_l3d.parameters import Auto, Of, Parameters, declared
from mlflow_l3d.parameters.shared import PLACE, Place
from mlflow_l3d.parameters.verbs import Verb


class RefereeRules(TypedDict, total=False):
    """What is fixed when a session begins."""

    smallest_effect: Annotated[
        float | Auto,
        Of("auto", "start: smallest gain worth finding (points, or the metric's unit); auto: std of a baseline run"),
    ]
    alpha: Annotated[
        float, Of("0.05", "start: expected share of false ones among kept candidates, at most", low=1e-9, high=0.5)
    ]
    power: Annotated[float, Of("0.65", "start: probability that a gain of smallest_effect survives all looks", high=1)]
    candidates: Annotated[int, Of("300", "start: planned candidates; more are allowed", low=1, high=1_000_000)]
    baseline_runs: Annotated[
        int, Of("20", "start: runs of the baseline, from which the noise is learned", low=3, high=200)
    ]
    confirm: Annotated[int, Of("5", "start: fresh runs that confirm each new champion", low=1)]
    most_runs: Annotated[
        int | Auto, Of("auto", "start: limit of runs per candidate, auto is 40; judge: limit now", low=1, high=40)
    ]


class _Referee(TypedDict, total=False):
    action: Annotated[
        Literal["start", "judge", "status"],
        Of("status", "start a session, judge a candidate, or show the status: the first word after the command"),
    ]
    referee: Annotated[str, Of("latest", "judge, status: run of the session; latest is the experiment's latest one")]
    candidate: Annotated[
        Any,
        Of(
            "none",
            "(required) judge: what to change of the champion, as name=value pairs separated by semicolons or JSON; a "
            "run id of an investigation or evaluation, experiment:NAME, or a filter; or JSON or a .json "
            'file, as {"name": ..., "seeds": "shared", "scores": {...}}',
        ),
    ]
    baseline: Annotated[str, Of("latest", "start: parent run to begin with; latest is the latest investigation")]
    metric: Annotated[str, Of("auto", "start: metric that is judged; auto is the baseline's metric")]
    shared_seeds: Annotated[
        bool, Of("true", "start: true compares runs with equal seeds; false for scores measured without them")
    ]
    fresh_half: Annotated[
        bool, Of("false", "start: true judges on one half of the test examples and confirms gains on the other one")
    ]


class RefereeOptions(_Referee, RefereeRules, Place, total=False):
    """Of `referee`."""


REFEREE: Final[Parameters] = declared(RefereeOptions)
"""Of `referee`."""
RULES: Final[Parameters] = declared(RefereeRules)
"""Those that are fixed when a session begins."""
OF_ACTION: Final = {
    "start": ("baseline", "metric", "shared_seeds", "fresh_half", *RULES, *PLACE),
    "judge": ("referee", "candidate", "most_runs", *PLACE),
    "status": ("referee", *PLACE),
}
"""Action -> those that it has."""


VERB = Verb(
    "referee",
    REFEREE,
    "mlflow_l3d.studies.referee.door:referee",
    "judge many candidates one after another, for a loop that keeps what is better",
    failed=3,
    question="Which of my many changes are better, and which are only lucky?",
    examples=(
        "referee start --baseline RUN_ID",
        "referee judge --candidate 'hyperparameters=learning_rate=1e-4'",
        "referee status",
    ),
    usual="action baseline candidate referee smallest_effect most_runs metric",
    order=52,
    returns=("mlflow_l3d.studies.referee.record:RefereeSession", "mlflow_l3d.studies.referee.numbers:Judgement"),
)
