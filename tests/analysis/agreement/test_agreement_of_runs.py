"""Agreement of predictions of any kind in every layout: brute force, class numbers as a special case, bad input."""

import itertools
import json
import math
import statistics

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.analysis.consistency import Stability
from mlflow_l3d.analysis.consistency.choice import choose, scoring, scoring_of
from mlflow_l3d.analysis.consistency.runs import number_agreement
from mlflow_l3d.analysis.consistency.scored import comparisons_by, scored_agreement
from mlflow_l3d.analysis.consistency.scoring import Scoring
from mlflow_l3d.designs import design_named
from mlflow_l3d.errors import L3DError, ParameterError


def by_scoring(design, factors, function):
    return Stability(design_named(design).comparable(factors), *comparisons_by(function))


WORDS = st.lists(st.sampled_from(["red", "blue", "cat", "sky"]), max_size=3)
KINDS = {
    "squad_f1": WORDS.map(" ".join),
    "exact_match": WORDS.map(" ".join),
    "token_match": WORDS,
    "set_f1": WORDS.map(json.dumps),
    "closeness:scale=2": st.integers(0, 8).map(lambda number: number / 4),
}


def cells_of(design, rows, columns, golden, factors=("order", "split")):
    """Coordinates in the order of the table."""
    names = ("phase", "factor", "row", "column", "index")
    if design == "radial":
        for row in range(rows):
            yield dict(zip(names, ("base", None, row, None, None), strict=True))
            for factor in factors:
                yield dict(zip(names, ("swap", factor, row, None, None), strict=True))
        return
    for factor in factors:
        for row in range(1 if design in ("random", "fixed") else rows):
            for column in range(columns):
                yield dict(zip(names, ("investigation", factor, row, column, None), strict=True))
    for index in range(golden):
        yield dict(zip(names, ("golden", None, None, None, index), strict=True))


def groups_by_hand(design, cells):
    """Name of a record -> lists of numbers of cells that are compared with each other."""

    def at(**wanted):
        return [at for at, cell in enumerate(cells) if all(cell[key] == value for key, value in wanted.items())]

    rows = range(1 + max((cell["row"] for cell in cells if cell["row"] is not None), default=-1))
    found = {}
    for factor in ("order", "split"):
        if design == "radial":
            found[factor] = [at(phase="base", row=row) + at(phase="swap", factor=factor, row=row) for row in rows]
        else:
            found[factor] = [at(phase="investigation", factor=factor, row=row) for row in rows]
    found["golden"] = [at(phase="golden")]
    if design == "radial":
        found["golden"] = [at(phase="base"), at(phase="swap", factor="order"), at(phase="swap", factor="split")]
    return found


def fed(stability, cells, runs, truth):
    for cell, run in zip(cells, runs, strict=True):
        labels = None if truth is None else [truth[key] for key in run]
        stability.add(**cell, example_ids=list(run), labels=labels, predictions=list(run.values()))
    return stability


