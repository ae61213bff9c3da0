"""Predictions that existing runs logged as tables: how often two runs of a group agree, and on which examples not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES, example_votes
from mlflow_l3d.analysis.consistency.runs import class_agreement
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.existing import read_table

MOST_GROUPS: Final = 5
MOST_RUNS: Final = 20
"""Groups and runs of each, best first, whose predictions are read."""
_MOST_EXAMPLES: Final = 50
_FILES: Final = ("predictions.parquet", "predictions.csv")
_ROLES: Final = {
    "example_id": ("example_id", "id", "idx", "index", "row_id", "sample_id", "uid"),
    "label": (
        "label",
        "labels",
        "target",
        "targets",
        "y_true",
        "true",
        "truth",
        "ground_truth",
        "y",
        "actual",
        "answer",
    ),
    "prediction": ("prediction", "predictions", "predicted", "pred", "preds", "y_pred", "output", "outputs", "yhat"),
}
"""Role of a column -> the names that it has in tables of other code, most likely first."""


def agreement_of_groups(
    client: Client, groups: Mapping[str, pd.DataFrame]
) -> tuple[pd.DataFrame, pd.DataFrame | None, list[str]]:
    """Return how predictions agree in each group, the examples on which runs differ most, and notes.

    Parameters
    ----------
    client
        The tracking server.
    groups
        Name -> runs with the columns ``uri`` and ``tables``, best first.

    Returns
    -------
    tuple
        One row per group with predictions: ``group``, ``consistency`` with its interval, ``robust_share``,
        ``fragile_share``, ``never_right_share``, ``examples``; fragile examples by their ids, None if there are none.
    """
    rows, fragile, notes = [], [], []
    for name, runs in [*groups.items()][:MOST_GROUPS]:
        tables = [*_read(client, runs.head(MOST_RUNS).to_dict("records"))]
        if len(tables) < 2:
            continue
        problem = next(filter(None, (_difference(tables[0], other) for other in tables[1:])), "")
        if problem or len(tables[0]) < FEWEST_EXAMPLES:
            few = f"there are fewer than {FEWEST_EXAMPLES}"
            notes.append(f"Predictions of {name} are not compared: {problem or few}.")
            continue
        codes = pd.factorize(pd.concat([tables[0]["label"], *(each["prediction"] for each in tables)]).astype(str))[0]
        labels, *predictions = codes.reshape(len(tables) + 1, -1)
        found = class_agreement(np.array(predictions), labels)
        votes = example_votes(np.array(predictions), labels, tables[0]["example_id"].to_numpy())
        pair = found.pairs["consistency"]
        row = {"group": name, "examples": len(labels), "compared": len(tables)}
        row |= {f"consistency{end}": getattr(pair, f"mean{end}") for end in ("", "_ci_low", "_ci_high")}
        rows.append({**row, **{key: found.together[key] for key in found.together if key.endswith("_share")}})
        columns = ["example_id", "runs", "share_right", "entropy"]
        fragile.append(votes.most_fragile(_MOST_EXAMPLES)[columns].assign(group=name))
    if not rows and not notes:
        notes.append(
            f"The runs hold no predictions ({', '.join(_FILES)}, or a logged table with label and prediction)."
        )
    return pd.DataFrame(rows), pd.concat(fragile, ignore_index=True) if fragile else None, notes


def _read(client: Client, runs: Sequence[Mapping[Any, str]]) -> Iterator[pd.DataFrame]:
    """Yield the predictions of runs; nothing if the first run has none."""
    names = [*_FILES, *(each["path"] for each in json.loads(runs[0]["tables"] or "[]"))]
    for name in names:
        if _roles(read_table(client, runs[0]["uri"], name)) is not None:
            tables = (_roles(read_table(client, run["uri"], name)) for run in runs)
            yield from (table for table in tables if table is not None)
            return


def _roles(table: pd.DataFrame | None) -> pd.DataFrame | None:
    """Return ids (places if there are none), labels and predictions; None if these are not there, or are numbers."""
    if table is None:
        return None
    by_name = {str(name).lower(): table[name] for name in reversed(table.columns)}
    columns = {role: next((by_name[name] for name in names if name in by_name), None) for role, names in _ROLES.items()}
    if columns["example_id"] is None or columns["example_id"].duplicated().any():
        columns["example_id"] = pd.Series(range(len(table)), table.index)
    if columns["label"] is None or columns["prediction"] is None:
        return None
    frame = pd.DataFrame(columns).sort_values("example_id", ignore_index=True, kind="stable")
    for role in ("label", "prediction"):
        if frame[role].dtype.kind == "f":
            if (frame[role] % 1 != 0).any():
                return None
            frame[role] = frame[role].astype(np.int64)
    return frame


def _difference(one: pd.DataFrame, other: pd.DataFrame) -> str:
    """Return why two runs cannot be compared example by example; empty if they can."""
    same = len(one) == len(other) and one["example_id"].equals(other["example_id"])
    if same and one["label"].astype(str).equals(other["label"].astype(str)):
        return ""
    return "its runs predict different examples"
