"""What is to be known beside the answer of a gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mlflow_l3d.analysis.comparison.difference import Spread, examples_needed, runs_to_settle
from mlflow_l3d.analysis.comparison.resolution import unseen_share
from mlflow_l3d.analysis.comparison.system import System
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.metrics.known import registered
from mlflow_l3d.report.numbers import counted, share_text
from mlflow_l3d.studies.gate.numbers.gate import Look, Outstanding
from mlflow_l3d.studies.gate.record import other_gates
from mlflow_l3d.studies.gate.request import GateRequest

if TYPE_CHECKING:
    from mlflow import MlflowClient


def first_notes(asked: GateRequest, client: MlflowClient) -> Iterator[str]:
    """Yield what is known before any run, and is to be kept in mind."""
    if others := other_gates(client, asked.pair, asked.key):
        questions = "1 other question was" if others == 1 else f"{others} other questions were"
        yield f"{questions} asked of these two by a gate: a false claim in any of them is likelier than alpha."
    if asked.metric.name not in registered():
        side = "more" if asked.metric.greater_is_better else "less"
        yield f"{asked.metric.name} is no metric of this installation: {side} of it is taken to be better."
    if not asked.paired:
        yield "The two have different root seeds: their runs share nothing, and are compared as independent ones."


def run_notes(asked: GateRequest, scores: Mapping[str, FloatArray]) -> Iterator[str]:
    """Yield what the scores of both sides give reason to say: runs that failed, or collapsed.

    Parameters
    ----------
    asked
        The gate.
    scores
        Of each side, nan where a run has none.
    """
    classes = len((asked.baseline.task or {}).get("classes", ()))
    chance = asked.metric.chance_level(classes)
    for name, own in scores.items():
        if lost := int(np.isnan(own).sum()):
            yield f"{counted(lost, 'run')} of the {name} have no score and do not count. Look at why they failed."
    if chance is None:
        return
    collapsed = {name: int((own < chance).sum()) for name, own in scores.items()}
    runs = min(int(np.isfinite(own).sum()) for own in scores.values())
    if any(collapsed.values()):
        found = " and ".join(f"{count} of the {name}" for name, count in collapsed.items())
        yield f"Runs that collapsed (below guessing): {found}. They count."
    else:
        unseen = share_text(unseen_share(runs, 1 - asked.plan.alpha))
        yield (
            f"No run collapsed. Up to {unseen} of the runs of either side could, and not one of {runs} show it: of "
            "collapses that are rarer no interval from so few runs can know."
        )


def outstanding(asked: GateRequest, systems: Mapping[str, System], look: Look, found: Spread) -> Outstanding:
    """Return what a look leaves open, by the runs of both sides and the spread of their difference."""
    effect, level = asked.plan.smallest_effect, 1 - asked.plan.alpha
    equal = asked.paired and np.array_equal(systems["baseline"].scores, systems["candidate"].scores)
    if asked.examples == "fixed":
        found = replace(found, of_examples=0.0, examples_raw=0.0)
    runs = runs_to_settle(look.difference, found, effect, level)
    return Outstanding(equal, runs, examples_needed(effect, found, 0.8, level))
