"""Tools that evaluate apps and agents: Inspect, promptfoo, and tau-bench with tau2-bench."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError
from mlflow_l3d.paths import public_name
from mlflow_l3d.studies.importing import RecordedRun, flat, graded, read_each, read_json


def read_inspect(path: Path, _columns: Mapping[str, str], metric: str = "auto") -> list[RecordedRun | L3DError]:
    """Return the runs of one log (``.eval`` or ``.json``), read by `inspect_ai` itself: one for each epoch."""
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        problem = "inspect_ai is not installed, whose own reader reads its logs"
        raise L3DError(f"{problem}. Run: pip install inspect_ai") from error
    try:
        log = read_eval_log(str(path))
    except Exception as error:  # its reader raises errors of many libraries
        raise L3DError(f"{path.name}: inspect_ai cannot read it ({type(error).__name__}: {error}).") from error
    if log.status != "success":
        raise L3DError(f"{path.name}: the evaluation has not finished ({log.status}). Run inspect eval-retry.")
    epochs: dict[int, list[Any]] = defaultdict(list)
    for sample in log.samples or ():
        epochs[sample.epoch].append(sample)
    if not epochs:
        raise L3DError(f"{path.name}: holds no samples.")
    parts = []
    for epoch, samples in sorted(epochs.items()):
        settings = _inspect_settings(log) | ({"epoch": str(epoch)} if len(epochs) > 1 else {})
        parts.append((f"{path.name} (epoch {epoch})", public_name(log.eval.task), samples, settings, metric))
    return read_each(_inspect_run, parts)


def _inspect_run(source: str, task: str, samples: list[Any], settings: Mapping[str, str], metric: str) -> RecordedRun:
    """Return a run; the scorer that `metric` names, else the first one, decides which answers are right."""
    scorers = _scorers(source, samples)
    if not scorers:
        raise L3DError(f"{source}: has no scores. Run inspect score.")
    first = metric if metric in scorers else next(iter(scorers))
    if isinstance(scorers[first][0], Mapping):
        keys = " or ".join(f"--metric {name}" for name in scorers if name.startswith(f"{first}."))
        raise L3DError(f"{source}: a score of {first} is a dictionary. Choose one of its numbers, {keys}.")
    values = {name: scores for name, scores in scorers.items() if not isinstance(scores[0], Mapping)}
    numbers = {name: [_grade(source, name, value) for value in scores] for name, scores in values.items()}
    usual, right = graded(numbers[first])
    # A scorer that the user names keeps its name; the first one gets the name of its mean.
    names = {name: usual if name == first != metric else name for name in (first, *numbers)}
    scores = {names[name]: math.fsum(numbers[name]) / len(samples) for name in names}
    run = RecordedRun(source=source, task=task, kind="multiple_choice", settings=settings, scores=scores)
    if right is None:
        return run
    labels = [each.target if isinstance(each.target, str) else ", ".join(each.target) for each in samples]
    scorer = max((name for name in samples[0].scores if f"{first}.".startswith(f"{name}.")), key=len)
    pairs = zip([each.scores[scorer].answer for each in samples], samples, strict=True)
    answers = [each.output.completion if answer is None else answer for answer, each in pairs]
    return run.answered((each.id for each in samples), labels, answers, right)


def _scorers(source: str, samples: list[Any]) -> dict[str, list[Any]]:
    """Return scorer -> value of each sample; members of a dictionary are added as ``scorer.key``."""
    scorers: dict[str, list[Any]] = {}
    for name in next((sample.scores for sample in samples if sample.scores), {}):
        for sample in samples:
            score = (sample.scores or {}).get(name)
            if score is None:
                why = f" ({' '.join(sample.error.message.split())[:100]})" if sample.error else ""
                fix = "Evaluate again with --retry-on-error."
                raise L3DError(f"{source}: sample {sample.id} has no score of {name}{why}. {fix}")
            members = score.value if isinstance(score.value, Mapping) else {}
            for key, value in ((name, score.value), *((f"{name}.{key}", value) for key, value in members.items())):
                scorers.setdefault(key, []).append(value)
    return {name: values for name, values in scorers.items() if len(values) == len(samples)}


def _grade(source: str, scorer: str, value: Any) -> float:
    # Inspect's letters for correct, partially correct, incorrect and no answer.
    number = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}.get(value, value) if isinstance(value, str) else value
    if not isinstance(number, int | float):
        raise L3DError(f"{source}: a score of {scorer} is {value!r}, no number and no C, P, I or N.")
    return float(number)


def _inspect_settings(log: Any) -> dict[str, str]:
    about = log.eval
    config = log.plan.config.model_dump(exclude_none=True) | about.model_generate_config.model_dump(exclude_none=True)
    model = {"model": about.model_args.get("model_path") or about.model}
    arguments = {name: value for name, value in about.model_args.items() if name != "model_path"}
    return flat({**model, **config, **(about.task_args or {}), "model_args": arguments, "solver": about.solver})


def read_promptfoo(path: Path, _columns: Mapping[str, str], _metric: str = "auto") -> list[RecordedRun | L3DError]:
    """Return the runs of ``promptfoo eval --output results.json``: one for each provider and prompt."""
    document = read_json(path)
    results = document.get("results") if isinstance(document, dict) else None
    rows = results.get("results") if isinstance(results, dict) else None
    if not rows or not isinstance(rows, list):
        raise L3DError(f"{path.name}: holds no results.results; is it written by promptfoo eval --output?")
    runs: dict[tuple[tuple[str, str], ...], list[Mapping[str, Any]]] = defaultdict(list)
    repeats: Counter[tuple[tuple[str, str], ...]] = Counter()
    for row in rows:
        settings = _promptfoo_settings(row).items()
        which = (*settings, ("example", _example(row)))
        runs[(*settings, ("repeat", str(repeats[which])))].append(row)
        repeats[which] += 1
    repeated = max(repeats.values()) > 1
    description = (document.get("config") or {}).get("description") or path.stem
    parts = (
        (path.name, str(description), tests, {name: value for name, value in key if repeated or name != "repeat"})
        for key, tests in runs.items()
    )
    return read_each(_promptfoo_run, parts)


def _promptfoo_run(source: str, task: str, rows: list[Mapping[str, Any]], settings: dict[str, str]) -> RecordedRun:
    for row in rows:
        # The ``failureReason`` of a test without an answer is 2; promptfoo gives it a score of 0.
        if row.get("failureReason") == 2 or not isinstance(row.get("score"), int | float):
            reason = " ".join(str(row.get("error") or "no error named").split())[:100]
            raise L3DError(f"{source}: test {row.get('testIdx')} has no answer ({reason}). Run the failed tests again.")
    answers = [(row.get("response") or {}).get("output") for row in rows]
    right = [bool(row.get("success")) for row in rows]
    total = sum(float(row["score"]) for row in rows)
    scores = {"accuracy": sum(right) / len(rows), "score_mean": total / len(rows)}
    how = ", ".join(settings.values())
    run = RecordedRun(source=f"{source} ({how})", task=task, kind="multiple_choice", settings=settings, scores=scores)
    return run.answered(map(_example, rows), [*map(_expected, rows)], answers, right)


def _promptfoo_settings(row: Mapping[str, Any]) -> dict[str, str]:
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
    return next((each.get("value") for each in asserted if isinstance(each.get("value"), str)), None) or "pass"


def read_tau_bench(path: Path, _columns: Mapping[str, str], _metric: str = "auto") -> list[RecordedRun | L3DError]:
    """Return the trials of the file of rewards that ``run`` writes: a run is one trial of every task."""
    document = read_json(path)
    about = (document.get("info") or {}) if isinstance(document, dict) else {}
    results = document.get("simulations") if isinstance(document, dict) else document
    if not results or not isinstance(results, list):
        raise L3DError(f"{path.name}: holds no results; is it the file of rewards that tau-bench's run writes?")
    trials: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for result in results:
        trials[str(result.get("trial", 0))].append(result)
    agent, user = about.get("agent_info") or {}, about.get("user_info") or {}
    settings = flat({"model": agent.get("llm"), "agent": agent.get("implementation"), "user_model": user.get("llm")})
    task = (about.get("environment_info") or {}).get("domain_name") or path.stem
    parts = ((path.name, str(task), each, {**settings, "trial": trial}) for trial, each in trials.items())
    return read_each(_trial, parts)


def _trial(source: str, task: str, results: list[Mapping[str, Any]], settings: Mapping[str, str]) -> RecordedRun:
    rewards = [_reward(source, result) for result in results]
    name, right = graded(rewards)
    ids = [str(result.get("task_id")) for result in results]
    if len({*ids}) < len(ids):
        raise L3DError(f"{source}: a task has two results in trial {settings['trial']}. Take one away.")
    source = f"{source} (trial {settings['trial']})"
    scores = {name: sum(rewards) / len(rewards)}
    run = RecordedRun(source=source, task=task, kind="multiple_choice", settings=settings, scores=scores)
    if right is None:
        return run
    return run.answered(ids, ["solved"] * len(ids), ["not solved"] * len(ids), right)


def _reward(source: str, result: Mapping[str, Any]) -> float:
    """Return the reward of one result; tau2-bench nests it."""
    reward = result["reward"] if "reward" in result else (result.get("reward_info") or {}).get("reward")
    if not isinstance(reward, int | float):
        which = f"task {result.get('task_id')} of trial {result.get('trial')}"
        fix = "take it away from all trials"
        raise L3DError(f"{source}: {which} has no reward. Run it again, or {fix}.")
    return float(round(reward, 6))
