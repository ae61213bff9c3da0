"""Data sets of the Hugging Face library `datasets`: a local folder, or a name on the hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.columns import task_from_table
from mlflow_l3d.tasks.kinds import USUAL, Reading
from mlflow_l3d.tasks.predefined_split import numbers_of_parts
from mlflow_l3d.tasks.table import Table

PREFIX = "hf:"
"""What a name on the hub starts with."""


def load_folder(folder: Path, reading: Reading = USUAL) -> Task:
    """Return the task in a folder that ``save_to_disk`` wrote, or one of data files that ``load_dataset`` reads.

    Raises
    ------
    ParameterError
        If the folder holds no data set, or a column holds what it should not.
    L3DError
        If `datasets` is not installed.
    """
    datasets = _library(folder.name)
    saved = any((folder / marker).is_file() for marker in ("state.json", "dataset_dict.json"))
    try:
        loaded = datasets.load_from_disk(str(folder)) if saved else datasets.load_dataset(str(folder))
    except Exception as error:
        allowed = f"the folder holds no data set that can be read ({type(error).__name__})"
        raise ParameterError("task", folder.name, allowed, "Give a .csv, .tsv, .parquet or .jsonl file.") from error
    return task_from_table(folder.resolve().name, _table(loaded, reading), reading)


def load_from_hub(name: str, reading: Reading = USUAL) -> Task:
    """Return the task behind ``hf:NAME`` or ``hf:NAME/CONFIG``: every split that has labels, one after another.

    NAME may itself be ``OWNER/SET``. Two parts are first taken as that, and then, if the hub knows no such set, as a
    set without an owner and its configuration. Code that comes with a data set is never run.

    Raises
    ------
    ParameterError
        If the hub has no such data set or configuration, or a column holds what it should not.
    L3DError
        If the hub cannot be reached, or `datasets` is not installed.
    """
    datasets = _library(name)
    parts = name.removeprefix(PREFIX).split("/")
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise ParameterError("task", name, "must be hf:NAME, hf:NAME/CONFIG or hf:OWNER/NAME/CONFIG")
    owned = ("/".join(parts[:2]), *parts[2:])
    for candidate in (owned, tuple(parts)) if len(parts) == 2 else (owned,):
        try:
            loaded = datasets.load_dataset(*candidate)
        except datasets.exceptions.DatasetNotFoundError:
            continue
        except Exception as error:
            raise _hub_error(name, error) from error
        return task_from_table(name, _table(loaded, reading), reading)
    raise ParameterError("task", name, "the hub has no such data set, or it is not public", "Log in if it is yours.")


def _hub_error(name: str, error: Exception) -> L3DError:
    """Return the line for what the library raised, which is of many kinds: its own, the hub's, those of HTTP."""
    of_network = type(error).__module__.startswith(("huggingface_hub", "httpx"))
    if of_network or isinstance(error, ConnectionError | TimeoutError):
        return L3DError(
            f"task={name}: the Hugging Face hub cannot be reached ({type(error).__name__}). "
            "Check the network, or give a file or a folder."
        )
    # Its text names what configurations there are; those of other errors may hold paths.
    why = getattr(error, "strerror", None) or type(error).__name__
    if type(error) in (ValueError, RuntimeError):
        why = str(error)
    return ParameterError("task", name, f"the data set cannot be loaded ({why})")


def _library(name: str) -> Any:
    try:
        import datasets  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        msg = f"task={name}: reading it needs the package datasets. Run: pip install 'mlflow-l3d[models]'"
        raise L3DError(msg) from error
    return datasets


def _table(loaded: Any, reading: Reading) -> Table:
    """Return the splits that have labels as one table."""
    splits: Mapping[str, Any] = loaded if isinstance(loaded, Mapping) else {"all": loaded}
    label_column = reading.label_column
    labelled = [split for split, data in splits.items() if _has_labels(data, label_column)]
    kept = [splits[split] for split in labelled or splits]
    left_out = sorted(set(splits) - set(labelled)) if labelled else []
    parts = None
    if reading.predefined_split and len(splits) > 1:
        parts = np.repeat(numbers_of_parts(labelled or splits, "split"), list(map(len, kept)))
    names = tuple(name for name in kept[0].column_names if all(name in data.column_names for data in kept))
    class_names = getattr(kept[0].features.get(label_column), "names", None)
    label_names = dict(enumerate(class_names)) if class_names else None
    notes = tuple(f"split {split} has no labels and is left out" for split in left_out)

    def column(name: str) -> list[Any]:
        values = [value for data in kept for value in data[name]]
        # A class label of -1 is the library's word for a hidden one.
        hidden = class_names is not None and name == label_column
        return [None if hidden and value == -1 else value for value in values]

    return Table(names, column, label_names, parts, ids_are_mine=False, notes=notes)


def _has_labels(data: Any, label_column: str) -> bool:
    if label_column not in data.column_names or not len(data):
        return False
    return any(value is not None and value != -1 for value in data[label_column])
