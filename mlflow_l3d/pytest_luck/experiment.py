"""What the current MLflow experiment keeps of suites: one run each, with all that is remembered of the cases."""

from __future__ import annotations

import json
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.paths import write_whole
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.children import condition, search
from mlflow_l3d.tracking.connection import connect, file_of
from mlflow_l3d.tracking.parent import current_experiment_id

_ROLE: Final = "tests"
_FILE: Final = "remembered.json"


@contextmanager
def _warnings_of_mlflow() -> Iterator[None]:
    """Pass over them, though the suite may have ``filterwarnings = error``: they are not about its tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@_warnings_of_mlflow()
def read_memory(folder: Path) -> None:
    """Write what the newest suite of the current experiment remembers to a folder, by seed root, if it is not there."""
    client = connect()
    runs = list(search(client, [current_experiment_id(client)], condition({names.ROLE: _ROLE}, "FINISHED")))
    with tempfile.TemporaryDirectory() as scratch:
        path = runs and file_of(str(runs[-1].info.artifact_uri), _FILE, Path(scratch), str(client.tracking_uri))
        files = json.loads(path.read_text(encoding="utf-8")) if path else {}
    for name, text in files.items():
        if re.fullmatch(r"seed-\d+/[0-9a-f]+\.json", name) and not (place := folder / name).exists():
            write_whole(place, text)


@_warnings_of_mlflow()
def write_suite(summary: Mapping[str, Any], folder: Path) -> None:
    """Log a suite as one run: verdicts, runs and seconds as metrics, the summary and the remembered cases as files."""
    client = connect()
    metrics = {name: float(summary[name]) for name in ("runs", "seconds")}
    metrics |= {f"cases_{verdict}": float(number) for verdict, number in summary["verdicts"].items()}
    paths = folder.glob("seed-*/*.json")
    remembered = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    parameters = {"alpha": str(summary["alpha"])}
    with auxiliary_run(client, None, role=_ROLE, title="pytest --l3d", parameters=parameters) as run:
        for name, content in {_FILE: remembered, "suite.json": summary}.items():
            (run.folder / name).write_text(json.dumps(content, allow_nan=False), encoding="utf-8")
        run.finish(metrics=metrics, tags={})