@given(st.data(), st.sampled_from(sorted(KINDS)), st.sampled_from(["crossed", "nested", "radial", "random", "fixed"]))
@settings(max_examples=30, deadline=None)
def test_equal_to_brute_force(data, name, design):
    cells = list(cells_of(design, 2, 3, 3))
    keys = [f"q{place}" for place in range(4)]
    answers = st.one_of(st.none(), KINDS[name])
    truth = {key: data.draw(KINDS[name]) for key in keys}
    runs = [data.draw(st.dictionaries(st.sampled_from(keys), answers, min_size=1)) for _ in cells]
    function = scoring_of(name)

    def read(value):
        return json.loads(value) if name == "set_f1" and value is not None else value

    found = fed(by_scoring(design, ("order", "split"), function), cells, runs, truth)
    records = found.consistencies()
    assert list(records) == ["order", "split", "golden"]
    for record_name, groups in groups_by_hand(design, cells).items():
        con, ccon, compared, comparisons, pairs_of_runs = [], [], 0, 0, 0
        for group in groups:
            pairs = [
                (function(read(one), read(other)), function(read(one), read(other), read(truth[key])))
                for first, second in itertools.combinations([runs[at] for at in group], 2)
                for key, one in first.items()
                if key in second
                for other in [second[key]]
            ]
            if pairs:
                con.append(statistics.fmean(pair[0] for pair in pairs))
                ccon.append(statistics.fmean(pair[1] for pair in pairs))
                comparisons += len(pairs)
            compared += len(group) if len(group) > 1 else 0
            pairs_of_runs += len(group) * (len(group) - 1) // 2
        record = records[record_name]
        given_answers = [answer for group in groups for at in group for answer in runs[at].values()]
        assert record.group == record_name
        assert record.consistency == pytest.approx(statistics.fmean(con) if con else math.nan, nan_ok=True)
        assert record.correct_consistency == pytest.approx(statistics.fmean(ccon) if ccon else math.nan, nan_ok=True)
        assert (record.runs, record.groups, record.pairs_of_predictions) == (compared, len(con), comparisons)
        assert record.unparsed_share == pytest.approx(given_answers.count(None) / len(given_answers))
        common = comparisons / pairs_of_runs if con else math.nan
        assert record.common_examples == pytest.approx(common, nan_ok=True)
        assert math.isnan(record.fleiss_kappa)
        assert math.isnan(record.accuracy_std)
    for factor in ("order", "split"):
        metrics = found.metrics_of(factor)
        known = {key: value for key, value in metrics.items() if "_pearson" not in key and "_ccc" not in key}
        assert known == records[factor].metrics()
    own = {}
    for record_name, groups in groups_by_hand(design, cells).items():
        if design == "radial" and record_name == "golden":
            continue
        for group in groups:
            for at in group:
                shared = [
                    function(read(answer), read(runs[other][key]))
                    for other in group
                    if other != at
                    for key, answer in runs[at].items()
                    if key in runs[other]
                ]
                own.setdefault(at, []).extend([statistics.fmean(shared)] if shared else [])
    expected = [statistics.fmean(own[at]) if own[at] else math.nan for at in range(len(cells))]
    assert found.agreement_of_runs() == pytest.approx(expected, nan_ok=True)
    assert found.examples() is None
    assert found.classes is None


@pytest.mark.parametrize("design", ["crossed", "nested", "radial", "random", "fixed"])
@pytest.mark.parametrize("same_tests", [True, False])
@pytest.mark.parametrize("lost", [(), (1, 5)])
def test_class_numbers_give_what_votes_give(design, same_tests, lost):
    rng = np.random.default_rng(3)
    cells = [cell for at, cell in enumerate(cells_of(design, 4, 3, 5)) if at not in lost]
    truth = {f"x{place}": int(label) for place, label in enumerate(rng.integers(0, 3, size=30))}
    runs = []
    for _ in cells:
        held = list(truth) if same_tests else [key for key in truth if rng.random() < 0.7]
        right = rng.random(len(held)) < 0.6
        other = rng.integers(-1, 3, size=len(held)).tolist()
        runs.append({key: truth[key] if hit else guess for key, hit, guess in zip(held, right, other, strict=True)})
    votes = fed(Stability(design_named(design).comparable(("order", "split"))), cells, runs, truth)
    found = fed(by_scoring(design, ("order", "split"), scoring("exact_match")), cells, runs, truth)
    ours, theirs = found.consistencies(), votes.consistencies()
    assert list(ours) == list(theirs)
    for name, record in ours.items():
        fields = "consistency correct_consistency runs groups pairs_of_predictions unparsed_share common_examples"
        for field in fields.split():
            assert getattr(record, field) == pytest.approx(getattr(theirs[name], field)), (name, field)
    assert found.agreement_of_runs() == pytest.approx(votes.agreement_of_runs(), nan_ok=True)
    expected = votes.prediction_importances()
    assert (len(expected) == 2) == (design not in ("random", "fixed"))
    assert list(found.prediction_importances()) == list(expected)
    for factor, record in found.prediction_importances().items():
        assert record.metrics() == pytest.approx(expected[factor].metrics())
        assert record.interval_over == expected[factor].interval_over
        assert record.rows == expected[factor].rows


