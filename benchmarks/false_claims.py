"""How often rules call two equal systems different: what people use today, and ours, on the same real trainings.

    pip install mlflow==3.18.0 bayesbench==0.4.0.dev0
    python benchmarks/false_claims.py --labels 60 1000 --seed 1

Golden runs of one head are trained once; they differ by luck alone and share one test set. Two draws of them are two
equal systems, so each claim is false. Runs of two systems share no seeds. To measure power, the candidate's scores are
raised by 1 or 2 standard deviations of a run; if a rule reads rows, as many wrong answers become right. `pytest --l3d`
looks for a drop, so its scores are lowered. Intervals are Wilson's, over draws from the trained runs.
MLflow's comparison is called with the rows it would read, and without its bootstrap interval, on which no claim rests.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
from _common import ENVIRONMENT, machine, table
from referee import CANDIDATES, Ended, Simulated, keep_if_better, referee, second_look, t_test_at_every_look
from scipy import stats

from mlflow_l3d.analysis.comparison import compare_systems
from mlflow_l3d.analysis.comparison.predictions import Predictions, systems
from mlflow_l3d.analysis.comparison.system import System
from mlflow_l3d.analysis.intervals import wilson_interval
from mlflow_l3d.analysis.planning.spending import SequentialPlan, planned_looks
from mlflow_l3d.metrics.known import named
from mlflow_l3d.pytest_luck.case import Case, Record
from mlflow_l3d.pytest_luck.requirement import Requirement
from mlflow_l3d.studies.gate.numbers import look_at, measure
from mlflow_l3d.studies.referee.numbers import Rules

Array = np.ndarray[Any, Any]
ALPHA: Final = 0.05
RUNS: Final = 20
"""Runs of each side of a gate and a comparison, at most."""
ACCURACY: Final = named("accuracy")


@dataclass(frozen=True)
class Golden:
    """Runs on one test set: which answers are right, (runs, examples), and scores in their standard deviations."""

    right: Array
    scores: Array
    std: float
    system: System

    @classmethod
    def of(cls, right: Array) -> Golden:
        """Return the runs that answered so."""
        run, example = (each.ravel() for each in np.indices(right.shape))
        answers = Predictions(run, example, np.ones(right.size, int), right.ravel().astype(int))
        accuracy = right.mean(axis=1)
        (system,), _ = systems(["golden"], [accuracy], [{}], [answers], ACCURACY)
        return cls(right, (accuracy - accuracy.mean()) / accuracy.std(), float(accuracy.std()), system)

    def luck(self, random: np.random.Generator) -> float:
        """Return the score of a run."""
        return float(self.scores[random.integers(len(self.scores))])

    def systems(self, champion: Array, candidate: Array, shift: float) -> tuple[System, System]:
        """Return candidate and champion, whose scores differ by `shift` standard deviations more than these runs do."""
        better, base = self.system.chosen(candidate), self.system.chosen(champion)
        return replace(better, name="candidate", scores=better.scores + shift * self.std), base

    def rows(self, champion: Array, candidate: Array, shift: float) -> tuple[Array, Array]:
        """Return which answers of one run of either are right, if as many wrong ones are as are worth `shift`."""
        better, base = self.right[candidate[0]].copy(), self.right[champion[0]]
        wrong = np.flatnonzero(~better)
        number = min(round(shift * self.std * better.size), wrong.size)
        better[np.random.default_rng(candidate[0]).choice(wrong, number, replace=False)] = True
        return better, base


Claim = tuple[str, int]
"""``better`` or ``worse``, of the candidate, or the empty text; and how many of its runs were looked at."""
Rule = Callable[[Golden, Array, Array, float], Claim]


def named_claim(difference: float, p: float) -> str:
    """Return what is claimed of a difference at 5 %."""
    return ("better" if difference > 0 else "worse") if p < ALPHA else ""


def t_test(golden: Golden, champion: Array, candidate: Array, shift: float) -> Claim:
    """Look after each of 2 to 10 runs of both sides, and claim what has p < .05 first."""
    differences = golden.scores[candidate] + shift - golden.scores[champion]
    for runs in range(2, 11):
        claim = named_claim(differences[:runs].mean(), stats.ttest_1samp(differences[:runs], 0).pvalue)
        if claim:
            break
    return claim, runs


def mann_whitney(golden: Golden, champion: Array, candidate: Array, shift: float) -> Claim:
    """Test ten runs of either side once."""
    found = stats.mannwhitneyu(golden.scores[candidate] + shift, golden.scores[champion])
    return named_claim(found.statistic - 50, found.pvalue), 10


def mlflow_comparison() -> Rule:
    """Return `mlflow.genai.compare_evaluations` of one run of either side; ImportError before 3.18."""
    from mlflow.entities import Feedback
    from mlflow.genai import compare_evaluations
    from mlflow.genai.evaluation.comparison import comparison, paired_comparison
    from mlflow.genai.evaluation.comparison.utils import _EvalRow

    feedbacks = {value: {"right": [Feedback(name="right", value=value)]} for value in (False, True)}
    held: dict[str, Array] = {}

    def rows(name: str) -> list[Any]:
        values = enumerate(held[name].tolist())
        return [_EvalRow(f"{name}{row}", str(row), None, False, feedbacks[value]) for row, value in values]

    comparison._load_eval_rows = rows
    paired_comparison._bootstrap_mean_ci = lambda *_: (math.nan, math.nan)

    def rule(golden: Golden, champion: Array, candidate: Array, shift: float) -> Claim:
        held["candidate"], held["baseline"] = golden.rows(champion, candidate, shift)
        found = compare_evaluations("candidate", "baseline").scorers["right"]
        return named_claim(found.diff, found.p_value), 1

    return rule


def bayesbench() -> Rule:
    """Return bayesbench's comparison of one run of either side, with its defaults; ImportError if it is missing.

    Its integrals are kept, since most comparisons end after three rows.
    """
    from bayesbench import BayesianBenchmark
    from bayesbench.posteriors import BetaPosterior

    integrated = BetaPosterior.prob_beats
    known = lru_cache(None)(lambda *sides: integrated(*(BetaPosterior(*side) for side in sides)))
    BetaPosterior.prob_beats = lambda one, other: known((one.alpha, one.beta), (other.alpha, other.beta))
    names = {"model_a": "better", "model_b": "worse", None: ""}

    def rule(golden: Golden, champion: Array, candidate: Array, shift: float) -> Claim:
        sides = golden.rows(champion, candidate, shift)
        order = np.random.default_rng([candidate[0], champion[0]]).permutation(len(sides[0])).tolist()
        first, second = (lambda row, side=side: bool(side[row]) for side in sides)
        return names[BayesianBenchmark().compare(first, second, lambda _, right: right, order).winner], 1

    return rule


def gate(golden: Golden, champion: Array, candidate: Array, shift: float) -> Claim:
    """Decide as `mlflow-l3d gate` with five looks at most, and a smallest effect of one standard deviation."""
    plan, looks = SequentialPlan(planned_looks(RUNS, 5), golden.std), []
    for runs in plan.looks:
        measured, _ = measure(*golden.systems(champion[:runs], candidate[:runs], shift), count_examples=False)
        looks.append(look_at(plan, looks, runs, runs, measured, runs / RUNS))
        if looks[-1].decision != "undecided":
            break
    return looks[-1].decision if looks[-1].decision in ("better", "worse") else "", looks[-1].runs


def compare(golden: Golden, champion: Array, candidate: Array, shift: float) -> Claim:
    """Compare as `mlflow-l3d compare` does."""
    found = compare_systems({"task": golden.systems(champion, candidate, shift)}, ACCURACY).differences[0]
    return named_claim(found.difference, found.p_adjusted), RUNS


def luck_test(golden: Golden, champion: Array, candidate: Array, shift: float, cases: int = 1) -> Claim:
    """Test "not worse than main", one of some cases, as `pytest --l3d` does; the shift is downwards."""
    main = dict(enumerate(golden.scores[champion].tolist()))
    required = Requirement(0.0, label="main")
    case, verdict = Case(Record("case", against="main", runs={"main": main}), RUNS, 0.8, ALPHA, 1.4), None
    while verdict is None:
        index = case.next_index() or 0
        case.add(index, float(golden.scores[candidate[index]]) - shift, required)
        verdict = case.verdict(cases / ALPHA)
    return "worse" if verdict == "failed" else "", len(case.values)


@dataclass(frozen=True)
class Row:
    """A rule for `needs` runs of each of two systems, or for a session, which may have one candidate."""

    name: str
    pair: Rule | None = None
    needs: int = RUNS
    session: Callable[..., Ended] | None = None

    def claim(self, golden: Golden, random: np.random.Generator, shift: float) -> Claim:
        """Judge one candidate; return the claim, and the runs of both sides."""
        if self.pair is None:
            world = Simulated(random, 0.0, golden.luck)
            rules = [Rules(1.0, candidates=1)] if self.session is referee else []
            ended = self.session(world, [shift], *rules)
            return "better" if ended.kept + ended.false else "", world.runs
        drawn = random.choice(len(golden.scores), 2 * self.needs, replace=False)
        claim, runs = self.pair(golden, drawn[: self.needs], drawn[self.needs :], shift)
        return claim, 2 * runs

    def many(self, golden: Golden, random: np.random.Generator) -> tuple[int, float]:
        """Judge equal candidates, each against the last that was kept; return how many are, and the record's error."""
        if self.session is not None:
            ended = self.session(Simulated(random, 0.0, golden.luck), [0.0] * CANDIDATES)
            return ended.false, ended.claimed
        if self.pair is luck_test:  # no candidates, but as many cases of one suite
            rule = partial(luck_test, cases=CANDIDATES)
            cases = (random.choice(len(golden.scores), 2 * RUNS, replace=False) for _ in range(CANDIDATES))
            return sum(rule(golden, case[:RUNS], case[RUNS:], 0.0)[0] != "" for case in cases), math.nan
        every, kept = np.arange(len(golden.scores)), 0
        champion = random.choice(every, self.needs, replace=False)
        record = float(golden.scores[champion].mean())
        for _ in range(CANDIDATES):
            candidate = random.choice(np.setdiff1d(every, champion), self.needs, replace=False)
            claim, runs = self.pair(golden, champion, candidate, 0.0)
            if claim == "better":
                champion, kept, record = candidate, kept + 1, float(golden.scores[candidate[:runs]].mean())
        return kept, record


