"""What is kept of a gate: its plan and the looks that were spent, so that nothing is spent twice, and its notes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlflow_l3d.analysis.intervals import FloatArray, unseen_share
from mlflow_l3d.metrics.known import registered
from mlflow_l3d.parameters.values import public_parameter
from mlflow_l3d.report.numbers import counted, share_text
from mlflow_l3d.studies.about import heading
from mlflow_l3d.studies.files import write_json
from mlflow_l3d.studies.gate.numbers.gate import GateAnswer, Look, Outstanding
from mlflow_l3d.studies.gate.parameters import GATE
from mlflow_l3d.studies.gate.report.words import GateSource, advice_on
from mlflow_l3d.studies.gate.request import GateRequest
from mlflow_l3d.studies.shown import logger
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, search
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.earlier.reader import known_document

DOCUMENT: Final = "gate.json"
SUMMARY_VARIABLE: Final = "GITHUB_STEP_SUMMARY"
"""Names the file that GitHub shows below a job."""
RESUMED: Final = "An earlier run of this gate"
_SIDES: Final = ("baseline", "candidate")


def find_earlier(client: Client, key: str) -> dict[str, Any] | None:
    """Return the record of the run of the same gate with the most looks, the latest of them; None if none took one."""
    runs = search(client, None, condition({names.ROLE: "gate", names.GATE_KEY: key}))
    documents = [known_document(client, str(run.info.run_id), DOCUMENT) for run in runs]
    begun = [document for document in documents if document.get("looks")]
    return max(reversed(begun), key=lambda document: len(document["looks"]), default=None)


def continued(answer: GateAnswer, record: Mapping[str, Any]) -> GateAnswer:
    """Return an answer with the looks of an earlier run, and if it was decided with what else it found."""
    baseline, candidate = (math.nan if record["means"][name] is None else record["means"][name] for name in _SIDES)
    outstanding = {name: value for name, value in record.get("outstanding", {}).items() if value is not None}
    return replace(
        answer,
        looks=tuple(map(Look.from_dict, record["looks"])),
        means=(baseline, candidate),
        other=record["other"] and tuple(record["other"]),
        outstanding=Outstanding(**outstanding),
        notes=(f"{RESUMED} took {counted(len(record['looks']), 'look')}; what was spent stays spent.",),
    )


def first_notes(request: GateRequest, client: Client) -> Iterator[str]:
    """Yield what the user should know before any run."""
    others = _other_gates(client, request.pair, request.key)
    if others:
        questions = "1 other question was" if others == 1 else f"{others} other questions were"
        yield f"{questions} asked of these two by a gate: a false claim in any of them is likelier than alpha."
    if request.metric.name not in registered():
        side = "more" if request.metric.greater_is_better else "less"
        yield f"{request.metric.name} is not a metric of this installation: {side} of it is taken to be better."
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
    classes = len((request.baseline.task or {}).get("classes", ()))
    chance = request.metric.chance_level(classes)
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


def _other_gates(client: Client, pair: str, key: str) -> int:
    """Return how many other questions were asked of the same two: gates with another key that took a look."""
    runs = search(client, None, condition({names.ROLE: "gate", names.GATE_PAIR: pair}))
    return len({tag for run in runs if (tag := run.data.tags.get(names.GATE_KEY)) != key and run.data.metrics})


def about(request: GateRequest, parents: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Return what the record says of the question; `parents` has run and experiment of both sides, by name."""
    titles = {side.name: {"title": side.title, "run_id": parents.get(side.name, ("",))[0]} for side in request.sides}
    return {
        "schema": 1,
        "parameters": {name: public_parameter(name, value) for name, value in request.given.items()},
        "metric": request.metric.name,
        "examples": request.examples,
        "gate_key": request.key,
        **{side.name: {**titles[side.name], **side.identity} for side in request.sides},
    }


def write_record(folder: Path, answer: GateAnswer, about: dict[str, Any]) -> None:
    """Write the files that continue a gate, and those that show its progress."""
    content = {
        **about,
        "decision": answer.decision,
        "exit_status": answer.exit_status,
        "plan": {**asdict(answer.plan), "levels": [level._asdict() for level in answer.plan.levels]},
        "before": asdict(answer.before),
        "paired": answer.paired,
        "means": dict(zip(_SIDES, answer.means, strict=True)),
        "other": answer.other,
        "outstanding": asdict(answer.outstanding),
        "advice": asdict(advice_on(answer)),
        "looks": [asdict(look) for look in answer.looks],
        "notes": list(answer.notes),
    }
    write_json(folder / DOCUMENT, content, indent=2)


def source_of_gate(
    request: GateRequest, run_id: str, parents: Mapping[str, tuple[str, str]], address: str
) -> GateSource:
    """Return the source of a gate; `parents` is as for :func:`about`, `address` as for a source."""
    baseline = request.baseline
    typed = {name: value for name, value in request.given.items() if value != GATE[name].default}
    return GateSource(
        task=str((baseline.task or {}).get("name", "")),
        approach=str(baseline.document.get("approach", {}).get("name", "")),
        run_id=run_id,
        address=address,
        given={name: public_parameter(name, value) for name, value in typed.items()} | {"baseline": baseline.run_id},
        date=heading(run_id)["date"][:10],
        candidate_run=parents.get("candidate", ("", ""))[0],
        changes=request.candidate.changes,
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
