"""What a trained remedy shows: the ratio of the spreads, the difference of the means, and the verdict."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from cure_cases import answer_of, known, page_of

from mlflow_l3d.analysis.cure import NO_PREDICTIONS, UNKNOWN, Prediction, Range, Remedy
from mlflow_l3d.analysis.cure.examples import other_labels
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.cure.numbers import Verified, against_collapse, spread_ratio, verify
from mlflow_l3d.studies.cure.report import headline, trained_table, verified_table

NOTHING = Verified(prediction=Prediction(remedy=Remedy("vote", ("a",), 5), basis="exact"), run_id="r", runs=0)


def test_numbers_are_those_of_the_pairs_with_two_scores() -> None:
    random = np.random.default_rng(1)
    plain = 0.6 + 0.05 * random.standard_normal(30)
    cured = 0.65 + 0.4 * (plain - 0.6) + 0.005 * random.standard_normal(30)
    with_gaps = np.append(plain, [math.nan, 0.5]), np.append(cured, [0.5, math.nan])
    made = replace(NOTHING.prediction, std=Range(0.04, 0.03, 0.05), std_before=2 * plain.std(ddof=1))
    verified = verify(replace(NOTHING, prediction=made), *with_gaps)
    assert verified.prediction.std == pytest.approx((0.02, 0.015, 0.025))  # predicted of runs that vary twice as much
    assert verified.prediction.std_before == verified.plain.value
    assert (verified.runs, verified.failed) == (30, 2)
    assert verified.plain.value == pytest.approx(plain.std(ddof=1))
    assert verified.ratio.value == pytest.approx(cured.std() / plain.std())
    difference = cured - plain
    half = 2.045229642 * difference.std(ddof=1) / math.sqrt(30)
    assert verified.mean_change == pytest.approx(
        (difference.mean(), difference.mean() - half, difference.mean() + half)
    )
    assert verified.less_spread == "verified"
    assert verified.mean_kept(0.01, 1.0) == "verified"
    assert verified.mean_kept(0.01, -1.0) == "refuted"  # a larger error, by more than the smallest effect
    equal = verify(replace(NOTHING, prediction=made), np.full(9, 0.5), cured[:9])
    assert (equal.plain.value, math.isnan(equal.prediction.std.value)) == (0.0, True)
    assert [row[2] for row in verified_table(equal, answer_of(equal)).rows[:2]] == ["n/a"] * 2
    wider = verify(NOTHING, *with_gaps, level=0.99)
    assert wider.ratio.low < verified.ratio.low < verified.ratio.high < wider.ratio.high
    assert wider.mean_change.low < verified.mean_change.low


@pytest.mark.parametrize(
    ("ratio", "change", "spread", "mean"),
    [
        (Range(0.5, 0.3, 0.9), Range(0.0, -0.009, 0.009), "verified", "verified"),
        (Range(0.5, 0.3, 0.9), Range(-0.01, -0.02, 0.0), "verified", "open"),
        (Range(0.5, 0.3, 1.1), Range(0.05, 0.04, 0.06), "open", "verified"),
        (Range(0.5, 0.3, 0.9), Range(-0.02, -0.03, -0.001), "verified", "refuted"),
        (Range(1.5, 1.1, 1.9), Range(0.05, 0.04, 0.06), "refuted", "verified"),
        (Range(), Range(), "open", "open"),
    ],
)
def test_less_spread_and_the_mean_are_two_statements(ratio: Range, change: Range, spread: str, mean: str) -> None:
    verified = replace(NOTHING, runs=9, ratio=ratio, mean_change=change)
    assert (verified.less_spread, verified.mean_kept(0.01, 1.0)) == (spread, mean)
    answer = answer_of(verified)
    assert (answer.best is verified) is (spread == "verified" and mean != "refuted")
    words = headline(answer)
    if spread == "open" and mean == "verified":
        assert (
            words == "A vote of 5 runs differing in a. Less spread: not shown (50 %, 30 to 110). Mean not lower: shown."
        )
    assert words.startswith("Verified:") is (answer.best is not None)
    assert ("whether the mean is lower is open" in words) is (answer.best is not None and mean == "open")


def test_a_range_from_other_sizes_is_written_without_a_point() -> None:
    made = Prediction(remedy=other_labels(60, 120), basis="extrapolated")
    made = replace(made, std=Range(math.nan, 0.06, 0.12), mean_change=Range(math.nan, -0.01, 0.2))
    scaled = replace(made, std=Range(math.nan, 0.03, 0.06))
    trained = replace(NOTHING, prediction=scaled, runs=9, plain=Range(0.05), cured=Range(0.04), mean_change=Range(0.08))
    answer = answer_of(trained, predictions=(made,))
    assert trained_table(answer).rows[0][1:3] == ("4.00 (3.00 to 6.00)", "+8.00 (-1.00 to +20.00)")
    page = page_of(answer).to_html()
    assert "6.00 to 12.00" in page
    assert "Agree and fragile compare at most 18 choices" in page


def test_an_open_mean_is_named_only_if_no_other_remedy_keeps_it() -> None:
    kept = replace(NOTHING, ratio=Range(0.6, 0.5, 0.9), mean_change=Range(0.0, -0.009, 0.01), failed=2, runs=9)
    open_mean = replace(NOTHING, ratio=Range(0.3, 0.2, 0.9995), mean_change=Range(-0.01, -0.02, 0.0), runs=11)
    answer = answer_of(open_mean, kept)
    assert answer.best is kept
    rows = trained_table(answer).rows
    assert [row[-1] for row in rows] == ["11 pairs", "9 pairs, 2 failed"]
    titles = [verified_table(each, answer).title for each in answer.verified]
    assert "less spread shown, mean not lower not shown (11 pairs)" in titles[0]
    cells = [cell for row in verified_table(open_mean, answer).rows for cell in row]
    assert any("99.95" in cell for cell in cells)  # no rounding makes it 100


def test_a_reason_below_the_table_is_no_note_too() -> None:
    vote = replace(NOTHING.prediction, std=Range(0.02, 0.01, 0.03), mean_change=Range(0.0), std_before=0.1)
    labels = Prediction(remedy=other_labels(60, 120), basis="unknown", reason="unknown until verified")
    reasons = ("120 labelled examples in place of 60: unknown until verified.", "All base runs try the same seeds.")
    document = page_of(answer_of(predictions=(vote, labels), reasons=reasons))
    assert (document.to_text().replace("\n", " ").count(reasons[0]), document.notes) == (1, [reasons[1]])


def test_a_cure_that_can_verify_nothing_has_a_next_step() -> None:
    (predict,), (compare,) = (page_of(answer_of(reasons=why)).steps for why in ((NO_PREDICTIONS,), ()))
    assert predict.text.startswith("Let runs give predictions (example_id, label, prediction)")
    assert compare.command == "mlflow-l3d compare --runs p,RUN_ID"


def test_collapse_comes_first_and_names_what_is_for_it() -> None:
    longer, restarts = (
        Prediction(remedy=Remedy("training", changes=changes, words=words), basis="unknown")
        for words, changes in (("longer training (20 epochs)", {"epochs": 20}), ("restarts", {"restarts": 3}))
    )
    vote = replace(NOTHING.prediction, std=Range(0.02, 0.01, 0.03), mean_change=Range(0.1, 0.05, 0.15), std_before=0.1)
    document = page_of(answer_of(predictions=(vote, restarts, longer), collapsed=20, runs=20))
    assert document.headline == "First beat guessing: 20 of 20 runs are no better."
    assert document.answers[0].lead.startswith("**Restarts** may help, which is unknown until verified.")
    tried = replace(restarts, basis="exact")
    assert against_collapse([vote, tried, longer]) is longer
    assert against_collapse([vote]) is None


def test_more_golden_runs_are_asked_of_the_parameter_that_makes_them() -> None:
    unsure = replace(NOTHING, ratio=Range(0.9, 0.5, 1.1), mean_change=Range(0.0, -0.009, 0.01), runs=20)
    answer = answer_of(unsure, stored=20, is_pooled=True)
    source = Source(run_id="p", approach="head", given={"task": "trec", "design": "radial", "mitigation_runs": "20"})
    more, then = (step.command for step in page_of(answer, source).steps)
    assert more == "mlflow-l3d investigate trec --design radial --mitigation-runs 80"
    # Without its id, what is typed after another investigation takes that one.
    assert then == "mlflow-l3d cure RUN_ID --verify 1 --runs 80 --remedy 'vote of 5 runs over a'"


def test_more_golden_runs_are_not_asked_before_what_is_for_collapse_is_tried() -> None:
    unsure = replace(NOTHING, ratio=Range(0.99, 0.9, 1.1), mean_change=Range(0.03, 0.02, 0.04), runs=20)
    longer = Prediction(
        remedy=Remedy("training", changes={"epochs": 20}, words="longer training (20 epochs)"), basis="unknown"
    )
    counts = {"stored": 20, "collapsed": 14, "tried": (NOTHING.prediction.remedy,), "upcoming": (longer,)}
    answer = answer_of(unsure, predictions=(longer,), **counts)
    (step,) = page_of(answer).steps
    said = "Tried: a vote of 5 runs differing in a. Verify longer training (20 epochs):"
    assert (step.text, step.command) == (said, "mlflow-l3d cure p --verify 2")
    assert headline(replace(answer, runs=20)).endswith("shown. First beat guessing: 14 of 20 runs are no better.")
    asked, _ = page_of(replace(answer, upcoming=())).steps
    assert asked.text == "More golden runs may settle it:"


def test_more_golden_runs_are_not_asked_of_a_remedy_that_changes_none() -> None:
    same = np.linspace(0.5, 0.6, 20)
    restarts = verify(NOTHING, same, same)
    (step,) = page_of(answer_of(restarts, stored=80, tried=(NOTHING.prediction.remedy,))).steps
    assert (step.text, step.command) == ("Tried: a vote of 5 runs differing in a:", "mlflow-l3d cure p --verify 1")


def test_more_data_that_help_are_named_if_no_training_does() -> None:
    vote = replace(NOTHING.prediction, std=Range(0.1), std_before=0.1, ratio=Range(1.0, 0.9, 1.1))
    words = "120 test examples in place of 60"
    more = known(
        Remedy("more_data", changes={"test_size": 120}, words=words),
        Range(0.07, 0.06, 0.08),
        mean_change=Range(0, 0, 0),
    )
    answer = answer_of(predictions=(vote, more))
    assert headline(answer) == "No change of the training that these runs can predict leaves clearly less luck."
    lead = page_of(answer).answers[0].lead
    assert lead.endswith("120 test examples in place of 60 leaves ± 7.0 of ± 10.0 points (60 to 80 %); mean +0.0.")


def test_of_remedies_that_show_nothing_the_one_with_the_least_spread_is_named() -> None:
    first, second = (
        replace(
            NOTHING,
            prediction=replace(NOTHING.prediction, remedy=Remedy("vote", ("a",), members)),
            ratio=Range(ratio, 0.8, 1.1),
            mean_change=Range(0.003, 0.0, 0.006),
            runs=20,
        )
        for members, ratio in ((5, 0.94), (7, 0.91))
    )
    lower = replace(second, ratio=Range(0.5, 0.3, 1.1), mean_change=Range(-0.3, -0.4, -0.2))
    unknown = replace(second, ratio=Range())
    answer = answer_of(unknown, lower, first, second, stored=80)
    assert answer.ranked == [second, first, unknown, lower]
    document = page_of(answer)
    assert document.headline.startswith("A vote of 7 runs differing in a. Less spread: not shown (91 %")
    assert '<div class="table  many">' in document.to_html(), "cards on a phone"
    assert document.steps[0].command == "mlflow-l3d cure p --verify 1 --runs 80 --remedy 'vote of 7 runs over a'"


def test_few_collapsed_runs_verify_and_refute_nothing() -> None:
    random = np.random.default_rng(0)
    plain, cured = (0.8 + 0.02 * random.standard_normal(60) for _ in range(2))
    plain[:4] = 0.33
    few = verify(NOTHING, plain, cured / 2 + 0.4, chance=0.5)
    assert (few.collapsed, few.less_spread) == (4, "open")
    assert few.ratio.high < 1
    answer = answer_of(few, metric=named("f1_macro"))
    assert "4 of 120 runs collapsed: intervals may be too short" in headline(answer)
    assert verify(NOTHING, cured / 2 + 0.4, plain, chance=0.5).less_spread == "open"
    plain[:6] = 0.33
    enough = verify(NOTHING, plain, cured / 2 + 0.4, chance=0.5)
    assert (enough.collapsed, enough.less_spread) == (6, "verified")
    assert "collapsed" not in headline(replace(answer, verified=(enough,)))


def test_too_few_or_constant_scores_are_undecided() -> None:
    for plain, cured in (([0.5], [0.6]), ([0.5] * 9, [0.5] * 9), ([0.5] * 9, list(np.arange(9) / 10))):
        assert verify(NOTHING, np.array(plain), np.array(cured)).less_spread == "open"


def test_a_prediction_is_doubted_if_the_luck_of_both_does_not_explain_what_was_achieved() -> None:
    over = ("data_order", "sample_choice")
    predicted = Prediction(remedy=Remedy("mean", over, 4), basis="exact", ratio=Range(0.4, 0.3, 0.4 / 0.75))
    far = replace(NOTHING, prediction=predicted, runs=9, ratio=Range(0.8, 0.6, 0.8 / 0.75))
    half = math.exp(math.sqrt(2) * math.log(4 / 3))  # two independent errors of equal size
    assert far.over_predicted == pytest.approx((2.0, 2 / half, 2 * half))
    near = replace(far, ratio=Range(0.44, 0.33, 0.44 / 0.75))
    assert replace(far, prediction=NOTHING.prediction).over_predicted is UNKNOWN
    every = far, near, replace(far, prediction=NOTHING.prediction)
    notes = [trained_table(answer_of(each)).note for each in every]
    words = "Averaging the class scores of 4 runs differing in 2 factors: the std that it leaves is"
    assert f"{words} 2.00 times (1.33 to 3.00) the predicted one; luck alone rarely explains that: " in notes[0]
    assert f"{words} 1.10 times (0.73 to 1.65) the predicted one; luck alone may explain that." in notes[1]
    assert "predicted one" not in notes[2]


def test_a_mean_or_a_std_far_outside_its_predicted_range_is_named() -> None:
    line = Prediction(remedy=other_labels(60, 120), basis="extrapolated")
    line = replace(line, std=Range(math.nan, 0.06, 0.12), mean_change=Range(math.nan, 0.02, 0.2))
    below = replace(NOTHING, prediction=line, cured=Range(0.05, 0.04, 0.059), mean_change=Range(0.01, 0.0, 0.019))
    vote = replace(NOTHING.prediction, mean_change=Range(0.18, 0.17, 0.19))
    above = replace(NOTHING, prediction=vote, cured=Range(0.05, 0.04, 0.06), mean_change=Range(0.2, 0.191, 0.21))
    touching = replace(above, mean_change=Range(0.2, 0.189, 0.21))
    unknown = replace(above, prediction=NOTHING.prediction)
    assert [each.outside for each in (below, above, touching, unknown)] == [["std", "mean"], ["mean"], [], []]
    far = "lies outside the predicted range; luck alone rarely explains that: predict it again from more runs"
    note = trained_table(answer_of(below, above, touching)).note
    labels, runs = "120 labelled examples in place of 60", "A vote of 5 runs differing in a"
    assert f"{labels}: the std {far}. {labels}: the mean {far}. {runs}: the mean {far}." in note
    assert note.count(far) == 3


@pytest.mark.parametrize(
    ("metric", "change", "words"),
    [
        ("accuracy", Range(0.02, 0.01, 0.03), "not lower: shown"),
        ("accuracy", Range(-0.02, -0.03, -0.01), "not lower by more than 5.0 points: shown"),
        ("accuracy", Range(-0.2, -0.3, -0.01), "not lower: refuted"),
        ("mse", Range(-0.02, -0.03, -0.01), "not higher: shown"),
    ],
)
def test_a_mean_that_is_certainly_lower_is_not_called_the_same(metric: str, change: Range, words: str) -> None:
    each = replace(NOTHING, runs=9, ratio=Range(0.5, 0.3, 0.9), mean_change=change)
    document = page_of(answer_of(each, metric=named(metric), smallest_effect=0.05))
    assert f"Mean {words}." in document.answers[0].lead


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "exponential", "t5", "correlated"])
def test_the_interval_of_the_ratio_keeps_its_level_without_normal_scores(kind: str) -> None:
    """The share of intervals from 20 pairs that contain the true ratio, 0.6."""
    random, pairs, times = np.random.default_rng(3), 20, 600
    shapes = {
        "normal": random.standard_normal,
        "exponential": random.standard_exponential,
        "t5": lambda size: random.standard_t(5, size),
        "correlated": random.standard_normal,
    }
    draws = shapes[kind]((2, times, pairs))
    if kind == "correlated":
        draws[1] = 0.8 * draws[0] + 0.6 * draws[1]
    found = [spread_ratio(plain, 0.6 * cured) for plain, cured in zip(*draws, strict=True)]
    covered = np.mean([each.low < 0.6 < each.high for each in found])
    assert 0.90 <= covered <= 0.985