@pytest.mark.parametrize("design", ["nested", "radial", "random"])
def test_asking_between_two_runs_changes_nothing(design):
    rng = np.random.default_rng(7)
    cells = list(cells_of(design, 2, 2, 3))
    runs = [dict(enumerate(rng.integers(0, 5, size=6).tolist())) for _ in cells]
    found = by_scoring(design, ("order", "split"), scoring("closeness", scale=4))
    for at in range(len(cells)):
        fed(found, cells[at : at + 1], runs[at : at + 1], None)
        fresh = by_scoring(design, ("order", "split"), scoring("closeness", scale=4))
        fed(fresh, cells[: at + 1], runs[: at + 1], None)
        assert found.consistencies().keys() == fresh.consistencies().keys()
        for name, record in fresh.consistencies().items():
            assert found.consistencies()[name].metrics() == record.metrics()
            assert found.consistencies()[name].runs == record.runs
        assert found.regression() == fresh.regression()
        assert found.agreement_of_runs() == pytest.approx(fresh.agreement_of_runs(), nan_ok=True)


def test_base_runs_alone_are_golden_runs_only():
    found = by_scoring("radial", ("order",), scoring("closeness", scale=1))
    for row in (0, 1):
        place = {"phase": "base", "factor": None, "row": row, "column": None, "index": None}
        found.add(**place, example_ids=[1, 2], labels=None, predictions=[0.25, row / 2])
    assert list(found.consistencies()) == list(found.regression()) == ["golden"]
    assert found.consistencies()["golden"].consistency == 0.75
    assert np.isnan(found.agreement_of_runs()).all()
    assert found.prediction_importances() == {}


def radial(function, base, swap, truth):
    cells = list(cells_of("radial", len(base), 0, 0, ("order",)))
    runs = [dict(enumerate(run)) for pair in zip(base, swap, strict=True) for run in pair]
    return fed(by_scoring("radial", ("order",), function), cells, runs, truth)


def test_a_graded_agreement_has_a_share_by_hand():
    # Differences within rows are 1 and 0, of golden runs 1, 2, 1 in units of the scale, 4.
    found = by_scoring("nested", ("order",), scoring("closeness", scale=4))
    runs = [{0: 1.5}, {0: 2.5}, {0: 3.0}, {0: 3.0}, {0: 0.5}, {0: 1.5}, {0: 2.5}]
    fed(found, list(cells_of("nested", 2, 2, 3, ("order",))), runs, None)
    assert found.consistencies()["order"].consistency == pytest.approx(1 - 0.5 / 4)
    assert found.consistencies()["golden"].consistency == pytest.approx(1 - (4 / 3) / 4)
    assert found.prediction_importances()["order"].share == pytest.approx((0.5 / 4) / ((4 / 3) / 4))


class Own(Scoring):
    """A scoring function of no truth, from a function of two predictions."""

    name = "own"

    def __init__(self, function):
        self.function = function

    def pair(self, one, other):
        return self.function(one, other)

    def with_truth(self, forms, truth):
        return np.zeros((len(forms), len(forms)))


def test_no_share_where_equal_predictions_do_not_agree():
    half = Own(lambda one, other: 0.5 * (one == other))
    assert radial(half, [["a", "b"], ["a", "c"]], [["a", "x"], ["y", "c"]], None).prediction_importances() == {}
    assert radial(scoring("exact_match"), [["a"], ["b"]], [["a"], ["c"]], None).prediction_importances() != {}