def rules() -> Iterator[Row]:
    """Yield what can be run here."""
    yield Row("keep if better", session=keep_if_better)
    yield Row("keep if better twice", session=second_look)
    yield Row("t-test at every look", t_test, 10, t_test_at_every_look)
    yield Row("Mann-Whitney once", mann_whitney, 10)
    for name, make in {"`mlflow.genai.compare_evaluations`": mlflow_comparison, "bayesbench": bayesbench}.items():
        try:
            yield Row(name, make(), 1)
        except ImportError as error:
            print(f"{name} was not run: {error}")
    yield Row("`gate`", gate)
    yield Row("`compare`", compare)
    yield Row("`pytest --l3d`", luck_test)
    yield Row("`referee`", session=referee)


def trained(labels: int, runs: int, seed: int) -> Golden:
    """Train a head on film reviews."""
    import mlflow

    import mlflow_l3d
    from mlflow_l3d.studies.gate.sides import recorded_side

    sizes = {"golden_runs": runs, "num_labelled": labels, "test_size": 1000, "test_selection": "fixed"}
    sizes |= {"factor": "data_order", "investigation_runs": 2, "mitigation_runs": 2, "self_test": "skip"}
    with tempfile.TemporaryDirectory() as place, chdir(place):  # where a new store puts its artifacts
        mlflow.set_tracking_uri(f"sqlite:///{place}/mlflow.db")
        os.environ["L3D_CACHE"] = f"{place}/cache"
        run_id = mlflow_l3d.investigate("rotten_tomatoes", hyperparameters="default", root_seed=seed, **sizes).run_id
        client = mlflow.MlflowClient()
        tables = recorded_side(client, "baseline", run_id).predictions(client, runs)
        return Golden.of(np.array([(each["label"] == each["prediction"]).to_numpy() for each in tables]))


