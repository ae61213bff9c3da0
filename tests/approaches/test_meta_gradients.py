"""The gradients of the stacked learners against the definitions, in double precision."""

from __future__ import annotations

from collections.abc import Iterator

import meta_learning_reference as reference
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from meta_learning_cases import Case, Given, case

from mlflow_l3d.approaches.meta_learning.session import learner_of
from mlflow_l3d.approaches.numerics import one_thread

LEARNERS = ("protonet", "maml", "fomaml", "reptile", "reptile adam")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def given_of(name: str, **values: object) -> Given:
    learner, _, optimizer = name.partition(" ")
    return Given(learner=learner, inner_optimizer=optimizer or "sgd", **values)


def agree(given: Given, drawn: Case) -> None:
    """Every cell's gradient and loss are those of the reference."""
    learner = learner_of(given)
    losses = learner.differentiate(drawn.stack, drawn.x, drawn.labels, drawn.masks)
    for cell in range(len(drawn.stack)):
        tasks = drawn.tasks(cell, given.shots * drawn.stack.classes)
        gradient, loss = reference.GRADIENTS[given.learner](given, drawn.weights(cell), tasks)
        for name, own in (("w1", drawn.stack.g1), ("w2", drawn.stack.g2)):
            # Differences of weights of size 1, of which the reference makes the gradient of Reptile, end at 1e-16.
            absolute = 1e-12 * float(gradient[name].abs().max()) + 1e-15
            torch.testing.assert_close(own[cell], gradient[name], rtol=1e-9, atol=absolute)
        assert float(losses[cell]) == pytest.approx(float(loss), rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(LEARNERS),
    cells=st.integers(1, 3),
    tasks=st.integers(1, 4),
    classes=st.integers(2, 4),
    shots=st.integers(1, 4),
    queries=st.integers(1, 4),
    inputs=st.integers(1, 9),
    hidden=st.integers(1, 9),
    inner_steps=st.integers(1, 3),
    rate=st.floats(0.0, 1.0),
    dropout=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 1000),
)
def test_gradients_for_any_shape(
    name: str, shots: int, rate: float, inner_steps: int, queries: int, **sizes: int
) -> None:
    queries = 0 if name.startswith("reptile") else queries
    given = given_of(name, shots=shots, inner_learning_rate=rate, inner_steps=inner_steps)
    agree(given, case(shots=shots, queries=queries, **sizes))


def test_the_reference_is_the_derivative_of_the_loss() -> None:
    given, drawn = Given(inner_steps=2, inner_learning_rate=0.5), case(cells=1)
    weights, tasks = drawn.weights(0), drawn.tasks(0, 4)
    gradient, _ = reference.maml_gradient(given, weights, tasks)
    direction = {name: torch.randn_like(tensor) for name, tensor in weights.items()}

    def loss(length: float) -> float:
        moved = {name: weights[name] + length * direction[name] for name in weights}
        return float(reference.maml_gradient(given, moved, tasks)[1])

    slope = sum(float((gradient[name] * direction[name]).sum()) for name in weights)
    assert slope == pytest.approx((loss(1e-6) - loss(-1e-6)) / 2e-6, rel=1e-6)
