"""CSV: long, one row per prediction with the settings of its run; wide, one column per run; or scores alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.known import sounds_like_metric
from mlflow_l3d.parameters.values import check_names, pairs
from mlflow_l3d.paths import public_name
from mlflow_l3d.studies.groups.numbers.grouping import is_seed
from mlflow_l3d.studies.importing import RecordedRun, texts
from mlflow_l3d.tasks.answers import Classes, labels_of, plain_number, text_of
from mlflow_l3d.tasks.table import read_columns, roles_of

_OWN: Final = ("example_id", "label", "prediction")
_KNOWN: Final = (*_OWN, "score", "task", "settings")
_RUN: Final = re.compile(r"(?i)(random_?)?(seed|state)|run|pred(iction)?|trial|rep(eat|etition|licate)?|model")
"""Usual words for runs in names of columns."""
_OF_EXAMPLES: Final = "id|gold|target|answer|output|response|reference|truth|y_?true|y_?pred|pred|text|question"
"""Names in tables of predictions: with two of them, rows are examples and not runs."""
_SETTING: Final = re.compile(r"(?i).*(seed|rate|decay|lr|dropout|temperature|momentum|alpha|beta).*")
"""Names of settings, also of those with decimals."""
Runs = list[tuple[dict[str, str], pd.DataFrame]]


def read(path: Path, columns: Mapping[str, str], metric: str = "auto") -> list[RecordedRun]:
    """Return the runs of one file; `columns` names the roles of its columns, see ``--columns``."""
    check_names("columns", columns, _KNOWN)
    values = {name: [text_of(value) or "" for value in each] for name, each in read_columns(path).items()}
    index = r"Unnamed: \d+|__index_level_\d+__|"  # names under which pandas writes or reads the index of a frame
    frame = pd.DataFrame({name: each for name, each in values.items() if not re.fullmatch(index, name)}, dtype=object)
    listed = [name for name in columns.get("settings", "").split("+") if name]
    renamed = {column: name for name, column in columns.items() if name != "settings"}
    for column in (*renamed, *listed):
        if column not in frame:
            raise ParameterError("columns", column, f"{path.name} has no such column, but {', '.join(map(str, frame))}")
    frame = frame.rename(columns=renamed)
    usual = [name for name in map(str, frame) if re.fullmatch(_OF_EXAMPLES, name, re.IGNORECASE)]
    of_examples = len(usual) > 1 or not {*_OWN}.isdisjoint(frame)
    if not of_examples and (runs := _scores(path, frame, listed, metric)):
        return runs
    frame = frame.rename(columns={column: name for name, column in roles_of(frame).items() if column not in listed})
    wide = "prediction" not in frame
    if lacking := [name for name in _OWN[: 2 if wide else 3] if name not in frame]:
        have = ", ".join(map(str, frame)) or "no column at all"
        fix = f"Say which it is: --columns {','.join(f'{name}=COLUMN' for name in lacking)}."
        raise L3DError(f"{path.name}: has no column {' and no '.join(lacking)}, but {have}. {fix}")
    if frame.empty:
        raise L3DError(f"{path.name}: holds no rows.")
    parts = _wide(path.name, frame) if wide else _long(path.name, frame, listed)
    if not parts:
        example = "seed_1, or seed=1;shots=4"
        raise L3DError(f"{path.name}: has neither a column prediction nor any that names a run, such as {example}.")
    return [_run(path, settings, part) for settings, part in parts]


def _scores(path: Path, frame: pd.DataFrame, listed: Sequence[str], metric: str) -> list[RecordedRun]:
    """Return the runs of a file with one row per run: metrics and settings; none if no column reads like a metric.

    A metric is a column of numbers that has the name of one, or decimals that differ in most rows; `listed` and all
    others are settings.
    """
    scores: dict[str, pd.Series] = {}
    named = []
    for name in [each for each in map(str, frame) if each not in listed]:
        text = frame[name].str.strip().replace("(?i)^nan$", "", regex=True)
        thousands = text.str.fullmatch(r"[1-9]\d{0,2}(,\d{3})+")
        if thousands.any() and (thousands | (text == "")).all():
            fix = "Write it without the comma, or with a point for decimals."
            raise L3DError(
                f"{path.name}: {text[thousands].iloc[0]} in column {name} may be a thousand or a decimal. {fix}"
            )
        plain = text.str.replace(r"^(-?\d+),(\d+)(%?)$", r"\1.\2\3", regex=True)
        numbers = pd.to_numeric(plain.str.removesuffix("%"), errors="coerce").astype(np.float64)
        if numbers.isna().sum() > (text == "").sum() or numbers.isna().all():
            continue
        if sounds_like_metric(name) or name == metric:
            named.append(name)
        elif _SETTING.fullmatch(name) or not (numbers % 1).max() > 0 or frame[name].nunique() <= len(frame) / 2:
            continue
        scores[name] = numbers.where(~plain.str.endswith("%"), numbers / 100)
    if metric == "auto" and not named and len(scores) > 1:
        fix = f"Name it: --metric {next(iter(scores))}."
        raise L3DError(f"{path.name}: which of {', '.join(scores)} is the metric is not known. {fix}")
    table = pd.DataFrame(scores)[list(dict.fromkeys((*named, *scores)))]
    settings = [str(name) for name in frame if name not in (*scores, "task")]
    # Rows without a seed are runs of their own, even if all their settings are the same.
    seedless = not any(map(is_seed, settings))
    again = frame.groupby(settings).cumcount() if settings else pd.Series(range(len(frame)))
    runs = []
    for row, values in enumerate(frame.to_dict("records") if scores else ()):
        own_settings = {name: public_name(values[name]) for name in settings if values[name]}
        own_settings |= {"run": str(again[row] + 1)} if seedless and again.any() else {}
        how = ", ".join(f"{name}={value}" for name, value in own_settings.items())
        of_run = {str(name): float(table[name][row]) for name in table if np.isfinite(table[name][row])}
        source = f"{path.name} ({how or f'row {row + 1}'})"
        task = values.get("task") or path.stem
        runs.append(RecordedRun(source=source, task=task, kind="", settings=own_settings, scores=of_run))
    return runs


def _wide(source: str, frame: pd.DataFrame) -> Runs:
    """Return settings and rows of each column whose name is ``name=value;name=value``, or a word and a number.

    Of the words (``seed_1``) one names runs: that of a column with ``=``, if there are any; else the one whose columns
    read like labels (not ``sentence1``), and of several such the one that is usual for runs.

    Raises
    ------
    L3DError
        If more than one word is left: any of them may be a feature.
    """
    columns = {name: pairs(name.replace(";", ",")) for name in map(str, frame) if "=" in name}
    words: dict[str, dict[str, dict[str, str]]] = {}
    for name in map(str, frame):
        if name not in _KNOWN and (match := re.fullmatch(r"(?:prediction[_.])?([A-Za-z]\w*?)_?(\d+)", name)):
            words.setdefault(match[1], {})[name] = {match[1]: match[2]}
    if columns:
        named = {name for settings in columns.values() for name in settings}
        columns |= {name: each for word in named for name, each in words.get(word, {}).items()}
    else:
        columns = _numbered(source, frame, words)
    kept = frame[["example_id", "label", *(["task"] if "task" in frame else [])]]
    return [(columns[name], kept.assign(prediction=frame[name])) for name in map(str, frame) if name in columns]


def _numbered(
    source: str, frame: pd.DataFrame, words: Mapping[str, dict[str, dict[str, str]]]
) -> dict[str, dict[str, str]]:
    """Return the columns of the word that names runs; see :func:`_wide`."""
    labels = [label for label in labels_of(frame["label"]) if label]
    classes = Classes.found([{*labels}], ())
    numbers = all(map(plain_number, labels))

    def reads_like_labels(name: str) -> bool:
        answers = frame[name].tolist()
        return not classes.mismatch(answers) or (numbers and all(map(plain_number, filter(None, answers))))

    likely = {word: columns for word, columns in words.items() if any(map(reads_like_labels, columns))} or words
    usual = {word: columns for word, columns in likely.items() if _RUN.fullmatch(word)} or likely
    if len(usual) > 1:
        first, second, *_ = (next(iter(columns)) for columns in usual.values())
        fix = "Rename the columns of runs, as in seed=1, seed=2."
        raise L3DError(f"{source}: columns {first} and {second} both look like runs. {fix}")
    return next(iter(usual.values()), {})


def _long(source: str, frame: pd.DataFrame, listed: Sequence[str]) -> Runs:
    """Return settings and rows of each run: rows with the same values in all columns that are not of an example."""
    examples = frame.groupby("example_id", sort=False)
    others = [str(name) for name in frame if name not in _KNOWN]
    # Settings are columns that are constant, or in which an example has two values.
    varied = (name for name in others if frame[name].nunique() == 1 or examples[name].nunique().max() > 1)
    names = list(listed or varied)
    groups = list(frame.groupby(names, sort=False)) if names else [((), frame)]
    if len(groups) > max(1, len(frame) // 2):
        each = max(names, key=lambda name: frame[name].nunique())
        fix = "Name the columns that are settings: --columns settings=seed+shots."
        problem = f"column {each} has another value in almost every row, so it identifies no runs"
        raise L3DError(f"{source}: {problem}. {fix}")
    return [(dict(zip(names, map(str, values), strict=True)), part) for values, part in groups]


def _run(path: Path, settings: Mapping[str, str], rows: pd.DataFrame) -> RecordedRun:
    settings = {name: public_name(value) for name, value in settings.items()}
    scores = {}
    if "score" in rows:
        scores["score_mean"] = float(pd.to_numeric(rows["score"], errors="coerce").to_numpy(dtype=np.float64).mean())
    how = ", ".join(f"{name}={value}" for name, value in settings.items())
    task = path.stem  # of one run it may be: task, and the name and number of its seed
    if (named := re.fullmatch(r"(?i)(.*?)[_.-]?(seed|run)[_=-]?(\d+)", task)) and not any(map(is_seed, settings)):
        settings = {**settings, named[2].lower(): named[3]}
        task = named[1] or path.absolute().parent.name
    tasks = sorted(set(rows["task"])) if "task" in rows else [task]
    if len(tasks) > 1:
        raise L3DError(f"{path.name}{how and f' ({how})'}: one run has rows of several tasks, {', '.join(tasks)}.")
    return RecordedRun(
        source=f"{path.name} ({how})" if how else path.name,
        task=tasks[0],
        kind="",
        settings=settings,
        scores=scores,
        ids=rows["example_id"].to_numpy(dtype=str),
        labels=texts(labels_of(value or None for value in rows["label"])),
        predictions=texts([value or None for value in rows["prediction"]]),
    )
