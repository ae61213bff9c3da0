"""Predictions that existing runs logged as tables: how often two runs of a group agree, and on which examples not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES, example_votes
from mlflow_l3d.analysis.consistency.runs import SeedAgreement, class_agreement
from mlflow_l3d.analysis.intervals import with_interval
from mlflow_l3d.report.examples import MOST
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.existing import read_table

MOST_RUNS: Final = 20
"""Runs of a group whose predictions are read."""
SHARES: Final = ("robust_share", "fragile_share", "never_right_share")
_FILES: Final = ("predictions.parquet", "predictions.csv")
_ROLES: Final = {
    "example_id": ["example_id", "id", "idx", "index", "row_id", "sample_id", "uid"],
    "label": ["label", "labels", "target", "targets", "y_true", "true", "truth", "ground_truth", "y", "actual"],
    "prediction": ["prediction", "predictions", "predicted", "pred", "preds", "y_pred", "output", "outputs", "yhat"],
}
"""Role of a column -> the names that it has in tables of other code, most likely first."""


def agreement_of_groups(
    client: Client, groups: Mapping[str, pd.DataFrame]
) -> tuple[pd.DataFrame, pd.DataFrame | None, list[str]]:
    """Return how predictions agree in each group, the examples on which runs of the best group differ most, and notes.

    Parameters
    ----------
    client
        The tracking server.
    groups
        Name -> runs with the columns ``uri`` and ``tables``, best first.

    Returns
    -------
    tuple
        One row per group with predictions: ``group``, ``compared`` runs, ``examples``, ``consistency`` with its
        interval, and shares of robust, fragile and never right examples; and rows of the frame of
        :class:`~mlflow_l3d.analysis.consistency.examples.ExampleVotes`, None if there are none.
    """
    rows, fragile, notes = [], None, []
    for name, runs in groups.items():
        read = _read(client, runs.head(MOST_RUNS).to_dict("records"))
        if len(read) < 2:
            continue
        examples = pd.Series([_examples(table) for table in read], dtype=object)
        is_same = examples.eq(examples.mode().iloc[0])
        tables = [table for table, same in zip(read, is_same, strict=True) if table is not None and same]
        ids, labels = tables[0]["example_id"], tables[0]["label"].astype(str)
        if len(tables) < 2 or len(ids) < FEWEST_EXAMPLES:
            differ = "its runs predict different examples" if examples.count() > 1 else "only one of its runs has them"
            why = f"there are fewer than {FEWEST_EXAMPLES}" if tables[1:] else differ
            notes.append(f"Predictions of {name} are not compared: {why}.")
            continue
        if left := len(is_same) - len(tables):
            notes.append(f"{counted(left, 'run')} of {name} without predictions of the same examples: not compared.")
        if tables[0].attrs:
            notes.append(f"Predictions of {name} have no ids: they are compared by position, as their labels agree.")
        codes = pd.factorize(pd.concat([labels, *(each["prediction"].astype(str) for each in tables)]))[0]
        true, predictions = codes[: len(ids)], codes[len(ids) :].reshape(len(tables), -1)
        rows.append(agreement_row(name, class_agreement(predictions, true), len(tables), len(ids)))
        if fragile is None:
            fragile = example_votes(predictions, true, ids.to_numpy()).most_fragile(MOST)
    if not rows and not notes:
        notes.append(f"The runs hold no predictions ({', '.join(_FILES)}, or a table with label and prediction).")
    return agreement_frame(rows), fragile, notes


def agreement_row(name: str, agreement: SeedAgreement, runs: int, examples: int) -> tuple[object, ...]:
    """Return a row of :func:`agreement_frame`: how the predictions of some runs on some examples agree in a group."""
    limits = [getattr(agreement.pairs["consistency"], number) for number in with_interval("mean")]
    return (name, runs, examples, *limits, *(agreement.together[share] for share in SHARES))


def agreement_frame(rows: Sequence[tuple[object, ...]]) -> pd.DataFrame:
    """Return one row per group with predictions; see :func:`agreement_of_groups`."""
    columns = ["group", "compared", "examples", *with_interval("consistency"), *SHARES]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[1:], float))


def _read(client: Client, runs: Sequence[Mapping[Any, str]]) -> list[pd.DataFrame | None]:
    """Return the predictions of each run, None if it has none; nothing if the first three have none."""
    listed = [each["path"] for run in runs[:3] for each in json.loads(run["tables"] or "[]")]
    for name in dict.fromkeys([*_FILES, *listed]):
        tables = (_with_roles(read_table(client, run["uri"], name)) for run in runs)
        first = [*islice(tables, 3)]
        if any(table is not None for table in first):
            return [*first, *tables]
    return []


def _examples(table: pd.DataFrame | None) -> str | None:
    """Return which examples a table predicts, in few letters."""
    if table is None:
        return None
    return sha256(table[["example_id", "label"]].astype(str).to_csv().encode()).hexdigest()


def _with_roles(table: pd.DataFrame | None) -> pd.DataFrame | None:
    """Return ids (places if there are none), labels and predictions; None if these are not there, or are numbers."""
    if table is None:
        return None
    table = table.rename(columns=lambda name: str(name).lower())
    columns = {role: next((table[name] for name in names if name in table), None) for role, names in _ROLES.items()}
    if columns["label"] is None or columns["prediction"] is None:
        return None
    if by_position := columns["example_id"] is None or bool(columns["example_id"].duplicated().any()):
        columns["example_id"] = pd.Series(range(len(table)), table.index)
    frame = pd.DataFrame(columns).sort_values("example_id", ignore_index=True, kind="stable")
    floats = frame[["label", "prediction"]].select_dtypes("float")
    if (floats % 1 != 0).any(axis=None) or frame.isna().any(axis=None):
        return None
    frame = frame.astype(dict.fromkeys(floats, np.int64))
    frame.attrs = {"by_position": True} if by_position else {}
    return frame
