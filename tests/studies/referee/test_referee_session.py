"""A session of a referee with known truth: what is kept, what it costs, and what it says of the gain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from project_scripts import ROOT, load_script
from scipy import stats

from mlflow_l3d.analysis.planning.evidence import Estimate, confidence_sequence, evidence_of_gain
from mlflow_l3d.studies.referee.numbers import Assessment, Rules, assess, runs_left
from mlflow_l3d.studies.referee.numbers.noise import _RATIOS, Noise, NoiseSoFar, Spread
from mlflow_l3d.studies.referee.numbers.session import Session, SystemRecord

RULES = Rules(effect=1.0, candidates=60)


@pytest.fixture
def without_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the intervals of looks, which decide nothing and take most of the time of simulations."""
    monkeypatch.setattr(Spread, "half_width", lambda *_: math.inf)


def test_an_interval_decides_nothing(request: pytest.FixtureRequest) -> None:
    """The verdict is by evidence alone, so that simulations of verdicts need no interval."""

    def looks() -> list[Assessment]:
        noise, champion = Noise(1.0, 0.5, 50.0), dict.fromkeys(range(12), 0.0)
        return [assess(dict.fromkeys(range(9), gain), champion, noise, RULES, 100.0) for gain in (9.0, 1.0, -3.0)]

    whole = looks()
    assert [each.verdict for each in whole] == ["keep", "undecided", "reject"]
    request.getfixturevalue("without_intervals")
    assert looks() == [replace(each, low=-math.inf, high=math.inf) for each in whole] != whole


def baseline_of(scores: dict[int, float]) -> SystemRecord:
    return SystemRecord("", 0, "baseline", "", scores=scores)


Draw = Callable[[np.random.Generator], float]


def play(
    seed: int, gains: list[float], rules: Rules = RULES, correlation: float = 0.9, noise: Draw | None = None
) -> tuple[Session, list[str], int, float]:
    """Play a session; return it, the verdicts, the number of runs, and the true mean of the last champion."""
    random, seeds = np.random.default_rng(seed), {}
    draw = noise or np.random.Generator.standard_normal
    mean, verdicts, runs = 0.0, [], 20

    def run(mean: float, number: int, draw: Draw = np.random.Generator.standard_normal) -> float:
        luck = seeds.setdefault(number, float(random.standard_normal()))
        return mean + math.sqrt(correlation) * luck + math.sqrt(1 - correlation) * draw(random)

    baseline = baseline_of({number: run(0.0, number) for number in range(20)})
    session = Session(rules, baseline, shares_seeds=correlation > 0)
    for index, gain in enumerate(gains):
        scores: dict[int, float] = {}
        while not verdicts[index:]:
            number = session.next_number + len(scores)
            if number not in session.champion.scores:
                session.champion.scores[number], runs = run(mean, number), runs + 1
            scores[number], runs = run(mean + gain, number, draw), runs + 1
            look = session.look(scores)
            if look.verdict != "undecided":
                decided = max(scores) + 1
                session.conclude(SystemRecord("", index + 1, "", "", None, scores, look.verdict, [look], decided))
                verdicts.append(look.verdict)
        if verdicts[-1] == "keep":
            mean += gain
            for number in session.to_confirm:
                session.champion.scores[number], runs = run(mean, number), runs + 1
                if number not in session.baseline.scores:
                    session.baseline.scores[number], runs = run(0.0, number), runs + 1
            session.confirm()
    return session, verdicts, runs, mean


def test_the_interval_of_what_is_kept_excludes_0() -> None:
    """Runs that vary more than was learned: evidence and interval are of one mixture."""
    kept, held, looks = 0, 0, 0
    for seed in range(60):
        random, truth = np.random.default_rng(seed), 1.7
        baseline = baseline_of(dict(enumerate(random.normal(0, 0.5, 20).tolist())))
        session, scores, low = Session(RULES, baseline, shares_seeds=False), {}, -math.inf
        for number in range(12):
            scores[number] = float(random.normal(truth, 0.9))
            look = session.look(scores)
            low, held, looks = look.low, held + (look.low <= truth <= look.high), looks + 1
            if look.verdict != "undecided":
                break
        if look.verdict == "keep":
            kept += 1
            assert 0 < low < look.gain < look.high
    assert kept >= 40
    assert held >= 0.95 * looks


