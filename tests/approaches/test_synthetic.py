import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_truth import total_sobol_indices, true_importance

from mlflow_l3d.approaches.base import Approach, resolve_hyperparameters
from mlflow_l3d.approaches.synthetic import FACTORS, MARGIN, Synthetic, fails, score
from mlflow_l3d.cells.factors import configuration_seed
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.packaged import generate
from mlflow_l3d.testing import changed, one_cell

ALL_OFF = {f"a_{factor}": 1e6 for factor in FACTORS}


def hyperparameters(**given):
    return resolve_hyperparameters(Synthetic(), given)


def only(noise=0.0, **a):
    return hyperparameters(noise=noise, **{**ALL_OFF, **{f"a_{name}": value for name, value in a.items()}})


def seeds_of(configurations):
    return {name: configuration_seed(0, name, index) for name, index in configurations.items()}


def test_indices_of_the_textbook_example():
    # a = 0, 1, 4.5, 9, 99, 99, 99, 99 is the textbook case; the last two of its eight hardly matter to the others.
    sensitivities = (0, 1, 4.5, 9, 99, 99)
    named = {f"a_{name}": a for name, a in zip(FACTORS, sensitivities, strict=True)}
    indices = total_sobol_indices(hyperparameters(**named))
    printed = (0.7871, 0.2422, 0.0343, 0.0105, 0.0001, 0.0001)
    assert [indices[name] for name in FACTORS] == pytest.approx(printed, abs=2e-4)
    v = [1 / (3 * (1 + Fraction(a)) ** 2) for a in sensitivities]
    variance = math.prod(1 + one for one in v) - 1
    exact = [v[k] * math.prod(1 + v[j] for j in range(6) if j != k) / variance for k in range(6)]
    assert [indices[name] for name in FACTORS] == pytest.approx([float(share) for share in exact], rel=1e-9)


def test_a_single_factor_is_everything_and_none_is_nothing():
    indices = total_sobol_indices(only(data_order=3.0))
    assert indices["data_order"] == pytest.approx(1.0)
    assert sum(indices.values()) == pytest.approx(1.0)
    assert true_importance(only(data_order=3.0))["data_order"] == pytest.approx(1.0)
    assert true_importance(only(data_order=3.0))["data_split"] == -1.0
    assert set(total_sobol_indices(only()).values()) == {0.0}


