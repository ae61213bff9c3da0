"""Several systems, several tasks, and a system against itself."""

import math

import numpy as np
import pytest
from comparison_cases import answers, scored, system
from drawn_tables import covered

from mlflow_l3d.analysis.comparison import compare_systems, halves, swapped
from mlflow_l3d.analysis.comparison.difference import contrasts, correlations, p_value, spread
from mlflow_l3d.analysis.comparison.families import joint_level, joint_p_values, over_tasks, ranks
from mlflow_l3d.analysis.comparison.system import mean_scores
from mlflow_l3d.analysis.importance.multiplicity import holm
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.known import named

ACCURACY = named("accuracy")


def two_systems(rng, runs, examples):
    one, other = answers(rng, runs, examples, (0.9, 0.6))
    return [system(one, name="A"), system(other, name="B")]


def family(systems):
    means = mean_scores(systems)
    pairs, matrix = contrasts(len(systems))
    spreads = [spread(means, *pair) for pair in pairs]
    alone = [p_value(gap, found) for gap, found in zip(matrix @ means.means, spreads, strict=True)]
    return alone, correlations(means, spreads), spreads


def test_joint_p_values_lie_between_those_alone_and_holms(rng):
    alone, correlation, spreads = family([scored(rng.normal(at / 4, 1, 15), range(15)) for at in range(4)])
    joint = joint_p_values(alone, [(correlation, spreads)])
    assert (joint >= alone).all()
    assert (joint <= holm(alone)).all()
    assert (joint < holm(alone)).any()
    # Next to equivalences, signs come from the same intervals. If signs keep half of their level, as in Holm's method,
    # up to 6 % of families of correlated pairs have a false claim.
    in_one_step = joint_p_values(alone, [(correlation, spreads)], in_one_step=True)
    for alpha in (0.001, 0.05, *joint):
        claimed = np.array(alone) <= 1 - joint_level([(correlation, spreads)], 1 - alpha)
        assert (in_one_step <= alpha).tolist() == claimed.tolist()
    assert 0.95 < joint_level([(correlation, spreads)], 0.95) < 1 - 0.05 / 6
    assert correlation.diagonal() == pytest.approx(1)


def test_one_pair_is_not_adjusted(rng):
    alone, correlation, spreads = family([scored(rng.normal(size=9), range(9)) for _ in range(2)])
    assert joint_p_values(alone, [(correlation, spreads)]).tolist() == alone
    assert joint_level([(correlation, spreads)], 0.9) == 0.9


def test_tasks_share_one_error_rate(rng):
    runs = range(9)
    pairs = [[scored(rng.normal(size=9), runs, "A"), scored(rng.normal(size=9), runs, "B")] for _ in range(3)]
    families = [family(pair)[1:] for pair in pairs]
    assert joint_level(families, 0.95) == pytest.approx(0.95 ** (1 / 3), abs=0.002)  # Sidak: tasks are independent
    assert joint_p_values([0.2, 0.4, 0.6], families) == pytest.approx([1 - 0.8**3, 1 - 0.6**2, 1 - 0.6**2], abs=0.01)
    one = scored([0.8, 0.9, 1.0, 0.8, 0.9], range(5), "A"), scored([0.7, 0.9, 0.9, 0.78, 0.82], range(5), "B")
    found = [compare_systems(dict.fromkeys(names, one), ACCURACY) for names in ("x", "xyz")]
    verdicts = [{each.verdict for each in comparison.differences} for comparison in found]
    assert verdicts == [{"better"}, {"undecided"}]


@pytest.mark.slow
def test_of_equal_systems_at_most_one_family_in_twenty_has_a_claim(rng):
    claims, families = 0, 50
    for _ in range(families):
        alone, correlation, spreads = family([system(right) for right in answers(rng, 20, 40, [0.8] * 4)])
        claims += joint_p_values(alone, [(correlation, spreads)]).min() <= 0.05
    assert claims / families <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / families)


def test_ranks_count_what_is_certain():
    assert ranks([("a", "b"), ("a", "c")], ["a", "b", "c"]) == {"a": (1, 1), "b": (2, 3), "c": (2, 3)}


def test_systems_that_differ_have_ranks_and_letters_of_their_own(rng):
    high, middle, low = answers(rng, 30, 300, (0.9, 0.89, 0.6))
    systems = [system(right, name=name) for right, name in ((low, "low"), (high, "high"), (middle, "middle"))]
    found = compare_systems({"task": systems}, ACCURACY)
    frame = found.ranks_frame().set_index("system")
    assert frame.loc["low", ["rank_low", "rank_high", "group"]].tolist() == [3, 3, "b"]
    assert frame.loc["high", "rank_low"] == 1
    verdicts = found.to_frame().set_index(["first", "second"])["verdict"]
    assert verdicts["low", "high"] == verdicts["low", "middle"] == "worse"
    assert found.metrics()["difference/low-high"] < -0.2


def test_smaller_is_better_where_the_metric_says_so(rng):
    one, other = (scored(rng.normal(at, 0.1, 12), range(12), name) for at, name in ((1, "A"), (2, "B")))
    found = compare_systems({"task": [one, other]}, named("mse"))
    first = found.differences[0]
    assert (first.verdict, first.difference < 0) == ("better", True)
    assert first.probability_better > 0.99
    assert first.pair_wins.value == 1
    assert [(each.system, each.low, each.high) for each in found.ranks] == [("A", 1, 1), ("B", 2, 2)]


