"""What reports say about a study: its run and date, its classes, its examples, and the versions behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.consistency.examples import ExampleVotes
from mlflow_l3d.report.source import Source
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.version import __version__

_CLASSES_SHOWN: Final = 20


@dataclass(frozen=True)
class About:
    """What a report says of a study in addition to its numbers; see :class:`mlflow_l3d.report.page.Document`."""

    title: str
    source: Source = field(default_factory=Source)
    notes: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


def heading(run_id: str) -> dict[str, str]:
    """Return what every report begins with: the run, and when the report was written."""
    return {"MLflow run": run_id, "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")}


def class_words(classes: Sequence[str]) -> str:
    """Return the names of the classes; of many the first, and how many more there are."""
    more = len(classes) - _CLASSES_SHOWN
    return ", ".join(classes[:_CLASSES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def texts_of(task: Task) -> dict[object, str]:
    """Return example id -> text, with a slash between the texts of a pair; empty if the data are not here."""
    texts = map(" / ".join, zip(*task.texts, strict=True))
    return dict(zip(task.example_ids.tolist(), texts, strict=True)) if len(task) else {}


def fragile_examples(votes: ExampleVotes | None, task: Task, count: int) -> pd.DataFrame:
    """Return the examples on which runs differ most, with their texts and the names of the classes.

    Parameters
    ----------
    votes
        What all runs say; None without predictions.
    task
        Holds the texts and the names.
    count
        How many examples at most.

    Returns
    -------
    pandas.DataFrame
        ``example_id``, ``text``, ``true_class``, ``share_right``, and one column of votes a class.
    """
    names, texts = list(task.class_names), texts_of(task)
    rows = []
    for row in [] if votes is None else votes.most_fragile(count).to_dict("records"):
        place = {"example_id": row["example_id"], "text": texts.get(row["example_id"], "")}
        place |= {"true_class": names[int(row["label"])], "share_right": float(row["share_right"])}
        rows.append(place | dict.fromkeys(names, 0) | dict(zip(names, row["votes"], strict=False)))
    return pd.DataFrame(rows, columns=["example_id", "text", "true_class", "share_right", *names])


def version_words() -> str:
    """Return the versions as reports show them."""
    return ", ".join(f"{name} {number}" for name, number in versions().items())


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that may matter, those that are installed."""
    import platform

    others = ("mlflow", "numpy", "pandas", "pyarrow", "torch", "transformers", "tokenizers", "datasets")
    installed = {name: number for name in others if (number := _installed(name)) is not None}
    return {"python": platform.python_version(), "mlflow-l3d": __version__, **installed}


@cache
def _installed(package: str) -> str | None:
    """Return the version of a package, None where it is not installed; read once, since it takes its time."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
