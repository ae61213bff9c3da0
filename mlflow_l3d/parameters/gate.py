"""The parameters of the verb `gate`."""

from __future__ import annotations

from typing import Final

from mlflow_l3d.parameters.table import MAIN, MOST_RUNS, PLACE, Parameter, Parameters
from mlflow_l3d.parameters.values import Choice, Number, Whole

_EVERY = (
    Parameter(
        "baseline",
        "latest",
        "the parent run to compare with; `latest` is the experiment's latest investigation",
    ),
    Parameter(
        "candidate",
        "none",
        "what is compared with it: an investigation, or name=value of `main` where it differs from the baseline, "
        "separated by semicolons, or JSON of these",
    ),
    Parameter(
        "smallest_effect",
        "1.0",
        "the smallest difference that matters (percentage points, score): a smaller one is equivalent",
        Number(0),
    ),
    Parameter("alpha", "0.05", "probability of a false claim, over all looks", Number(0, 0.5)),
    Parameter("power", "0.8", "most_runs=auto: probability of the right answer that is planned for", Number(0, 1)),
    Parameter(
        "most_runs",
        "auto",
        "the budget: golden runs of either side; auto is what power takes, and 200 at most",
        Whole(5, MOST_RUNS, ("auto",)),
    ),
    Parameter("looks", "5", "how often the runs so far are looked at, at most", Whole(1, 50)),
    Parameter(
        "spending", "pocock", "how alpha is spent over the looks: evenly, or late", Choice(("pocock", "obrien_fleming"))
    ),
    Parameter(
        "examples",
        "fixed",
        "what the answer is about: these test data, or new examples, too (random)",
        Choice(("fixed", "random")),
    ),
    Parameter("metric", "auto", "what is compared; auto is the baseline's own"),
    Parameter("dry_run", "false", "say looks, bounds, power and cost, and start no run", Choice(("false", "true"))),
    *(MAIN[name] for name in PLACE),
)
GATE: Final[Parameters] = {parameter.name: parameter for parameter in _EVERY}
"""Of the entry point `gate`."""