@pytest.mark.parametrize("choice", ["regression", "closeness:scale=3"])
def test_regression_is_numpys_correlation(choice):
    rng = np.random.default_rng(5)
    rows = [rng.normal(size=(3, 20)) + rng.normal(size=20) for _ in range(2)]
    golden = rng.normal(size=(4, 20)) + rng.normal(size=20)
    runs = [dict(enumerate(run.tolist())) for table in (*rows, golden) for run in table]
    found = by_scoring("crossed", ("order",), scoring_of(choice))
    fed(found, list(cells_of("crossed", 2, 3, 4, ("order",))), runs, dict.fromkeys(range(20), 0.5))

    def pearson(table):
        return np.corrcoef(table)[np.triu_indices(len(table), k=1)].mean()

    record = found.regression()
    assert list(record) == ["order", "golden"]
    assert record["order"]["consistency_pearson"] == pytest.approx(np.mean([pearson(table) for table in rows]))
    assert record["golden"]["consistency_pearson"] == pytest.approx(pearson(golden))
    expected = np.mean([number_agreement(table).pairs["consistency_ccc"].mean for table in rows])
    assert record["order"]["consistency_ccc"] == pytest.approx(expected)
    metrics = found.metrics_of("order")
    assert metrics["consistency_pearson"] == record["order"]["consistency_pearson"]
    if choice == "regression":
        assert found.consistencies() == {}
        assert found.prediction_importances() == {}
        assert np.isnan(found.agreement_of_runs()).all()
        assert set(metrics) == {"consistency_pearson", "consistency_ccc"}
    else:
        differences = [abs(one - other) for table in rows for one, other in itertools.combinations(table, 2)]
        assert metrics["consistency"] == pytest.approx(1 - np.minimum(1, np.array(differences) / 3).mean())


def test_unreadable_numbers_are_left_out_of_correlations():
    runs = [{0: 1.0, 1: 2.0, 2: 4.0, 3: None}, {0: 1.0, 1: math.nan, 2: 3.0, 3: 5.0}, {0: 2.0, 1: 3.0, 2: 5.0, 3: 1.0}]
    found = by_scoring("fixed", ("order",), scoring("closeness", scale=10))
    fed(found, list(cells_of("fixed", 1, 3, 0, ("order",))), runs, None)
    tables = [([1.0, 4.0], [1.0, 3.0]), ([1.0, 2.0, 4.0], [2.0, 3.0, 5.0]), ([1.0, 3.0, 5.0], [2.0, 5.0, 1.0])]
    expected = np.mean([np.corrcoef(*pair)[0, 1] for pair in tables])
    assert found.regression()["order"]["consistency_pearson"] == pytest.approx(expected)
    record = found.consistencies()["order"]
    assert record.unparsed_share == pytest.approx(2 / 12)
    close = [1, 0, 0.9, 0, 0.9, 0.9, 0.9, 0, 0.9, 0, 0.8, 0.6]
    assert record.consistency == pytest.approx(np.mean(close))
    assert math.isnan(record.correct_consistency)
    texts = radial(scoring("exact_match"), [["a"], ["b"]], [["a"], ["c"]], None)
    assert texts.regression() == {}


def test_missing_answers_and_truths():
    none = radial(scoring("exact_match"), [[None, "b"]] * 2, [[None, "b"]] * 2, {0: "a", 1: "b"})
    record = none.consistencies()["order"]
    assert (record.consistency, record.correct_consistency, record.unparsed_share) == (0.5, 0.5, 0.5)
    for truth in (None, {0: None, 1: "b"}, {0: math.nan, 1: "b"}):
        record = radial(scoring("squad_f1"), [["a", "b"]] * 2, [["a", "c"]] * 2, truth).consistencies()["order"]
        assert record.consistency == 0.5
        assert math.isnan(record.correct_consistency)
        assert record.metrics() == {"consistency": 0.5}
    alone = by_scoring("crossed", ("order", "split"), scoring("exact_match"))
    alone.add(**next(cells_of("crossed", 1, 1, 0)), example_ids=[1], labels=["a"], predictions=["a"])
    assert list(alone.consistencies()) == ["order"]
    assert math.isnan(alone.consistencies()["order"].consistency)
    assert alone.consistencies()["order"].groups == 0
    assert alone.metrics_of("order") == alone.metrics_of("split") == {}
    assert np.isnan(alone.agreement_of_runs()).all()
    assert alone.prediction_importances() == {}
    assert by_scoring("crossed", ("order",), None).consistencies() == {}


