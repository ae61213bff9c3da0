"""Predictions that existing runs logged as tables: how often two runs of a group agree, and on which examples not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype as _is_number
from pandas.util import hash_array, hash_pandas_object

from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.analysis.intervals import with_interval
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.html import MOST_EXAMPLES
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.studies.seeds.numbers.compared import Kind, compare_seeds
from mlflow_l3d.tasks.table import roles_of
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.existing import read_table

SHARES: Final = ("robust_share", "fragile_share", "never_right_share")
_FILES: Final = ("predictions.parquet", "predictions.csv")


def matched_predictions(
    client: Client, groups: Mapping[str, pd.DataFrame], notes: list[str]
) -> Iterator[tuple[str, Kind, pd.DataFrame]]:
    """Yield the predictions of each group as :func:`agreement_in_groups` takes them, and add notes.

    Parameters
    ----------
    client
        The tracking server.
    groups
        Name -> runs with the columns ``uri`` and ``tables``, best first; of many runs 20 are read.
    notes
        Which predictions are not compared, and how they are matched.
    """
    are_any = False
    for name, runs in groups.items():
        read = _read(client, runs.head(20).to_dict("records"))
        held = [table for table in read if table is not None]
        if len(read) < 2:
            continue
        are_any, (tables, remark) = True, _match(held)
        if len(tables) < 2:
            why = "its runs predict different examples, or in another order"
            why = why if held[1:] else "only one of its runs has them"
            notes.append(f"Predictions of {name} are not compared: {why}.")
            continue
        if left := counted(len(read) - len(tables), "run") if len(read) > len(tables) else "":
            notes.append(f"Predictions of {left} of {name} are not compared: not of the same examples.")
        notes.extend([f"Predictions of {name} {remark}."] if remark else [])
        kind: Kind = "regression" if any(map(_are_numbers, tables)) else "classification"
        parts = (table[["label", "prediction"]] for table in tables)
        parts = (part if kind == "regression" else part.apply(_texts) for part in parts)
        yield name, kind, pd.concat(part.assign(seed=at, example_id=tables[0].index) for at, part in enumerate(parts))
    if not are_any:
        notes.append(f"The runs hold no predictions ({', '.join(_FILES)}, or a table with label and prediction).")


def agreement_in_groups(
    groups: Iterable[tuple[str, Kind, pd.DataFrame]], notes: list[str], metric: Metric | None = None
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return how predictions agree in each group, and the examples on which runs of the best group differ most.

    Parameters
    ----------
    groups
        Best first: a name, the kind of its task, and one row per prediction with the ``seed`` of its run.
    notes
        Which predictions are not compared, and which runs collapsed, are added.
    metric
        Compares answers that are neither classes nor numbers.

    Returns
    -------
    tuple
        One row per group with predictions: ``group``, ``compared`` runs, ``examples``, ``consistency`` with its
        interval, and shares of robust, fragile and never right examples, or of numbers the ``absolute_difference`` of
        two runs with its interval; and rows of the frame of
        :class:`~mlflow_l3d.analysis.consistency.examples.ExampleVotes`, None if there are none.
    """
    rows, fragile = [], None
    for name, kind, answers in groups:
        seeds = tuple(answers["seed"].unique().tolist())
        if len(seeds) < 2:
            continue
        compared = compare_seeds(answers, seeds, kind, None, metric)
        if len(compared.ids) < FEWEST_EXAMPLES:
            notes.append(f"Predictions of {name} are not compared: there are fewer than {FEWEST_EXAMPLES}.")
            continue
        counts = {"compared": len(seeds), "examples": len(compared.ids)}
        rows.append({"group": name, **counts, **compared.agreement().metrics()})
        if still := len(compared.constant()):
            notes.append(f"{counted(still, 'run')} of {name} with one answer for every example: collapsed (L3D005).")
        if fragile is None and (votes := compared.votes()) is not None:
            fragile = votes.most_fragile(MOST_EXAMPLES)
    measures = *with_interval("consistency"), *SHARES, *with_interval("absolute_difference")
    columns = ["group", "compared", "examples", *measures]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[1:], float)), fragile


