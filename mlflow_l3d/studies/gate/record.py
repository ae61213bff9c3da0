"""What is kept of a gate: its plan and the looks that were spent, so that nothing is spent twice."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.report.numbers import counted
from mlflow_l3d.studies.files import write_json
from mlflow_l3d.studies.gate.numbers.gate import GateAnswer, Look, Outstanding
from mlflow_l3d.studies.gate.report.page import advice_on, gate_document, gate_markdown
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, search
from mlflow_l3d.tracking.earlier.reader import known_document

if TYPE_CHECKING:
    from mlflow import MlflowClient

_logger = logging.getLogger("mlflow_l3d")
DOCUMENT: Final = "gate.json"
SUMMARY_VARIABLE: Final = "GITHUB_STEP_SUMMARY"
"""Names the file that GitHub shows below a job."""
RESUMED: Final = "An earlier run of this gate"
_SIDES: Final = ("baseline", "candidate")


@dataclass(frozen=True)
class Earlier:
    """The latest run of the same gate.

    Attributes
    ----------
    most
        Its budget.
    looks
        Those that it took.
    means, other, outstanding
        As of an answer; known where it was decided.
    notes
        What it said.
    """

    most: int
    looks: tuple[Look, ...]
    means: tuple[float, float]
    other: tuple[float, float] | None
    outstanding: Outstanding
    notes: tuple[str, ...]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Earlier:
        """Return what the record of a run says."""
        means = [math.nan if document["means"][name] is None else document["means"][name] for name in _SIDES]
        other, left = document["other"], document.get("outstanding", {})
        return cls(
            int(document["plan"]["looks"][-1]),
            tuple(map(Look.from_dict, document["looks"])),
            (means[0], means[1]),
            None if other is None else (other[0], other[1]),
            Outstanding(**{name: value for name, value in left.items() if value is not None}),
            tuple(document["notes"]),
        )


def find_earlier(client: MlflowClient, key: str) -> Earlier | None:
    """Return the run of the same gate that took the most looks, the latest of them; None where none took one."""
    found = None
    for run in search(client, None, condition({names.ROLE: "gate", names.GATE_KEY: key})):
        document = known_document(client, str(run.info.run_id), DOCUMENT)
        if document.get("looks"):
            record = Earlier.of(document)
            found = record if found is None or len(record.looks) >= len(found.looks) else found
    return found


def other_gates(client: MlflowClient, pair: str, key: str) -> int:
    """Return how many other questions were asked of the same two: gates with another key that took a look."""
    runs = search(client, None, condition({names.ROLE: "gate", names.GATE_PAIR: pair}))
    return len({own for run in runs if (own := run.data.tags.get(names.GATE_KEY)) != key and run.data.metrics})


def write_record(folder: Path, answer: GateAnswer, about: dict[str, Any]) -> None:
    """Write what goes on with a gate, and what says how far it is."""
    content = {
        **about,
        "decision": answer.decision,
        "exit_status": answer.exit_status,
        "plan": {**asdict(answer.plan), "levels": [level._asdict() for level in answer.plan.levels]},
        "before": asdict(answer.before),
        "after": asdict(answer.after) if answer.after else None,
        "paired": answer.paired,
        "means": dict(zip(_SIDES, answer.means, strict=True)),
        "other": answer.other,
        "outstanding": asdict(answer.outstanding),
        "advice": asdict(advice_on(answer)),
        "looks": [look.to_dict() for look in answer.looks],
        "notes": list(answer.notes),
    }
    write_json(folder / DOCUMENT, content, indent=2)


def write_results(folder: Path, answer: GateAnswer, *, run_id: str, settings: dict[str, str]) -> str:
    """Write the report, its picture and the summary for a CI job; return the summary."""
    gate_document(answer, settings=settings).save(folder, names.REPORT)
    summary = gate_markdown(answer, run_id=run_id)
    (folder / "gate.md").write_text(summary, encoding="utf-8")
    return summary


def append_summary(summary: str) -> None:
    """Add the summary to the file that the CI job shows, where there is one; it is not worth an error."""
    path = os.environ.get(SUMMARY_VARIABLE)
    try:
        if path:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(f"{summary}\n")
    except OSError as error:
        _logger.warning("The summary could not be added to $%s: %s", SUMMARY_VARIABLE, error)


def resumed(looks: Sequence[Look]) -> str:
    """Return what is said of looks that were taken by an earlier run."""
    return f"{RESUMED} took {counted(len(looks), 'look')}; what was spent stays spent."