def test_five_fresh_runs_that_vary_much_have_an_interval() -> None:
    session, verdicts, *_ = play(0, [4.0])
    assert verdicts == ["keep"]
    numbers = [*session.to_confirm]
    differences = [3.0, -9.0, 12.0, 9.0, 5.0]
    session.champion.scores.update(
        {number: session.baseline.scores[number] + gain for number, gain in zip(numbers, differences, strict=True)}
    )
    session.confirm()
    step, error = session.path[-1], np.std(differences, ddof=1) / math.sqrt(5)
    assert step.confirmed == pytest.approx(4.0)
    assert step.high - step.confirmed == pytest.approx(2.776 * error, rel=1e-3)  # Student's t with 4 degrees
    # Of a loss, with one failed run; the others vary less than was learned.
    degrees, session.rules = session.noise.estimate().degrees, replace(RULES, sign=-1.0)
    session.champion.scores.update({number: session.baseline.scores[number] - 2 for number in numbers})
    session.champion.scores[numbers[0]] = math.nan
    session.confirm()
    step, noise = session.path[-1], session.noise_of()
    assert noise.degrees == degrees + 3
    estimate = Estimate(2.0, 2 * (1 - noise.correlation) / 4, noise.std, noise.degrees)
    limits = confidence_sequence(estimate, RULES.effect, 1 - RULES.alpha)
    assert (step.confirmed, step.low, step.high) == pytest.approx((2.0, *limits))


@pytest.mark.usefixtures("without_intervals")
def test_what_is_better_is_kept_and_little_else_at_few_runs() -> None:
    """Five of 60 are better by two deviations of a run: nine of ten are kept, at three runs a candidate.

    Half a run of it confirms: the baseline, too, is run with seeds that decided nothing.
    """
    gains = [2.0 if number % 12 == 5 else 0.0 for number in range(60)]
    played = [play(seed, gains) for seed in range(6)]
    kept = [
        [gain for gain, verdict in zip(gains, verdicts, strict=True) if verdict == "keep"] for _, verdicts, *_ in played
    ]
    assert sum(each.count(2.0) for each in kept) >= 27
    assert sum(each.count(0.0) for each in kept) == 0
    assert np.mean([runs for *_, runs, _ in played]) <= 2.9 * 60
    claimed = [session.path[-1].confirmed - mean for session, _, _, mean in played]
    assert abs(np.mean(claimed)) < 3 * math.sqrt(2 / 5) / math.sqrt(6)
    inside = [session.path[-1].low <= mean <= session.path[-1].high for session, _, _, mean in played]
    assert sum(inside) >= 5


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_a_gain_of_very_many_standard_deviations_is_kept_after_few_runs(correlation: float) -> None:
    for gain in (20.0, 200.0, 10_000.0, 100_000.0):
        assert play(1, [gain], correlation=correlation)[1:3] == (["keep"], pytest.approx(36, abs=4))
        assert play(1, [-gain], correlation=correlation)[1] == ["reject"]


def test_candidates_that_vary_otherwise_than_the_baseline_count_with_their_own_variance() -> None:
    """One whose six runs happen to lie close together is as lucky as those before it, which vary five times as much.

    Without that, one of three sessions of 300 such candidates kept one that was no better.
    """
    random, learned = np.random.default_rng(4), NoiseSoFar(shares_seeds=False)
    champion = random.standard_normal(40)
    learned.add_champion(champion[:20])
    for _ in range(60):
        learned.add_candidate(5 * random.standard_normal(5), champion[:5])
    close = np.array([-1.5, -1.0, -0.5, 0.5, 1.0, 1.5])

    def evidence(gain: float, spread: float) -> float:
        scores = dict(enumerate(champion.mean() + gain + spread * close))
        return assess(scores, dict(enumerate(champion)), learned.estimate(), RULES, 1e9).evidence

    def known(gain: float) -> float:
        estimate = Estimate(gain, 1 / 6 + 1 / 40, 5.0, math.inf)
        return (evidence_of_gain(estimate, 1.0) + evidence_of_gain(estimate, 4.0)) / 2

    for gain in (4.0, 8.0, 12.0):
        assert evidence(gain, 4.0) < 3 * known(gain)
        assert evidence(gain, 1.8) < 10 * known(gain)
    assert evidence(8.0, 40.0) < evidence(8.0, 12.0) < evidence(8.0, 4.0)
    assert evidence(1e9, 1e9) == 0


