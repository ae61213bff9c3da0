"""The gradients of the stacked learners against the definitions, in double precision."""

from __future__ import annotations

import meta_learning_published as published
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from meta_learning_cases import Case, Given, case, weights_of

from mlflow_l3d.approaches.meta_learning.session import learner_of

pytestmark = pytest.mark.usefixtures("alone")

LEARNERS = ("protonet", "maml", "fomaml", "reptile", "reptile adam")


def given_of(name: str, **values: object) -> Given:
    learner, _, optimizer = name.partition(" ")
    return Given(learner=learner, inner_optimizer=optimizer or "sgd", **values)


def agree(given: Given, drawn: Case) -> None:
    """Every cell's gradient and loss are those of a plain network."""
    learner = learner_of(given)
    losses = learner.differentiate(drawn.stack, drawn.x, drawn.labels, drawn.masks)
    for cell in range(len(drawn.stack)):
        network, tasks = drawn.network(cell), drawn.tasks(cell, given.shots * drawn.stack.classes)
        found = [published.add_gradient(given.learner, network, task, 1 / len(tasks), given.base) for task in tasks]
        for own, gradient in zip((drawn.stack.g1, drawn.stack.g2), weights_of(network, gradients=True), strict=True):
            # Differences of weights of size 1, of which the gradient of Reptile is made, end at 1e-16.
            absolute = 1e-12 * float(gradient.abs().max()) + 1e-15
            torch.testing.assert_close(own[cell], gradient, rtol=1e-9, atol=absolute)
        assert float(losses[cell]) == pytest.approx(float(sum(found)) / len(found), rel=1e-12)


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
