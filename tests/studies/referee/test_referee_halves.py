"""The fresh half of the test examples: what fits luck is kept, and its confirmed gain is unbiased."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from refusals import refuses

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.metrics.known import named
from mlflow_l3d.studies.referee.golden import Halves
from mlflow_l3d.studies.referee.numbers import Rules
from mlflow_l3d.studies.referee.numbers.noise import Spread
from mlflow_l3d.studies.referee.numbers.session import Session, SystemRecord

ACCURACY, TASK = named("accuracy"), {"kind": "classification", "classes": ["a", "b"]}
EXAMPLES = pd.DataFrame({"example_id": range(61), "label": [0] * 40 + [1] * 21, "prediction": 0})


def test_halves_are_disjoint_equal_by_class_and_repeat() -> None:
    halves = Halves(EXAMPLES, ACCURACY, TASK, 7)
    judged, fresh = halves.of(EXAMPLES)
    assert sorted([*judged["example_id"], *fresh["example_id"]]) == [*range(61)]
    assert [part["label"].value_counts().to_dict() for part in (judged, fresh)] == [{0: 20, 1: 11}, {0: 20, 1: 10}]
    assert halves.scores(EXAMPLES, "") == (20 / 31, 20 / 30)
    again = Halves(EXAMPLES.sample(frac=1, random_state=1), ACCURACY, TASK, 7)
    assert set(again.of(EXAMPLES)[1]["example_id"]) == set(fresh["example_id"])
    assert set(Halves(EXAMPLES, ACCURACY, TASK, 8).of(EXAMPLES)[1]["example_id"]) != set(fresh["example_id"])
    for answers in (None, EXAMPLES.head(60)):
        refuses("of which no half can be scored", halves.scores, answers, "the candidate")


def gains(seed: int, *, candidates: int = 30, runs: int = 10) -> tuple[float, float, float] | None:
    """Return gains of a champion that is no better in truth: claimed, and by fresh runs on either half; None if none.

    A system answers each of 60 examples rightly with probability 0.7, in all its runs; runs differ by little luck.
    """
    draws, sizes = np.random.default_rng(seed), np.array([31, 30])

    def system() -> FloatArray:
        right = draws.random(61) < 0.7
        answers = EXAMPLES.assign(prediction=np.where(right, EXAMPLES["label"], 1 - EXAMPLES["label"]))
        means = Halves(EXAMPLES, ACCURACY, TASK, 0).scores(answers, "")
        return np.array(means) + draws.normal(0, 0.3 / np.sqrt(sizes), (2 * runs, 2))

    base = system()
    rules = Rules(effect=0.05, candidates=candidates, most_runs=runs, confirm=runs, fresh_half=True)
    for number in range(candidates):
        session, new = Session(rules, SystemRecord("", 0, "", "", scores=dict(enumerate(base[:runs, 0])))), system()
        session.judged = number
        scores = dict(enumerate(new[:runs, 0]))
        look = session.look(scores)
        if look.verdict == "keep":
            session.conclude(SystemRecord("", 1, "candidate", "", None, scores, "keep", [look], runs))
            both = [dict(enumerate(each[:, 1])) for each in (new, base)]
            session.champion.fresh_half, session.baseline.fresh_half = both
            session.champion.scores = dict(enumerate(new[:, 0]))
            session.baseline.scores = dict(enumerate(base[:, 0]))
            session.confirm()
            fresh, path = session.path[-1].confirmed, session.path
            session.rules, session.path = replace(rules, fresh_half=False), path
            session.confirm()
            return path[-1].claimed, session.path[-1].confirmed, fresh
    return None


@pytest.mark.slow
def test_fresh_half_is_unbiased_and_the_half_that_judged_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spread, "half_width", lambda *_: np.inf)  # the intervals of looks decide nothing
    every = np.array([each for seed in range(36) if (each := gains(seed))])
    claimed, judged, fresh = every.mean(axis=0)
    error = every.std(axis=0, ddof=1)[2] / np.sqrt(len(every))
    assert len(every) > 15
    assert judged > 0.1  # fresh seeds alone do not remove the luck of the examples
    assert claimed > judged - 0.05
    # The truth is a draw around the baseline's own luck on the fresh half, which nothing selected: 0 on average.
    assert abs(fresh) < 3 * error
