"""What a trial says to Optuna's storage while it is trained, and what it is told: to go on, or to end."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_l3d.approaches.failures import one_line
from mlflow_l3d.studies.search.cells import TrialCell

if TYPE_CHECKING:
    import optuna

_logger = logging.getLogger(__name__)


class Reports:
    """The way to Optuna's storage from the process that trains; opened with the first trial.

    Parameters
    ----------
    storage, folder
        See :func:`mlflow_l3d.studies.search.storages.storage_of`.
    pruner
        See :func:`mlflow_l3d.studies.search.samplers.pruner_of`.
    metric
        What is scored; epochs are compared by ``validation_<metric>``.
    stride
        Steps that each configuration of a trial may report.
    """

    def __init__(self, storage: str, folder: Path, pruner: str, metric: str, stride: int) -> None:
        self._storage_text, self._folder, self._pruner = storage, folder, pruner
        self._metric, self._stride = metric, stride
        self._storage: Any = None
        self._studies: dict[str, optuna.Study] = {}

    def of(self, cell: TrialCell) -> TrialReport:
        """Return the report of one trial."""
        import optuna

        study = self._study(cell.study_name)
        # A trial whose worker died has reported some steps already.
        before = study.get_trials(deepcopy=False)[cell.trial_number].intermediate_values
        return TrialReport(
            optuna.Trial(study, cell.trial_id),
            before,
            f"validation_{self._metric}",
            self._stride,
            may_end=cell.trial_number > 0,
        )

    def _study(self, name: str) -> optuna.Study:
        import optuna

        from mlflow_l3d.studies.search.samplers import pruner_of
        from mlflow_l3d.studies.search.storages import storage_of

        if name not in self._studies:
            if self._storage is None:
                self._storage = storage_of(self._storage_text, self._folder)
            # The sampler of a process that only reports is never asked.
            sampler = optuna.samplers.RandomSampler(seed=0)
            self._studies[name] = optuna.load_study(
                study_name=name, storage=self._storage, sampler=sampler, pruner=pruner_of(self._pruner)
            )
        return self._studies[name]


class TrialReport:
    """The watcher of one trial, over all of its configurations.

    What is reported at epoch e of configuration c is step ``c * stride + e``, and the mean of the scores of the
    configurations that are done and the present score of this one. A trial that is told to end stays told.

    Parameters
    ----------
    trial
        Of Optuna.
    before
        Steps that are reported already.
    name
        The score of an epoch that is looked at; epochs without it are not reported.
    stride
        Steps of a configuration; later epochs are not reported.
    may_end
        Whether it may be told to end. The first trial of a search is not: it is the setting that was given, and all
        others are compared with its score.
    """

    def __init__(
        self, trial: optuna.Trial, before: Collection[int], name: str, stride: int, *, may_end: bool = True
    ) -> None:
        self._trial, self._name, self._stride = trial, name, stride
        self._last = max(before, default=-1)
        self._configuration = 0
        self._finished: Sequence[float] = ()
        self._curve: dict[int, float] = {}
        self._silent = False
        self._may_end = may_end
        self.pruned = False

    def begin(self, finished: Sequence[float]) -> None:
        """Begin the next configuration; `finished` are the scores of those before it."""
        self._configuration, self._finished, self._curve = len(finished), tuple(finished), {}

    @property
    def curve(self) -> list[float]:
        """The scores of the epochs of this configuration that were seen, in their order."""
        return [self._curve[epoch] for epoch in sorted(self._curve)]

    def on_epoch_end(self, key: str, epoch: int, scores: Mapping[str, float]) -> bool:
        """Report an epoch; see :data:`mlflow_l3d.approaches.base.OnEpochEnd`."""
        del key
        if self._name not in scores:
            return self.pruned
        score = float(scores[self._name])
        self._curve[epoch] = score
        step = self._configuration * self._stride + epoch
        if self.pruned or self._silent or epoch >= self._stride or step <= self._last:
            return self.pruned
        self._last = step
        try:
            self._trial.report((sum(self._finished) + score) / (self._configuration + 1), step)
            self.pruned = self._may_end and self._trial.should_prune()
        except Exception as error:  # noqa: BLE001 - a storage that is away must not cost the training
            self._silent = True
            _logger.warning("trial %d goes on without reports: %s", self._trial.number, one_line(error))
        return self.pruned
