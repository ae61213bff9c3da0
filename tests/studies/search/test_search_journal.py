"""The journal file: what Optuna reads of it, and what waits for the disk."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import optuna
import pytest

from mlflow_l3d.studies.search.storages import storage_of


def journal(path: Path) -> optuna.storages.BaseStorage:
    return storage_of(str(path), path.parent)


def test_optuna_reads_what_we_write_and_we_what_it_writes(tmp_path: Path) -> None:
    path = tmp_path / "studies.log"
    ours = optuna.create_study(storage=journal(path), study_name="a", sampler=optuna.samplers.RandomSampler(seed=0))
    ours.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    plain = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    theirs = optuna.load_study(study_name="a", storage=plain, sampler=optuna.samplers.RandomSampler(seed=1))
    assert [trial.params for trial in theirs.trials] == [trial.params for trial in ours.trials]
    theirs.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    assert [trial.value for trial in ours.trials] == [trial.value for trial in theirs.trials]
    assert len(ours.trials) == 5
    # What Optuna finds under this name it takes for the lock of somebody who writes, and waits for 30 seconds.
    assert not Path(f"{path}.lock").exists()


def test_only_the_states_of_trials_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "studies.log"
    forced: list[dict[str, object]] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        fsync(descriptor)
        forced.append(json.loads(path.read_text().splitlines()[-1]))

    monkeypatch.setattr(os, "fsync", note)
    study = optuna.create_study(storage=journal(path), sampler=optuna.samplers.RandomSampler(seed=0))
    trial = study.ask()
    assert not [entry for entry in forced if entry.get("state") == optuna.trial.TrialState.COMPLETE]
    before = len(forced)
    trial.suggest_float("x", 0, 1)
    trial.report(0.5, 0)
    trial.set_user_attr("a", 1)
    assert len(forced) == before
    study.tell(trial, 0.5)
    assert len(forced) == before + 1
    assert forced[-1]["state"] == optuna.trial.TrialState.COMPLETE


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "studies.log"
    optuna.create_study(storage=journal(path), study_name="a")

    def write(number: int) -> None:
        sampler = optuna.samplers.RandomSampler(seed=number)
        study = optuna.load_study(study_name="a", storage=journal(path), sampler=sampler)
        for _ in range(10):
            trial = study.ask()
            trial.report(0.0, 0)
            study.tell(trial, float(number))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    trials = optuna.load_study(study_name="a", storage=journal(path)).trials
    assert sorted(trial.value for trial in trials) == [float(number) for number in range(4) for _ in range(10)]
    assert all(trial.intermediate_values == {0: 0.0} for trial in trials)
    assert [trial.number for trial in trials] == list(range(40))
