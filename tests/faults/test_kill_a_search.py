"""A search that is killed or interrupted: the same command again ends as if nothing had happened."""

import json
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from run_helpers import Place, interrupt, kill_with_workers, sqlite_place, wait_for_moment, wait_until
from search_cases import Climb, Trace
from search_stages import searches, trials
from warm_start import WarmStart

from mlflow_l3d import cli
from mlflow_l3d.studies.search.engine import StageRun
from mlflow_l3d.studies.search.run import HyperparameterSearch, search
from mlflow_l3d.tracking import uploader

pytestmark = pytest.mark.slow

COARSE, FINE, HELD_OUT = 10, 8, 2
SETTINGS: dict[str, Any] = {
    "metric": "height",
    "space": json.dumps({"x": {"low": 0.0, "high": 0.9, "coarse": [0.0, 0.2, 0.45, 0.6, 0.9]}, "kind": ["a", "b"]}),
    "hyperparameters": "epochs=6",
    "fine_trials": FINE,
    "held_out_runs": HELD_OUT,
    "executor": "inline",
}
IN_A_WORKER: dict[str, Any] = {"executor": "processes", "workers": 1}
TRAININGS = COARSE + FINE + 2 * HELD_OUT
COLUMNS = ["level", "number", "state", "score", "x", "kind", "is_default"]
SCRIPT = """
import json, sys

if __name__ == "__main__":
    from search_cases import Climb
    from mlflow_l3d import search
    approach, settings = json.loads(sys.argv[1])
    search(approach=Climb(**approach), **settings)
"""


def find(place: Place, approach: Climb | None = None, **parameters: Any) -> HyperparameterSearch:
    with place.entered():
        return search(approach=approach or Climb(), **{**SETTINGS, **parameters})