@pytest.mark.parametrize("noise", [0.0, 0.7])
def test_indices_by_quadrature(noise):
    # The oracle integrates the G-function on a grid, and noise as a third uniform that both factors redraw.
    a, b = 0.3, 2.0
    u = (np.arange(400) + 0.5) / 400
    g_a, g_b = (np.abs(4 * u - 2) + a) / (1 + a), (np.abs(4 * u - 2) + b) / (1 + b)
    e = 1 + noise * (2 * u - 1)
    second = np.mean(g_a**2) * np.mean(g_b**2) * np.mean(e**2)
    total = second - 1.0
    expected = {"data_split": (second - np.mean(g_b**2)) / total, "data_order": (second - np.mean(g_a**2)) / total}
    indices = total_sobol_indices(only(noise=noise, data_split=a, data_order=b))
    assert indices["data_split"] == pytest.approx(expected["data_split"], abs=1e-4)
    assert indices["data_order"] == pytest.approx(expected["data_order"], abs=1e-4)
    # A row of the table of data_order multiplies g_b and e by its g_a.
    within = np.sqrt(np.mean(g_b**2) * np.mean(e**2) - 1) * np.mean(g_a)
    limit = (within - np.std(g_a)) / math.sqrt(total)
    found = true_importance(only(noise=noise, data_split=a, data_order=b))["data_order"]
    assert found == pytest.approx(limit, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_scores_have_the_indices_they_claim(noise):
    # Jansen's estimator on the scores themselves: E (y - y_k)^2 / 2 = tau2_k.
    chosen = only(noise=noise, data_split=0.0, model_initialisation=1.0)
    names, count = ("data_split", "model_initialisation"), 3000
    base = [dict.fromkeys(names, index) for index in range(count)]
    y = np.array([score(seeds_of(cell), chosen) for cell in base])
    for name in names:
        other = np.array([score(seeds_of({**cell, name: cell[name] + count}), chosen) for cell in base])
        squares = (y - other) ** 2 / 2
        sigma2 = (y.var(ddof=1) + other.var(ddof=1)) / 2
        error = 4 * squares.std() / math.sqrt(count) / sigma2
        assert squares.mean() / sigma2 == pytest.approx(total_sobol_indices(chosen)[name], abs=error + 0.02)


@given(st.integers(0, 2**53 - 1), st.lists(st.floats(0, 2e6), min_size=6, max_size=6), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_scores_are_fractions(seed, sensitivities, noise):
    chosen = hyperparameters(noise=noise, **{f"a_{name}": a for name, a in zip(FACTORS, sensitivities, strict=True)})
    value = score(dict.fromkeys(FACTORS, seed), chosen)
    assert MARGIN - 1e-9 <= value <= 1 - MARGIN + 1e-9
    assert value == score(dict.fromkeys(FACTORS, seed), chosen)
    assert all(0 <= share <= 1 + 1e-12 for share in total_sobol_indices(chosen).values())


def test_an_inactive_factor_is_neither_needed_nor_looked_at(tmp_path):
    chosen = only(noise=0.5, data_order=0.0)
    approach = Synthetic()
    assert set(approach.inactive_factors(chosen)) == set(FACTORS) - {"data_order"}
    assert "smaller" in approach.inactive_factors(chosen)["data_split"]
    session = approach.prepare(generate(40), chosen, model="", device="cpu", cache=tmp_path)
    alone, among = one_cell(["data_order"]), changed(one_cell(FACTORS), "data_split", 9)
    (one,), (other,) = session.run([alone]), session.run([among])
    assert one.error is None
    assert one.predictions.tobytes() == other.predictions.tobytes()
    assert one.example_ids.tobytes() == other.example_ids.tobytes()
    assert one.metrics == other.metrics


def test_predictions_are_about_as_good_as_the_score(tmp_path):
    from dataclasses import replace

    task = replace(generate(30_000, 3), settings=SplitSettings(num_labelled=30, test_size=4900))
    session = Synthetic().prepare(task, hyperparameters(), model="", device="cpu", cache=tmp_path)
    for index in range(5):
        (outcome,) = session.run([one_cell(FACTORS, index)])
        accuracy = np.mean(outcome.predictions == outcome.labels)
        assert accuracy == pytest.approx(outcome.metrics["synthetic_score"], abs=0.015)
        np.testing.assert_array_equal(outcome.labels, task.labels[outcome.example_ids])
        np.testing.assert_array_equal(outcome.predictions, outcome.scores.argmax(axis=1))
        assert outcome.scores.sum(axis=1) == pytest.approx(1.0)


def test_a_higher_score_never_makes_a_right_prediction_wrong(tmp_path):
    session = Synthetic().prepare(generate(60), only(data_order=0.0), model="", device="cpu", cache=tmp_path)
    outcomes = sorted(
        session.run(changed(one_cell(FACTORS), "data_order", index) for index in range(20)),
        key=lambda outcome: outcome.metrics["synthetic_score"],
    )
    right = np.array([outcome.predictions == outcome.labels for outcome in outcomes])
    assert (np.diff(right.astype(int), axis=0) >= 0).all()
    assert right[0].sum() < right[-1].sum()


def test_cells_fail_by_their_key(tmp_path):
    chosen = hyperparameters(fail_every=3)
    session = Synthetic().prepare(generate(40), chosen, model="", device="cpu", cache=tmp_path)
    cells = [one_cell(FACTORS, index) for index in range(60)]
    errors = {outcome.key for outcome in session.run(cells) if outcome.error}
    assert errors == {cell.key for cell in cells if fails(cell.key, 3)}
    assert 8 <= len(errors) <= 32
    assert not any(fails(cell.key, 0) for cell in cells)
    (failed,) = session.run([cell for cell in cells if cell.key in errors][:1])
    assert failed.error.startswith("RuntimeError: ")
    assert failed.traceback.startswith("Traceback")


def test_a_cell_takes_the_time_it_is_told_to(tmp_path):
    chosen = hyperparameters(duration=0.03, spin=20)
    session = Synthetic().prepare(generate(40), chosen, model="", device="cpu", cache=tmp_path)
    (outcome,) = session.run([one_cell(FACTORS)])
    assert 0.05 <= outcome.duration_seconds < 5


@pytest.mark.parametrize(("name", "value"), [("a_data_order", -1), ("noise", 1.5), ("a_data_split", math.nan)])
def test_values_out_of_range(name, value):
    with pytest.raises(ParameterError, match=name):
        hyperparameters(**{name: value})


def test_unknown_name_and_a_model_that_would_have_no_effect():
    with pytest.raises(ParameterError, match="Did you mean 'a_data_order'"):
        hyperparameters(a_data_ordre=1)
    approach = Synthetic()
    assert isinstance(approach, Approach)
    assert approach.model_revision("") == approach.model_revision("auto") == "none"
    with pytest.raises(ParameterError, match="model=bert: approach synthetic has no model"):
        approach.model_revision("bert")
