"""Ensembles predicted from stored runs: brute force over small tables, closed forms, and plain reasons."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from mlflow_l3d.analysis.consistency.results import population_variance
from mlflow_l3d.analysis.cure import Prediction, Range
from mlflow_l3d.analysis.cure.ensembles import Members, combine, combine_choices, draw_choices, score_many
from mlflow_l3d.analysis.cure.examples import luck_of_tests
from mlflow_l3d.analysis.cure.predict import predict, predict_all
from mlflow_l3d.analysis.cure.series import Series, extended
from mlflow_l3d.analysis.cure.spread import CONSISTENCY, FRAGILE, MEAN, MOMENTS, ROW_CONSISTENCY, TOTAL, WITHIN, Table
from mlflow_l3d.analysis.importance.estimators.crossed import crossed_components
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.classification import f1_macro, f1_macro_of_many
from mlflow_l3d.metrics.known import registered
from mlflow_l3d.report.remedies import remedy_bars

ACCURACY, F1 = registered()["accuracy"], registered()["f1_macro"]


def rows_of(
    count: int, members: int, examples: int = 40, classes: int = 3, *, crossed: bool = False, seed: int = 0
) -> list[Members]:
    """Return rows with effects of their own, whose examples overlap."""
    random = np.random.default_rng(seed)
    labels = random.integers(classes, size=2 * examples)
    columns = random.normal(0, 0.6, (members, 1, classes))
    rows = []
    for _ in range(count):
        places = random.permutation(2 * examples)[:examples]
        own = random.normal(0, 1, (members, examples, classes)) + random.normal(0, 0.8, (1, 1, classes))
        scores = (own + columns * crossed + np.eye(classes)[labels[places]]).astype(np.float32)
        shared = np.arange(members) if crossed else None
        more = {"validation": random.random(members).round(1), "columns": shared, "examples": places}
        rows.append(Members(scores.argmax(axis=2), labels[places], scores, **more))
    return rows


def of(found: list[Prediction], kind: str, members: int) -> Prediction:
    return next(each for each in found if each.remedy.kind == kind and each.remedy.members == members)


def test_the_error_of_a_mean_is_that_of_two_way_analysis_of_variance() -> None:
    random = np.random.default_rng(2)
    scores = random.normal(0, 1, (6, 1)) + random.normal(0, 1, (1, 5)) + random.normal(0, 1, (6, 5))
    left = [np.delete(scores, column, 1) for column in range(5)]
    columns = np.array([table.mean() for table in left])
    rows = np.array([np.delete(scores, row, 0).mean() for row in range(6)])
    both = np.array([[np.delete(table, row, 0).mean() for row in range(6)] for table in left])
    series = Series((1,), (), np.empty((1, MOMENTS)), Table((), ACCURACY, None))
    squares = crossed_components(scores)
    variance = (squares.of_rows + squares.of_columns - squares.residual) / scores.size
    error, _ = series._error([scores.mean(), rows, columns, both])
    assert error == pytest.approx(math.sqrt(variance))


@pytest.mark.parametrize("shared", [True, False])
def test_the_luck_of_test_examples_is_the_covariance_of_right_answers(shared: bool) -> None:
    random = np.random.default_rng(5)
    labels, predictions = random.integers(2, size=20), random.integers(2, size=(3, 4, 20))
    apart, between = (np.round(each + each.T) / 2 for each in random.random((2, 4, 4)))
    rows = [Members(each, labels, test=np.full(20, not shared)) for each in predictions]
    whole = np.cov((predictions == labels).reshape(12, 20)).reshape(3, 4, 3, 4) / 20
    own = np.mean([whole[row, :, row] for row in range(3)], axis=0)
    two = np.mean([whole[one, :, other] for one, other in product(range(3), repeat=2) if one != other], axis=0)
    of_two = np.average(two, weights=between) if shared else math.nan
    expected = np.diag(own).mean(), np.average(own, weights=apart), of_two
    assert luck_of_tests(ACCURACY, 2, rows, predictions, apart, between) == pytest.approx(expected, nan_ok=True)


def test_few_runs_that_guess_predict_nothing_instead_of_a_negative_variance() -> None:
    random = np.random.default_rng(49)
    rows = []
    for row in range(2):
        labels, places = random.integers(0, 2, 100), np.arange(100) + 100 * row
        scores = random.random((2, 100, 2)).astype(np.float32)
        rows.append(Members(scores.argmax(axis=2), labels, scores, examples=places))
    found = predict(rows, over=["a"], metric=F1, classes=2, test_size=100)
    assert of(found, "mean", 2).std.value > 0
    assert (of(found, "mean", 4).basis, math.isnan(of(found, "mean", 4).std.value)) == ("unknown", True)


@pytest.mark.parametrize(
    ("rows", "columns", "crossed", "expected"), [(2, 2, False, False), (2, 5, True, False), (3, 2, False, True)]
)
def test_two_rows_have_no_interval_and_the_table_says_what_one_needs(rows, columns, crossed, expected) -> None:
    """Without one of two rows there is no variance between rows: no jackknife exists, whatever the columns."""
    found = predict(rows_of(rows, columns, crossed=crossed), over=["a"], metric=F1, classes=3, test_size=40)
    two = of(found, "mean", 2)
    assert math.isfinite(two.std.value)
    assert math.isfinite(two.std.low) == math.isfinite(two.mean_change.low) == expected
    table = remedy_bars([two], F1)
    assert ("no interval" in str(table.rows)) == ("mitigation_runs=3" in table.note) != expected


def test_a_remedy_after_which_nothing_varies_asks_for_no_more_rows() -> None:
    """The logarithm of 0 has no error, however many rows there are."""
    found = predict(rows_of(4, 3), over=["a"], metric=F1, classes=3, test_size=40)
    nothing = replace(of(found, "mean", 2), std=Range(0.0))
    assert math.isfinite(nothing.mean_change.low)
    assert "mitigation_runs" not in remedy_bars([nothing], F1).note


def test_the_reason_names_rows_that_lack_runs() -> None:
    [whole, other] = rows_of(2, 3)
    alone = replace(other, predictions=other.predictions[:1], scores=other.scores[:1], validation=other.validation[:1])
    found = predict([whole, alone], over=["a"], metric=F1, classes=3, test_size=40)
    reason = "1 rows of 3 runs that share their examples, since 1 of 2 rows lack runs: 2 of 2 are needed"
    assert {each.reason for each in found if each.basis == "unknown"} == {reason}


def test_a_tie_goes_to_the_first_member_and_unparsed_answers_have_no_vote() -> None:
    votes = np.array([[1, 2, -1, -1, 0], [0, 2, 1, -1, 1], [1, 0, 0, -1, 1], [0, 0, -1, -1, 1]])
    predictions, shares = combine("vote", votes, classes=3)
    assert predictions.tolist() == [1, 2, 1, -1, 1]
    assert shares[0].tolist() == [0.5, 0.5, 0]
    scores = np.array([[[0.6, 0.4]], [[0.1, 0.9]], [[math.nan, math.nan]]], dtype=np.float32)
    predictions, means = combine("mean", np.array([[0], [1], [-1]]), scores, classes=2)
    assert predictions.tolist() == [1]
    assert np.allclose(means, [[0.35, 0.65]])
    assert combine("mean", np.array([[1.0, 2.0], [3.0, 2.0]]))[0].tolist() == [2, 2]
    texts = np.array([["a b", "x"], ["a b c", "y"], ["q", None], ["a b c d", "y"]], dtype=object)
    assert combine("vote", texts, agreement="squad_f1")[0].tolist() == ["a b c", "y"]
    assert combine("vote", texts)[0].tolist() == ["a b", "y"]
    with pytest.raises(ParameterError, match="use vote"):
        combine("mean", votes, classes=3)
    with pytest.raises(ParameterError, match="use mean"):
        combine("vote", np.ones((2, 3)))


@pytest.mark.parametrize("classes", [2, 5])
def test_many_scores_equal_one_at_a_time(classes: int) -> None:
    random = np.random.default_rng(0)
    labels, predictions = random.integers(3, size=50), random.integers(-1, 4, size=(7, 50))
    each = [f1_macro(labels, one, classes) for one in predictions]
    assert np.allclose(f1_macro_of_many(labels, predictions, classes), each)
    assert np.allclose(score_many(F1, labels, predictions, classes), each)


def test_mean_accuracy_of_votes_is_hypergeometric() -> None:
    random = np.random.default_rng(1)
    right = random.random((9, 200)) < random.random(200)
    members = Members(right.astype(np.int64), np.ones(200, dtype=np.int64))
    for k in (3, 5, 7):
        most = range(k // 2 + 1, k + 1)
        ways = [sum(math.comb(c, v) * math.comb(9 - c, k - v) for v in most) for c in right.sum(axis=0).tolist()]
        expected = np.mean(ways) / math.comb(9, k)
        choices = combine_choices("vote", members, draw_choices(9, k))
        assert score_many(ACCURACY, members.labels, choices, 2).mean() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize("kind", ["vote", "mean"])
def test_moments_equal_brute_force(kind: str, *, crossed: bool) -> None:
    rows, k = rows_of(4, 5, crossed=crossed), 2
    found, without_row, without_column, _ = Table.of(rows, F1, 3).moments(kind, k)

    def brute(rows: list[Members]) -> dict[int, float]:
        choices = list(combinations(range(len(rows[0])), k))
        some = [[(row.predictions[list(c)], row.scores[list(c)]) for c in choices] for row in rows]
        answers = [[combine(kind, *chosen, classes=3)[0] for chosen in of_row] for of_row in some]
        scores = np.array([[f1_macro(row.labels, a, 3) for a in each] for row, each in zip(rows, answers, strict=True)])
        apart = [(a, b) for a, b in product(range(len(choices)), repeat=2) if not {*choices[a]} & {*choices[b]}]
        pairs = apart if crossed else list(product(range(len(choices)), repeat=2))
        between, agreed, compared, differ = [], 0, 0, 0
        for i, j in product(range(len(rows)), repeat=2):
            if i == j:
                continue
            between += [(scores[i, a] - scores[j, b]) ** 2 / 2 for a, b in pairs]
            _, here, there = np.intersect1d(rows[i].examples, rows[j].examples, return_indices=True)
            for a, b in pairs:
                one, other = answers[i][a][here], answers[j][b][there]
                truth = rows[i].labels[here]
                agreed += int((one == other).sum())
                differ += int(((one == truth) != (other == truth)).sum())
                compared += len(here)
        within = [(scores[i, a] - scores[i, b]) ** 2 / 2 for i in range(len(rows)) for a, b in apart]
        own = [(answers[i][a] == answers[i][b]).mean() for i in range(len(rows)) for a, b in apart]
        values = {MEAN: scores.mean(), TOTAL: np.mean(between), CONSISTENCY: agreed / compared}
        return values | {FRAGILE: differ / compared, WITHIN: np.mean(within), ROW_CONSISTENCY: np.mean(own)}

    for place, value in brute(rows).items():
        assert found[place] == pytest.approx(value), place
    for place, value in brute(rows[1:]).items():
        assert without_row[0, place] == pytest.approx(value), place
    if crossed:
        fewer = [Members(r.predictions[1:], r.labels, r.scores[1:], examples=r.examples) for r in rows]  # type: ignore[index]
        expected = brute(fewer)
        assert without_column[0, [MEAN, TOTAL, WITHIN]] == pytest.approx([expected[p] for p in (MEAN, TOTAL, WITHIN)])


def test_the_best_of_several_follows_order_statistics() -> None:
    rows = rows_of(2, 6)
    values = [np.array([0.3, 0.5, 0.1, 0.9, 0.6, 0.2]), np.array([0.5, 0.4, 0.1, 0.2, 0.9, 0.7])]
    rows = [replace(row, validation=value, scores=None) for row, value in zip(rows, values, strict=True)]
    for k in (2, 3, 5):
        expected = []
        for row, value in zip(rows, values, strict=True):
            scores = score_many(ACCURACY, row.labels, row.predictions, 3)
            chances = [math.comb(r, k - 1) / math.comb(6, k) for r in range(6)]
            order = np.argsort(value)
            weights = np.empty(6)
            weights[order] = chances
            expected.append(weights @ scores)
        assert Table.of(rows, ACCURACY, 3).moments("choose", k)[0][MEAN] == pytest.approx(np.mean(expected))


def test_a_choice_among_equals_takes_no_luck_away() -> None:
    rows = [replace(row, validation=np.full(7, 0.5)) for row in rows_of(30, 7, crossed=True)]
    found = predict(rows, over=("a",), metric=ACCURACY, classes=3)
    assert 0.8 < of(found, "choose", 2).ratio.value < 1.25


def test_golden_runs_have_the_variance_of_an_infinite_test_set() -> None:
    random = np.random.default_rng(2)
    right = (random.random((30, 90)) < random.random(90)).astype(np.int64)
    members = Members(right, np.ones(90, dtype=np.int64))
    moments = Table([members], ACCURACY, 2, test_size=45).moments("vote", 1)[0]
    accuracies, votes = right.mean(axis=1), right.sum(axis=0)
    correct = float((votes * (votes - 1)).mean() / (30 * 29))
    expected = max(0.0, population_variance(accuracies, correct, 90))
    assert moments[WITHIN] == pytest.approx(expected)
    luck = (accuracies * (1 - accuracies)).mean() * 90 / 89
    assert moments[TOTAL] == pytest.approx(expected + luck / 45)


def test_a_law_is_continued_exactly() -> None:
    members = np.arange(1, 11)[:, None]
    law = np.zeros((10, MOMENTS))
    law[:, [MEAN]], law[:, [WITHIN]] = 0.8 - 0.3 / (members + 1.5), 0.02 / (members + 1.5)
    law[:, [TOTAL]] = 0.001 + law[:, [WITHIN]]
    law[:, [CONSISTENCY]] = 0.9 - 0.2 / np.sqrt(members + 1.5)
    known = np.broadcast_to(members <= 4, law.shape)
    found = extended(members[:, 0], np.where(known, law, math.nan), known)
    assert np.allclose(found[:, [MEAN, TOTAL, WITHIN, CONSISTENCY]], law[:, [MEAN, TOTAL, WITHIN, CONSISTENCY]])


def test_the_spread_is_continued_from_the_most_members_that_are_measured() -> None:
    """Rows of five: no two disjoint groups of three say what a row alone causes, which votes make larger here."""
    moments = np.full((5, MOMENTS), math.nan)
    moments[:3, TOTAL], moments[0, WITHIN] = [0.0170, 0.0164, 0.0163], 0.0070
    found = extended(np.array([1, 3, 5, 7, 9]), moments, np.isfinite(moments))[:, TOTAL]
    assert found[3] == pytest.approx(0.0163, rel=0.1)
    assert found[2] > found[3] > found[4]


def test_no_variance_is_continued_without_a_warning() -> None:
    moments = np.full((4, MOMENTS), 0.5)
    moments[:, WITHIN] = 0
    known = np.broadcast_to(np.arange(4)[:, None] < 2, moments.shape)
    found = extended(np.array([1, 3, 5, 7]), np.where(known, moments, math.nan), known)
    assert np.allclose(found[2:, TOTAL], 0.5)


def test_the_remaining_spread_scales_what_is_reported() -> None:
    rows, golden = rows_of(8, 6, crossed=True), Range(0.05, 0.04, 0.0625)
    found = predict(rows, over=("a", "b"), metric=F1, classes=3, golden_std=golden)
    table = Table.of(rows, F1, 3)
    before, after = (table.moments("mean", k)[0][TOTAL] for k in (1, 2))
    two = of(found, "mean", 2)
    assert two.std.value == pytest.approx(0.05 * math.sqrt(after / before))
    assert two.std.low < two.std.value < two.std.high
    assert two.basis == "exact"
    assert two.std.value == pytest.approx(0.05 * two.ratio.value)
    three, four = of(found, "mean", 3), of(found, "mean", 4)  # two of six columns are measured: four at most
    assert three.basis == four.basis == "extrapolated"
    assert max(each.remedy.members for each in found if each.remedy.kind == "mean") == 4
    widths = [math.log(each.ratio.high / each.ratio.low) for each in (two, three, four)]
    assert widths == sorted(widths)
    golden_half = math.log(0.0625 / 0.04) / 2
    assert math.log(two.std.high / two.std.low) / 2 == pytest.approx(math.hypot(golden_half, widths[0] / 2))
    assert set(two.shares) == {"a+b", "other factors"}
    assert found[0].remedy.members == 1
    assert found[0].std == pytest.approx(golden)
    assert found[0].ratio == Range(1.0, 1.0, 1.0)
    for name in ("consistency", "fragile"):
        one, several = (getattr(each, name) for each in (found[0], two))
        assert several.high - several.low >= 0.99 * (one.high - one.low) > 0


def test_choices_that_are_drawn_are_not_called_exact() -> None:
    found = predict(rows_of(6, 15, crossed=True), over=("a",), metric=ACCURACY, classes=3)
    assert [of(found, "vote", k).basis for k in (3, 5, 9)] == ["sampled", "sampled", "extrapolated"]
    assert of(found, "mean", 2).basis == "exact"
    assert not any(each.remedy.kind == "vote" and each.remedy.members % 2 == 0 for each in found)


def test_as_many_choices_may_be_drawn_as_there_are() -> None:
    assert len(draw_choices(23, 2)) == math.comb(23, 2)  # some of them twice
    moments, *_ = Table(rows_of(2, 23), ACCURACY, 3).moments("mean", 2)
    assert moments[ROW_CONSISTENCY] > 0


def test_two_runs_a_row_say_little_of_more() -> None:
    found = predict(rows_of(30, 2), over=("a",), metric=ACCURACY, classes=3)
    assert [each.remedy.members for each in found if each.remedy.kind == "mean"] == [2, 3, 4]
    assert of(found, "vote", 3).basis == "unknown"
    assert not of(found, "mean", 2).shares  # no two disjoint pairs of a row say what its factor still causes
    for k in (3, 4):
        shares = of(found, "mean", k).shares
        assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.slow
def test_a_reference_set_counts_where_runs_draw_their_own_tests() -> None:
    rows = rows_of(6, 6, crossed=True)
    drawn = [replace(row, test=np.zeros(len(row.labels), dtype=bool)) for row in rows]
    settled = {"over": ("a",), "metric": F1, "classes": 3}
    both = [predict(each, golden_std=Range(0.05, 0.04, 0.06), **settled) for each in (rows, drawn)]
    assert [each.std for each in both[0]] == [each.std for each in both[1]]
    independent = Members(np.concatenate([row.predictions[:, :30] for row in rows]), rows[0].labels[:30])
    found = predict_all(replace(independent, test=np.zeros(30, dtype=bool)), test_size=30, **settled)
    assert found[0].std.value > 0


def scored(random, count: int, members: int, examples: int, fixed: np.ndarray | None = None) -> list[Members]:
    """Return rows with luck of their own, of examples of their own or of fixed ones."""
    rows = []
    for _ in range(count):
        difficulty = random.standard_normal((examples, 4)) if fixed is None else fixed
        own = 0.35 * random.standard_normal((members, examples, 4)) + 0.25 * random.standard_normal((members, 1, 4))
        labels = np.arange(examples) % 4
        scores = (2.2 * np.eye(4)[labels] + difficulty + own).astype(np.float32)
        rows.append(Members(scores.argmax(axis=2), labels, scores))
    return rows


@pytest.fixture(scope="module")
def true_std() -> tuple[dict[int, float], np.random.Generator]:
    """Give the standard deviation of means of 1, 2 and 4 runs over 264 examples, and the generator after it."""
    truth: dict[int, list[float]] = {1: [], 2: [], 4: []}
    random = np.random.default_rng(0)
    for row in scored(random, 2500, 4, 264):
        for k, scores in truth.items():
            answers = combine_choices("mean", row, np.arange(4)[None] < k)
            scores.append(float(score_many(F1, row.labels, answers, 4)[0]))
    return {k: float(np.std(scores)) for k, scores in truth.items()}, random


@pytest.mark.slow
@pytest.mark.parametrize("shares", ["reference", "tests"])
def test_no_ensemble_takes_the_luck_of_test_examples_away(
    shares: str, true_std: tuple[dict[int, float], np.random.Generator]
) -> None:
    (truth, random), tests = deepcopy(true_std), 264
    is_reference = shares == "reference"
    given = (400, random.standard_normal((400, 4))) if is_reference else (tests,)
    rows = scored(random, 200, 2, *given)
    if is_reference:
        rows = [replace(row, test=np.zeros(400, dtype=bool)) for row in rows]
    found = predict(rows, over=("a",), metric=F1, classes=4, test_size=tests, golden_std=Range(0.02, 0.018, 0.022))
    for k in (2, 4):
        true, each = truth[k] / truth[1], of(found, "mean", k)
        # It would be 0.7 and 0.6 of scores on a reference set.
        assert true - 0.05 < each.ratio.value < true + (0.05 if k == 2 else 0.1)
        assert each.ratio.low < true < each.ratio.high
        assert each.is_trainable is not is_reference


def test_the_best_has_the_smallest_validation_error() -> None:
    random = np.random.default_rng(0)
    rows = []
    for _ in range(10):
        labels, errors = random.normal(size=50), random.uniform(0.5, 3, 7)
        answers = labels + errors[:, None] * random.normal(size=(7, 50))
        validation = np.abs(answers - labels).mean(axis=1)
        rows.append(Members(answers, labels, validation=validation, columns=np.arange(7)))
    found = predict(rows, over=("a",), metric=registered()["mae"], classes=None)
    assert of(found, "choose", 3).mean_change.high < 0


@pytest.mark.slow
def test_a_factor_of_main_effects_has_wide_intervals_by_its_few_columns() -> None:
    """Accuracies of columns are all that varies; a vote is right if most members are."""
    random, hits, ratios = np.random.default_rng(6), [], []
    draws = np.clip(0.6 + 0.12 * random.standard_normal((20_000, 5)), 0, 1)
    wins = np.zeros((20_000, 6))
    wins[:, 0] = 1
    for member in draws.T:
        wins[:, 1:] = wins[:, 1:] * (1 - member[:, None]) + wins[:, :-1] * member[:, None]
        wins[:, 0] *= 1 - member
    vote = wins[:, 3:].sum(axis=1)
    truth = [math.sqrt(one.var() + (one * (1 - one)).mean() / 50) for one in (draws[:, 0], vote)]
    for _ in range(20):
        quality = np.clip(0.6 + 0.12 * random.standard_normal((10, 1)), 0, 1)
        right = [(random.random((10, 50)) < quality).astype(np.int64) for _ in range(5)]
        rows = [Members(each, np.ones(50, dtype=np.int64), columns=np.arange(10)) for each in right]
        five = of(predict(rows, over=("a",), metric=ACCURACY, classes=2, most_members=5), "vote", 5)
        hits.append(five.ratio.low <= truth[1] / truth[0] <= five.ratio.high)
        ratios.append(five.ratio.value)
    assert np.mean(hits) >= 0.9
    assert np.mean(ratios) == pytest.approx(truth[1] / truth[0], rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "error"), [(1, 0.06), (16, 0.03)])
def test_the_synthetic_approach_has_its_closed_form(columns: int, error: float) -> None:
    """A mean of class scores has the mean of the accuracies of its members, products of Sobol's factors.

    Columns of each row of its own are a larger sample of members than columns that all rows share.
    """
    random, examples, scale, found = np.random.default_rng(7), 100, 0.12, []
    row, column = 1 / 3 / 1.5**2, 1 / 3  # variances of the factors of a row and of a column
    shared = np.arange(10) if columns == 1 else None
    for _ in range(10):
        factors = (np.abs(4 * random.random(size) - 2) for size in ((16, 1), (columns, 10)))
        accuracies = 0.1 + scale * (next(factors) + 0.5) / 1.5 * next(factors)
        rows = []
        for some in accuracies:
            right = 0.5 + (some[:, None] - random.random(examples)) / 2
            scores = np.stack([1 - right, right], axis=2).astype(np.float32)
            ones = np.ones(examples, dtype=np.int64)
            rows.append(Members(scores.argmax(axis=2), ones, scores, columns=shared))
        found.append(predict(rows, over=("a",), metric=ACCURACY, classes=2, most_members=5))

    def spread(k: int) -> float:
        variance, mean = scale**2 * (row + (1 + row) * column / k), 0.1 + scale
        return math.sqrt(variance + (mean * (1 - mean) - variance) / examples)

    for k in (2, 3, 4, 5):
        truth, some = spread(k) / spread(1), [of(each, "mean", k) for each in found]
        assert np.mean([each.ratio.value for each in some]) == pytest.approx(truth, rel=error)
        assert np.mean([each.ratio.low <= truth <= each.ratio.high for each in some]) >= 0.8
        assert np.mean([each.mean_change.low <= 0 <= each.mean_change.high for each in some]) >= 0.8
        ratios = np.array([each.ratio.value for each in some]) / truth
        assert np.abs(np.log(ratios)).mean() < 1.5 * error
    assert {each.basis for each in some} == {"exact" if shared is None else "extrapolated"}


def test_collapsed_columns_are_predicted_only_from_tables_that_have_some() -> None:
    random = np.random.default_rng(0)
    golden = np.array([0.33] * 3 + [math.nan] + [0.8, 0.82] * 14)

    def table(down: int) -> list[Members]:
        rows = []
        for _ in range(12):
            right = random.random((10, 100)) < 0.8
            labels = np.arange(100) % 2
            predictions = np.where(right, labels, 1 - labels)
            predictions[:down] = 0
            rows.append(Members(predictions, labels, columns=np.arange(10)))
        return rows

    settled = {"over": ("a",), "classes": 2, "golden_std": Range(0.1, 0.09, 0.11)}
    blind = predict(table(0), metric=F1, golden=golden, **settled)
    assert [each.basis for each in blind] == ["unknown"]
    assert blind[0].reason == "3 of 31 golden runs collapsed, and almost none of these: use design=nested"
    assert of(predict(table(0), metric=F1, golden=golden[4:], **settled), "vote", 3).ratio.high > 0
    rows = table(2)
    found = of(predict(rows, metric=F1, golden=golden, **settled), "vote", 3)
    usual = of(predict(rows, metric=replace(F1, chance=None), golden=golden, **settled), "vote", 3)
    assert found.mean_change.value == usual.mean_change.value
    # Two of ten columns: Student's t has 2 degrees of freedom instead of 9.
    wider = (found.mean_change.high - found.mean_change.value) / (usual.mean_change.high - usual.mean_change.value)
    assert wider == pytest.approx(4.3027 / 2.2622, rel=0.02)
    assert found.ratio.high / usual.ratio.high > 1.5
    known = predict(rows, metric=F1, golden=golden, **settled)
    assert {each.basis for each in known} == {"exact", "unknown"}  # no law describes larger ensembles
    stray = table(0)
    stray[0].predictions[0] = 0  # a single run shows no more of them
    assert predict(stray, metric=F1, golden=golden, **settled)[0].basis == "unknown"
    nested = [replace(each, columns=None) for each in stray]
    assert predict(nested, metric=F1, golden=golden, **settled)[0].reason.endswith(": use more mitigation_runs")
    assert (found.reason, usual.reason) == ("3 of 31 golden runs collapsed: intervals may be too short", "")


def test_what_cannot_be_predicted_has_a_reason() -> None:
    def reasons(rows: list[Members], metric=ACCURACY) -> list[str]:  # type: ignore[no-untyped-def]
        found = predict(rows, over=("a",), metric=metric, classes=3)
        return [each.reason for each in found if each.basis == "unknown" and not each.std.value > 0]

    rows = rows_of(6, 5)
    assert "2 of 2 are needed" in reasons(rows[:1])[0]
    assert "2 of 2 are needed" in reasons([])[0]
    assert "2 of 2 are needed" in reasons([Members(r.predictions[:1], r.labels) for r in rows])[0]
    bare = [Members(r.predictions, r.labels) for r in rows]
    known = "no class scores of the runs are known: see vote", "no validation scores of the runs are known"
    assert {*reasons(bare)} == {*known}
    swapped = [replace(r, scores=r.scores[:, :, ::-1]) for r in rows]  # type: ignore[index]
    highest = "of the predictions are not the class with the highest score: see vote"
    assert any(highest in why for why in reasons(swapped))
    two = "come in groups of 2, and 3 are needed"
    assert any(two in why for why in reasons([Members(r.predictions[:2], r.labels) for r in rows]))
    six = "unknown, as they need investigation_runs=7"
    assert six in reasons([Members(r.predictions, r.labels, columns=np.arange(6)) for r in rows_of(5, 6)])
    texts = [Members(r.predictions.astype(str).astype(object), r.labels.astype(str).astype(object)) for r in rows]
    assert "texts have no mean: see vote" in reasons(texts, registered()["exact_match"])
    same = [Members(np.repeat(r.labels[None], 4, axis=0), r.labels) for r in rows]
    assert any("do not vary" in why for why in reasons(same))
    numbers = [Members(r.scores[:, :, 0].astype(float), r.labels.astype(float)) for r in rows]  # type: ignore[index]
    assert "numbers have no majority: see mean" in reasons(numbers, registered()["mse"])
    ragged = [*bare[:-1], Members(bare[-1].predictions[:2], bare[-1].labels)]
    assert "1 of 6 rows lack runs" in of(predict(ragged, over=("a",), metric=F1, classes=3), "vote", 3).reason
    few = Members(rows[0].predictions, rows[0].labels)
    assert "5 runs share" in predict_all(few, over=("a",), metric=F1, classes=3, test_size=9)[0].reason
    dead = [Members(np.full_like(r.predictions, -1), r.labels, examples=r.examples) for r in rows]
    assert of(predict(dead, over=("a",), metric=F1, classes=3), "report_mean", 1).consistency.value == 0


@pytest.mark.slow
def test_golden_ensembles_approach_the_luck_of_the_test() -> None:
    random = np.random.default_rng(3)
    right = (random.random((60, 300)) < np.clip(0.7 + random.normal(0, 0.1, (60, 1)), 0, 1)).astype(np.int64)
    members = Members(right, np.ones(300, dtype=np.int64))
    found = predict_all(members, over=("a",), metric=ACCURACY, classes=2, test_size=300)
    one, nine = found[0], of(found, "vote", 9)
    assert one.std.low < math.sqrt(0.01 + 0.2 / 300) < one.std.high
    assert nine.std.value < one.std.value / 2
    assert 0.1 < nine.mean_change.value < 0.3
    assert set(nine.shares) == {"a", "test examples"}


def test_the_draw_of_choices_does_not_hide_that_two_independent_runs_help() -> None:
    random = np.random.default_rng(0)
    examples = random.normal(0.8, 0.8, 360)
    margins = examples + random.normal(size=(60, 1)) + random.normal(size=(60, 360))
    scores = np.stack([-margins, margins], axis=-1).astype(np.float32)
    labels, places = np.ones(360, dtype=np.int64), np.arange(360)
    members = Members((margins > 0).astype(np.int64), labels, scores, test=places < 120, examples=places)
    settled = {"over": ("a",), "metric": ACCURACY, "classes": 2, "test_size": 120, "test_is_drawn": False}
    one_run, *predictions = predict_all(members, most_members=2, **settled)
    found = of(predictions, "mean", 2)
    tested = (margins[:, :120] > 0).mean(axis=1)
    assert one_run.std.value == pytest.approx(tested.std(ddof=1)), "what all results share is in no spread"
    fresh = random.normal(size=(2, 5_000, 1)) + random.normal(size=(2, 5_000, 120)) + examples[:120]
    one, two = ((each > 0).mean(axis=1).std() for each in (fresh[0], fresh.mean(axis=0)))
    assert found.ratio.low < two / one < found.ratio.high < 1
    assert found.shares == {"a": 1.0}, "test examples that all results share move none of them"


@pytest.mark.parametrize("k", [5, 7])
def test_the_mean_of_more_members_is_measured_where_their_spread_is_not(k: int) -> None:
    rng = np.random.default_rng(k)
    wrong = rng.random((12, 60)) < 0.8 * rng.random((12, 1))
    members = Members(np.where(wrong, rng.integers(1, 4, wrong.shape), 0), np.zeros(60, dtype=np.int64))
    masks = np.zeros((math.comb(12, k), 12), dtype=np.bool_)
    np.put_along_axis(masks, np.array(list(combinations(range(12), k))), values=True, axis=1)
    gain = (combine_choices("vote", members, masks) == 0).mean() - (members.predictions == 0).mean()
    all_runs = predict_all(members, over=("a",), metric=ACCURACY, classes=4, test_size=60, test_is_drawn=False)
    found = of(all_runs, "vote", k)
    assert found.mean_change.value == pytest.approx(gain, abs=0.01)
    assert (found.basis, bool(found.mean_change.low < gain < found.mean_change.high)) == ("extrapolated", True)
