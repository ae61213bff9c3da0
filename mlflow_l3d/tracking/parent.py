"""Parents: the run that `mlflow run` made, or a new one."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from traceback import clear_frames
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.paths import public_name, public_path
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import Parent, batches, condition, found, search
from mlflow_l3d.tracking.connection import STRANGER, Client, Run, again, error_line, is_outage, public_uri
from mlflow_l3d.tracking.pages import Data, log_data, with_links

if TYPE_CHECKING:
    from mlflow.entities import Metric

_RANDOM_NAME: Final = re.compile(r"[a-z]+-[a-z]+-\d+")
_GIT: Final = "mlflow.source.git."
METRICS_A_BATCH: Final = 1000
HEARTBEAT_SECONDS: Final = 60.0
_KEY_TAGS: Final = {
    "investigation": names.INVESTIGATION_KEY,
    "golden_runs": names.INVESTIGATION_KEY,
    "search": names.SEARCH_KEY,
    "sweep": names.SWEEP_KEY,
}


@dataclass(frozen=True, slots=True)
class Card:
    """What a parent says of itself.

    Attributes
    ----------
    role
        ``investigation``, ``search``, ``sweep``, or ``golden_runs``: those of one side of a gate.
    key
        The same key means the same work, so that one parent can continue another.
    title
        Name of the run.
    tags, params
        In addition to those that every parent has; parameters are logged if `mlflow run` has not logged them.
    data
        What is trained on; None for a study of several tasks.
    code
        Folder of the code that is trained, if it is not the main script's.
    """

    role: str
    key: str
    title: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    data: Data | None = None
    code: Path | None = None

    @property
    def key_tag(self) -> str:
        """Return the tag that holds the key."""
        return _KEY_TAGS[self.role]


def current_experiment_id(client: Client, project_run: str | None = None) -> str:
    """Return the experiment of the run that `mlflow run` made, if it made one.

    Else the one that MLflow's own variables name, created if need be, or the default one.

    Raises
    ------
    L3DError
        If the experiment was deleted, or there is none, or no such run.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.tracking.fluent import _get_experiment_id

    if project_run:
        run = found(client.get_run, project_run)
        if run is None:
            raise L3DError(
                f"MLFLOW_RUN_ID={project_run}: there is no such run on the tracking server. Unset the variable."
            )
        return str(run.info.experiment_id)
    named_id = os.environ.get("MLFLOW_EXPERIMENT_ID")
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME")
    if name and not named_id:
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            try:
                return str(client.create_experiment(name))
            except MlflowException as error:
                experiment = client.get_experiment_by_name(name)  # another process made it, or a call without answer
                if experiment is None and is_outage(error):
                    raise
                if experiment is None:
                    what = f"the tracking server does not take this name ({error_line(error)[:200]})"
                    raise ParameterError("MLFLOW_EXPERIMENT_NAME", name, what, "Name another.") from error
        source = f"MLFLOW_EXPERIMENT_NAME={name}"
    else:
        experiment_id = named_id or str(_get_experiment_id())
        source = f"MLFLOW_EXPERIMENT_ID={experiment_id}"
        experiment = found(client.get_experiment, experiment_id)
    if experiment is not None and not experiment.lifecycle_stage:
        raise ParameterError("MLFLOW_TRACKING_URI", public_uri(str(client.tracking_uri)), *STRANGER)
    if experiment is None or experiment.lifecycle_stage != "active":
        raise L3DError(f"{source}: there is no such experiment, or it was deleted. Restore it, or name another.")
    return str(experiment.experiment_id)


def check_artifacts(client: Client, experiment_id: str) -> None:
    """Raise a ParameterError if artifacts belong to a folder of this machine that may not be written."""
    from mlflow.utils.file_utils import local_file_uri_to_path

    location = str(client.get_experiment(experiment_id).artifact_location)
    if urlsplit(location).scheme not in ("", "file"):
        return
    folder = Path(local_file_uri_to_path(location))  # type: ignore[no-untyped-call]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        if is_outage(error):
            return  # a full disk may have room when there is something to write
        what = f"artifacts go to {public_path(str(folder))}, which cannot be written ({error.strerror})"
        fix = "Allow that; if it is on the server's machine, let that serve artifacts, and name a new experiment."
        raise ParameterError("MLFLOW_TRACKING_URI", public_uri(str(client.tracking_uri)), what, fix) from error


def open_parent(client: Client, card: Card, project_run: str | None, spool_id: str, experiment_id: str) -> Parent:
    """Attach to the run `project_run`, or create one in an experiment, and give it its tags and parameters."""
    tags = {
        names.ROLE: card.role,
        names.SCHEMA_TAG: names.SCHEMA,
        names.STATE: "running",
        card.key_tag: card.key,
        **card.tags,
        **heartbeat(),
        names.SPOOL: spool_id,
        **_code_tags(card.code, project_run),
    }
    run = attach(client, project_run, card.title, tags, experiment_id)
    log_params(client, run.info.run_id, card.params, known=run.data.params)
    log_data(client, run.info.run_id, card.data)
    return Parent.of(run)


def attach(
    client: Client, project_run: str | None, title: str, tags: Mapping[str, str], experiment_id: str | None = None
) -> Run:
    """Return the run `project_run`, or else a new one in an experiment, with a title and tags of ours."""
    title = title[:250]  # PostgreSQL takes no more
    if project_run is None:
        from mlflow.tracking.context.registry import resolve_tags

        own_tags = {name: value for name, value in resolve_tags().items() if name.startswith("mlflow.")}
        tags = {**own_tags, "mlflow.source.name": "mlflow-l3d", "mlflow.source.type": "LOCAL", **tags}
        # Code without a commit must not get ours.
        tags = {name: value for name, value in tags.items() if value or not name.startswith(_GIT)}
        return _created(client, experiment_id or current_experiment_id(client), title, tags)
    set_tags(client, project_run, {**tags, **_project_run_tags(client.get_run(project_run), title)})
    return client.get_run(project_run)


