"""The stacked learners as training uses them: steps, adaptation, cells among others."""

from __future__ import annotations

import meta_learning_published as published
import numpy as np
import pytest
import torch
from meta_learning_cases import Case, Given, case, plain_logits, weights_of

from mlflow_l3d.approaches.meta_learning.session import learner_of
from mlflow_l3d.approaches.stack import Stack

pytestmark = pytest.mark.usefixtures("alone")

SETTINGS = {
    "protonet": Given("protonet", meta_optimizer="sgd"),
    "maml": Given("maml", meta_optimizer="adam"),
    "maml twice": Given("maml", meta_optimizer="adam", inner_steps=2, adaptation_steps=3),
    "fomaml": Given("fomaml", meta_optimizer="adam"),
    "fomaml, not adapted": Given("fomaml", meta_optimizer="adam", adaptation_steps=0),
    "reptile": Given("reptile", meta_optimizer="sgd", adaptation_steps=2),
    "reptile adam": Given("reptile", inner_optimizer="adam", inner_learning_rate=0.05, adaptation_steps=4),
    "reptile adam twice": Given("reptile", inner_optimizer="adam", inner_learning_rate=0.05, inner_steps=2),
}
by_name = pytest.mark.parametrize("name", SETTINGS)


def drawn_for(given: Given, **sizes: object) -> Case:
    return case(shots=given.shots, queries=0 if given.learner == "reptile" else 3, **sizes)


def paper_sized(given: Given, *, cells: int, seed: int = 0, classes: int = 2) -> Case:
    """Features of length 1 and the layer of the paper, in single precision."""
    drawn = drawn_for(given, cells=cells, classes=classes, inputs=96, hidden=128, seed=seed, dtype=torch.float32)
    drawn.x[..., :-1] /= drawn.x[..., :-1].norm(dim=-1, keepdim=True)
    return drawn


def unseen(drawn: Case, shots: int = 3, examples: int = 9) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Adaptation sets, their labels, and other rows."""
    cells, width, classes = len(drawn.stack), drawn.x.shape[-1], drawn.stack.classes
    noise = torch.randn(cells, shots * classes + examples, width, generator=torch.Generator().manual_seed(5))
    noise = noise.to(drawn.x.dtype)
    noise[..., -1] = 1
    labels = torch.arange(classes).repeat_interleave(shots).repeat(cells, 1)
    return noise[:, : shots * classes], labels, noise[:, shots * classes :]


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@by_name
def test_a_step_is_that_of_torch_optim_with_the_gradient_of_the_definition(name: str, dropout: float) -> None:
    given = SETTINGS[name]
    drawn = drawn_for(given, dropout=dropout)
    learner, networks = learner_of(given), [drawn.network(cell) for cell in range(2)]
    for _ in range(4):
        learner.step(drawn.stack, drawn.x, drawn.labels, drawn.masks)
    for cell, network in enumerate(networks):
        batches = 4 * [drawn.tasks(cell, given.shots * drawn.stack.classes)]
        meta = given.meta_optimizer, given.meta_learning_rate
        published.train(given.learner, network, batches, after="batch", meta=meta, base=given.base)
        for own, wanted in zip((drawn.stack.w1, drawn.stack.w2), weights_of(network), strict=True):
            torch.testing.assert_close(own[cell], wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 4])
@by_name
def test_adaptation_is_that_of_the_definition(name: str, classes: int) -> None:
    given = SETTINGS[name]
    drawn = drawn_for(given, classes=classes, cells=3)
    x_s, labels, x = unseen(drawn)
    before = drawn.stack.w1.clone(), drawn.stack.w2.clone()
    logits = learner_of(given).adapted_logits(drawn.stack, x_s, labels, x)
    for cell in range(3):
        wanted = plain_logits(given, drawn.network(cell), (x_s[cell, :, :-1], labels[cell]), x[cell, :, :-1])
        torch.testing.assert_close(logits[cell], wanted, rtol=1e-9, atol=1e-11)
    assert torch.equal(before[0], drawn.stack.w1)
    assert torch.equal(before[1], drawn.stack.w2)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e30])
@by_name
def test_a_cell_that_diverges_leaves_the_others_as_they_are(name: str, bad: float) -> None:
    given = SETTINGS[name]
    clean, dirty = paper_sized(given, cells=3), paper_sized(given, cells=3)
    dirty.x[1, 0, 0, 0] = bad
    x_s, labels, x = unseen(clean)
    results = []
    for drawn in (clean, dirty):
        learner = learner_of(given)
        losses = torch.stack([learner.step(drawn.stack, drawn.x, drawn.labels) for _ in range(4)], 1)
        logits = learner.adapted_logits(drawn.stack, x_s, labels, x)
        results.append((losses, logits, drawn.stack.w1, drawn.stack.w2))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])
    assert bool(torch.isfinite(results[0][0]).all())
    if not np.isfinite(bad):
        assert not bool(torch.isfinite(results[1][0][1, -1]))


def test_buffers_hold_nothing_of_an_earlier_step() -> None:
    for given in SETTINGS.values():
        used, fresh = learner_of(given), learner_of(given)
        for seed in (1, 2):
            other = drawn_for(given, cells=3, seed=seed)
            used.step(other.stack, other.x * 10, other.labels)
        one, two = drawn_for(given, cells=3), drawn_for(given, cells=3)
        assert torch.equal(used.step(one.stack, one.x, one.labels), fresh.step(two.stack, two.x, two.labels))
        assert torch.equal(one.stack.w1, two.stack.w1)


def test_a_stack_copies_what_it_is_given() -> None:
    w1, w2 = np.ones((3, 2), np.float32), np.ones((3, 2), np.float32)
    stack = Stack.of([(w1, w2)] * 2)
    w1[:] = 5
    assert stack.w1.dtype == torch.float32
    assert len(stack) == 2
    assert stack.classes == 2
    assert float(stack.w1.max()) == 1
    part = stack.select(np.array([0]))
    part.w1.fill_(7)
    assert float(stack.w1.max()) == 1


def test_adam_has_no_weight_decay() -> None:
    generator = torch.Generator().manual_seed(0)
    layers = [torch.randn(shape, generator=generator) for shape in ((2, 5, 3), (2, 4, 2))]
    with_decay, without = Stack(*layers), Stack(*layers)
    for stack, weight_decay in ((with_decay, 0.5), (without, 0.0)):
        stack.g1.copy_(layers[0].flip(0))
        stack.descend("adam", 0.1, weight_decay)
    assert torch.equal(with_decay.w1, without.w1)
    assert torch.equal(with_decay.w2, without.w2)


@pytest.mark.parametrize("classes", [2, 5])
@by_name
def test_the_memory_of_a_cell_is_what_it_holds(name: str, classes: int) -> None:
    given, cells = SETTINGS[name], 6
    drawn, learner = paper_sized(given, cells=cells, classes=classes), learner_of(given)
    learner.step(drawn.stack, drawn.x, drawn.labels)
    stack, moments = drawn.stack, drawn.stack.moments
    held = [stack.w1, stack.w2, stack.g1, stack.g2, drawn.x, *learner.buffers]
    held += moments[:2]
    inputs, tasks, examples = drawn.x.shape[3] - 1, *drawn.x.shape[1:3]
    estimate = learner.bytes_per_cell(inputs, 128, classes, tasks, examples) * cells
    assert 0.85 < sum(tensor.nbytes for tensor in held) / estimate < 1.05
