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


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("inner_steps", [1, 2, 3])
@pytest.mark.parametrize("name", LEARNERS)
def test_gradients_are_those_of_the_definition(name: str, inner_steps: int, classes: int, dropout: float) -> None:
    queries = 0 if name.startswith("reptile") else 3
    agree(
        given_of(name, inner_steps=inner_steps),
        case(classes=classes, queries=queries, dropout=dropout, seed=inner_steps),
    )


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


@pytest.mark.parametrize("inner_steps", [1, 3])
def test_first_order_is_exact_where_the_inner_loop_stands_still(inner_steps: int) -> None:
    gradients = []
    for name in ("maml", "fomaml"):
        drawn = case()
        given = Given(learner=name, inner_learning_rate=0.0, inner_steps=inner_steps)
        learner_of(given).differentiate(drawn.stack, drawn.x, drawn.labels)
        gradients.append(torch.cat([drawn.stack.g1.flatten(), drawn.stack.g2.flatten()]))
    torch.testing.assert_close(*gradients, rtol=1e-13, atol=1e-15)


def test_first_order_differs_where_it_moves() -> None:
    gradients = []
    for name in ("maml", "fomaml"):
        drawn = case()
        learner_of(Given(learner=name)).differentiate(drawn.stack, drawn.x, drawn.labels)
        gradients.append(drawn.stack.g1)
    assert float((gradients[0] - gradients[1]).abs().max() / gradients[0].abs().max()) > 0.01


def test_first_order_gradient_is_that_of_reptile_in_the_next_step() -> None:
    """With one support set for queries too, two steps of SGD move by the first gradient and then by FOMAML's."""
    two, one = (case(queries=0, seed=3) for _ in range(2))
    rate = 0.3
    for drawn, steps in ((two, 2), (one, 1)):
        given = Given(learner="reptile", inner_steps=steps, inner_learning_rate=rate)
        learner_of(given).differentiate(drawn.stack, drawn.x, drawn.labels)
    drawn = case(queries=0, seed=3)
    twice = [torch.cat([tensor, tensor], 2) for tensor in (drawn.x, drawn.labels)]
    learner_of(Given(learner="fomaml", inner_learning_rate=rate)).differentiate(drawn.stack, *twice)
    torch.testing.assert_close((two.stack.g1 - one.stack.g1) / rate, drawn.stack.g1, rtol=1e-9, atol=1e-13)
    torch.testing.assert_close((two.stack.g2 - one.stack.g2) / rate, drawn.stack.g2, rtol=1e-9, atol=1e-13)