def test_a_difference_within_the_smallest_effect_is_equivalent(rng):
    base = rng.normal(0, 0.1, 50)
    systems = [scored(base + rng.normal(0, 0.01, 50), range(50), name) for name in "AB"]
    assert compare_systems({"t": systems}, ACCURACY).differences[0].verdict != "equivalent"
    found = compare_systems({"t": systems}, ACCURACY, smallest_effect=0.05)
    assert found.differences[0].verdict == "equivalent"


def test_two_runs_are_too_few():
    with pytest.raises(ParameterError, match=r"runs=B \(t\): has 2 runs with a score; 3 are needed"):
        compare_systems({"t": [scored(range(3), name="A"), scored(range(2), name="B")]}, ACCURACY)


def test_over_tasks_a_published_case():
    # Thirteen trials of the BCG vaccine (Berkey et al. 1995): Paule and Mandel's variance is .318, the mean -.715.
    log_risks = "-.8893 -1.5854 -1.3481 -1.4416 -.2175 -.7861 -1.6209 .0120 -.4694 -1.3713 -.3394 .4459 -.0173"
    variances = ".3256 .1946 .4154 .0200 .0512 .0069 .2230 .0040 .0564 .0730 .0124 .5325 .0714"
    log_risks, variances = (np.array(text.split(), dtype=float) for text in (log_risks, variances))
    found = over_tasks(log_risks, np.sqrt(variances))
    assert found.task_std**2 == pytest.approx(0.318, abs=0.001)
    assert found.difference == pytest.approx(-0.715, abs=0.001)
    assert found.low == pytest.approx(-1.108, abs=0.005)
    assert found.high == pytest.approx(-0.322, abs=0.005)


def test_over_tasks_that_agree_the_interval_is_that_of_their_own_luck():
    found = over_tasks([0.1, 0.1, 0.1], [0.02, 0.02, 0.02])
    assert found.task_std == 0
    assert found.high - found.difference == pytest.approx(4.3027 * 0.02 / math.sqrt(3), rel=1e-4)
    assert found.weights == pytest.approx((1 / 3,) * 3)


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "between"), [(3, 0.0), (3, 0.05), (8, 0.05)])
def test_over_tasks_the_interval_holds_the_truth(rng, tasks, between):
    intervals = []
    for _ in range(500):
        errors = rng.uniform(0.005, 0.03, tasks)
        found = over_tasks(0.02 + between * rng.normal(size=tasks) + errors * rng.normal(size=tasks), errors)
        intervals.append((found.low, found.high))
    assert covered(intervals, 0.02) >= 0.92


def test_over_tasks_systems_are_equivalent_if_the_limits_of_all_pairs_together_lie_within_the_effect(rng):
    tasks = {task: [scored(0.7 + 0.01 * rng.normal(size=8), name=name) for name in "ABC"] for task in "xy"}
    of_pair = [each for each in compare_systems(tasks, ACCURACY).differences if (each.first, each.second) == ("A", "B")]
    limits = over_tasks([each.difference for each in of_pair], [each.spread.error for each in of_pair], 1 - 0.05 / 3)
    edge = max(-limits.low, limits.high)
    verdicts = [
        compare_systems(tasks, ACCURACY, smallest_effect=edge * at).over_tasks[0].verdict for at in (0.99, 1.01)
    ]
    assert verdicts == ["undecided", "equivalent"]


def test_two_tasks_make_a_mean_of_each_pair(rng):
    found = compare_systems({task: two_systems(rng, 12, 60) for task in ("x", "y")}, ACCURACY)
    metrics = found.metrics()
    assert {"difference", "difference/x", "difference/y", "runs_needed_80/x"} <= set(metrics)
    frame = found.over_tasks_frame()
    assert frame["tasks"].tolist() == [2]
    assert [each.task for each in found.ranks] == ["x", "x", "y", "y", "", ""]


@pytest.mark.parametrize(("effect", "kept"), [(math.nan, 0.0), (0.5, 0.5)])
def test_signs_and_equivalences_over_tasks_share_one_error_rate(rng, effect, kept):
    tasks = {task: [scored(rng.normal(at, 1, 9), name=name) for at, name in enumerate("ABC")] for task in "xy"}
    found = compare_systems(tasks, named("mse"), smallest_effect=effect).over_tasks
    assert [each.p_adjusted for each in found] == pytest.approx(holm([each.found.p for each in found], kept=kept))


@pytest.mark.slow
def test_a_system_against_itself_claims_no_more_than_the_level_allows(rng):
    claims = repeats = 0
    for seed in range(6):
        one, other = two_systems(rng, 24, 40)
        for found in (
            halves(one, 60, seed=seed),
            swapped(one, other, mean_scores([one, other]).pairings[0, 1], 60, seed=seed),
        ):
            claims += found.claims
            repeats += found.repeats
    assert repeats == 720
    assert claims / repeats <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / repeats)
    assert claims > 0


def test_a_check_that_fails_says_so():
    check = halves(scored(np.repeat([0.0, 1.0], 10), range(20)), 50, seed=1)
    assert check.holds
    assert not check.__class__("A", 100, 20, 0.05).holds
    assert check.__class__("A", 100, 20, 0.05).rate == 0.2
