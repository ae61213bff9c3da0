"""What is wrong with recorded runs: each finding is one line, and a run that has one is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.seeds.predictions import numbered
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.metrics.known import scores_of
from mlflow_l3d.studies.importing.formats import FORMATS
from mlflow_l3d.studies.importing.recorded import RecordedRun


def read_runs(path: Path, source: str, columns: Mapping[str, str]) -> tuple[list[RecordedRun], list[str]]:
    """Read all runs of a file or folder; return them, and one line for each file that cannot be read.

    Raises
    ------
    ParameterError
        If there is no such path, or no file of that tool.
    """
    form = FORMATS[source]
    if not path.exists():
        raise ParameterError("path", path, "no such file or folder")
    files = sorted({file for pattern in form.patterns for file in path.rglob(pattern)}) if path.is_dir() else [path]
    if not files:
        allowed = f"holds no file that {source} writes ({', '.join(form.patterns)})"
        raise ParameterError("path", path, allowed, "Name another folder, or another --from.")
    runs: list[RecordedRun] = []
    problems = []
    for file in files:
        try:
            runs += form.read(file, columns)
        except ParameterError:
            raise
        except L3DError as error:
            problems.append(str(error))
    return runs, problems


def chosen(runs: Sequence[RecordedRun], tasks: str, only: Mapping[str, str]) -> list[RecordedRun]:
    """Return the runs that are wanted: of one task, or of some that are one setting more, with some settings.

    Raises
    ------
    ParameterError
        If there are several tasks and none is named, one is not there, or no run has the settings.
    """
    found = sorted({run.task for run in runs})
    if tasks == "auto" and len(found) > 1:
        fix = f"Name one, --task {found[0]}; or, of variants of one task with the same examples, several."
        raise ParameterError("task", "auto", f"there are runs of {len(found)} tasks, {', '.join(found)}", fix)
    wanted = found if tasks == "auto" else [name.strip() for name in tasks.split(",")]
    for name in wanted:
        if name not in found:
            raise unknown_name("task", name, found)
    recorded = {name for run in runs for name in run.settings}
    for name in only:
        if name not in recorded:
            raise unknown_name("only", name, recorded, "a recorded setting:")
    kept = [run for run in runs if run.task in wanted and only.items() <= run.settings.items()]
    if not kept:
        raise ParameterError("only", ",".join(f"{name}={value}" for name, value in only.items()), "no run has these")
    return kept


def checked(runs: Sequence[RecordedRun], metric: str) -> tuple[list[RecordedRun], str, list[str], list[str]]:
    """Return the runs that can be compared, the metric, one line for each other run, and notes.

    Runs are compared on the examples that most of them have.
    """
    problems: list[str] = []
    sound: list[RecordedRun] = []
    for run in runs:
        line = _broken(run)
        if line:
            problems.append(f"{run.source}: {line}")
        else:
            sound.append(run)
    sound = _with_most(sound, problems)
    kept, notes = _once(sound)
    kept = [_scored(run) for run in kept]
    if metric == "auto" and kept:
        metric = next(iter(kept[0].scores), "")
    offered = sorted({name for run in kept for name in run.scores})
    if kept and metric not in offered:
        raise unknown_name("metric", metric, offered, "one that the runs have:")
    whole = [run for run in kept if np.isfinite(run.scores.get(metric, np.nan))]
    problems += [f"{run.source}: has no {metric}, or it is no number." for run in kept if run not in whole]
    return whole, metric, problems, notes


def _broken(run: RecordedRun) -> str:
    """Return what is wrong with a run taken alone; the empty text where nothing is."""
    for name, value in run.scores.items():
        if not np.isfinite(value):
            return f"its {name} is not a number (NaN). Evaluate it again."
    if run.ids is None or run.labels is None or run.predictions is None:
        return "" if run.scores else "has neither scores nor predictions."
    if not len(run.ids):
        return "has no examples."
    counts = Counter(run.ids.tolist())
    (example, times), *_ = counts.most_common(1)
    if times > 1:
        more = sum(count > 1 for count in counts.values())
        return f"example {example} occurs {times} times ({more} examples do so). An id must occur once in a run."
    for name, values in (("label", run.labels), ("prediction", run.predictions)):
        bad = np.flatnonzero(~np.isfinite(values)) if values.dtype.kind == "f" else np.zeros(0, dtype=np.intp)
        if len(bad):
            return f"the {name} of example {run.ids[bad[0]]} is not a number (NaN; {len(bad)} are not)."
    lacking = [
        at for at, value in enumerate(run.labels) if value is None or (run.labels.dtype.kind == "i" and value < 0)
    ]
    if lacking:
        return f"example {run.ids[lacking[0]]} has no label ({len(lacking)} have none)."
    return ""


def _with_most(runs: Sequence[RecordedRun], problems: list[str]) -> list[RecordedRun]:
    """Return the runs with the most common examples; of each other one say what differs."""
    if not runs:
        return []
    hashes = [run.examples for run in runs]
    common, count = Counter(hashes).most_common(1)[0]
    model = runs[hashes.index(common)]
    for run, digest in zip(runs, hashes, strict=True):
        if digest != common:
            problems.append(f"{run.source}: {_difference(run, model)} of {count} other runs. Import it apart.")
    return [run for run, digest in zip(runs, hashes, strict=True) if digest == common]


def _difference(run: RecordedRun, other: RecordedRun) -> str:
    if run.ids is None or other.ids is None or run.labels is None or other.labels is None:
        return "has no predictions, unlike those" if run.ids is None else "has predictions, unlike those"
    own, their = set(run.ids.tolist()), set(other.ids.tolist())
    if own != their:
        sides = (("lacks", sorted(their - own)), ("has beside them", sorted(own - their)))
        parts = [f"{what} {len(names)} ({names[0]}, ...)" for what, names in sides if names]
        return f"has other examples ({'; '.join(parts)}) than those"
    labels = dict(zip(other.ids.tolist(), other.labels.tolist(), strict=True))
    differ = [name for name, label in zip(run.ids.tolist(), run.labels.tolist(), strict=True) if labels[name] != label]
    return f"has another label of {len(differ)} examples ({differ[0]}, ...) than those"


def _once(runs: Iterable[RecordedRun]) -> tuple[list[RecordedRun], list[str]]:
    """Return each run once; of those that are there again say where."""
    found: dict[str, RecordedRun] = {}
    notes = []
    for run in runs:
        first = found.setdefault(run.key, run)
        if first is not run:
            notes.append(f"{run.source} is the same run as {first.source}, and left out.")
    return list(found.values()), notes


def _scored(run: RecordedRun) -> RecordedRun:
    """Return a run with the metrics of its kind, which its predictions give; the tool's own come first."""
    if run.labels is None or run.predictions is None:
        return run
    frame = numbered(pd.DataFrame({"example_id": run.ids, "label": run.labels, "prediction": run.predictions}))
    scores = scores_of(frame["label"].to_numpy(), frame["prediction"].to_numpy(), run.kind)
    known = {name: value for name, value in scores.items() if name not in run.scores}
    return replace(run, scores={**run.scores, **known})