def _read(client: Client, runs: Sequence[Mapping[Any, str]]) -> list[pd.DataFrame | None]:
    """Return the predictions of each run, None if it has none; nothing if the first three have none."""
    listed = [each["path"] for run in runs[:3] for each in json.loads(run["tables"] or "[]")]
    for name in dict.fromkeys([*_FILES, *listed]):
        tables = (_with_roles(read_table(client, run["uri"], name)) for run in runs)
        first = [*islice(tables, 3)]
        if any(table is not None for table in first):
            return [*first, *tables]
    return []


def _match(tables: Sequence[pd.DataFrame]) -> tuple[list[pd.DataFrame], str]:
    """Return the tables with the most common examples, in one order of rows, and what a reader must know of that.

    Rows are matched by ids, or by another column that is unique and has the same values in all tables. Else they are
    matched by position, and the columns with the same values in all tables must have them in the same order. Tables of
    a rare length are left out; the index is the id or the number of the row.
    """
    alike = [table for table in tables if len(table) == pd.Series(map(len, tables)).mode().iloc[0]]
    first, columns = alike[0], [str(name) for name in alike[0] if all(name in table for table in alike)]
    hashes = {name: [hash_array(table[name].astype(str).to_numpy(dtype=object)) for table in alike] for name in columns}
    unique = [name for name in columns if all(pd.Series(each).is_unique for each in hashes[name])]
    key, names, remark = "example_id", ["example_id", "label"], ""
    if key not in unique:
        same = [name for name in columns if len({np.sort(one).tobytes() for one in hashes[name]}) == 1]
        numbered = {name for name in columns if _is_number(first[name]) and first[name].diff().eq(1)[1:].all()}
        keys = {*same} & {*unique} - numbered  # texts first: a number may be the rank of an answer
        key = min(keys, key=lambda name: (_is_number(first[name]), name), default="")
        names = [key, "label"] if key else sorted({*same, "label"} - {"prediction"})
        is_sorted = all(np.sum(one[1:] != one[:-1]) == len({*one}) - 1 for one in (hashes[name][0] for name in names))
        how = "which nothing confirms" if is_sorted else "as their other columns agree"  # sorted files are all alike
        how = f"matched by {key}" if key else f"compared by position, {how}"
        remark = f"have {'ids that repeat' if 'example_id' in first else 'no ids'}: they are {how}"
    named = [table.set_axis(table[key].to_numpy()) if key == "example_id" else table for table in alike]
    named = [table.sort_values(key, key=lambda column: column.astype(str)) if key else table for table in named]
    examples = [hash_pandas_object(table[names].astype(str), index=False).to_numpy().tobytes() for table in named]
    ((most, _),) = Counter(examples).most_common(1)
    return [table for table, each in zip(named, examples, strict=True) if each == most], remark


def _texts(column: pd.Series) -> pd.Series:
    """Return classes as texts, whole numbers alike however they were written; None if they are empty."""
    texts = column.convert_dtypes().astype("string")
    return texts.astype(object).mask((texts.str.strip() == "").fillna(True), None)


def _are_numbers(table: pd.DataFrame) -> bool:
    """Return whether labels or predictions are numbers with decimals."""
    return bool((table[["label", "prediction"]].select_dtypes("float").dropna() % 1 != 0).any(axis=None))


def _with_roles(table: pd.DataFrame | None) -> pd.DataFrame | None:
    """Return a table with names for ids, labels and predictions; None if the latter are not there, or of two kinds."""
    if table is None:
        return None
    table = table.rename(columns=lambda name: str(name).lower()).reset_index(drop=True)
    table = table.loc[:, ~table.columns.duplicated()]
    table = table.rename(columns={name: role for role, name in roles_of(table).items()})
    if not {"label", "prediction"} <= {*table} or _texts(table["label"]).isna().any():
        return None
    is_numeric = all(_is_number(table[each]) and table[each].notna().all() for each in ("label", "prediction"))
    return None if _are_numbers(table) and not is_numeric else table
