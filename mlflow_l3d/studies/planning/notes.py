"""What is doubtful about a plan."""

from __future__ import annotations

import math

import pandas as pd

from mlflow_l3d.designs import plannable_designs
from mlflow_l3d.designs.base import FEWEST_PILOT_COLUMNS
from mlflow_l3d.studies.planning.pilot import Pilot
from mlflow_l3d.studies.planning.tables import never


def planner_notes(pilot: Pilot, factors: pd.DataFrame, *, assurance: float, workers: int, why: str) -> list[str]:
    """Return the remarks on a plan.

    Parameters
    ----------
    pilot
        Known cost and variances.
    factors
        What :func:`mlflow_l3d.studies.planning.tables.factor_table` returned.
    assurance
        Probability with which intervals are as narrow as is said.
    workers
        Cells that run side by side.
    why
        Why past runs could not be read, or nothing.
    """
    notes = [why] if why else []
    if not math.isnan(pilot.seconds):
        note = "Time covers training and evaluation; loading model and data, once a worker, and scoring come on top"
        side = ", and cells that run side by side may slow each other down" if workers > 1 else ""
        notes.append(f"{note}{side}.")
    notes += pilot.notes
    notes += _small_notes(factors, assurance)
    return [*notes, *never_notes(factors)]


def _small_notes(factors: pd.DataFrame, assurance: float) -> list[str]:
    """Say which pilots are too small for a promise, and which are not."""
    small = factors[factors["pilot_enough"].eq(False)]
    sizes = [
        f"{name} {design.auto_rows}"
        + (f" x {FEWEST_PILOT_COLUMNS}" if design.model.shared_columns else f" {design.words.row}")
        for name, design in plannable_designs().items()
    ]
    return [
        f"The pilot of {', '.join(group['factor'])} ({design} {rows:.0f} x {columns:.0f}) is too small for a promise: "
        f"the runs needed are a guess, and may be too few in more than {1 - assurance:.0%} of cases. In simulations "
        f"plans are kept from pilots of {', '.join(sizes)} on. Compare the table of assumed S_T."
        for (design, rows, columns), group in small.groupby(["pilot_design", "pilot_rows", "pilot_columns"])
    ]


def never_notes(factors: pd.DataFrame) -> list[str]:
    """Say for which factors no table of a design is expected to be narrow enough."""
    designs = [name for name in plannable_designs() if f"cells/{name}" in factors]
    hopeless = {name: ", ".join(never(factors, name)) for name in designs}
    return [
        f"No {name} table is likely to be narrow enough for {each}. Use another design, or a larger half_width."
        for name, each in hopeless.items()
        if each
    ]
