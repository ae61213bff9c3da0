"""promptfoo: the JSON of ``promptfoo eval --output results.json``; a run is one provider with one prompt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.importing.recorded import RecordedRun, flat, read_each, read_json


def read(path: Path, _columns: Mapping[str, str], _metric: str = "auto") -> list[RecordedRun | L3DError]:
    """Return the runs of one file."""
    document = read_json(path)
    results = document.get("results") if isinstance(document, dict) else None
    rows = results.get("results") if isinstance(results, dict) else None
    if not rows or not isinstance(rows, list):
        raise L3DError(f"{path.name}: holds no results.results; is it written by promptfoo eval --output?")
    runs: dict[tuple[tuple[str, str], ...], list[Mapping[str, Any]]] = {}
    repeats: dict[tuple[tuple[str, str], ...], int] = {}
    for row in rows:
        settings = _settings(row)
        which = (*settings.items(), ("example", _example(row)))
        repeats[which] = repeats.get(which, -1) + 1
        runs.setdefault((*settings.items(), ("repeat", str(repeats[which]))), []).append(row)
    repeated = max(repeats.values()) > 0
    description = (document.get("config") or {}).get("description") or path.stem
    parts = (
        (path.name, str(description), tests, {name: value for name, value in key if repeated or name != "repeat"})
        for key, tests in runs.items()
    )
    return read_each(_run, parts)


def _run(source: str, task: str, rows: list[Mapping[str, Any]], settings: dict[str, str]) -> RecordedRun:
    for row in rows:
        # The ``failureReason`` of a test without an answer is 2; promptfoo gives it a score of 0.
        if row.get("failureReason") == 2 or not isinstance(row.get("score"), int | float):
            reason = " ".join(str(row.get("error") or "no error named").split())[:100]
            raise L3DError(f"{source}: test {row.get('testIdx')} has no answer ({reason}). Run the failed tests again.")
    answers = [(row.get("response") or {}).get("output") for row in rows]
    right, total = [bool(row.get("success")) for row in rows], sum(float(row["score"]) for row in rows)
    scores, how = {"accuracy": sum(right) / len(rows), "score_mean": total / len(rows)}, ", ".join(settings.values())
    run = RecordedRun(source=f"{source} ({how})", task=task, kind="multiple_choice", settings=settings, scores=scores)
    return run.answered(map(_example, rows), [*map(_expected, rows)], answers, right)


def _settings(row: Mapping[str, Any]) -> dict[str, str]:
    provider, prompt = row.get("provider") or {}, row.get("prompt") or {}
    model = provider.get("label") or provider.get("id") if isinstance(provider, Mapping) else provider
    return flat({"model": model, "prompt": prompt.get("label") or prompt.get("raw")})


def _example(row: Mapping[str, Any]) -> str:
    """Return an id of a test that is the same in every file: of its variables and assertions."""
    case = row.get("testCase") or {}
    return content_key({"vars": row.get("vars") or case.get("vars") or {}, "assert": case.get("assert") or []})[:16]


def _expected(row: Mapping[str, Any]) -> str:
    """Return the text that the first assertion expects; `pass` if it expects no text."""
    asserted = (row.get("testCase") or {}).get("assert") or []
    value = next((each.get("value") for each in asserted if isinstance(each.get("value"), str)), None)
    return value or "pass"