@pytest.mark.parametrize(
    ("name", "noise"),
    [
        ("runs of a candidate that vary eight times as much", lambda random: 8 * random.standard_normal()),
        ("one of ten collapses", lambda random: -5.0 if random.random() < 0.1 else 0.55),
        ("one of ten is lucky", lambda random: 5.0 if random.random() < 0.1 else -0.55),
    ],
)
@pytest.mark.usefixtures("without_intervals")
def test_other_luck_is_no_gain(name: str, noise: Draw) -> None:
    """No gain anywhere: of 4 sessions with 30 candidates each one at most keeps any; at alpha 5 % one in 20 may."""
    verdicts = [verdict for seed in range(4) for verdict in play(seed, [0.0] * 30, noise=noise)[1]]
    assert verdicts.count("keep") <= 1, name


@pytest.mark.slow
@pytest.mark.usefixtures("without_intervals")
def test_the_gain_has_the_variance_that_is_written() -> None:
    random, correlation, gains = np.random.default_rng(5), 0.7, []
    noise = Noise(1.0, correlation, 200.0)
    for _ in range(3000):
        luck = random.standard_normal(12)
        champion, candidate = (
            math.sqrt(correlation) * luck + math.sqrt(1 - correlation) * random.standard_normal(12) for _ in range(2)
        )
        look = assess(dict(enumerate(candidate[:4])), dict(enumerate(champion)), noise, RULES, 100.0)
        gains.append(look.gain)
    error = math.sqrt((1 - 0.49) / 4 + 0.3**2 / 12)
    assert look.error == pytest.approx(error, rel=0.1)  # more if the champion's runs vary more
    assert look.error >= error
    assert np.std(gains) == pytest.approx(error, rel=0.04)
    assert np.mean(gains) == pytest.approx(0, abs=4 * error / math.sqrt(3000))


def test_a_champion_that_varies_more_than_its_candidates_counts_with_its_variance() -> None:
    """Without that, 11 of 100 sessions of 100 such candidates kept one that was no better."""
    random, noise = np.random.default_rng(3), Noise(0.5, 0.0, 300.0)
    champion = dict(enumerate(3 * random.standard_normal(20)))
    look = assess({20 + number: 0.3 * random.standard_normal() for number in range(5)}, champion, noise, RULES, 100.0)
    assert look.error >= np.std([*champion.values()], ddof=1) / math.sqrt(20)


def test_a_candidate_that_fails_where_the_champion_does_not_is_not_kept() -> None:
    champion, noise = dict.fromkeys(range(12), 0.0), Noise(1.0, 0.5, 50.0)
    scores = dict.fromkeys(range(9), 9.0)
    assert assess(scores, champion, noise, RULES, 100.0).verdict == "keep"
    assert assess({**scores, 9: math.inf}, champion, noise, RULES, 100.0).verdict == "reject"


def test_equal_scores_in_every_run_are_no_gain() -> None:
    champion = {number: float(number) for number in range(20)}
    noise = Noise(std=6.0, correlation=0.5, degrees=30.0)
    look = assess({number: champion[number] for number in range(7)}, champion, noise, RULES, 100.0)
    assert look.gain == 0
    assert look.low == pytest.approx(-look.high)


def test_noise_is_learned_from_champions_and_candidates_and_one_that_collapses_spoils_nothing() -> None:
    random, learned = np.random.default_rng(2), NoiseSoFar()
    luck = random.standard_normal(400)
    champion = 3 + 2 * (math.sqrt(0.6) * luck + math.sqrt(0.4) * random.standard_normal(400))
    learned.add_champion(champion[:20])
    first = learned.estimate()
    assert (first.degrees, first.correlation) == (19, 0.5)
    for start in range(0, 400, 4):
        part = slice(start, start + 4)
        own = 2 * (math.sqrt(0.6) * luck[part] + math.sqrt(0.4) * random.standard_normal(4))
        learned.add_candidate(own if start else own * np.array([1, 1, 1, 500]), champion[part])
    noise = learned.estimate()
    assert noise.std == pytest.approx(2.0, rel=0.15)
    assert noise.correlation == pytest.approx(0.6, abs=0.12)
    prior = Spread.of_baseline(1.0, 19.0)
    likely = prior.weights * stats.chi2.pdf(4 / _RATIOS, 3) / _RATIOS
    assert prior.after(4.0, 3.0).weights - prior.weights == pytest.approx(likely / likely.sum())
    independent = NoiseSoFar(shares_seeds=False)
    independent.add_champion([1.0, 2.0])
    assert independent.estimate().correlation == 0