@pytest.mark.parametrize(
    "encode",
    [
        list,
        lambda column: [*map(np.array, column)],
        lambda column: [*map(tuple, column)],
        lambda column: [*map(json.dumps, column)],
        lambda column: pa.chunked_array([column]),
    ],
    ids=["lists", "arrays", "tuples", "json", "pyarrow"],
)
def test_columns_of_pyarrow_lists_and_json_are_the_same(encode):
    tags = [["O", "B-PER"], ["O", "O"]], [["O", "B-PER"], ["B-LOC", "O"]]
    truth = [["O", "B-PER"], ["O", "O"]]
    found = by_scoring("fixed", ("order",), scoring("token_match"))
    for cell, run in zip(cells_of("fixed", 1, 2, 0, ("order",)), tags, strict=True):
        found.add(**cell, example_ids=np.array([7, 9]), labels=encode(truth), predictions=encode(run))
    record = found.consistencies()["order"]
    assert (record.consistency, record.correct_consistency) == (0.75, 0.75)


def test_rankings_take_relevant_ids_as_json():
    found = radial(scoring("overlap", k=2), [["[1, 2]"]] * 2, [["[2, 3]"]] * 2, {0: "[2]"})
    assert found.consistencies()["order"].consistency == 0.5
    assert found.consistencies()["order"].correct_consistency == 1.0


def test_random_orders_agree_by_chance():
    """Two orders of seven ids agree to 91 %, and not at all beyond chance; of other ids no level is known."""
    generator = np.random.default_rng(0)
    base, swaps = ([[[*map(int, generator.permutation(7))] for _ in range(300)]] for _ in range(2))
    random = radial(scoring("ndcg"), base, swaps, None).consistencies()["order"]
    assert random.consistency == pytest.approx(0.905, abs=0.01)
    assert random.fleiss_kappa == pytest.approx(0, abs=0.1)
    assert radial(scoring("ndcg"), base, base, None).consistencies()["order"].fleiss_kappa == 1
    other = [[[1, 2]] * 300]
    assert math.isnan(radial(scoring("ndcg"), base, other, None).consistencies()["order"].fleiss_kappa)
    seeds = np.empty((2, 300), dtype=object)
    seeds[0], seeds[1] = base[0], swaps[0]
    assert scored_agreement(scoring("ndcg"), seeds, seeds[0])[1] == pytest.approx(random.fleiss_kappa)


ROW = {"phase": "investigation", "factor": "order", "row": 0, "column": 0, "index": None}


def test_bad_input_is_named_without_its_text():
    found = by_scoring("crossed", ("order",), scoring("token_match"))
    with pytest.raises(ParameterError, match="prediction=a text, of example q7: must be a list") as error:
        found.add(**ROW, example_ids=["q7"], labels=None, predictions=["a secret sentence"])
    assert "secret" not in str(error.value)
    texts = by_scoring("crossed", ("order",), scoring("exact_match"))
    texts.add(**ROW, example_ids=["q7"], labels=["secret"], predictions=["a"])
    with pytest.raises(ParameterError, match="label=two different ones of example q7") as error:
        texts.add(**ROW, example_ids=["q7"], labels=["other"], predictions=["a"])
    assert "secret" not in str(error.value)
    with pytest.raises(ParameterError, match="example_id=q7: must occur once"):
        texts.add(**ROW, example_ids=["q7", "q7"], labels=None, predictions=["a", "b"])
    with pytest.raises(ValueError, match="differ in number"):
        texts.add(**ROW, example_ids=["q7", "q8"], labels=None, predictions=["a"])
    with pytest.raises(ParameterError, match="phase="):
        texts.add(**{**ROW, "phase": "base"}, example_ids=["q7"], labels=None, predictions=["a"])
    numbers = by_scoring("crossed", ("order",), None)
    with pytest.raises(ParameterError, match="prediction=str: must be a number"):
        numbers.add(**ROW, example_ids=["q7"], labels=None, predictions=["secret"])
    with pytest.raises(ParameterError, match="prediction=inf: must be a finite number"):
        numbers.add(**ROW, example_ids=["q7"], labels=None, predictions=[math.inf])


def test_equal_predictions_are_compared_once():
    calls = []

    def counting(one, other):
        calls.append((one, other))
        return float(one == other)

    found = by_scoring("fixed", ("order",), Own(counting))
    runs = [{0: answer} for answer in "abaab"]
    fed(found, list(cells_of("fixed", 1, 5, 0, ("order",))), runs, None)
    assert found.consistencies()["order"].consistency == pytest.approx((3 + 1) / 10)
    assert len(calls) == 3