def share(count: int, of: int) -> str:
    """Return a share in percent with its interval."""
    low, high = wilson_interval(count, of)
    return f"{100 * count / of:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def pair_rows(golden: Golden, count: int, seed: int) -> Iterator[list[object]]:
    """Yield how often each rule claims a difference: of equal systems, and rightly if there is one."""
    for row in rules():
        started, cells, runs = time.process_time(), [], 0
        for shift in (0.0, 1.0, 2.0):
            random = np.random.default_rng([seed, int(shift)])
            claims = [row.claim(golden, random, shift) for _ in range(count)]
            right = "worse" if row.pair is luck_test else "better"
            cells += [share(sum(bool(claim) for claim, _ in claims), count)] if shift == 0 else []
            cells.append(share(sum(claim == right for claim, _ in claims), count))
            runs = runs or sum(each for _, each in claims)
        yield [row.name, f"{runs / count:.1f}", *cells, f"{time.process_time() - started:.0f}"]


def session_rows(golden: Golden, count: int, seed: int) -> Iterator[list[object]]:
    """Yield how many of many equal candidates each rule keeps, and by how much the record is above the truth."""
    for row in rules():
        started = time.process_time()
        kept, record = np.transpose([row.many(golden, np.random.default_rng([seed, each])) for each in range(count)])
        errors = (values.std(ddof=1) / math.sqrt(count) for values in (kept, record))
        numbers = (f"{values.mean():.2f} ± {error:.2f}" for values, error in zip((kept, record), errors, strict=True))
        yield [row.name, *numbers, share(int((kept > 0).sum()), count), f"{time.process_time() - started:.0f}"]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, nargs="+", default=[60])
    parser.add_argument("--runs", type=int, default=300, help="golden runs that are trained, 40 or more")
    parser.add_argument("--comparisons", type=int, default=2000, help="per rate")
    parser.add_argument("--sessions", type=int, default=40, help="of 300 equal candidates; 0 for none")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    print(machine(), f"{given.comparisons} comparisons a rate, seed {given.seed}", sep="\n")
    for labels in given.labels:
        golden = trained(labels, given.runs, given.seed)
        print(f"\n## {labels} labels, {given.runs} runs, standard deviation {100 * golden.std:.2f} points\n")
        heads = ["rule", "runs", "claims, %", "better, %", "found at 1 std", "found at 2 std", "CPU s"]
        print(table(heads, list(pair_rows(golden, given.comparisons, given.seed))), end="\n\n", flush=True)
        if given.sessions:
            heads = ["rule", "kept of 300 equal", "record above truth, std", "sessions with any, %", "CPU s"]
            print(table(heads, list(session_rows(golden, given.sessions, given.seed))), flush=True)


if __name__ == "__main__":
    main()