def test_failed_runs_decide_nothing_but_are_paid() -> None:
    champion, noise = dict.fromkeys(range(8), 0.0), Noise(1.0, 0.5, 20.0)
    failing = [assess(dict.fromkeys(range(runs), math.nan), champion, noise, RULES, 100.0) for runs in (1, 4, 5)]
    assert [each.verdict for each in failing] == ["undecided", "undecided", "reject"]
    some = {0: math.nan, 1: 3.0, 2: math.nan, 3: 3.0}
    whole = assess({1: 3.0, 3: 3.0}, champion, noise, RULES, 100.0)
    assert assess(some, champion, noise, RULES, 100.0) == whole
    assert (whole.runs, whole.verdict) == (2, "undecided")  # however large the gain: five runs at least


def test_scores_without_any_spread_have_that_of_one_test_example() -> None:
    """Equal scores of nearly deterministic systems: five runs do not keep a gain of less than one test example."""
    champion, still = dict.fromkeys(range(10), 0.5), Noise(0.0, 0.0, 9.0)
    look = assess(dict.fromkeys(range(5), 0.507), champion, still, Rules(effect=0.01, step=0.01), 1000.0)
    assert look.error == pytest.approx(2 * 0.01 / 9)
    assert look.verdict == "undecided"
    assert (
        assess(dict.fromkeys(range(5), 0.6), champion, still, Rules(effect=0.01, step=0.01), 1000.0).verdict == "keep"
    )


def test_smaller_is_better_turns_the_gain() -> None:
    noise, champion = Noise(1.0, 0.0, 50.0), {0: 5.0, 1: 6.0}
    up = assess({2: 9.0}, champion, noise, RULES, 100.0)
    down = assess({2: 9.0}, champion, noise, Rules(effect=1.0, sign=-1.0), 100.0)
    assert (down.gain, down.low, down.high) == (-up.gain, -up.high, -up.low)
    assert down.verdict == "reject"


def test_more_runs_are_foretold() -> None:
    noise, champion = Noise(1.0, 0.8, 100.0), dict(enumerate(np.tile([-1.0, 0.0, 1.0], 10)))
    rules = Rules(effect=1.0)
    look = assess({number: champion[number] + 0.9 for number in range(3)}, champion, noise, rules, 1000.0)
    left = runs_left(look, rules, noise)
    assert look.verdict == "undecided"
    later = {number: champion[number] + 0.9 for number in range(3 + left + 4)}
    assert assess(later, champion, noise, rules, 1000.0).verdict == "keep"
    for number in range(left - 1, 3 + left + 4):
        del later[number]
    assert assess(later, champion, noise, rules, 1000.0).verdict == "undecided"


def test_a_session_is_what_its_records_say() -> None:
    """The same runs one after another, and read back at once, give the same noise and path."""
    session, verdicts, *_ = play(1, [0.0, 2.0, 0.0, 2.0])
    assert verdicts.count("keep") == 2
    again, *_ = play(1, [0.0, 2.0, 0.0, 2.0])
    assert again.path == session.path
    assert again.noise == session.noise


def test_fresh_runs_decided_nothing_nor_did_those_of_the_baseline_beside_them() -> None:
    session, verdicts, *_ = play(1, [2.0, 0.0])
    assert verdicts[0] == "keep"
    assert session.to_confirm.start == 20


def test_the_simulation_of_the_docs_plays_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    script = load_script("benchmarks/referee.py")
    ended = script.referee(
        script.Simulated(np.random.default_rng(0), 0.8), [0.0, 3.0, 0.0], replace(RULES, candidates=3)
    )
    assert (ended.kept, ended.false, ended.true) == (1, 0, 3.0)
    assert abs(ended.claimed - 3) < 1
