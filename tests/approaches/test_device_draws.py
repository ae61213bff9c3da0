"""Factors of dropout that a device computes: each from its place in the stream of its cell, wherever it is entered."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.approaches.device_draws import dropout_factors
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.meta_learning import MetaLearning
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.tasks.sources.packaged import generate


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=4),
    st.integers(0, 500),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.floats(0.0, 0.99),
)
def test_a_factor_depends_on_its_cell_and_its_place_alone(seeds, first, shape, probability):
    found = dropout_factors(seeds, first, tuple(shape), probability, "cpu").numpy()
    assert found.shape == (len(seeds), *shape)
    for own, seed in zip(found, seeds, strict=True):
        (whole,) = dropout_factors([seed], 0, (first + own.size,), probability, "cpu").numpy()
        assert np.array_equal(own.ravel(), whole[first:])


def test_factors_stay_as_they_are_since_keys_of_cells_do():
    found = dropout_factors([7, 2**63 - 1], 3, (10,), 0.5, "cpu")
    assert (found / 2).int().tolist() == [[0, 0, 0, 0, 1, 1, 1, 1, 0, 1], [0, 0, 1, 0, 0, 0, 1, 1, 1, 0]]


@pytest.mark.parametrize("probability", [0.1, 0.25, 0.5])
def test_as_many_are_dropped_as_asked_for_and_streams_are_not_alike(probability):
    one, other = dropout_factors([7, 8], 0, (400_000,), probability, "cpu").numpy()
    for own in (one, other):
        spread = np.sqrt(probability * (1 - probability) / own.size)
        assert np.mean(own == 0) == pytest.approx(probability, abs=4 * spread)
        assert own.mean() == pytest.approx(1, abs=4 * spread / (1 - probability))
        kept = own > 0
        assert abs(np.corrcoef(kept[:-1], kept[1:])[0, 1]) < 4 / np.sqrt(own.size)
    assert abs(np.corrcoef(one > 0, other > 0)[0, 1]) < 4 / np.sqrt(one.size)


@pytest.mark.parametrize("approach", [Finetuning(), MetaLearning()])
def test_keys_of_a_gpu_say_how_dropout_is_drawn(approach, monkeypatch):
    monkeypatch.setattr("mlflow_l3d.approaches.numerics.device_numerics", lambda device: {"device": device})
    assert approach.numerics("cuda:1")["dropout"] == "counted"
    assert "dropout" not in approach.numerics("cpu")


@pytest.mark.parametrize(("trainable", "batches"), [("head", None), ("full", "of one shape")])
def test_keys_of_a_gpu_name_the_shape_of_batches_if_the_whole_model_is_trained(trainable, batches, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("mlflow_l3d.approaches.numerics.device_numerics", lambda device: {"device": "cuda card"})
    given = {"approach": "finetuning", "device": "cuda", "hyperparameters": {"trainable": trainable}}
    assert specify(given, task=generate(400)).setup.numerics.get("batches") == batches
    assert "batches" not in specify({**given, "device": "cpu"}, task=generate(400)).setup.numerics
