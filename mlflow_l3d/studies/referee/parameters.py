"""The parameters of `referee`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from mlflow_l3d.annotations import Of
from mlflow_l3d.parameters.declaration import Arguments, Auto, Parameters, declared
from mlflow_l3d.parameters.shared import Place
from mlflow_l3d.parameters.verbs import Verb
from mlflow_l3d.studies.referee.numbers.judge import Rules


class RefereeRules(TypedDict, total=False):
    """What is fixed when a session begins."""

    smallest_effect: Annotated[
        float | Auto,
        Of(
            "auto",
            "start: smallest gain that is worth finding (percentage points, or the unit of the metric); auto is the "
            "standard deviation of the baseline's runs",
        ),
    ]
    alpha: Annotated[
        float, Of("0.05", "start: expected share of kept candidates that are not better, at most", high=0.5)
    ]
    power: Annotated[
        float, Of("0.7", "start: probability that a candidate better by the smallest effect survives", high=1)
    ]
    candidates: Annotated[
        int, Of("300", "start: how many candidates are planned; more are allowed", low=1, high=1_000_000)
    ]
    baseline_runs: Annotated[int, Of("20", "start: runs of the baseline, from which the noise is learned", low=3)]
    confirm: Annotated[int, Of("5", "start: fresh runs that confirm each new champion", low=1)]


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
            "(required by judge) what to change of the champion, as name=value pairs separated by semicolons or JSON; "
            'the run id of an investigation; or scores measured elsewhere, as JSON or a .json file: {"name": ..., '
            '"seeds": "shared", "scores": {"5": 0.81}}',
        ),
    ]
    most_runs: Annotated[
        int | Auto,
        Of(
            "auto",
            "start: most runs of one candidate, auto is 40; judge: most runs of it now, auto is as many as a verdict "
            "takes",
            low=1,
        ),
    ]
    baseline: Annotated[
        str, Of("latest", "start: parent run to begin with; latest is the latest investigation of the experiment")
    ]
    metric: Annotated[str, Of("auto", "start: metric that is judged; auto is the baseline's metric")]
    shared_seeds: Annotated[
        bool, Of("true", "start: true compares golden runs with equal seeds; false for scores measured without them")
    ]


class RefereeOptions(_Referee, RefereeRules, Place, total=False):
    """Of `referee`."""


REFEREE: Final[Parameters] = declared(RefereeOptions)
"""Of `referee`."""
RULES: Final[Parameters] = declared(RefereeRules)
"""Those that say what is fixed when a session begins."""
OF_START: Final = ("baseline", "metric", "most_runs", "shared_seeds", *RULES)
"""Those that `start` has."""
OF_JUDGE: Final = ("referee", "candidate", "most_runs")
"""Those that `judge` has."""


def rules_of(typed: Arguments, scale: float) -> Rules:
    """Return the rules that were given; differences are in a unit of so many to the unit of the scores."""
    effect, most = typed["smallest_effect"], typed["most_runs"]
    return Rules(
        effect=float("nan") if effect == "auto" else effect / scale,
        alpha=typed["alpha"],
        power=typed["power"],
        candidates=typed["candidates"],
        most_runs=40 if most == "auto" else most,
        confirm=typed["confirm"],
    )


VERB = Verb(
    "referee",
    REFEREE,
    "mlflow_l3d.studies.referee.run:referee",
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
    returns=("mlflow_l3d.studies.referee.results:RefereeSession", "mlflow_l3d.studies.referee.conduct:Judgement"),
)
