"""Several studies side by side: tables, the seed x task matrix, correlations with training size."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from seeds_cases import drawn_regression, drawn_study

from mlflow_l3d.studies.seeds.numbers import seeds_study
from mlflow_l3d.studies.seeds.numbers.over_tasks import (
    over_tasks,
    seed_matrix,
    size_correlation,
    size_correlations,
    study_rows,
    table_7,
)


@pytest.fixture(scope="module")
def studies():
    rng = np.random.default_rng(0)
    sizes = (250, 2490, 3668, 8551, 67349)
    made = [
        drawn_study(
            rng,
            task=name,
            model="encoder",
            benchmark="GLUE" if at > 1 else "SuperGLUE",
            training_size=size,
            quality=0.4 + 0.3 * at,
            metric="matthews_corrcoef" if name == "cola" else "accuracy",
        )
        for at, (name, size) in enumerate(zip(("cb", "rte", "mrpc", "cola", "sst2"), sizes, strict=True))
    ]
    numbers = drawn_regression(rng, task="stsb", model="encoder", benchmark="GLUE", training_size=5749)
    return [*made, numbers]


def test_rows_hold_what_the_studies_say(studies):
    rows = study_rows(studies).set_index("task")
    mrpc = studies[2]
    assert rows.loc["mrpc", "metric_mean"] == mrpc.own.mean
    assert rows.loc["mrpc", "var"] == mrpc.own.var
    assert rows.loc["mrpc", "con_std"] == mrpc.pairs["consistency"].std
    assert rows.loc["mrpc", "f1_std"] == pytest.approx(mrpc.scores["f1_macro"].std(ddof=0))
    assert rows.loc["cola", "metric"] == "matthews_corrcoef"
    assert rows.loc["stsb", "con"] == studies[5].pairs["consistency_pearson"].mean
    assert rows.loc["stsb", ["ccon", "precision", "f1_std"]].isna().all()
    assert (rows["con_ci_low"] < rows["con"]).all()
    assert (rows["con"] < rows["con_ci_high"]).all()


def test_tables_have_the_papers_layout(studies):
    tables = table_7(study_rows(studies))
    assert list(tables) == [("encoder", "SuperGLUE"), ("encoder", "GLUE")]
    glue = tables["encoder", "GLUE"]
    assert glue.index.tolist() == ["mrpc", "cola", "sst2", "stsb"]
    assert glue.loc["sst2", ("score", "std")] == studies[4].own.var
    seventh = tables["encoder", "SuperGLUE"]
    assert seventh.index.tolist() == ["cb", "rte"]
    assert seventh.columns.get_level_values(0).unique().tolist() == ["P", "R", "F1", "score", "CON", "CCON"]
    assert seventh.loc["rte", ("CCON", "std")] == studies[1].pairs["correct_consistency"].std


def test_the_matrix_holds_the_seeds_that_all_tasks_have(studies):
    short = drawn_study(np.random.default_rng(1), seeds=(52, 42, 7), task="wic", model="encoder")
    matrix = seed_matrix([*studies, short])
    assert matrix.columns.tolist() == [42, 52]
    assert matrix.loc["wic", 52] == short.scores.loc[52, "accuracy"]
    found = over_tasks([*studies, short])[0]
    assert any("9 seeds that not all tasks have" in note for note in found.notes)


def test_errors_are_turned_so_that_higher_is_better():
    study = drawn_regression(np.random.default_rng(2), metric="mse", task="stsb")
    np.testing.assert_allclose(seed_matrix([study]).loc["stsb"], -study.scores["mse"])


def test_each_model_is_compared_by_itself(studies):
    names = ("rte", "cb")
    other = [drawn_study(np.random.default_rng(at), task=name, model="decoder") for at, name in enumerate(names)]
    found = over_tasks([*studies, *other])
    assert [one.model for one in found] == ["encoder", "decoder"]
    encoder = found[0]
    assert encoder.better_seed.tasks == ("cb", "rte", "mrpc", "cola", "sst2", "stsb")
    metrics = encoder.metrics()
    assert {"kendall_w", "friedman_p", "size_pearson/con", "size_spearman_ci_low/var"} <= set(metrics)
    expected = np.corrcoef(np.log10(encoder.rows["training_size"]), encoder.rows["var"])[0, 1]
    assert metrics["size_pearson/var"] == pytest.approx(expected)
    assert any("Training size not known" in note and "rte, cb" in note for note in found[1].notes)


def test_one_task_has_no_comparison(studies):
    found = over_tasks(studies[:1])[0]
    assert found.better_seed is None
    assert found.metrics() == {}
    assert not [note for note in found.notes if "few for a correlation" in note]


def test_collapses_are_told():
    scores = pd.DataFrame({"seed": [1, 2]})
    frame = pd.DataFrame(
        {"seed": [1, 1, 2, 2], "example_id": [0, 1, 0, 1], "label": [0, 1, 0, 1], "prediction": [0, 1, 1, 1]}
    )
    found = over_tasks([seeds_study(scores, frame, task="rte")])[0]
    assert any("rte (1)" in note for note in found.notes)


def test_tasks_of_one_size_say_nothing_about_it():
    rng = np.random.default_rng(3)
    [found] = over_tasks([drawn_study(rng, task=task, model="m", training_size=64) for task in ("a", "b", "c", "d")])
    assert "All tasks have 64 training examples, so nothing can be said about their number." in found.notes
    assert found.correlations["pearson"].isna().all()


def test_the_same_task_of_two_benchmarks_is_two_tasks(studies):
    rng = np.random.default_rng(3)
    two = [drawn_study(rng, task="rte", benchmark=name) for name in ("GLUE", "SuperGLUE")]
    assert seed_matrix(two).index.tolist() == ["rte (GLUE)", "rte (SuperGLUE)"]
    refuses("task=rte", over_tasks, [two[0], two[0]])
    refuses("at least one", over_tasks, [])


@given(st.lists(st.tuples(st.integers(10, 10**6), st.floats(0, 1)), min_size=5, max_size=20, unique_by=lambda x: x[0]))
@settings(max_examples=60, deadline=None)
def test_correlations_equal_scipy(pairs):
    sizes, values = np.array(pairs).T
    values = np.round(values, 3)
    found = size_correlation(sizes, values)
    if np.ptp(values) == 0:
        assert math.isnan(found["pearson"])
        return
    expected = scipy.stats.pearsonr(np.log10(sizes), values)
    assert found["pearson"] == pytest.approx(expected.statistic, abs=1e-9)
    assert found["spearman"] == pytest.approx(scipy.stats.spearmanr(sizes, values).statistic, abs=1e-9)
    if abs(expected.statistic) < 0.999:
        interval = expected.confidence_interval()
        ends = found["pearson_ci_low"], found["pearson_ci_high"]
        assert ends == pytest.approx((interval.low, interval.high), abs=1e-6)
    whole = size_correlation(sizes, values, scale="size")
    assert whole["pearson"] == pytest.approx(scipy.stats.pearsonr(sizes, values).statistic, abs=1e-9)
    assert whole["spearman"] == pytest.approx(found["spearman"])


@pytest.mark.slow
def test_intervals_of_twelve_tasks_cover():
    rng = np.random.default_rng(4)
    truth = -0.6
    hits, ranks = [], []
    spearman = 6 / math.pi * math.asin(truth / 2)
    for _ in range(1000):
        x = rng.normal(size=12)
        found = size_correlation(10**x, truth * x + math.sqrt(1 - truth**2) * rng.normal(size=12))
        hits.append(found["pearson_ci_low"] <= truth <= found["pearson_ci_high"])
        ranks.append(found["spearman_ci_low"] <= spearman <= found["spearman_ci_high"])
    assert 0.93 <= np.mean(hits) <= 0.97
    assert 0.91 <= np.mean(ranks) <= 0.97


def test_few_tasks_claim_no_interval():
    found = size_correlation([100, 1000, 10000], [0.1, 0.2, 0.4])
    assert math.isnan(found["pearson_ci_low"])
    assert found["pearson"] > 0.9
    assert math.isnan(size_correlation([100], [0.1])["pearson"])


def test_tasks_without_size_or_value_are_left_out():
    frame = pd.DataFrame(
        {"training_size": [10, 100, math.nan, 1e4, 1e5], "var": [4, 3, 9, 1, 0], "con": [1, 2, 3, math.nan, 5]}
    )
    found = size_correlations(frame.assign(ccon=math.nan)).set_index(["scale", "measure"])
    assert found["tasks"].tolist() == [4, 3, 0] * 2


def test_a_size_is_above_0():
    refuses(r"training_size=0\.0: must be above 0", size_correlation, [0, 10], [1.0, 2.0])