@pytest.mark.parametrize("value", [2.0, -1.0])
def test_a_scoring_function_out_of_bounds_is_an_error(value):
    with pytest.raises(L3DError, match="scoring=own: gave a value outside"):
        radial(Own(lambda *_: value), [["a"], ["b"]], [["a"], ["c"]], None).consistencies()


LISTS = [["a"], ["b", "c"]]


@pytest.mark.parametrize(
    ("name", "labels", "predictions", "expected"),
    [
        ("auto", [0, 1], [1, -1], None),
        ("auto", np.array([0, 1]), np.array([1.0, 0.0]), None),
        ("exact_match", [0, 1], [1, 0], None),
        ("auto", pa.chunked_array([[0, 1]]), pa.chunked_array([[1, 0]]), None),
        ("auto", [None, None], [1, 0], "exact_match"),
        ("auto", [0, 1], [1, None], None),
        ("auto", [0, 1], [1, math.nan], None),
        ("auto", [0, 1], [None, None], None),
        ("auto", [0, None], [1, 0], "exact_match"),
        ("auto", [0.5, 1.0], [1, 0], "regression"),
        ("auto", [1, 2], [1.25, 2.0], "regression"),
        ("auto", [None, None], [1.25, math.nan], "regression"),
        ("auto", ["a", "b"], ["a", None], "exact_match"),
        ("auto", [None, None], ["a", "b"], "exact_match"),
        ("regression", [1, 2], [1, 2], "regression"),
        ("squad_f1", LISTS, ["a", "b"], "squad_f1"),
        ("exact_match", LISTS, LISTS, "exact_match"),
        ("overlap:k=5", LISTS, LISTS, "overlap:k=5"),
        ("closeness:scale=5", [1.5], [2], "closeness:scale=5"),
    ],
)
def test_choice(name, labels, predictions, expected):
    assert choose(name, labels, predictions) == expected


@pytest.mark.parametrize(
    ("name", "labels", "predictions", "message"),
    [
        ("auto", LISTS, LISTS, "agreement=auto: labels are lists, predictions are lists: must be one of token_match"),
        ("auto", LISTS, ["a", "b"], "agreement=auto: .*squad_f1"),
        ("auto", ["a", "b"], [0, 1], "labels are texts, predictions are whole numbers, which are never equal"),
        ("exact_match", LISTS, ["a", "b"], "agreement=exact_match: .*never equal"),
        ("rougel", ["a"], ["a"], "agreement='rougel': .*Did you mean 'rouge"),
        ("closeness", [0.5], [0.5], "agreement=closeness: .*closeness:scale=5"),
        ("closeness:scale=-1", [0.5], [0.5], "agreement=closeness:scale=-1: scale must be a positive number"),
        ("closeness:scale=wide", [0.5], [0.5], "agreement=closeness:scale=wide: scale must be a positive number"),
        ("rbo:p=high", LISTS, LISTS, "agreement=rbo:p=high: p must be above 0 and below 1"),
        ("closeness:scale=5", ["a"], [0.5], "labels must be numbers, they are texts"),
        ("overlap:depth=5", LISTS, LISTS, "agreement=overlap:depth=5: overlap takes k"),
        ("overlap:5", LISTS, LISTS, "options must look like"),
        ("regression", ["a"], ["a"], "agreement=regression: predictions must be numbers, they are texts"),
    ],
)
def test_bad_choice(name, labels, predictions, message):
    with pytest.raises(ParameterError, match=message):
        choose(name, labels, predictions)


def test_scoring_of_reads_options():
    assert scoring_of("regression") is None
    assert scoring_of("overlap:k=3").name == "overlap@3"
    assert scoring_of("closeness:scale=4")(1.0, 2.0) == scoring_of("closeness:scale=+04")(1.0, 2.0) == 0.75
    assert scoring_of("closeness:scale=.5")(1.0, 1.25) == 0.5
    assert scoring_of("rouge1:stemmer=true").name == "rouge1"