def _created(client: Client, experiment_id: str, title: str, tags: Mapping[str, str]) -> Run:
    """Return a new run, made once although its making is tried again: if the answer is lost, the run is there."""
    now, tries = int(time.time() * 1000), count()
    told_by = {name: tags[name] for name in (names.ROLE, names.HEARTBEAT, names.SPOOL) if name in tags}
    filter_text = f"{condition(told_by)} and attributes.start_time = {now}"

    def create() -> Run:
        begun = next(search(client, [experiment_id], filter_text), None) if next(tries) else None
        return begun or client.create_run(experiment_id, start_time=now, tags=dict(tags), run_name=title)

    return again(create)


def _project_run_tags(run: Run, title: str) -> dict[str, str]:
    """Return the tags that a run of `mlflow run` needs: our title in place of a random name, no private addresses."""
    tags = {name: public_uri(value) for name, value in run.data.tags.items() if public_uri(value) != value}
    if _RANDOM_NAME.fullmatch(run.info.run_name or ""):
        tags[names.RUN_NAME] = title
    source = run.data.tags.get(names.SOURCE_NAME, "")
    if source.startswith(("file:", "/")):
        tags[names.SOURCE_NAME] = public_name(source.removeprefix("file://"))
    return tags


def end_early(client: Client, run_id: str, line: str, status: str = "") -> None:
    """Leave the run in a true state after an error or Ctrl-C, with the line that says what was wrong.

    By default the error that is being handled decides on its status.
    """
    if isinstance(error := sys.exc_info()[1], KeyboardInterrupt):
        clear_frames(error.__traceback__)  # a read that it broke off keeps a SQLite store locked
    status = status or ("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
    set_tags(client, run_id, {names.ERROR: line[:5000], names.STATE: "incomplete", names.NOTE: line[:5000]})
    client.set_terminated(run_id, status)


def heartbeat() -> dict[str, str]:
    """Return the tag that says that a run's process lives now."""
    return {names.HEARTBEAT: str(int(time.time()))}


def is_stale(run: Run) -> bool:
    """Return whether the heartbeat of a run is so old that its process must be dead."""
    return time.time() - float(run.data.tags.get(names.HEARTBEAT, 0)) >= 600.0


def log_params(client: Client, run_id: str, params: Mapping[str, str], known: Container[str] = ()) -> None:
    """Log the parameters that are not `known`: those that `mlflow run` has logged."""
    from mlflow.entities import Param

    missing = [Param(name, value[:6000]) for name, value in params.items() if name not in known]
    for batch in batches(missing, 100):  # MLflow takes no more
        client.log_batch(run_id, params=batch)


def metrics_of(values: Mapping[str, float], step: int) -> list[Metric]:
    """Return numbers of now as MLflow logs them, by names that it allows."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    return [Metric(names.metric_name(name), value, now, step) for name, value in values.items()]


def log_metrics(client: Client, run_id: str, steps: Mapping[int, Mapping[str, float]]) -> None:
    """Log step -> numbers, step by step, without those that are not finite."""
    every = [each for step in sorted(steps) for each in metrics_of(steps[step], step) if math.isfinite(each.value)]
    for batch in batches(every, METRICS_A_BATCH):
        client.log_batch(run_id, metrics=batch)


def set_tags(client: Client, run_id: str, tags: Mapping[str, str]) -> None:
    """Set several tags in one call."""
    from mlflow.entities import RunTag

    client.log_batch(run_id, tags=[RunTag(name, value) for name, value in tags.items()])


def log_results(client: Client, run_id: str, folder: Path, tags: Mapping[str, str], tables: Iterable[str]) -> None:
    """Log the files of a folder, of which MLflow's UI shows `tables` as tables, and set the last tags of a run.

    Its description, one of the tags, ends with links to its report and to the list of runs without cells.
    """
    client.log_artifacts(run_id, str(folder))
    run = client.get_run(run_id)
    logged = json.loads(run.data.tags.get(names.LOGGED_ARTIFACTS, "[]"))
    logged += [table for name in tables if (table := {"path": name, "type": "table"}) not in logged]
    note = with_links(tags.get(names.NOTE, ""), str(run.info.experiment_id), run_id, folder)
    set_tags(client, run_id, {**tags, names.NOTE: note, names.LOGGED_ARTIFACTS: json.dumps(logged)})


def _code_tags(code: Path | None, project_run: str | None) -> dict[str, str]:
    """Return whether the source tree differs from its commit, and which commit that is if MLflow would name ours."""
    folder = Path.cwd() if project_run else code or Path(sys.argv[0]).parent
    command = ["git", "--no-optional-locks", "status", "--porcelain=v2", "--branch", "--untracked-files=all"]
    try:
        text = subprocess.check_output(command, cwd=folder, stderr=subprocess.DEVNULL, timeout=10)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        text = b""
    lines = text.decode(errors="replace").splitlines()
    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# "))
    # Logs and tables lie about in many folders; an untracked file counts if it is code.
    changes = [
        line
        for line in lines
        if line[0] not in "#?" or (line[0] == "?" and line.endswith((".py", '.py"')) and "/site-packages/" not in line)
    ]
    tags = {names.GIT_DIRTY: str(bool(changes)).lower()} if lines else {}
    if code and not project_run:
        found_heads = {"commit": heads.get("branch.oid", ""), "branch": heads.get("branch.head", ""), "repoURL": ""}
        tags |= {f"{_GIT}{name}": "" if value.startswith("(") else value for name, value in found_heads.items()}
    return tags
