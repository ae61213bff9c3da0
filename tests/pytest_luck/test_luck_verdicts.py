"""The numbers of a case against known truth, and small suites of simulated cases."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from mlflow_l3d.analysis.planning.cases import read_estimate, read_outcomes, read_scores
from mlflow_l3d.pytest_luck.case import Case, Record
from mlflow_l3d.pytest_luck.requirement import Requirement, seed_of

RATE = Requirement(0.8, is_rate=True)


def test_evidence_of_rates_is_the_mixture_of_likelihood_ratios() -> None:
    reading = read_outcomes(3, 4, (10, 1), 0.8, 1)
    below = quad(lambda rate: rate**3 * (1 - rate) ** 4, 0, 0.8)[0] / 0.8 / (0.8**3 * 0.2**4)
    met = quad(lambda rate: rate**13 * (1 - rate) ** 5, 0.8, 1)[0] / 0.2 / (0.8**13 * 0.2**5)
    assert (reading.below, reading.met) == (pytest.approx(below), pytest.approx(met))
    whole, past = ((13, 5), (10, 1))
    beta = [quad(lambda rate, a=a, b=b: rate**a * (1 - rate) ** b, 0, 1)[0] for a, b in (whole, past)]
    # A failure is four times as likely, in odds, as allowed.
    assert reading.changed == pytest.approx(0.5**7 * beta[1] / beta[0])
    assert read_outcomes(1, 0, past, 0.8, 1).changed <= reading.clear < read_outcomes(0, 0, past, 0.8, 1).changed


def test_the_factor_of_a_mean_is_a_ratio_of_densities() -> None:
    values, others, bound = [0.5, 1.1], [1.2, 0.8, 1.9, 1.4, 0.9], 0.4
    squares = sum(np.var(group) * len(group) for group in (values, others))
    std = math.sqrt(squares / 5)
    mean, error = np.mean(values), std / math.sqrt(2)
    same = norm.pdf(mean, np.mean(others), std * math.sqrt(1 / 2 + 1 / 5))
    below = quad(lambda true: 2 * norm.pdf(true, bound, std) * norm.pdf(mean, true, error), bound - 9, bound)[0]
    assert read_scores(values, others, bound, 1).changed == pytest.approx(below / same, rel=1e-6)


def test_equal_scores_decide_after_many_runs() -> None:
    """As many as show that fewer than one run in five has another score."""
    verdicts = {runs: read_scores([0.7] * runs, [], 0.8, 1).verdict(2000, 0.05) for runs in (2, 43, 44)}
    assert verdicts == {2: "undecided", 43: "undecided", 44: "failed"}
    met = {runs: read_scores([0.8] * runs, [], 0.8, 1).verdict(2000, 0.05) for runs in (2, 19, 20)}
    assert met == {2: "undecided", 19: "undecided", 20: "passed"}
    assert read_scores([0.9], [0.9] * 19, 0.8, 1).verdict(2000, 0.05) == "passed"
    changed = read_scores([0.7], [0.9] * 19, 0.8, 1)
    assert (changed.verdict(2000, 0.05), changed.changed) == ("undecided", math.inf)


@pytest.mark.parametrize("sign", [1, -1])
def test_scores_of_0_and_1_are_a_rate_with_the_stated_bound(sign: int) -> None:
    scores = [1.0, 0.0, 1.0, 1.0]
    losses = [score - 1 for score in scores]  # as they come, with their sign turned
    reading = read_scores(scores if sign > 0 else losses, [], 0.95 if sign > 0 else -0.05, 1)
    assert reading.below == pytest.approx(read_outcomes(3, 1, (0, 0), 0.95, 1).below)
    assert read_scores([1.0] * 40, [], 0.95, 1).verdict(20, 0.05) == "undecided"
    assert read_scores([0.0] * 40, [], 0.05, 1).verdict(20, 0.05) == "undecided"
    assert read_scores([0.0] * 6, [], 0.8, 1).verdict(2000, 0.05) == "failed"
    case, required = Case(Record("a"), 20, 0.8, 0.05, 1.4), Requirement(sign * (0.8 if sign > 0 else 0.2), sign)
    for index, score in enumerate(scores):
        case.add(index, score if sign > 0 else 1 - score, required)
    told, limits = case.summary("undecided", 20), read_estimate(scores, [], 0.95, is_rate=True)
    ends = [told[name] for name in ("estimate", "low", "high")]
    assert ends == pytest.approx(limits if sign > 0 else [1 - limits[at] for at in (0, 2, 1)])
    for bound in (0.2, 2.0):  # the second of losses in another unit, which are no outcomes
        case = Case(Record("a"), 20, 0.8, 0.05, 1.4)
        case.add(0, 0.0, Requirement(sign * bound, sign))
        assert str(case.summary("undecided", 20)["estimate"]) == "0.0"


@pytest.mark.parametrize(("rate", "bound"), [(0.85, 0.95), (0.10, 0.05)])
def test_outcomes_as_scores_rarely_give_a_false_claim(rate: float, bound: float) -> None:
    random, wrong = np.random.default_rng(5), "passed" if rate < bound else "failed"
    verdicts = []
    for index in range(40):
        case, verdict = Case(Record(str(index)), 30, 0.8, 0.05, 1.4), None
        while verdict is None:
            case.add(case.next_index(), float(random.random() < rate), Requirement(bound))
            verdict = case.verdict(2000)
        verdicts.append(verdict)
    assert verdicts.count(wrong) <= 2


def test_losses_with_a_long_tail_at_the_bound_rarely_pass() -> None:
    """Exponential ones: Student's t would pass 13 % of such cases, above the level of 5 %."""
    random, passed = np.random.default_rng(3), 0
    for index in range(200):
        case, verdict = Case(Record(str(index)), 20, 0.8, 0.05, 1.4), None
        while verdict is None:
            case.add(case.next_index(), random.exponential(), Requirement(-1.0, -1.0))
            verdict = case.verdict(20)
        passed += verdict == "passed"
    assert passed <= 16  # more than 16 of 200 have probability 3 % at 5 %


