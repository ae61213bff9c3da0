"""Files of other tools, whose results become runs that every other command reads: one run as a tool recorded it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError
from mlflow_l3d.paths import public_name
from mlflow_l3d.privacy import public_value

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """One run, read and not yet checked.

    Attributes
    ----------
    source
        Name of the file in messages.
    task
        Name of the task.
    kind
        ``classification``, ``multiple_choice`` (also free text, whose answers are compared literally) or another
        kind of task; empty if the tool does not record it, see :mod:`mlflow_l3d.studies.importing.checking`.
    settings
        Name -> value, as text, of all recorded settings that may change the score.
    scores
        Metric -> value, fractions (0..1); the first is the tool's own first.
    ids, labels, predictions
        Shape (n,): example ids (str); class numbers, numbers, or texts (None for an answer that could not be read); a
        prediction of -1 names no class. None if the tool kept no predictions.
    classes
        Names of the classes by their numbers; empty if the task has none, or they are unknown.
    duration_seconds
        As recorded; 0 if unknown.
    """

    source: str
    task: str
    kind: str
    settings: Mapping[str, str]
    scores: Mapping[str, float]
    ids: Array | None = None
    labels: Array | None = None
    predictions: Array | None = None
    classes: tuple[str, ...] = ()
    duration_seconds: float = 0.0

    @property
    def key(self) -> str:
        """Hash of the recorded content: equal for the same run in any folder."""
        digests = [None if each is None else _digest(each) for each in (self.ids, self.labels, self.predictions)]
        content: dict[str, Any] = {"task": self.task, "settings": dict(self.settings), "arrays": digests}
        content["scores"] = {} if digests[0] else {name: repr(float(value)) for name, value in self.scores.items()}
        # Runs with the same answers are different runs if they took different times; a copied file has the same time.
        content |= {"seconds": self.duration_seconds} if self.duration_seconds else {}
        content |= {"classes": list(self.classes)} if self.classes else {}
        return content_key(content)

    @property
    def examples(self) -> str:
        """Hash of the examples, in any order, and of their labels; empty without predictions."""
        if self.ids is None or self.labels is None:
            return ""
        order = np.argsort(self.ids)
        return _digest(self.ids[order]) + _digest(self.labels[order])

    def answered(
        self, ids: Iterable[object], labels: Iterable[object], answers: Iterable[object], right: Sequence[bool]
    ) -> RecordedRun:
        """Return the run with answers as text; one that the tool called right is the label, so that right ones agree.

        An answer that reads as the label and was called wrong (because of a space, say) is unlike right ones.
        """
        truth, wrong = texts(labels), "(the label, called wrong)"
        each = zip(texts(answers), truth, right, strict=True)
        said = texts([label if good else wrong if answer == label else answer for answer, label, good in each])
        return replace(self, ids=np.array([*map(str, ids)]), labels=truth, predictions=said)


def _digest(values: Array) -> str:
    content = json.dumps(values.tolist()).encode() if values.dtype == object else values.tobytes()
    return hashlib.sha256(content).hexdigest()


def read_each(read: Callable[..., RecordedRun], parts: Iterable[tuple[object, ...]]) -> list[RecordedRun | L3DError]:
    """Return each run of a file, or why it cannot be read."""
    runs: list[RecordedRun | L3DError] = []
    for part in parts:
        try:
            runs.append(read(*part))
        except L3DError as error:
            runs.append(error)
    return runs


def graded(values: Sequence[float]) -> tuple[str, list[bool] | None]:
    """Return the name of the mean of scores, and which answers are right: None if some are partly right."""
    return ("accuracy", [value == 1 for value in values]) if {*values} <= {0, 1} else ("score_mean", None)


def texts(values: Iterable[object]) -> Array:
    """Return values as an array of texts; None stays."""
    return np.array([None if value is None else str(value).strip() for value in values] + [None], dtype=object)[:-1]


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested settings as text by names with dots; empty ones are left out, and folders show their last part."""
    settings: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            settings |= flat(value, f"{prefix}{name}.")
        elif value not in (None, "", [], ()):
            listed = isinstance(value, list | tuple)
            settings[f"{prefix}{name}"] = public_value(name, json.dumps(value) if listed else public_name(str(value)))
    return settings


def read_json(path: Path, text: str | None = None, line: int | None = None) -> Any:
    """Return the content of a JSON file, or of one line of it.

    Raises
    ------
    L3DError
        If it is not JSON, or cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8") if text is None else text)
    except (OSError, ValueError, RecursionError) as error:
        place = "" if line is None else f", line {line}"
        raise L3DError(f"{path.name}{place}: is not JSON ({error}). Write it again, or take it away.") from error
