"""Differences of two systems: closed forms, equal systems, few rows, what cannot be decided, several scorers."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from judged_app import App
from scipy import stats

from mlflow_l3d.analysis.judged.difference import difference, differences, row_spread
from mlflow_l3d.errors import ParameterError

YES_NO = App(threshold=0.0)


def of_values(first, second):
    """Return tables of two systems that answered each row once."""
    sides = {name: {"row": range(len(values)), "value": values} for name, values in (("a", first), ("b", second))}
    answers = {name: [f"{name}{row}" for row in side["row"]] for name, side in sides.items()}
    return [pd.DataFrame({**side, "judge": "exact", "answer": answers[name]}) for name, side in sides.items()]


def pair(rng, app, rows, repeats=(1, 1), judges=1, prompts=1, shift=0.0, names=("a", "b")):
    """Return tables of two systems on the same rows by the same judges."""
    row = app.draw_rows(rng, rows, judges)
    shifts = shift, 0.0
    return [
        app.draw(rng, rows, count, judges, prompts, row=row, shift=by, names=name)
        for count, by, name in zip(repeats, shifts, names, strict=True)
    ]


def test_single_answers_have_the_paired_t_test(rng):
    first, second = rng.normal(size=(2, 30))
    found = difference(*of_values(first, second))
    known = stats.ttest_rel(first, second)
    limits = known.confidence_interval()
    assert found.difference == pytest.approx((first - second).mean())
    # One over the rows that differ raises the variance a little.
    assert found.error == pytest.approx((first - second).std(ddof=1) / math.sqrt(30) * math.sqrt(1 + 1 / 29))
    assert found.p == pytest.approx(known.pvalue, abs=0.01)
    assert (found.low, found.high) == pytest.approx((limits.low, limits.high), abs=0.02)


def test_repeats_are_averaged_within_a_row_and_judge(rng):
    a, b = pair(rng, App(), 20, (3, 2), judges=2)
    dropped = a[~((a["row"] == 4) & (a["judge"] == 1))]  # row 4 is compared by judge 0 alone
    means = [table.groupby(["row", "judge"])["value"].mean() for table in (dropped, b)]
    by_hand = (means[0] - means[1]).dropna().groupby("row").mean()
    found = difference(dropped, b)
    assert found.difference == pytest.approx(by_hand.mean())
    assert (found.repeats_first, found.repeats_second) == (3, 2)


def test_rows_of_one_side_are_counted_and_left_out(rng):
    a, b = pair(rng, App(), 20)
    found = difference(a[a["row"] < 15], b[b["row"] > 2])
    assert (found.rows, found.unpaired_first, found.unpaired_second) == (12, 3, 5)


@pytest.mark.parametrize("rows", [6, 20, 200])
def test_few_discordant_rows_are_not_evidence(rows):
    ones = np.ones(rows)
    same = difference(*of_values(ones, ones))
    assert (same.difference, same.verdict) == (0, "undecided")
    assert same.high > 1 - 0.05 ** (1 / rows) - 0.08  # what so many rows may hide
    for discordant in (1, 2, 3, 4, 5):
        some = ones.copy()
        some[:discordant] = 0
        found = difference(*of_values(some, ones))
        assert found.verdict == "undecided", discordant
        assert found.low < 0 < found.high


def test_differences_of_shares_are_at_most_one():
    found = difference(*of_values([1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 1, 0]))
    assert found.difference == pytest.approx(5 / 7)
    assert differences([found, found])[0].joint_high == found.high == 1
    numbers = difference(*of_values([10, 11, 12, 13, 11, 1, 0], [0, 0, 0, 0, 0, 1, 0]))
    assert numbers.high > 10


def test_equal_numbers_and_few_rows_decide_nothing():
    same = difference(*of_values([4] * 20, [4] * 20))
    assert (same.verdict, same.obstacle) == ("undecided", "all judgements are equal, so their luck is not known")
    few = difference(*of_values([1, 1, 1, 1, 1], [0, 0, 0, 0, 0.1]))
    assert few.obstacle == "only 5 of the 6 paired rows that are needed"
    none = difference(*of_values([1.0], [0.0]))
    assert math.isnan(none.p)
    a, b = of_values([1.0, 0.0], [0.0, 1.0])
    assert difference(a, b.assign(row=["x", "y"])).rows == 0


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [None, 0.0, -1.8, -3.0])
@pytest.mark.parametrize(("rows", "repeats"), [(20, (1, 1)), (60, (5, 1)), (200, (3, 3))])
def test_equal_systems_are_rarely_called_different(threshold, rows, repeats):
    rng, claims = np.random.default_rng(2), 0
    for _ in range(600):
        effects = rng.normal(size=rows)
        sides = [effects[:, None] + 0.8 * rng.normal(size=(rows, count)) for count in repeats]
        if threshold is not None:
            sides = [(side > threshold) * 1.0 for side in sides]
        first, second = (side.mean(axis=1) for side in sides)
        spread = row_spread(first, second, width=1.0)
        claims += abs((first - second).mean()) > stats.t.ppf(0.975, spread.degrees) * spread.error
    assert claims / 600 < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 600)


@pytest.mark.slow
def test_prompts_that_each_side_drew_are_luck(rng):
    app = App(prompt=0.8, row_prompt=0.2)
    claims = {"all prompts": 0, "one prompt": 0}
    for _ in range(20):
        a, b = pair(rng, app, 30, (2, 2), prompts=4)
        claims["all prompts"] += difference(a, b).verdict != "undecided"
        alone = [table[table["prompt"].str.endswith("0")] for table in (a, b)]
        found = difference(*alone)
        claims["one prompt"] += found.verdict != "undecided"
        assert found.notes[0].startswith("prompt: a side has one only")
    assert claims["all prompts"] <= 3
    assert claims["one prompt"] > 6


def test_several_prompts_of_one_side_count_there(rng):
    app = App(prompt=0.8)
    several, _ = pair(rng, app, 30, prompts=4)
    single, _ = pair(rng, app, 30)
    found = difference(several, single.assign(answer=single["answer"] + "-b"))
    assert found.notes[0].startswith("prompt: a side has one only")
    level_means = several.groupby("prompt")["value"].mean()
    assert found.error**2 > level_means.var() / 4
    assert found.degrees < 29
    assert (found.repeats_first, found.repeats_second) == (1, 1)


def test_judges_of_both_sides_are_kept_and_other_judges_are_no_evidence(rng):
    a, b = pair(rng, App(judge=2.0), 40, judges=3)
    found = difference(a, b)
    other = difference(a, b.assign(judge=b["judge"] + 3))
    assert other.error > 2 * found.error
    single = difference(a[a["judge"] == 0], b[b["judge"] == 1])
    assert single.verdict == "undecided"
    assert single.obstacle.startswith("the sides have different judges")
    mixed = difference(a, b[b["judge"] > 0])
    assert "judges that rated both sides count: 2" in mixed.notes[0]


def test_equivalence_needs_the_interval(rng):
    a, b = pair(rng, App(row=1.0, answer=0.2, rest=0.1), 100, (3, 3))
    wide, narrow = difference(a, b, smallest_effect=0.2), difference(a, b, smallest_effect=0.001)
    assert (wide.verdict, narrow.verdict) == ("equivalent", "undecided")
    worse = difference(a.assign(value=a["value"] - 1), b, smallest_effect=0.2)
    assert worse.verdict == "worse"
    flipped = difference(a.assign(value=a["value"] - 1), b, smallest_effect=0.2, higher_is_better=False)
    assert flipped.verdict == "better"
    with pytest.raises(ParameterError, match="smallest_effect=0"):
        difference(a, b, smallest_effect=0)


def test_as_many_rows_as_needed_have_the_power(rng):
    app, shift = App(answer=0.7, rest=0.5), 0.4
    large = difference(*pair(rng, app, 400, (3, 3), shift=shift), smallest_effect=shift)
    plan = large.needed.set_index("repeats")
    assert plan["rows"].is_monotonic_decreasing
    assert large.rows_needed[0.8] == pytest.approx(plan["rows"][3], rel=0.1)
    rows, claims = int(plan["rows"][1]), 0
    for _ in range(150):
        first, second = (rng.normal(by, math.hypot(0.7, 0.5), size=rows) for by in (shift, 0))
        spread = row_spread(first, second, width=5.0)
        claims += (first - second).mean() > stats.t.ppf(0.975, spread.degrees) * spread.error
    assert claims / 150 == pytest.approx(0.8, abs=0.1)
    single = difference(*pair(rng, app, 50))
    assert single.needed.empty  # nothing is known of repeats


def test_several_scorers_are_adjusted_together(rng):
    alone = [difference(*pair(rng, YES_NO, 60, shift=by)) for by in (0.0, 0.6, 1.5)]
    together = differences(alone)
    order = np.argsort([each.p for each in alone])
    assert together[order[0]].p_adjusted == pytest.approx(min(1, 3 * alone[order[0]].p))
    for one, each in zip(alone, together, strict=True):
        assert each.joint_low < one.low < one.high < each.joint_high
        others = vars(one).keys() - {"p_adjusted", "joint_low", "joint_high"}
        assert all(getattr(each, name) is getattr(one, name) for name in others)
    assert together[2].verdict == "better"
    unknown = difference(*of_values([4] * 20, [4] * 20))
    assert differences([alone[2], unknown])[0].joint_low == pytest.approx(alone[2].low)


def test_the_interval_of_a_claim_excludes_the_other_sign(rng):
    """Holm's test claims more than Bonferroni's intervals: a difference was better, and its interval contained 0."""
    alone = [difference(*pair(rng, YES_NO, 60, shift=by)) for by in (0.0, 0.6, 1.5)]
    strong, weak = max(alone, key=lambda each: abs(each.difference)), replace(alone[1], p=0.02)
    for sign in (1, -1):
        close = replace(weak, difference=sign * 0.2, error=0.2 / 2.2, largest=math.inf)
        found = differences([close, replace(strong, p=1e-9), replace(strong, p=1e-9)])[0]
        assert found.verdict == ("better" if sign > 0 else "worse")
        assert min(abs(found.joint_low), abs(found.joint_high)) == 0 < max(found.joint_high, -found.joint_low)
        assert found.joint_low * sign >= 0 <= found.joint_high * sign


def test_signs_and_equivalences_share_one_error_rate():
    """Beside a certain sign, another one took 5 % and a false equivalence of the first 1.25 % more."""
    found = difference(*of_values([1.0, 2, 3, 4, 5, 9], [0.0] * 6))
    for effect, p in ((math.nan, 0.04), (0.1, 0.04 / 0.75)):
        pair = [replace(found, p=p_value, smallest_effect=effect) for p_value in (1e-9, 0.04)]
        assert [each.p_adjusted for each in differences(pair)] == pytest.approx([2e-9, p])


def test_sides_on_two_scales_are_named(rng):
    share, points = of_values(rng.random(20), 100 * rng.random(20))
    assert any("different scales" in note for note in difference(share, points).notes)
    assert not any("different scales" in note for note in difference(*of_values([0, 0.5] * 9, [1, 0.2] * 9)).notes)


def test_notes_name_failures_and_shared_answers(rng):
    a, b = pair(rng, YES_NO, 20)
    failed = a.assign(failed=["answer", *[""] * 19])
    assert "Left out of the first: 1 failed answer." in difference(failed, b).notes
    again = difference(a, a.assign(value=1 - a["value"]))
    assert any("same answers" in note for note in again.notes)
