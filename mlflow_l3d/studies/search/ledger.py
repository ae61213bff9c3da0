"""One hyperparameter search on one tracking server: what is known already, and a child run for each trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlflow_l3d.studies.search.results import PrunedBefore
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import finished_cells, own_metrics, pruned_trials
from mlflow_l3d.tracking.recorder import Opened, Recorder, open_recorder
from mlflow_l3d.tracking.records import TrialRecord
from mlflow_l3d.tracking.recovery import forget_deleted, take_over

if TYPE_CHECKING:
    from mlflow_l3d.tracking.parent import Card


class SearchLedger(Recorder[TrialRecord]):
    """Open with :meth:`open`; then `add` the record of every trial, and end with `finish`, `interrupt` or `fail`.

    Attributes
    ----------
    known
        Key -> metrics of every trial of this context that was finished before, here or in another search.
    pruned
        Level -> key -> how an earlier process at the same search pruned a trial.
    runs
        Key -> run of those on the server.
    """

    def __init__(
        self, opened: Opened[TrialRecord], context_key: str, shared_params: Mapping[str, str], metric: str
    ) -> None:
        super().__init__(opened, context_key, shared_params)
        self.metric = metric
        self.known: dict[str, Mapping[str, float]] = {}
        self.pruned: dict[str, dict[str, PrunedBefore]] = {}
        self.runs: dict[str, str] = {}

    @classmethod
    def open(
        cls,
        card: Card,
        *,
        context_key: str,
        shared_params: Mapping[str, str],
        metric: str,
        project_run: str | None = None,
    ) -> SearchLedger:
        """Connect, take the lock of this search, open the parent, and find which trials are known.

        Parameters
        ----------
        card
            What the parent says of itself.
        context_key
            Hash of everything that the trials share.
        shared_params
            Parameters that every trial has.
        metric
            What trials are scored by.
        project_run
            The run that `mlflow run` made for us; None for a new one.

        Raises
        ------
        ParameterError
            If the tracking server does not answer or refuses.
        L3DError
            If another process of this machine is at the same search.
        """

        def recover(ledger: SearchLedger, opened: Opened[TrialRecord]) -> list[str]:
            return ledger._recover(opened, context_key)

        return open_recorder(
            card, TrialRecord, project_run, lambda opened: cls(opened, context_key, shared_params, metric), recover
        )

    def run_of(self, key: str) -> str:
        """Return the run of a trial; the empty text where it has none yet."""
        return self.spool.run_id(key) or self.runs.get(key, "")

    def _recover(self, opened: Opened[TrialRecord], context_key: str) -> list[str]:
        on_server = finished_cells(opened.client, context_key, role="trial")
        spooled = {key for key in list(opened.spool) if self._usable(key)}
        take_over(opened, spooled)
        for key, run in on_server.items():
            self.known[key] = own_metrics(run)
            self.runs[key] = str(run.info.run_id)
        for run in pruned_trials(opened.client, opened.parent.experiment_id, opened.card.key):
            key = run.data.tags.get(names.CELL_KEY, "")
            self._note_pruned(run.data.tags.get(names.LEVEL, ""), key, run.data.metrics)
            self.runs.setdefault(key, str(run.info.run_id))
        waiting = []
        for key in sorted(spooled):
            record = opened.spool.record(key)
            if record.state == "complete":
                self.known[key] = record.metrics
            elif record.state == "pruned":
                last = {f"curve/{name}": values[-1] for name, values in record.curves.items() if values}
                self._note_pruned(record.level, key, {**record.metrics, **last})
            if key in on_server:
                opened.spool.set_run_id(key, self.runs[key])
                continue
            forget_deleted(opened.client, opened.spool, key)
            waiting.append(key)
        return waiting

    def _note_pruned(self, level: str, key: str, metrics: Mapping[str, float]) -> None:
        score = metrics.get("score")
        if score is None:
            return
        reported = metrics.get(f"curve/validation_{self.metric}", score)
        step = max(0, int(metrics.get("epochs_done", 1)) - 1)
        self.pruned.setdefault(level, {})[key] = PrunedBefore(float(score), float(reported), step)

    def _usable(self, key: str) -> bool:
        """Keep a trial of the spool that is whole and did not fail; remove any other."""
        if self.spool.has(key) and self.spool.record(key).state != "failed":
            return True
        self.spool.discard(key)
        return False


def trial_tags(subject_key: str) -> dict[str, str]:
    """Return the tag by which an investigation finds a search of its task, approach and model."""
    return {names.SEARCH_SUBJECT: subject_key}
