"""A loop as those of agents that improve a training: it proposes a change, and a referee keeps or rejects it.

    python projects/referee_loop.py --task sst2 --candidates 30

The agent is a random search here: it changes one or two hyperparameters of the champion. Put your own in the place of
`propose`. The same command again trains nothing twice.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import mlflow_l3d

SPACE: dict[str, list[Any]] = {
    "learning_rate": [1e-4, 3e-4, 1e-3, 3e-3, 1e-2],
    "epochs": [5, 10, 20],
    "batch_size": [4, 8, 16, 32],
    "hidden_units": [32, 64, 128, 256],
    "dropout": [0.0, 0.1, 0.3],
    "weight_decay": [0.0, 0.01, 0.1],
    "pooling": ["mean", "cls"],
}
"""Of the head that is trained on frozen features."""


def propose(history: Sequence[mlflow_l3d.Judgement], agent: np.random.Generator) -> dict[str, Any]:
    """Return the next change of the champion; `history` has all judgements so far."""
    del history  # a better agent reads it
    names = agent.choice(sorted(SPACE), size=agent.integers(1, 3), replace=False)
    return {"hyperparameters": {str(name): SPACE[name][agent.integers(len(SPACE[name]))] for name in names}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the loop; return the exit status."""
    parser = argparse.ArgumentParser(description="Improve a small head, and keep what is better.")
    parser.add_argument("--task", default="auto")
    parser.add_argument("--candidates", type=int, default=30)
    parser.add_argument("--baseline-runs", type=int, default=20)
    parser.add_argument("--num-labelled", type=int, default=200)
    parser.add_argument("--test-size", type=int, default=500)
    parser.add_argument("--hyperparameters", default="default", help="where the baseline begins")
    parser.add_argument("--agent-seed", type=int, default=0)
    parser.add_argument("--executor", default="processes")
    options = parser.parse_args(arguments)
    machine = {"executor": options.executor}
    baseline = mlflow_l3d.investigate(
        options.task,
        factor="data_order",
        investigation_runs=2,
        mitigation_runs=2,
        golden_runs=options.baseline_runs,
        num_labelled=options.num_labelled,
        test_size=options.test_size,
        test_selection="fixed",
        hyperparameters=options.hyperparameters,
        **machine,
    )
    planned = {"candidates": options.candidates, "baseline_runs": options.baseline_runs}
    referee = mlflow_l3d.Referee.start(baseline=baseline.run_id, **planned, **machine)
    agent, history = np.random.default_rng(options.agent_seed), list[mlflow_l3d.Judgement]()
    while len(history) < options.candidates:
        change = propose(history, agent)
        try:
            judgement = referee.judge(change)
        except mlflow_l3d.ParameterError as error:
            if "are the same" not in str(error):
                raise
            continue  # it is the baseline again
        if judgement.number > len(history):  # else it was judged before
            history.append(judgement)
            sys.stdout.write(f"{judgement.to_json()}\n")
            sys.stdout.flush()
    sys.stdout.write(referee.status().summary())
    return 0


if __name__ == "__main__":
    sys.exit(main())
