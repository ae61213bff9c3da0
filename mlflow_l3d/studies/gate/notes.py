"""What is to be known beside the answer of a gate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from mlflow_l3d.analysis.comparison.difference import Spread, examples_needed
from mlflow_l3d.analysis.comparison.gate import unseen_share
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.metrics.known import registered
from mlflow_l3d.report.numbers import counted, share_text, unit_of
from mlflow_l3d.studies.gate.record import other_gates
from mlflow_l3d.studies.gate.specification import GateSpecification

if TYPE_CHECKING:
    from mlflow import MlflowClient


def first_notes(asked: GateSpecification, client: MlflowClient) -> Iterator[str]:
    """Yield what is known before any run, and is to be kept in mind."""
    if others := other_gates(client, asked.pair, asked.key):
        questions = "1 other question was" if others == 1 else f"{others} other questions were"
        yield f"{questions} asked of these two by a gate: a false claim in any of them is likelier than alpha."
    if asked.metric.name not in registered():
        side = "more" if asked.metric.greater_is_better else "less"
        yield f"{asked.metric.name} is no metric of this installation: {side} of it is taken to be better."
    if not asked.paired:
        yield "The two have different root seeds: their runs share nothing, and are compared as independent ones."


def run_notes(asked: GateSpecification, scores: Mapping[str, FloatArray]) -> Iterator[str]:
    """Yield what the scores of both sides give reason to say: runs that failed, are all alike, or collapsed.

    Parameters
    ----------
    asked
        The gate.
    scores
        Of each side, nan where a run has none.
    """
    if asked.paired and np.array_equal(scores["baseline"], scores["candidate"]):
        yield "The two have equal scores in every run: does what differs between them have an effect?"
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
        yield f"Runs that collapsed (below guessing): {found}. They count, and widen the interval."
    else:
        unseen = share_text(unseen_share(runs, 1 - asked.plan.alpha))
        yield (
            f"No run collapsed. Up to {unseen} of the runs of either side could, and not one of {runs} show it: of "
            "collapses that are rarer no interval from so few runs can know."
        )


def example_notes(asked: GateSpecification, found: Spread) -> list[str]:
    """Return what is to be said at once, where test examples alone are too few for an answer."""
    from scipy.special import ndtri

    effect, unit = asked.plan.smallest_effect, unit_of(asked.metric.name)
    half = float(-ndtri(asked.plan.alpha)) * math.sqrt(found.of_examples)
    if half < effect:
        return []
    needed = examples_needed(effect, found, 0.8, 1 - asked.plan.alpha)
    return [
        f"No number of runs will show that the two are equivalent: the choice of {found.degrees_examples + 1:,.0f} "
        f"test examples alone leaves +-{unit.text(half)} {unit.noun}, and the smallest effect is {unit.text(effect)}. "
        f"About {needed:,.0f} test examples would do."
    ]
