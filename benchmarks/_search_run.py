"""One search in a process of its own, ours or by hand; started by search.py.

Worker processes import this file, too: nothing heavy at its top.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from _common import answer, settings_of_child

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.tasks.base import Task

NOTES = "training.txt"
METRIC = "height"


class Epochs(Synthetic):
    """Trains nothing for a number of epochs, each busy or asleep for a time, with a validation score after each."""

    name: str = "epochs"
    metrics: tuple[str, ...] = (METRIC,)
    hyperparameters: Mapping[str, Hyperparameter] = {
        **Synthetic.hyperparameters,
        "rate": Hyperparameter(1e-3, "where the score is highest", low=1e-6, high=1e-1, log=True),
        "dropout": Hyperparameter(0.2, "has little effect", low=0.0, high=0.4),
        "epochs": Hyperparameter(5, "how many", low=1),
        "milliseconds": Hyperparameter(20.0, "of an epoch", low=0.0),
        "kind": Hyperparameter("spin", "what an epoch does", choices=("spin", "sleep")),
    }

    def prepare(  # type: ignore[override]
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> Session:
        """Return a session; there is nothing to load."""
        own = {name: value for name, value in hyperparameters.items() if name in Synthetic.hyperparameters}
        inner = super().prepare(task, own, model=model, device=device, cache=cache)
        return _EpochsSession(inner, hyperparameters, cache / NOTES)


class _EpochsSession(Session):
    reports_epochs = True

    def __init__(self, inner: Session, hyperparameters: Mapping[str, Value], notes: Path) -> None:
        self._inner, self._hyperparameters, self._notes = inner, hyperparameters, notes

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Train the cells, and write down how long that took, without what the callback takes."""
        import math

        settings, scores, wall, cpu = self._hyperparameters, [], 0.0, 0.0
        top = 0.9 - 0.05 * abs(math.log10(float(settings["rate"])) + 2.3) - 0.05 * float(settings["dropout"])
        for cell in cells:
            for epoch in range(int(settings["epochs"])):
                started, used = time.perf_counter(), time.thread_time()
                _spend(str(settings["kind"]), float(settings["milliseconds"]) / 1000)
                wall, cpu = wall + time.perf_counter() - started, cpu + time.thread_time() - used
                scores.append(top * (1 - 0.5 ** (epoch + 1)))
                if self.on_epoch_end is not None and self.on_epoch_end(
                    cell.key, epoch, {f"validation_{METRIC}": scores[-1]}
                ):
                    break
            started, used = time.perf_counter(), time.thread_time()
            [outcome] = self._inner.run([cell])
            wall, cpu = wall + time.perf_counter() - started, cpu + time.thread_time() - used
            with self._notes.open("a") as file:
                file.write(f"{wall} {cpu}\n")
            yield replace(outcome, metrics={METRIC: scores[-1]}, curves={f"validation_{METRIC}": scores})

    def close(self) -> None:
        """Release nothing."""
        self._inner.close()


def _spend(kind: str, seconds: float) -> None:
    if kind == "sleep":
        time.sleep(seconds)
        return
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def main() -> None:
    """Search once, and answer with the wall clock and the CPU of the trials."""
    settings = settings_of_child()
    phase = _ours(settings) if settings["side"] == "ours" else _by_hand(settings)
    lines = [line.split() for line in Path("cache", NOTES).read_text().splitlines()]
    trained, trained_cpu = (sum(float(line[column]) for line in lines) for column in (0, 1))
    count = len(lines)
    answer(
        settings,
        {
            "trials": count,
            "wall": (phase["wall"] - trained / settings["workers"]) / count,
            "cpu": (phase["cpu"] - trained_cpu) / count,
            "seconds": phase["wall"],
            "pruned": phase["pruned"],
        },
    )


def _arguments(settings: Mapping[str, Any]) -> dict[str, Any]:
    from mlflow_l3d.tasks.sources.packaged import generate

    workers = settings["workers"]
    return {
        "approach": Epochs(),
        "task": generate(2000),
        "metric": METRIC,
        "hyperparameters": {"milliseconds": settings["milliseconds"], "kind": settings["kind"]},
        "space": "rate,dropout",
        "fine_trials": settings["fine_trials"],
        "held_out_runs": 0,
        "executor": "processes" if workers > 1 else "inline",
        "workers": workers,
    }


class _Phase:
    """Wall clock and CPU of this process and of its ended children, from `begin` to `end`."""

    def __init__(self) -> None:
        self.begun: tuple[float, float] | None = None
        self.found: dict[str, float] = {}

    def begin(self) -> None:
        if self.begun is None:
            self.begun = time.perf_counter(), self._cpu()

    def end(self) -> None:
        if self.begun is not None and not self.found:
            self.found = {"wall": time.perf_counter() - self.begun[0], "cpu": self._cpu() - self.begun[1]}

    @staticmethod
    def _cpu() -> float:
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _ours(settings: Mapping[str, Any]) -> dict[str, float]:
    """Run the entry point; from the first trial of level 1 until the server holds the last one of level 2."""
    from mlflow_l3d.studies.search import run as search_run
    from mlflow_l3d.studies.search.engine import StageRun
    from mlflow_l3d.tracking.recorder import RunRecorder

    phase, run, wait = _Phase(), StageRun.run, RunRecorder.wait

    def begin(*arguments: Any, **more: Any) -> Any:
        phase.begin()
        return run(*arguments, **more)

    def end(recorder: Any, *arguments: Any) -> None:
        wait(recorder, *arguments)
        phase.end()

    StageRun.run, RunRecorder.wait = begin, end  # type: ignore[method-assign]
    result = search_run.search(**_arguments(settings))
    return {**phase.found, "pruned": float((result.result.trials["state"] == "pruned").sum())}


