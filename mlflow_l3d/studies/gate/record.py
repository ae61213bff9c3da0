"""What is kept of a gate: its result with the looks that were spent, so that nothing is spent twice, and its notes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.intervals import FloatArray, unseen_share
from mlflow_l3d.errors import L3DError, logger
from mlflow_l3d.metrics.known import assumed_direction
from mlflow_l3d.report.numbers import counted, share_text, unit_of
from mlflow_l3d.report.page import Document
from mlflow_l3d.studies.files import LEFT_OUT, read_result
from mlflow_l3d.studies.gate.numbers import GateAnswer
from mlflow_l3d.studies.gate.report import GateSource, gate_document
from mlflow_l3d.studies.gate.request import GateRequest
from mlflow_l3d.studies.shown import OnOneScreen, built_once
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, search
from mlflow_l3d.tracking.connection import Client

PROGRESS: Final = "gate.json"
"""The result so far, of a gate that has not ended."""
SUMMARY_VARIABLE: Final = "GITHUB_STEP_SUMMARY"
"""Names the file that GitHub shows below a job."""
RESUMED: Final = "An earlier run of this gate"


@dataclass(frozen=True, repr=False)
class Gate(OnOneScreen):
    """A finished gate.

    Attributes
    ----------
    run_id
        Its MLflow run.
    answer
        What it found.
    source, settings
        Where it comes from, and the given values, for its report.
    computed
        How many runs were trained now. Free workers begin those of the next look before a look is taken.
    request
        The request; None if it was loaded.
    """

    run_id: str
    answer: GateAnswer
    source: GateSource
    settings: Mapping[str, str]
    computed: int
    request: GateRequest | None = field(default=None, metadata=LEFT_OUT)

    @property
    def decision(self) -> str:
        """``better``, ``worse``, ``equivalent`` or ``undecided``."""
        return self.answer.decision

    @property
    def exit_status(self) -> int:
        """What the command line exits with."""
        return self.answer.exit_status

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per look in the units of the report; `full` returns all, with differences as fractions."""
        looks = pd.DataFrame(list(self.answer.looks))
        heads = {name: name for name in ("difference", "low", "high")}
        return looks if full else unit_of(self.answer.metric).heads(looks[["runs", "decision", *heads]], {}, heads)

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        line = f"{counted(self.computed, 'run')} trained now; MLflow run {self.run_id}; with report.html"
        return gate_document(self.answer, source=self.source, settings=self.settings, lines=[line])


def find_earlier(client: Client, key: str) -> GateAnswer | None:
    """Return what the run of the same gate with the most looks found, the latest of them; None if none took one.

    Raises
    ------
    L3DError
        If its looks cannot be read, since they would be spent twice.
    """
    runs = search(client, None, condition({names.ROLE: "gate", names.GATE_KEY: key}))
    begun = [run for run in runs if run.data.metrics.get("looks")]
    if not begun:
        return None
    run_id = str(max(reversed(begun), key=lambda run: run.data.metrics["looks"]).info.run_id)
    gate = read_result(client, run_id) or read_result(client, run_id, name=PROGRESS)
    if gate is None:
        fix = "Continue it with the version that wrote it, or ask another question."
        raise L3DError(f"The looks of the same gate, run {run_id}, cannot be read by this version. {fix}")
    answer: GateAnswer = gate.answer
    return answer


def first_notes(request: GateRequest, client: Client) -> Iterator[str]:
    """Yield what the user should know before any run."""
    gates = search(client, None, condition({names.ROLE: "gate", names.GATE_PAIR: request.pair}))
    asked = {run.data.tags.get(names.GATE_KEY) for run in gates if run.data.metrics}  # those that took a look
    if others := len(asked - {request.key}):
        questions = "1 other question was" if others == 1 else f"{others} other questions were"
        yield f"{questions} asked of these two by a gate: a false claim in any of them is likelier than alpha."
    if note := assumed_direction(request.metric):
        yield note
    if not request.paired:
        yield "The two have different root seeds: their runs share nothing, and are compared as independent ones."


def run_notes(request: GateRequest, scores: Mapping[str, FloatArray]) -> Iterator[str]:
    """Yield what the scores of both sides give reason to say: runs that failed, or collapsed.

    Parameters
    ----------
    request
        The gate.
    scores
        Of each side, nan if a run has none.
    """
    chance = request.metric.chance_level(len(request.baseline.task.get("classes", ())))
    for name, values in scores.items():
        if missing := int(np.isnan(values).sum()):
            yield f"{counted(missing, 'run')} of the {name} have no score and do not count. Look at why they failed."
    if chance is None:
        return
    collapsed = {name: int((values < chance).sum()) for name, values in scores.items()}
    runs = min(int(np.isfinite(values).sum()) for values in scores.values())
    if any(collapsed.values()):
        counts = " and ".join(f"{count} of the {name}" for name, count in collapsed.items())
        yield f"Runs that collapsed (below guessing): {counts}. They count."
    else:
        unseen = share_text(unseen_share(runs, 1 - request.plan.alpha))
        yield (
            f"No run collapsed. Up to {unseen} of the runs of either side could, and not one of {runs} show it: of "
            "collapses that are rarer no interval from so few runs can know."
        )


def append_summary(summary: str) -> None:
    """Add the summary to the file that the CI job shows, if there is one; it is not worth an error."""
    path = os.environ.get(SUMMARY_VARIABLE)
    try:
        if path:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(f"{summary}\n")
    except OSError as error:
        logger.warning("The summary could not be added to $%s: %s", SUMMARY_VARIABLE, error)
