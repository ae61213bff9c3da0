"""What is read of existing runs: which of them count, by which metric, at which step, and the predictions they hold."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import is_numeric_dtype as _is_number
from pandas.util import hash_array, hash_pandas_object

from mlflow_l3d.analysis.importance.tables import usable
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.approaches.command.scores import Printed, chosen_score
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import is_share, named, split_direction
from mlflow_l3d.parameters.values import Whole
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.studies.seeds.numbers.compared import Kind
from mlflow_l3d.tasks.table import roles_of
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.existing import ExistingRuns, histories, read_table

_FILES: Final = ("predictions.parquet", "predictions.csv")


@dataclass(frozen=True, slots=True)
class Scored:
    """The runs that count.

    Attributes
    ----------
    used
        One value per run that was read: whether it counts.
    scores
        Of the runs that count.
    metric
        What the score is.
    counts
        What became of the runs.
    notes
        What a reader must know.
    """

    used: npt.NDArray[np.bool_]
    scores: FloatArray
    metric: Metric
    counts: dict[str, int]
    notes: list[str]


def read_scores(client: Client, runs: ExistingRuns, metric: str, step: str, *, fewest: int = 2) -> Scored:
    """Return the finished runs of other code that have a score, without parents of such runs.

    Parameters
    ----------
    client, runs
        The tracking server, and what was read from it.
    metric, step
        As in :func:`mlflow_l3d.studies.groups.run.evaluate_groups`.
    fewest
        How many such runs there must be.

    Raises
    ------
    ParameterError
        If there are fewer, or the metric or step is not usable.
    """
    Whole(0, words=("last", "best")).read("step", step)
    frame = runs.frame
    theirs = frame["role"].eq("") & frame["status"].ne("PARENT")
    finished = theirs & frame["status"].eq("FINISHED")
    if not finished.any():
        allowed = "finds no finished run" + (f", only {int(theirs.sum())} others" if theirs.any() else "")
        fix = "Runs of mlflow-l3d do not count: give the id of their parent."
        raise ParameterError("source", "(runs)", allowed, fix)
    chosen, notes = _metric(runs.metrics[finished], metric.removeprefix("metrics."))
    values = usable(runs.metrics[chosen.name])
    if step != "last":
        at_step = _at_step(client, frame["run_id"][finished & np.isfinite(values)], chosen, step)
        values = frame["run_id"].map(at_step).to_numpy(dtype=np.float64)
    scored = finished.to_numpy() & np.isfinite(values)
    up = frame["parent"].to_numpy()
    is_parent, above = np.zeros(len(frame), dtype=bool), up[scored]
    while len(above := above[(above >= 0) & ~is_parent[above]]):  # parents may be in a circle
        is_parent[above] = True
        above = up[np.unique(above)]
    used = scored & ~is_parent
    if used.sum() < fewest:
        allowed = f"at least {fewest} finished runs must have it at step={step}, not {int(used.sum())}"
        raise ParameterError("metric", chosen.name, allowed, "Name another metric or step, or more runs.")
    states = frame["status"].str.lower().where(~finished, "with child runs")
    states = states.where(~finished | is_parent, "without a score")
    is_infinite = finished & runs.steps[chosen.name].notna() & np.isnan(usable(runs.metrics[chosen.name]))
    states = states.mask(is_infinite & ~scored, "with nan or inf as score")[theirs & ~used]
    if infinite := frame.loc[is_infinite, "name"].tolist():
        which = f"{counted(len(infinite), 'run')} ended with nan or inf, as {infinite[0]}: diverged?"
        notes.append(f"{which} Groups without such runs look better than they are.")
    counts = {"found": int(theirs.sum()), "used": int(used.sum())}
    counts |= {str(state): count for state, count in states.value_counts().items()}
    if still := frame.loc[theirs & frame["status"].eq("RUNNING"), "name"].head(3).tolist():
        notes.append(f"Still running, and left out: {', '.join(still)}.")
    if parents := int((scored & is_parent).sum()):
        alone = "To evaluate them instead, name them by a filter or by their ids"
        notes.append(f"{counted(parents, 'run')} with a score left out, whose child runs have one, too. {alone}.")
    steps = runs.steps[chosen.name][used]
    if step == "last" and steps.min() < steps.max():
        notes.append(f"The last steps differ, from {steps.min():.0f} to {steps.max():.0f}. One step for all: --step.")
    if step == "best":
        notes.append("The best step of each run was chosen by its own score, so all scores are too good.")
    scores = _in_fractions(values[used], chosen, frame["run_id"][used])
    return Scored(used, scores, bounded(chosen, scores), counts, notes)


def bounded(metric: Metric, scores: FloatArray) -> Metric:
    """Return a metric with the range of its scores: percent are fractions, and no interval of a share claims more."""
    is_fraction, (low, high) = bool(np.abs(scores).max() <= 1), metric.range
    metric = replace(metric, percent=metric.percent and is_fraction)
    return replace(metric, range=(max(low, -1.0), min(high, 1.0))) if is_fraction and is_share(metric.name) else metric


def _metric(metrics: pd.DataFrame, asked: str) -> tuple[Metric, list[str]]:
    """Return the score, and how it was chosen: among metrics of at least half as many runs as have any score."""
    numbers = pd.DataFrame(usable(metrics.to_numpy()), columns=metrics.columns)
    counts = numbers.count()[lambda count: count > 0]
    if asked != "auto":
        name, is_higher = (asked, None) if asked in counts else split_direction(asked)
        if name not in counts:
            raise unknown_name("metric", name, counts.index, "one that finished runs have:")
        return named(name) if is_higher is None else replace(named(name), greater_is_better=is_higher), []
    # What mlflow.genai.compare_evaluations logs, and words in what scikit-learn's searches log with each score.
    no_metric = r"^compare/|(?:^|[_/. ])(?:std|stderr|sem|rank|split\d+)(?:[_/. ]|$)"
    likely = {name: Printed(numbers[name].median()) for name in counts.index if not re.search(no_metric, name)}
    most = max((counts[name] for name in likely if chosen_score({name: likely[name]})), default=0)
    name = chosen_score({name: value for name, value in likely.items() if 2 * counts[name] >= most})
    if not name:
        listed = ", ".join(counts.index[:20]) or "none"
        raise ParameterError("metric", "auto", f"no metric of the runs sounds like a score ({listed})", "Name one.")
    rest = ", ".join(counts.index.drop(name)[:10])
    return named(name), [f"The metric {name} was chosen by its name." + (f" Others: {rest}." if rest else "")]


def _at_step(client: Client, run_ids: pd.Series, metric: Metric, step: str) -> pd.Series:
    """Return run id -> value at a step, or the best value."""
    points = pd.DataFrame(histories(client, run_ids.tolist(), metric.name), columns=["run_id", "step", "time", "value"])
    points["value"] = usable(points["value"])
    points["best"] = metric.sign * points["value"]
    if step != "best":
        points = points[points["step"].eq(int(step))]
    by = "best" if step == "best" else "time"
    return points.dropna(subset="value").sort_values(by, kind="stable").groupby("run_id")["value"].last()


def _in_fractions(scores: FloatArray, metric: Metric, run_ids: pd.Series) -> FloatArray:
    """Return scores that were logged in per cent as fractions.

    Raises
    ------
    ParameterError
        If some runs logged per cent and others fractions, or a score is outside of the range of its metric.
    """
    sizes = np.abs(scores)
    if (metric.percent or is_share(metric.name)) and 1.5 < sizes.max() <= 100:
        small = np.flatnonzero((sizes > 0) & (sizes <= 1))
        if small.size:
            allowed = f"{small.size} runs have a fraction, as {run_ids.iloc[small[0]]}, and others a number in per cent"
            raise ParameterError("metric", metric.name, allowed, "Choose runs of one kind by a filter.")
        scores = scores / 100
    low, high = metric.range
    if not (scores.min() >= low - 1e-9 and scores.max() <= high + 1e-9):
        allowed = f"lies between {low:g} and {high:g}, and the runs have {scores.min():g} to {scores.max():g}"
        raise ParameterError("metric", metric.name, allowed, "Name another metric.")
    return scores


def matched_predictions(
    client: Client, groups: Mapping[str, pd.DataFrame], notes: list[str]
) -> Iterator[tuple[str, Kind, pd.DataFrame]]:
    """Yield the predictions of each group for :func:`~mlflow_l3d.studies.groups.run.with_agreement`, and add notes.

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
    first = alike[0]
    columns = [str(name) for name in alike[0] if all(name in table for table in alike)]
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
