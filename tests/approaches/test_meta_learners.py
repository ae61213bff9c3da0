"""The stacked learners as training uses them: steps, adaptation, cells among others."""

from __future__ import annotations

from collections.abc import Iterator

import meta_learning_reference as reference
import numpy as np
import pytest
import torch
from meta_learning_cases import Case, Given, case

from mlflow_l3d.approaches.meta_learning.session import learner_of
from mlflow_l3d.approaches.numerics import one_thread
from mlflow_l3d.approaches.stack import Stack

SETTINGS = {
    "protonet": Given("protonet", meta_optimizer="sgd"),
    "maml": Given("maml", meta_optimizer="adam"),
    "maml twice": Given("maml", meta_optimizer="adam", inner_steps=2, adaptation_steps=3),
    "fomaml": Given("fomaml", meta_optimizer="adam"),
    "reptile": Given("reptile", meta_optimizer="sgd", adaptation_steps=2),
    "reptile adam": Given("reptile", inner_optimizer="adam", inner_learning_rate=0.05, adaptation_steps=4),
    "reptile adam twice": Given("reptile", inner_optimizer="adam", inner_learning_rate=0.05, inner_steps=2),
}
by_name = pytest.mark.parametrize("name", SETTINGS)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


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


@by_name
def test_a_step_is_that_of_torch_optim_with_the_gradient_of_the_definition(name: str) -> None:
    given = SETTINGS[name]
    drawn = drawn_for(given)
    learner, kinds = learner_of(given), {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    wanted = [drawn.weights(cell) for cell in range(len(drawn.stack))]
    optimizers = [kinds[given.meta_optimizer](own.values(), lr=given.meta_learning_rate) for own in wanted]
    for _ in range(4):
        learner.step(drawn.stack, drawn.x, drawn.labels)
        for cell, (own, optimizer) in enumerate(zip(wanted, optimizers, strict=True)):
            tasks = drawn.tasks(cell, given.shots * drawn.stack.classes)
            for part, gradient in reference.GRADIENTS[given.learner](given, own, tasks)[0].items():
                own[part].grad = gradient
            optimizer.step()
    for cell, own in enumerate(wanted):
        torch.testing.assert_close(drawn.stack.w1[cell], own["w1"], rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(drawn.stack.w2[cell], own["w2"], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 4])
@by_name
def test_adaptation_is_that_of_the_definition(name: str, classes: int) -> None:
    given = SETTINGS[name]
    drawn = drawn_for(given, classes=classes, cells=3)
    x_s, labels, x = unseen(drawn)
    before = drawn.stack.w1.clone(), drawn.stack.w2.clone()
    logits = learner_of(given).adapted_logits(drawn.stack, x_s, labels, x)
    for cell in range(3):
        support = reference.Set(x_s[cell], labels[cell])
        wanted = reference.adapted_logits(given, drawn.weights(cell), support, x[cell])
        torch.testing.assert_close(logits[cell], wanted, rtol=1e-9, atol=1e-11)
    assert torch.equal(before[0], drawn.stack.w1)
    assert torch.equal(before[1], drawn.stack.w2)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_no_steps_of_adaptation_leave_the_weights(optimizer: str) -> None:
    given = Given("reptile", inner_optimizer=optimizer, adaptation_steps=0)
    drawn = drawn_for(given)
    x_s, labels, x = unseen(drawn)
    wanted = reference.logits(drawn.weights(0), reference.Set(x[0], labels[0]))
    torch.testing.assert_close(learner_of(given).adapted_logits(drawn.stack, x_s, labels, x)[0], wanted)


def test_prototypes_by_hand() -> None:
    """Two units that copy the two features: class means (1, 0) and (0, 2)."""
    w1 = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    stack = Stack.of([(w1, np.zeros((3, 2)))], dtype=torch.float64)
    x_s = torch.tensor([[[0.0, 0.0, 1.0], [2.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 3.0, 1.0]]], dtype=torch.float64)
    x = torch.tensor([[[1.0, 1.0, 1.0], [3.0, -5.0, 1.0]]], dtype=torch.float64)
    logits = learner_of(Given("protonet")).adapted_logits(stack, x_s, torch.tensor([[0, 0, 1, 1]]), x)
    assert logits[0].tolist() == [[-1.0, -2.0], [-4.0, -13.0]]


def test_one_expanded_test_set_serves_all_cells() -> None:
    drawn = drawn_for(SETTINGS["maml"])
    x_s, labels, x = unseen(drawn)
    learner, same = learner_of(SETTINGS["maml"]), x[:1].expand(2, -1, -1)
    torch.testing.assert_close(
        learner.adapted_logits(drawn.stack, x_s, labels, same),
        learner.adapted_logits(drawn.stack, x_s, labels, same.clone()),
        rtol=1e-12,
        atol=1e-12,
    )


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e30])
@by_name
def test_a_cell_that_diverges_leaves_the_others_as_they_are(name: str, bad: float) -> None:
    given = SETTINGS[name]
    with one_thread():
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
