import numpy as np
import pytest
import torch

from mlflow_l3d.approaches.finetuning.draws import batch_order, dropout_masks, initial_head
from mlflow_l3d.approaches.finetuning.head import train_head
from mlflow_l3d.approaches.finetuning.network import HeadNetwork
from mlflow_l3d.approaches.finetuning.recipe import HYPERPARAMETERS, Recipe
from mlflow_l3d.approaches.finetuning.training import DivergedError, learning_rates

SIZES = {"inputs": 7, "hidden": 5, "classes": 3, "batch_size": 4}


def double_network():
    network = HeadNetwork(**SIZES, weight_decay=0.01, dtype=torch.float64)
    network.start(*initial_head(3, 7, 5, 3))
    return network


def data(rows, dtype=torch.float64):
    rng = np.random.default_rng(rows)
    x = torch.from_numpy(np.hstack([rng.normal(size=(rows, 7)), np.ones((rows, 1))])).to(dtype)
    labels = rng.integers(3, size=rows)
    return x, torch.from_numpy(labels), torch.from_numpy(dropout_masks(0, 0, rows, 5, 0.3)).to(dtype)


def reference_logits(x, w1, w2, mask):
    hidden = torch.relu(x[:, :-1] @ w1[:-1] + w1[-1]) * mask
    return hidden @ w2[:-1] + w2[-1]


@pytest.mark.parametrize("rows", [4, 3, 2])
def test_gradient_is_that_of_autograd(rows):
    network, (x, labels, mask) = double_network(), data(rows)
    logits = torch.empty(rows, 3, dtype=torch.float64)
    network.differentiate(x, torch.nn.functional.one_hot(labels, 3).double(), mask, logits)

    w1, w2 = (weight.clone().requires_grad_() for weight in (network.w1, network.w2))
    expected = reference_logits(x, w1, w2, mask)
    g1, g2 = torch.autograd.grad(torch.nn.functional.cross_entropy(expected, labels), (w1, w2))

    torch.testing.assert_close(logits, expected.detach(), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(network.g1, g1, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(network.g2, g2, rtol=1e-12, atol=1e-14)
    assert network.g1.abs().max() > 0


def test_update_is_that_of_torch_adamw():
    network = double_network()
    parameter = torch.nn.Parameter(network.weights.clone())
    optimizer = torch.optim.AdamW([parameter], weight_decay=0.01, foreach=False, fused=False)
    rng = torch.Generator().manual_seed(0)
    for rate in (0.0, 0.02, 0.1, 0.003, 0.0):
        network.gradient.copy_(torch.randn(len(parameter), generator=rng, dtype=torch.float64))
        parameter.grad = network.gradient.clone()
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        network.update(rate)
        torch.testing.assert_close(network.weights, parameter.detach(), rtol=1e-10, atol=1e-12)


def test_a_new_start_forgets_the_optimiser():
    first, second = double_network(), double_network()
    for _ in range(3):
        second.gradient.fill_(1.0)
        second.update(0.1)
    second.start(*initial_head(3, 7, 5, 3))
    for network in (first, second):
        network.gradient.fill_(0.5)
        network.update(0.1)
    assert torch.equal(first.weights, second.weights)


def test_evaluation_has_no_dropout():
    network, (x, _, mask) = double_network(), data(6)
    expected = reference_logits(x, network.w1, network.w2, torch.ones_like(mask))
    torch.testing.assert_close(network.logits(x), expected, rtol=1e-12, atol=1e-14)


def recipe(**given):
    values = {name: declared.default for name, declared in HYPERPARAMETERS.items()}
    return Recipe.of(values | {"hidden_units": 5, "batch_size": 4, "epochs": 4, "learning_rate": 0.05} | given)


SEEDS = {"data_order": 1, "model_initialisation": 2, "model_randomness": 0}


def test_a_whole_training_is_that_of_plain_torch():
    """The last batch is smaller (10 = 4 + 4 + 2), and the best epoch comes back."""
    x, labels, _ = data(10)
    held_x, held_labels, _ = data(9)
    chosen = recipe(early_stopping_metric="loss", early_stopping_patience=0)
    network = double_network()
    progress = train_head(network, x, labels.numpy(), held_x, held_labels.numpy(), chosen, SEEDS)

    weights = [torch.nn.Parameter(torch.from_numpy(layer).double()) for layer in initial_head(2, 7, 5, 3)]
    optimizer = torch.optim.AdamW(weights, weight_decay=0.01)
    rates, losses, states = iter(learning_rates(chosen, 12)), [], []
    for epoch in range(4):
        order = torch.from_numpy(batch_order(1, epoch, 10))
        masks = torch.from_numpy(dropout_masks(0, epoch, 10, 5, 0.1)).double()
        for batch, mask in zip(order.split(4), masks.split(4), strict=True):
            optimizer.param_groups[0]["lr"] = next(rates)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(reference_logits(x[batch], *weights, mask), labels[batch])
            torch.autograd.backward(loss)
            optimizer.step()
        with torch.no_grad():
            held = reference_logits(held_x, *weights, 1.0)
            losses.append(float(torch.nn.functional.cross_entropy(held, held_labels)))
            states.append(torch.cat([weight.detach().flatten() for weight in weights]))
    assert progress.loss == pytest.approx(losses, rel=1e-9)
    assert progress.best == int(np.argmin(losses))
    torch.testing.assert_close(network.weights, states[progress.best], rtol=1e-9, atol=1e-11)


def test_a_diverged_training_says_so():
    x, labels, _ = data(10)
    x[3, 2] = float("inf")
    with pytest.raises(DivergedError, match=r"epoch 1 at learning_rate=0.05. Use a lower"):
        train_head(double_network(), x, labels.numpy(), x, labels.numpy(), recipe(), SEEDS)


def test_draws_are_what_their_names_say():
    order = batch_order(0, 0, 50)
    assert sorted(order) == list(range(50))
    assert not np.array_equal(order, batch_order(0, 1, 50))
    assert not np.array_equal(order, batch_order(1, 0, 50))
    masks = dropout_masks(0, 0, 400, 128, 0.25)
    assert masks.dtype == np.float32
    assert set(np.unique(masks)) == {np.float32(0), np.float32(1 / 0.75)}
    assert np.mean(masks == 0) == pytest.approx(0.25, abs=0.01)
    assert np.array_equal(masks[:7], dropout_masks(0, 0, 7, 128, 0.25))
    w1, w2 = initial_head(0, 100, 30, 4)
    assert w1.shape == (101, 30)
    assert w2.shape == (31, 4)
    assert 0.095 < np.abs(w1).max() <= 0.1
    assert w1.mean() == pytest.approx(0, abs=0.005)