def test_a_rare_failure_of_a_known_case_is_no_evidence_of_a_change() -> None:
    """Remembered runs without it have a spread of almost nothing."""
    past = [0.9 + 0.005 * math.sin(place) for place in range(100)]
    assert read_scores([0.3, 0.9], past, 0.88, 1).below < 10
    assert read_scores([0.6, 0.61, 0.59] * 4, past, 0.88, 1).below > 2000
    assert read_estimate([0.1, 0.2], [0.3, 0.5] * 9, 0.95, is_rate=False)[1] > -0.5


@pytest.mark.parametrize("is_paired", [True, False])
def test_runs_that_are_no_worse_than_those_of_a_label_rarely_fail(is_paired: bool) -> None:
    """Scores of a language model, or of trainings whose code has changed: the label's seeds, other noise."""
    random, failed = np.random.default_rng(3), 0
    for index in range(300):
        base = {place: random.normal() for place in range(20)}
        record = Record(str(index), runs={"main": base, "": dict(base) if is_paired else {}}, against="main")
        case, verdict = Case(record, 20, 0.8, 0.05, 1.0), None
        while verdict is None:
            case.add(case.next_index(), random.normal(), Requirement(0.0, label="main"))
            verdict = case.verdict(20)
        failed += verdict == "failed"
    assert failed <= 24  # 5 % at most: more than 24 of 300 have probability 1 %


def test_estimates_without_a_spread_have_no_interval() -> None:
    assert read_estimate([0.5], [], 0.95, is_rate=False)[0] == 0.5
    assert all(map(math.isnan, read_estimate([0.5, 0.5], [], 0.95, is_rate=False)[1:]))
    assert all(map(math.isnan, read_estimate([], [], 0.95, is_rate=True)))


def test_seeds_are_the_same_every_time_and_fit_32_bits() -> None:
    assert [seed_of(0, index) for index in range(3)] == [2583541593, 3932908107, 3424190676]
    assert max(seed_of(root, index) for root in range(5) for index in range(50)) < 2**32


@pytest.mark.parametrize("sign", [1, -1])
def test_losses_mirror_scores(sign: float) -> None:
    record = Record("a", runs={"": {5: sign * 0.9, 6: sign * 0.8, 7: sign * 0.85}})
    case = Case(record, 20, 0.8, 0.05, 1.0)
    case.add(0, sign * 0.3, Requirement(0.4, sign=sign))
    case.add(1, sign * 0.35, Requirement(0.4, sign=sign))
    told = case.summary(case.verdict(20), 20)
    assert told["fails"] == pytest.approx(read_scores([0.3, 0.35], [], 0.4, 1).below)
    assert told["estimate"] == pytest.approx(sign * 0.325)
    assert told["low"] is None or told["low"] <= told["estimate"] <= told["high"]


def conduct(records: list[Record], rates: list[float], random: np.random.Generator) -> tuple[list[str], int]:
    """Run a suite of simulated cases; return their verdicts, and the runs of all."""
    verdicts, runs = [], 0
    for record, rate in zip(records, rates, strict=True):
        case, verdict = Case(record, 100, 0.8, 0.05, 1.4), None
        needed = len(records) / (0.05 * (1 + verdicts.count("failed")))
        while verdict is None:
            case.add(case.next_index(), float(random.random() < rate), RATE)
            verdict = case.verdict(needed)
        record.add(case.values, "", is_rate=True, against="", keep=verdict != "failed")
        verdicts.append(verdict)
        runs += len(case.values)
    return verdicts, runs


def test_suites_of_flaky_cases_pass_cost_little_and_find_a_drop() -> None:
    """A hundred cases that pass in 95 % of runs; the benchmark `pytest_luck.py` has the rates of many suites."""
    random = np.random.default_rng(0)
    records = [Record(f"case {index}") for index in range(100)]
    suites = [conduct(records, [0.95] * 100, random) for _ in range(12)]
    assert all("failed" not in verdicts for verdicts, _ in suites)  # of plain suites, 99.4 % have a failed case
    assert suites[0][1] <= 2200
    assert np.mean([runs for _, runs in suites[8:]]) <= 210
    drops = [conduct(records, [0.5] * 20 + [0.95] * 80, random)[0] for _ in range(3)]
    assert sum(any(verdicts[index] == "failed" for verdicts in drops) for index in range(20)) >= 17
    assert all("failed" not in verdicts[20:] for verdicts in drops)


def test_cases_that_just_meet_their_requirement_rarely_fail() -> None:
    random = np.random.default_rng(1)
    suites = [conduct([Record(f"case {index}") for index in range(5)], [0.8] * 5, random)[0] for _ in range(100)]
    assert sum("failed" in verdicts for verdicts in suites) <= 10  # 5 % at most: more than 10 have probability 1 %
