"""One seeds study: the paper's example, brute force, known identities, coverage, bad input."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from refusals import refuses
from seeds_cases import drawn_predictions, drawn_regression, drawn_study, long_frame, pair_values
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef, precision_score, recall_score
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from mlflow_l3d.analysis.consistency.runs import consistency
from mlflow_l3d.designs.layout import PAPER_SEEDS
from mlflow_l3d.studies.seeds.numbers import seeds_study
from mlflow_l3d.studies.seeds.report import seeds_document

TWO = (42, 52)


def seeds_frame(seeds):
    return pd.DataFrame({"seed": list(seeds)})


def test_figure_1_of_the_paper():
    """Two models of 60 % accuracy that agree on 20 % of five examples: equal by the score, not by the predictions."""
    labels = np.ones(5, dtype=int)
    predictions = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]])
    study = seeds_study(seeds_frame(TWO), long_frame(predictions, labels, TWO))
    assert study.own.mean == pytest.approx(0.6)
    assert study.own.var == study.own.std == 0.0
    assert study.pairs["consistency"].mean == pytest.approx(0.2)
    assert study.pairs["correct_consistency"].mean == pytest.approx(0.2)
    assert study.examples.robust_share == pytest.approx(0.2)
    assert study.examples.fragile_share == pytest.approx(0.8)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_scores_and_agreement_equal_those_computed_one_by_one(classes):
    predictions, labels = drawn_predictions(np.random.default_rng(classes), classes=classes)
    study = seeds_study(seeds_frame(PAPER_SEEDS), long_frame(predictions, labels, PAPER_SEEDS))
    macro = {"average": "macro", "zero_division": 0}
    for name, score in (
        ("accuracy", accuracy_score),
        ("matthews_corrcoef", matthews_corrcoef),
        ("precision_macro", lambda y, p: precision_score(y, p, **macro)),
        ("recall_macro", lambda y, p: recall_score(y, p, **macro)),
        ("f1_macro", lambda y, p: f1_score(y, p, **macro)),
    ):
        values = np.array([score(labels, row) for row in predictions])
        np.testing.assert_allclose(study.scores[name], values)
        spread = study.spreads[name]
        assert (spread.mean, spread.var, spread.std) == pytest.approx(
            (values.mean(), math.sqrt(np.square(values - values.mean()).mean()), values.std(ddof=1))
        )
        low, high = scipy.stats.t.interval(0.95, 9, loc=values.mean(), scale=scipy.stats.sem(values))
        assert (spread.mean_ci_low, spread.mean_ci_high) == pytest.approx((low, high))
        assert spread.std_ci_low < spread.std < spread.std_ci_high
    con, ccon = pair_values(predictions, labels)
    for name, values in (("consistency", con), ("correct_consistency", ccon)):
        pair = study.pairs[name]
        assert (pair.mean, pair.std) == pytest.approx((values.mean(), values.std()))
        assert pair.mean_ci_low < pair.mean < pair.mean_ci_high
        assert pair.std_ci_low < pair.std < pair.std_ci_high
    assert study.together["fleiss_kappa"] == pytest.approx(fleiss_kappa(aggregate_raters(predictions.T)[0]))
    right = predictions == labels
    assert study.examples.robust_share == pytest.approx(right.all(axis=0).mean())


def test_the_interval_of_the_spread_over_pairs_leaves_out_one_seed_with_all_its_pairs():
    predictions, labels = drawn_predictions(np.random.default_rng(3), runs=6)
    study = seeds_study(seeds_frame(range(6)), long_frame(predictions, labels, range(6)))
    logs = [math.log(pair_values(np.delete(predictions, run, axis=0), labels)[0].std()) for run in range(6)]
    error = math.sqrt(5 / 6 * np.square(logs - np.mean(logs)).sum())
    pair = study.pairs["consistency"]
    reach = math.exp(scipy.stats.t.ppf(0.975, 5) * error)
    assert (pair.std_ci_low, pair.std_ci_high) == pytest.approx((pair.std / reach, pair.std * reach))


def test_the_interval_of_the_correlation_leaves_out_one_seed_with_all_its_pairs():
    rng = np.random.default_rng(4)
    labels = rng.uniform(0, 5, size=40)
    predictions = labels + rng.normal(0, 0.7, size=(6, 40)) + rng.normal(0, 0.2, size=(6, 1))
    study = seeds_study(seeds_frame(range(6)), long_frame(predictions, labels, range(6)), kind="regression")
    assert study.metric.name == "pearson"
    assert study.own.mean == pytest.approx(np.mean([np.corrcoef(labels, row)[0, 1] for row in predictions]))

    def mean_correlation(rows):
        return np.mean([np.corrcoef(one, other)[0, 1] for one, other in combinations(rows, 2)])

    without = [math.atanh(mean_correlation(np.delete(predictions, run, axis=0))) for run in range(6)]
    half = scipy.stats.t.ppf(0.975, 5) * math.sqrt(5 / 6 * np.square(without - np.mean(without)).sum())
    centre = math.atanh(mean_correlation(predictions))
    pair = study.pairs["consistency_pearson"]
    ends = [math.tanh(centre + sign * half) for sign in (-1, 1)]
    assert (pair.mean_ci_low, pair.mean_ci_high) == pytest.approx(ends)


def test_equal_seeds_agree_on_everything_and_claim_no_interval():
    predictions, labels = drawn_predictions(np.random.default_rng(5), runs=1)
    same = np.repeat(predictions, 4, axis=0)
    study = seeds_study(seeds_frame(range(4)), long_frame(same, labels, range(4)))
    assert study.pairs["consistency"].mean == 1
    assert study.pairs["consistency"].std == study.own.var == 0
    assert not any(
        name.startswith(("seed_mean_ci", "consistency_ci", "consistency_spread_ci")) for name in study.metrics()
    )


def test_collapsed_seeds_are_named():
    predictions, labels = drawn_predictions(np.random.default_rng(6), runs=3)
    predictions[1] = 0
    study = seeds_study(seeds_frame((0, 7, 9)), long_frame(predictions, labels, (0, 7, 9)))
    assert study.constant_seeds == study.collapsed_seeds == (7,)
    assert study.metrics()["constant_share"] == study.metrics()["collapsed_share"] == pytest.approx(1 / 3)
    assert study.to_frame()["constant"].tolist() == study.to_frame()["collapsed"].tolist() == [False, True, False]


LABELS = np.repeat([0, 1], 10)


@pytest.mark.parametrize(
    ("predictions", "collapsed", "unanswered"),
    [
        (np.where(np.arange(20) % 10 < 3, LABELS, 1 - LABELS), True, False),
        (np.where(np.arange(20) % 10 < 5, LABELS, 1 - LABELS), True, False),
        (np.where(np.arange(20) % 10 < 6, LABELS, 1 - LABELS), False, False),
        (np.full(20, -1), False, True),
        (np.full(20, 2), False, True),
        (np.where(np.arange(20) % 10 < 4, LABELS, -1), False, True),
    ],
    ids=["below chance", "at chance", "above", "no answer", "another class", "few answers"],
)
def test_a_seed_collapsed_if_its_answers_score_no_more_than_guesses(predictions, collapsed, unanswered):
    study = seeds_study(seeds_frame(TWO), long_frame(np.array([LABELS, predictions]), LABELS, TWO), metric="accuracy")
    assert study.chance == 0.5
    assert (study.collapsed_seeds == TWO[1:], study.unanswered_seeds == TWO[1:]) == (collapsed, unanswered)
    assert study.metrics()["collapsed_share"] == (0.5 if collapsed else 0)


def test_low_scores_of_a_task_near_chance_are_its_tail():
    near = [0.49, 0.62, 0.55, 0.54, 0.57, 0.52, 0.60, 0.56, 0.58, 0.53]
    apart = [0.49, *(0.3 + np.array(near[1:]))]
    for scores, collapsed in ((near, ()), (apart, (0,)), (apart[:5], ())):
        frame = pd.DataFrame({"seed": range(len(scores)), "accuracy": scores})
        assert seeds_study(frame, metric="accuracy", classes=2).collapsed_seeds == collapsed
    labels, seeds = np.arange(8) % 2, (0, 1, 2)
    wrong = np.where(np.arange(8) < 5, 1 - labels, labels)
    tiny = seeds_study(
        seeds_frame(seeds), long_frame(np.array([wrong, wrong, labels]), labels, seeds), metric="accuracy"
    )
    assert tiny.collapsed_seeds == ()  # of eight examples five are often wrong


def test_scores_alone_are_judged_where_the_classes_are_known():
    scores = pd.DataFrame({"seed": (0, 1, 2, 3), "accuracy": (0.04, 0.29, 0.6, math.nan)})
    study = seeds_study(scores, metric="accuracy", classes=2)
    assert (study.collapsed_seeds, study.judged) == ((0, 1), 3)
    assert seeds_study(scores, metric="accuracy").judged == 0


def test_given_scores_are_kept_and_missing_ones_are_computed():
    predictions, labels = drawn_predictions(np.random.default_rng(7), runs=2)
    scores = pd.DataFrame({"seed": TWO, "accuracy": [0.25, math.nan], "duration_seconds": [1.0, 2.0]})
    study = seeds_study(scores, long_frame(predictions, labels, TWO))
    assert study.scores["accuracy"].tolist() == [0.25, pytest.approx(accuracy_score(labels, predictions[1]))]
    assert "duration_seconds" not in study.scores


def test_macro_averages_are_over_the_classes_of_a_seed():
    labels = np.array([0, 0, 1, 1])
    study = seeds_study(seeds_frame(TWO), long_frame(np.array([labels, [0, 0, 1, 2]]), labels, TWO))
    assert study.scores["f1_macro"].tolist() == pytest.approx([1, (1 + 2 / 3) / 3])


def test_scores_alone_without_predictions():
    scores = pd.DataFrame({"seed": PAPER_SEEDS, "accuracy": np.linspace(0.5, 0.9, 10), "own": 1.0})
    study = seeds_study(scores, metric="own", task="x")
    assert study.pairs == {}
    assert study.own.var == 0
    assert study.spreads["accuracy"].mean == pytest.approx(0.7)
    assert study.missing_seeds == ()


def test_a_failed_run_is_missing_and_not_a_zero():
    predictions, labels = drawn_predictions(np.random.default_rng(8), runs=4)
    frame = long_frame(predictions, labels, (0, 1, 2, 3))
    study = seeds_study(seeds_frame((0, 1, 2, 3)), frame[frame["seed"] != 2])
    assert study.missing_seeds == (2,)
    assert study.compared == (0, 1, 3)
    assert study.own.runs == 3
    assert study.own.mean == pytest.approx((predictions == labels)[[0, 1, 3]].mean())
    assert study.pairs["consistency"].mean == pytest.approx(pair_values(predictions[[0, 1, 3]], labels)[0].mean())


def test_only_examples_that_all_seeds_predict_are_compared():
    predictions, labels = drawn_predictions(np.random.default_rng(8), runs=3)
    frame = long_frame(predictions, labels, (0, 1, 2))
    study = seeds_study(seeds_frame((0, 1, 2)), frame.drop(index=frame.index[[0, 5, len(labels)]]))
    shared = [at for at in range(len(labels)) if at not in (0, 5)]
    assert study.pairs["consistency"].mean == pytest.approx(
        pair_values(predictions[:, shared], labels[shared])[0].mean()
    )
    assert sorted(study.examples.frame["example_id"]) == shared
    right = (predictions == labels).astype(float)
    expected = [np.delete(right[0], [0, 5]).mean(), np.delete(right[1], 0).mean(), right[2].mean()]
    assert study.scores["accuracy"].tolist() == pytest.approx(expected)
    text = seeds_document(study, title="t").to_text()
    assert "Left out of the comparison: 2 examples that not every seed predicts." in text
    apart = seeds_study(seeds_frame(TWO), GOOD.assign(example_id=range(4), label=[0, 1, 0, 1]))
    assert apart.own.runs == 2
    assert apart.pairs == {}
    assert "Not known: the seeds predict no common example." in seeds_document(apart, title="t").to_text()


def test_order_of_rows_and_seeds_changes_nothing():
    predictions, labels = drawn_predictions(np.random.default_rng(9), runs=5)
    frame = long_frame(predictions, labels, (3, 1, 4, 15, 9), ids=[f"e{at}" for at in range(80)])
    one = seeds_study(seeds_frame((3, 1, 4, 15, 9)), frame)
    other = seeds_study(seeds_frame((15, 9, 3, 4, 1)), frame.sample(frac=1, random_state=1))
    assert one.metrics() == pytest.approx(other.metrics())
    merged = one.to_frame().merge(other.to_frame(), on="seed")
    np.testing.assert_allclose(merged["consistency_x"], merged["consistency_y"])
    assert one.to_frame()["seed"].tolist() == [3, 1, 4, 15, 9]


def test_metrics_are_named_for_the_parent():
    found = drawn_study(np.random.default_rng(10), metric="matthews_corrcoef").metrics()
    assert {"score_mean", "score_std", "consistency", "correct_consistency", "fleiss_kappa", "robust_share"} <= set(
        found
    )
    for name in ("fleiss_kappa", "robust_share", "fragile_share"):
        assert found[f"{name}_ci_low"] < found[name] < found[f"{name}_ci_high"]
    assert found["score_mean"] == found["seed_mean/matthews_corrcoef"]
    assert found["seed_var/accuracy"] < found["seed_std/accuracy"]
    numeric = drawn_regression(np.random.default_rng(10)).metrics()
    assert {"consistency_pearson", "consistency_ccc", "seed_mean/spearman", "absolute_difference"} <= set(numeric)
    assert "consistency" not in numeric


GOOD = long_frame([[0, 1], [1, 1]], [0, 1], TWO)


@pytest.mark.parametrize(
    ("seeds", "frame", "options", "match"),
    [
        ((42,), None, {}, "seeds=42: must be at least two"),
        ((), None, {}, r"seeds=\(none\): must be at least two"),
        ((42, 42), None, {}, "seeds=42: must occur once"),
        ((-1, 42), None, {}, "from 0 to 2"),
        ((1.5, 42), None, {}, "whole numbers"),
        (TWO, GOOD.assign(seed=7), {}, "seed=7: has predictions and no scores"),
        (TWO, GOOD.drop(columns="label"), {}, "column=label"),
        (TWO, GOOD.assign(example_id=0), {}, "must have one true class|must occur once"),
        (TWO, pd.concat([GOOD, GOOD]), {"kind": "regression"}, "must occur once in the predictions of a seed"),
        (TWO, GOOD.assign(label=[0, 1, 1, 1]), {"kind": "regression"}, "must have one true value"),
        (TWO, GOOD, {"metric": "f1_makro"}, "f1_macro"),
        (TWO, GOOD, {"kind": "ordering"}, "classification, generation, multiple_choice"),
        (TWO, None, {}, "metric='accuracy'"),
    ],
)
def test_bad_input_is_one_line(seeds, frame, options, match):
    refuses(match, seeds_study, seeds_frame(seeds), frame, **options)


def test_consistency_of_plain_lists():
    runs = [[0, 1, 1, 0], [0, 1, 0, 0], [0, 1, -1, 1]]
    assert consistency(runs) == pytest.approx((3 + 2 + 2) / 12)
    assert consistency(runs, labels=[0, 0, 1, 0]) == pytest.approx((2 + 1 + 1) / 12)


def test_texts_have_no_chance_level():
    # 70 % of answers that are free texts are right: no run collapsed, and wrong answers are answers.
    ids = np.tile(np.arange(40), 4)
    answers = pd.DataFrame(
        {"seed": np.repeat(range(4), 40), "example_id": ids, "label": [f"city {each}" for each in ids]}
    )
    wrong = (answers["example_id"] + answers["seed"]) % 10 >= 7
    scores = pd.DataFrame({"seed": range(4), "accuracy": 0.7})
    for is_wrong in (wrong, wrong | (answers["seed"] == 0)):
        given = answers.assign(prediction=answers["label"].mask(is_wrong, answers["label"] + "?"))
        study = seeds_study(scores, given, metric="accuracy", kind="multiple_choice")
        assert (study.chance, study.collapsed_seeds, study.unanswered_seeds) == (None, (), ())
    solved = answers.assign(label="solved", prediction="solved")
    assert seeds_study(scores, solved, metric="accuracy", kind="multiple_choice").collapsed_seeds == ()
