"""The way to an open recorder: the lock, the spool and the parent of a piece of work, and what is done of it.

What an earlier process left is taken over: finished cells are taken, half-written ones ended, parents continued.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_l3d.errors import L3DError, logger
from mlflow_l3d.paths import cache_folder, private_folder
from mlflow_l3d.tracking import children, names
from mlflow_l3d.tracking import parent as parents
from mlflow_l3d.tracking.claims import Claims
from mlflow_l3d.tracking.connection import Client, Run, connect, error_line, is_outage, outage_line
from mlflow_l3d.tracking.earlier.elsewhere import take_finished, upload_abandoned
from mlflow_l3d.tracking.pages import link_of
from mlflow_l3d.tracking.recorder import Recovered, RunRecorder, Work, patience_seconds
from mlflow_l3d.tracking.records import TrialRecord
from mlflow_l3d.tracking.spool import R, Spool, cells_in, read_records, unwritable

if TYPE_CHECKING:
    from filelock import BaseFileLock
    from mlflow.entities import Experiment


class BusyError(L3DError):
    """Another process of this machine is at the same work, and holds the lock of it."""

    def __init__(self, line: str, lock: BaseFileLock) -> None:
        super().__init__(line)
        self.lock = lock


def open_recorder(
    work: Work[R], project_run: str | None = None, *, beside: RunRecorder[Any] | None = None
) -> RunRecorder[R]:
    """Connect, take the lock of this work, open the parent, and find what is already done.

    Parameters
    ----------
    work
        What is to be recorded.
    project_run
        The run that `mlflow run` made for us; None for a new one.
    beside
        A recorder that is open all the while, whose threads do the work of this one, too.

    Raises
    ------
    ParameterError
        If the tracking server does not answer or refuses, or its folder of artifacts cannot be written.
    BusyError
        If another process of this machine is at the same work.
    """
    patience_seconds()
    card = work.card
    client = connect(for_golden="golden_runs" in card.params) if beside is None else beside.client
    experiment_id = parents.current_experiment_id(client, project_run)
    parents.check_artifacts(client, experiment_id)
    folder = _spool_folder(client, experiment_id, card.key)
    lock = _lock(folder, card.role)
    recorder: RunRecorder[R] | None = None
    spool: Spool[R] | None = None
    try:
        spool = Spool(folder, work.kind)
        parent = parents.open_parent(client, card, project_run, spool.identity, experiment_id)
        claims = open_claims(client, experiment_id, work.context_key)
        recorder = RunRecorder(client, parent, work, spool, lock, claims, beside)
        recover(recorder)
    except BaseException as error:
        status = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
        if recorder is not None:
            recorder.end(status, error_line(error), patience=0.0)
        elif spool is not None:
            with suppress(Exception):  # the parent may have been made, though nobody learned its id
                ours = children.condition({names.SPOOL: spool.identity}, "RUNNING")
                for run in children.search(client, [experiment_id], ours):
                    parents.end_early(client, run.info.run_id, error_line(error), status)
        lock.release()
        if getattr(error, "error_code", None) is not None and is_outage(error):
            raise L3DError(outage_line(error)) from error
        raise
    return recorder


def spooled_cells(client: Client, key: str) -> set[str]:
    """Return the keys of the cells in the spool of a piece of work in the current experiment."""
    return set(cells_in(_spool_folder(client, parents.current_experiment_id(client), key)))


def _spool_folder(client: Client, experiment_id: str, key: str) -> Path:
    """Return the folder of one piece of work in one experiment of one store."""
    return cache_folder() / "spool" / f"{_identity(client.get_experiment(experiment_id), client)}-{key}"


def open_claims(client: Client, experiment_id: str, key: str) -> Claims:
    """Return the claims on cells that share a key in one store, whose name is its oldest experiment for this user."""
    from mlflow.entities import ViewType

    every = client.search_experiments(ViewType.ALL, max_results=1, order_by=["creation_time ASC", "experiment_id ASC"])
    store = _identity(every[0] if every else client.get_experiment(experiment_id), client)
    return Claims(cache_folder() / "claims" / f"{store}-{key}")


def _identity(experiment: Experiment, client: Client) -> str:
    """Return what tells an experiment from those of other stores: what the store says of it, whatever its address."""
    made = experiment.creation_time or client.tracking_uri  # very old stores do not know it
    content = f"{experiment.experiment_id}\n{made}\n{experiment.artifact_location}"
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _lock(folder: Path, role: str) -> BaseFileLock:
    from filelock import FileLock, Timeout

    lock = FileLock(folder.with_suffix(".lock"), thread_local=False)  # a point of a sweep ends in another thread
    try:
        private_folder(folder.parent, ours=True)
        with FileLock(folder.with_suffix(".upload"), timeout=60):  # another command uploads what ours left
            lock.acquire(timeout=0)
    except Timeout:
        what = f"The same {role} is running in another process on this machine"
        raise BusyError(f"{what}: wait for it, or change a parameter.", lock) from None
    except OSError as error:
        raise unwritable(error) from error
    return lock


def recover(recorder: RunRecorder[Any]) -> None:
    """Find what is done, take over the children of interrupted parents, and fetch what the tables of the parent need.

    What lies in the spool and not on the server is uploaded. Uploads, moving children and fetching predictions continue
    in the uploader's threads after the return.
    """
    client, spool, work, recovered = recorder.client, recorder.spool, recorder.work, recorder.recovered
    on_server = children.finished_cells(client, work.context_key, work.kind.role)
    if upload_abandoned(recorder, on_server):
        on_server = children.finished_cells(client, work.context_key, work.kind.role)
    planned: set[str] | None = None
    if work.cells is not None:
        planned = {cell.key for cell in work.cells()} if on_server or any(True for _ in spool) else set()
    spooled = sorted(key for key in list(spool) if _usable(recorder, key, planned, on_server))
    taken_over = take_over(recorder, set(spooled))
    _tell_holders(recorder, [on_server[key] for key in sorted(planned or ()) if key in on_server], taken_over)
    for key in spooled:
        _note_record(recovered, spool.record(key))
        if key in on_server:
            spool.set_run_id(key, on_server[key].info.run_id)
        else:
            children.forget_lost_run(client, spool, key)
            recorder.submit(key, repeated=True)
    if work.cells is None:
        _note_trials(recovered, client, recorder.parent.experiment_id, work.card.key, on_server)
    for cell in work.cells() if work.cells is not None and planned else ():
        if cell.key in on_server and cell.key not in recovered.metrics:
            take_finished(recorder, cell, on_server[cell.key])


def recovered_trials(
    client: Client, search_key: str, on_server: Mapping[str, Run]
) -> tuple[Recovered, list[TrialRecord]]:
    """Return what a search in the current experiment would find done, and the records in its spool; nothing is changed.

    `on_server` are the finished trials that share its context.
    """
    experiment_id = parents.current_experiment_id(client)
    recovered = Recovered()
    folder = _spool_folder(client, experiment_id, search_key)
    records = [record for record in read_records(folder, TrialRecord) if record.status != "FAILED"]
    for record in records:
        _note_record(recovered, record)
    _note_trials(recovered, client, experiment_id, search_key, on_server)
    return recovered, records


def _note_record(recovered: Recovered, record: Any) -> None:
    """Note what the spool holds."""
    if record.status == "KILLED":
        recovered.pruned.setdefault(record.stage, {})[record.key] = record.metrics
    else:
        recovered.metrics[record.key] = record.metrics


def _note_trials(
    recovered: Recovered, client: Client, experiment_id: str, search_key: str, on_server: Mapping[str, Run]
) -> None:
    """Note the trials that the server holds; what the spool says of one comes first."""
    for key, run in on_server.items():
        recovered.metrics.setdefault(key, children.own_metrics(run))
        recovered.runs[key] = str(run.info.run_id)
    for run in children.pruned_trials(client, experiment_id, search_key):
        key = run.data.tags.get(names.CELL_KEY, "")
        recovered.pruned.setdefault(run.data.tags.get(names.LEVEL, ""), {}).setdefault(key, children.metrics_in(run))
        recovered.runs.setdefault(key, str(run.info.run_id))


def _usable(recorder: RunRecorder[Any], key: str, planned: set[str] | None, on_server: Container[str]) -> bool:
    """Keep what is planned, whole and did not fail; set aside what is not whole, and remove any other.

    A cell that another process trains by now, or has uploaded, is removed, too: it is taken from there.
    """
    spool = recorder.spool
    if not spool.has(key):
        logger.warning("The record %s in the spool is broken (a power cut?): set aside, and computed again.", key)
        spool.set_aside(key)
        return False
    is_wanted = (planned is None or key in planned) and spool.record(key).status != "FAILED"
    if is_wanted and (planned is None or key in on_server or recorder.claims.take(key, alone=True)):
        return True
    spool.discard(key)
    return False


def _tell_holders(recorder: RunRecorder[Any], finished: list[Run], taken_over: list[Run]) -> None:
    """Say on the parent, by tags and in its description, which runs it continues and which hold cells of it.

    Parameters
    ----------
    recorder
        That of the parent.
    finished
        The cells of this work that the server holds.
    taken_over
        The parents that it continues, whose children become its own.
    """
    client, parent, recovered = recorder.client, recorder.parent, recorder.recovered
    own_parents = {parent.run_id, *(str(run.info.run_id) for run in taken_over)}
    for run in finished:
        if run.data.tags.get(names.PARENT_RUN_ID) not in own_parents:
            recovered.held_by(run.data.tags[names.CELL_KEY], run)
    continued = [run for run in taken_over if names.SUPERSEDED_BY not in run.data.tags]
    recovered.notes += [f"Continues {link_of(parent.experiment_id, run.info.run_id)}." for run in continued]
    _, tags = recovered.told()
    if continued:
        tags[names.CONTINUES] = ",".join(str(run.info.run_id) for run in continued)
    if tags:
        parents.set_tags(client, parent.run_id, tags)


def take_over(recorder: RunRecorder[Any], spooled: set[str]) -> list[Run]:
    """Move the children of interrupted parents of the same work to the new one, and end those that were still running.

    Also of those that another parent continues: it may have been killed before it had all their children.

    Parameters
    ----------
    recorder
        That of the new parent.
    spooled
        Keys of the records that lie in the spool and are of use.

    Returns
    -------
    list of Run
        The interrupted parents, as they were.
    """
    client, parent, spool, card = recorder.client, recorder.parent, recorder.spool, recorder.work.card
    taken_over = []
    same_work = children.condition({card.key_tag: card.key, names.ROLE: card.role})
    for earlier in list(children.search(client, [parent.experiment_id], same_work)):
        earlier_id = str(earlier.info.run_id)
        is_over = earlier.data.tags.get(names.STATE) == "complete" and earlier.info.status == "FINISHED"
        if is_over or earlier_id == parent.run_id:
            continue
        # The process of a parent with our spool is dead, for we hold its lock.
        of_others = earlier.info.status == "RUNNING" and earlier.data.tags.get(names.SPOOL) != spool.identity
        if of_others and not parents.is_stale(earlier):
            logger.warning("Run %s is at the same work on another machine; its children are left there.", earlier_id)
            continue
        taken_over.append(earlier)
        for child in children.children_of(client, parent.experiment_id, earlier_id):
            child_id, status = str(child.info.run_id), child.info.status
            key = child.data.tags.get(names.CELL_KEY, "")
            adopt = partial(client.set_tag, child_id, names.PARENT_RUN_ID, parent.run_id)
            # A point of a sweep that is not complete is continued by its own next parent.
            settled = child.data.tags.get(names.STATE, "complete") == "complete"
            pruned = status == "KILLED" and child.data.tags.get(names.TRIAL_STATE) == "pruned"
            if settled and (status == "FINISHED" or pruned):
                recorder.uploader.submit(f"run {child_id}", adopt)
            elif status == "RUNNING" and key in spooled and spool.run_id(key) in {None, child_id}:
                spool.set_run_id(key, child_id)
                adopt()
            elif status == "RUNNING" and names.STATE in child.data.tags:
                parents.end_early(client, child_id, "Its process was killed.", "KILLED")
            elif status == "RUNNING":
                client.set_terminated(child_id, "KILLED")
        if earlier.info.status == "RUNNING":
            client.set_terminated(earlier_id, "KILLED")
        if names.SUPERSEDED_BY not in earlier.data.tags:
            earlier_note = earlier.data.tags.get(names.NOTE, "")
            note = f"{earlier_note}\n\nContinued by {link_of(parent.experiment_id, parent.run_id)}.".strip()
            tags = {names.STATE: "incomplete", names.SUPERSEDED_BY: parent.run_id, names.NOTE: note}
            parents.set_tags(client, earlier_id, tags)
    return taken_over
