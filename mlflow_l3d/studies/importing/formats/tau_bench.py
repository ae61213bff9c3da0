"""tau-bench and tau2-bench: the JSON of rewards that their ``run`` writes; a run is one trial of every task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.importing.recorded import RecordedRun, flat, graded, read_each, read_json


def read(path: Path, _columns: Mapping[str, str], _metric: str = "auto") -> list[RecordedRun | L3DError]:
    """Return the trials of one file."""
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
    return read_each(_run, parts)


def _run(source: str, task: str, results: list[Mapping[str, Any]], settings: Mapping[str, str]) -> RecordedRun:
    rewards = [_reward(source, result) for result in results]
    name, right = graded(rewards)
    ids = [str(result.get("task_id")) for result in results]
    if len({*ids}) < len(ids):
        raise L3DError(f"{source}: a task has two results in trial {settings['trial']}. Take one away.")
    source, scores = f"{source} (trial {settings['trial']})", {name: sum(rewards) / len(rewards)}
    run = RecordedRun(source=source, task=task, kind="multiple_choice", settings=settings, scores=scores)
    if right is None:
        return run
    return run.answered(ids, ["solved"] * len(ids), ["not solved"] * len(ids), right)


def _reward(source: str, result: Mapping[str, Any]) -> float:
    """Return the reward of one result; tau2-bench nests it."""
    reward = result["reward"] if "reward" in result else (result.get("reward_info") or {}).get("reward")
    if not isinstance(reward, int | float):
        which, fix = f"task {result.get('task_id')} of trial {result.get('trial')}", "take it away from all trials"
        raise L3DError(f"{source}: {which} has no reward. Run it again, or {fix}.")
    return float(round(reward, 6))