def _by_hand(settings: Mapping[str, Any]) -> dict[str, float]:
    """Search the same space with `study.optimize`: sampler, pruner, reports and journal as ours."""
    import optuna
    from optuna.trial import TrialState

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    Path("cache").mkdir()
    request = _specification(settings)
    fluent = settings["side"] == "fluent"
    parent = _parent() if fluent else nullcontext()
    phase, pruned = _Phase(), 0
    with parent as run:
        owner = run.info.run_id if fluent else ""
        if fluent:
            import mlflow

            mlflow.search_runs()  # what is opened lazily is not to be part of the first trial
        phase.begin()
        space, queue = request.space, _grid(request)
        for stage, trials in (("coarse", request.coarse_trials), ("fine", request.fine_trials)):
            study = _study(stage, request)
            for params in queue:
                study.enqueue_trial(params)
            _stage(settings, stage, space, trials, owner)
            pruned += len(study.get_trials(deepcopy=False, states=(TrialState.PRUNED,)))
            space, queue = space.around(study.best_params), []
        phase.end()
    return {**phase.found, "pruned": float(pruned)}


def _specification(settings: Mapping[str, Any]) -> Any:
    from mlflow_l3d.studies.search.request import specify_search

    arguments = _arguments(settings)
    approach, task = arguments.pop("approach"), arguments.pop("task")
    return specify_search(arguments, approach=approach, task=task)


def _grid(request: Any) -> list[dict[str, Value]]:
    """Return the settings of level 1, in the order in which ours tries them."""
    from mlflow_l3d.studies.search.space import grid_settings

    first = {name: request.setup.hyperparameters[name] for name in request.space.ranges}
    trials, seed = request.coarse_trials - 1, request.sampler_seed("coarse")
    points = grid_settings(request.space, trials=trials, seed=seed, done=[first])
    return [first, *points]


def _parent() -> Any:
    import mlflow

    mlflow.set_experiment("by hand")
    return mlflow.start_run(run_name="parent")


def _study(stage: str, request: Any) -> Any:
    import optuna

    backend = optuna.storages.journal.JournalFileBackend("studies.log")
    return optuna.create_study(
        storage=optuna.storages.JournalStorage(backend),
        study_name=stage,
        direction="maximize",
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(
            seed=request.sampler_seed(stage) % 2**32, n_startup_trials=5, constant_liar=True
        ),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=1, n_min_trials=3),
    )


def _stage(settings: Mapping[str, Any], stage: str, space: Any, trials: int, owner: str) -> None:
    workers = settings["workers"]
    if workers == 1:
        _optimise(settings, stage, space, trials, owner)
        return
    context = multiprocessing.get_context("spawn")
    shares = [trials // workers + (number < trials % workers) for number in range(workers)]
    started = [context.Process(target=_optimise, args=(settings, stage, space, share, owner)) for share in shares]
    for process in started:
        process.start()
    for process in started:
        process.join()


def _optimise(settings: Mapping[str, Any], stage: str, space: Any, trials: int, owner: str) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    request = _specification(settings)
    _study(stage, request).optimize(_objective(request, space, settings["side"], owner), n_trials=trials)


def _objective(request: Any, space: Any, side: str, owner: str) -> Callable[[Any], float]:
    import optuna

    from mlflow_l3d.execution.base import Job
    from mlflow_l3d.execution.outcomes import run_cell
    from mlflow_l3d.studies.search.optimiser import distributions

    setup, seeds = request.setup, request.searched_on[0]
    task = replace(setup.task, settings=replace(setup.task.settings, evaluated="validation"))

    def train(trial: Any, log: Callable[[float, int], None]) -> tuple[dict[str, Value], float]:
        suggested = {name: trial._suggest(name, kind) for name, kind in distributions(space).items()}
        hyperparameters = {**setup.hyperparameters, **space.fixed, **suggested}
        job = Job(setup.approach, task, hyperparameters, "", "cpu", Path("cache"))
        cell = Cell("golden", None, None, None, trial.number, {}, dict(seeds), f"{trial.number}")
        stopped = False

        def on_epoch_end(_key: str, epoch: int, scores: Mapping[str, float]) -> bool:
            nonlocal stopped
            score = scores[f"validation_{METRIC}"]
            log(score, epoch)
            trial.report(score, epoch)
            stopped = trial.should_prune()
            return bool(stopped)

        prepared = setup.approach.prepare(task, hyperparameters, model="", device="cpu", cache=Path("cache"))
        with closing(prepared) as session:
            session.on_epoch_end = on_epoch_end
            outcome = run_cell(session, cell, job)
        if stopped:
            raise optuna.TrialPruned
        return hyperparameters, float(outcome.metrics[METRIC])

    def plain(trial: Any) -> float:
        return train(trial, lambda _score, _epoch: None)[1]

    def fluent(trial: Any) -> float:
        import mlflow

        tags = {"mlflow.parentRunId": owner}
        with mlflow.start_run(run_name=f"trial {trial.number}", nested=True, tags=tags):
            hyperparameters, score = train(
                trial, lambda score, epoch: mlflow.log_metric(f"validation_{METRIC}", score, step=epoch)
            )
            mlflow.log_params({**hyperparameters, **{f"seed.{name}": seed for name, seed in seeds.items()}})
            mlflow.log_metrics({METRIC: score})
        return score

    return fluent if side == "fluent" else plain


if __name__ == "__main__":
    main()