def start(place: Place, folder: Path, hang_at: int, **parameters: Any) -> WarmStart:
    """Start a search whose training with the number `hang_at` does not end, and wait until that has begun."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    of_process = Place(place.uri, place.cache, {**place.variables, "PYTHONPATH": paths})
    process = of_process.start(str(script), json.dumps([{"hang_at": hang_at}, {**SETTINGS, **parameters}]))
    wait_for_moment(process, lambda: len(trained(place)) >= hang_at, "the moment to kill it")
    return process


def trained(place: Place) -> list[str]:
    return Trace(place.cache).trained()


def assert_whole_search(place: Place, result: HyperparameterSearch, children: int) -> None:
    """Check that a search has each trial once, that earlier parents point to it, and that nothing is left behind."""
    *earlier, last = searches(place)
    assert last.info.run_id == result.run_id
    assert (last.info.status, last.data.tags["l3d.state"]) == ("FINISHED", "complete")
    for parent in earlier:
        assert parent.info.status == "KILLED"
        assert parent.data.tags["l3d.state"] == "incomplete"
        assert "l3d.superseded_by" in parent.data.tags
    if earlier:
        assert earlier[-1].data.tags["l3d.superseded_by"] == last.info.run_id
    done = [run for run in trials(place, parent=last.info.run_id) if run.data.tags["l3d.trial_state"] != "failed"]
    keys = [run.data.tags["l3d.cell_key"] for run in done]
    assert len(keys) == len(set(keys)) == children
    others = [run for run in trials(place) if run.data.tags["mlflow.parentRunId"] != last.info.run_id]
    assert {run.info.status for run in others} <= {"KILLED"}
    assert [run.info.run_name for run in place.runs() if run.info.status == "RUNNING"] == []
    assert place.spooled() == set()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> HyperparameterSearch:
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("undisturbed"))
    result = find(place)
    assert len(trained(place)) == TRAININGS
    return result


def test_killed_on_each_level_and_in_the_comparison(place, tmp_path, undisturbed) -> None:
    def missing() -> int:
        return len(trained(place)) - len(place.spooled())

    lost = 0
    for number, more in ((5, IN_A_WORKER), (COARSE + 4, {}), (COARSE + FINE + 2, {})):
        process, before = start(place, tmp_path, number + lost, **more), lost
        most = 2 if more else 1
        wait_until(lambda: missing() - before <= most, "trials that are on their way to the spool")  # noqa: B023
        kill_with_workers(process, at_once=True)
        lost = missing()
        assert 1 <= lost - before <= most, "trials that were in progress are lost"
    result = find(place)
    assert len(trained(place)) == TRAININGS + lost
    assert_whole_search(place, result, TRAININGS)
    quiet = undisturbed
    assert result.hyperparameters == quiet.hyperparameters
    assert result.result.held_out == quiet.result.held_out
    assert result.result.trials[COLUMNS].equals(quiet.result.trials[COLUMNS])
    assert "pruned" in set(quiet.result.trials["state"])
    assert set(result.result.trials["run_id"]) <= {run.info.run_id for run in trials(place, parent=result.run_id)}
    history = place.client.get_metric_history(result.run_id, "best_score")
    scores = [entry.value for entry in sorted(history, key=lambda entry: entry.step)]
    assert scores == sorted(scores)
    assert len(scores) == 1 + COARSE + FINE - sum(result.result.trials["state"] == "pruned")


def test_killed_between_the_recorder_and_optuna(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = StageRun._finish
    finished: list[int] = []

    def fall(self: Any, trial: Any, ended: Any, outcome: Any = None) -> None:
        finished.append(ended.number)
        if len(finished) == 4:
            self.on_finished(ended, outcome)
            raise KeyboardInterrupt
        finish(self, trial, ended, outcome)

    monkeypatch.setattr(StageRun, "_finish", fall)
    with pytest.raises(KeyboardInterrupt):
        find(place)
    monkeypatch.undo()
    kept = place.spooled()
    assert len(kept) == 4
    assert searches(place)[0].info.status == "KILLED"
    result = find(place)
    assert len(trained(place)) == TRAININGS + (len(trained(place)) - len(set(trained(place))))
    assert len(trained(place)) <= TRAININGS + 1
    assert_whole_search(place, result, TRAININGS)


def test_interrupted(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["approach=synthetic", "metric=synthetic_score", "hyperparameters=duration=0.1", "coarse-trials=8"]
    command = ["search", *(f"--{option}" for option in [*options, "fine-trials=2", "held-out-runs=0"])]
    process = place.start("-m", "mlflow_l3d", *command, "--executor=processes", "--workers=1")
    wait_until(lambda: len(place.spooled()) >= 3, "three trials")
    interrupt(process)
    [parent] = searches(place)
    assert (parent.info.status, parent.data.tags["l3d.state"]) == ("KILLED", "incomplete")
    assert "Interrupted after" in parent.data.tags["l3d.error"]
    kept = {run.info.run_id for run in trials(place)}
    assert {run.info.status for run in trials(place)} == {"FINISHED"}
    assert 2 <= len(kept) < 8, "the third may lie in the spool alone: the next command uploads it"
    with place.entered():
        assert cli.main([*command, "--executor=inline"]) == 0
    assert "10 trials in" in capsys.readouterr().out
    [first, last] = searches(place)
    assert first.data.tags["l3d.superseded_by"] == last.info.run_id
    after = trials(place, parent=last.info.run_id)
    assert kept <= {run.info.run_id for run in after}
    stages = [run.data.tags["l3d.level"] for run in after]
    assert (stages.count("coarse"), len({run.data.tags["l3d.cell_key"] for run in after})) == (8, len(after))
    assert [run for run in place.runs() if run.info.status == "RUNNING"] == []


def test_a_worker_is_killed(place: Place, tmp_path: Path, migrated_store: Path) -> None:
    mine = psutil.Process()
    killed: list[int] = []

    def kill_one() -> None:
        wait_until(lambda: len(trained(place)) >= 4, "four trials")
        for child in mine.children():
            with suppress(psutil.NoSuchProcess):
                if any("spawn_main" in word for word in child.cmdline()):
                    killed.append(child.pid)
                    child.kill()
                    return

    killer = threading.Thread(target=kill_one)
    killer.start()
    # Neither sampler nor pruner looks at scores, which one process alone and a worker know at other moments.
    blind = {"fine_sampler": "random", "pruner": "none"}
    result = find(place, Climb(hang_at=4), **IN_A_WORKER, **blind)
    killer.join()
    assert len(killed) == 1
    assert TRAININGS <= len(trained(place)) <= TRAININGS + 2
    assert_whole_search(place, result, TRAININGS)
    quiet = find(sqlite_place(migrated_store, tmp_path / "quiet"), **blind)
    assert result.result.trials[COLUMNS].equals(quiet.result.trials[COLUMNS])


class Hooked(Climb):
    """Calls `hook` with the number of the setting before it is prepared."""

    hook: Callable[[int], None]
    count = 0

    def prepare(self, *arguments: Any, **more: Any) -> Any:
        self.hook(self.count)
        self.count += 1
        return super().prepare(*arguments, **more)


def test_the_server_is_away_for_a_while(make_mlflow_server, undisturbed, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(uploader, "_FIRST_PAUSE", 0.1)
    monkeypatch.setattr(uploader, "_LONGEST_PAUSE", 0.4)
    server = make_mlflow_server()
    place = Place(server.uri, tmp_path / "cache")

    def hook(number: int) -> None:
        if number == 5:
            server.stop(signal.SIGKILL)
        elif number == COARSE + 2:
            server.start()

    approach = Hooked()
    approach.hook = hook
    result = find(place, approach)
    assert len(trained(place)) == TRAININGS
    assert_whole_search(place, result, TRAININGS)
    assert result.result.trials[COLUMNS].equals(undisturbed.result.trials[COLUMNS])
