from dataclasses import replace

import finetuning_helpers
import numpy as np
import pytest
import torch

from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.finetuning.head import Head
from mlflow_l3d.approaches.finetuning.recipe import HYPERPARAMETERS, Recipe
from mlflow_l3d.approaches.finetuning.training import DivergedError, Progress, batch_order, learning_rates, validate
from mlflow_l3d.approaches.stack import dropout_factors, initial_head
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.tasks.settings import Split

CELLS, INPUTS, HIDDEN, CLASSES = 3, 7, 5, 3


def reference_logits(x, w1, w2, mask):
    hidden = torch.relu(x[:, :-1] @ w1[:-1] + w1[-1]) * mask
    return hidden @ w2[:-1] + w2[-1]


# Whole trainings.

RNG = np.random.default_rng(10)
FEATURES = RNG.normal(size=(40, INPUTS))
LABELS = RNG.integers(CLASSES, size=40)
SCORES = 50 + 20 * RNG.normal(size=40)
BOTH = pytest.mark.parametrize("labels", [LABELS, SCORES], ids=["classes", "scores"])


def dropout_masks(seed, epoch, n, units, probability):
    return dropout_factors(stream(seed, "head_dropout", str(epoch)), (n, units), probability)


def recipe(**given):
    values = {name: declared.default for name, declared in HYPERPARAMETERS.items()}
    sizes = {"hidden_units": HIDDEN, "batch_size": 4, "epochs": 6, "learning_rate": 0.05}
    return Recipe(**Finetuning().complete(values | sizes | {"early_stopping_metric": "loss"} | given))


def split_of(number):
    order = np.random.default_rng(100 + number).permutation(40)
    return Split(*(np.sort(part) for part in np.split(order, [10, 19, 31])[:3]))


def head(number, chosen, labels=LABELS):
    own = replace(finetuning_helpers.cell(number), seeds={"data_order": number, "model_randomness": 50 + number})
    if labels is LABELS:
        return Head(own, split_of(number), Progress(chosen), initial_head(number, INPUTS, HIDDEN, CLASSES))
    weights, train = initial_head(number, INPUTS, HIDDEN, 1), SCORES[split_of(number).train]
    return Head(own, split_of(number), Progress(chosen), weights, centre=train.mean(), scale=train.std())


def plain(number, chosen, given):
    """Train one cell as plain torch does; return its losses (train, validation) and the best epoch's test logits."""
    split, x = split_of(number), torch.from_numpy(np.hstack([FEATURES, np.ones((40, 1))]))
    labels, loss_of, outputs, centre, scale = torch.from_numpy(given), torch.nn.functional.cross_entropy, CLASSES, 0, 1
    if given is SCORES:
        train = SCORES[split.train]
        labels, loss_of, outputs = labels[:, None], torch.nn.functional.mse_loss, 1
        centre, scale = np.mean(train), np.sqrt(np.mean((train - np.mean(train)) ** 2))
    weights = [torch.nn.Parameter(torch.from_numpy(layer).double()) for layer in initial_head(number, 7, 5, outputs)]
    optimizer = torch.optim.AdamW(weights, weight_decay=0.01)
    rates, losses, held_losses, logits = iter(learning_rates(chosen, 3 * chosen.epochs)), [], [], []
    for epoch in range(chosen.epochs):
        order = torch.from_numpy(split.train[batch_order(number, epoch, 10)])
        masks = torch.from_numpy(dropout_masks(50 + number, epoch, 10, HIDDEN, chosen.dropout)).double()
        seen = 0.0
        for batch, mask in zip(order.split(4), masks.split(4), strict=True):
            optimizer.param_groups[0]["lr"] = next(rates)
            optimizer.zero_grad()
            wanted = (labels[batch] - centre) / scale if given is SCORES else labels[batch]
            loss = loss_of(reference_logits(x[batch], *weights, mask), wanted)
            torch.autograd.backward(loss)
            optimizer.step()
            seen += float(loss.detach()) * len(batch) / 10
        with torch.no_grad():
            held, tested = (reference_logits(x[part], *weights, 1.0) for part in (split.validation, split.test))
            held_losses.append(float(loss_of(held * scale + centre, labels[split.validation])))
            logits.append(tested * scale + centre)
        losses.append(seen * scale**2)
        best = int(np.argmin(held_losses))
        if chosen.early_stopping_patience and epoch - best >= chosen.early_stopping_patience:
            break
    return losses, held_losses, logits[best]


@BOTH
@pytest.mark.parametrize(
    "given", [{}, {"dropout": 0}, pytest.param({"early_stopping_patience": 0}, marks=pytest.mark.slow)]
)
def test_a_whole_training_is_that_of_plain_torch(given, labels):
    """The last batch is smaller (10 = 4 + 4 + 2); cells stop early, each in its own epoch; the best one comes back."""
    chosen = recipe(epochs=12, **{"early_stopping_patience": 1} | given)
    heads = [head(number, chosen, labels) for number in range(6)]
    found = finetuning_helpers.train_heads(heads, FEATURES, labels, chosen, "cpu")
    lengths = set()
    for number, (own, logits) in enumerate(zip(heads, found, strict=True)):
        losses, held, expected = plain(number, chosen, labels)
        assert own.progress.train_loss == pytest.approx(losses, rel=1e-6)
        assert own.progress.loss == pytest.approx(held, rel=1e-9)
        torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-11)
        lengths.add(len(losses))
    assert len(lengths) > 1 or chosen.early_stopping_patience == 0


def test_a_diverged_head_says_so_and_the_others_go_on():
    chosen = recipe()
    alone = finetuning_helpers.train_heads([head(0, chosen), head(2, chosen)], FEATURES, LABELS, chosen, "cpu")
    sick = head(1, chosen)
    sick.weights[0][2, 3] = np.inf
    heads = [head(0, chosen), sick, head(2, chosen)]
    first, middle, last = finetuning_helpers.train_heads(heads, FEATURES, LABELS, chosen, "cpu")
    assert isinstance(middle, DivergedError)
    assert str(middle).startswith("training diverged: nan or inf in epoch 1 at learning_rate=0.05. Use a lower")
    for own, other in zip((first, last), alone, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-12, atol=1e-14)


def test_all_heads_diverge():
    chosen = recipe()
    found = finetuning_helpers.train_heads(
        [head(0, chosen), head(1, chosen)], np.full_like(FEATURES, np.inf), LABELS, chosen, "cpu"
    )
    assert [type(own) for own in found] == [DivergedError] * 2


def test_validation_is_that_of_the_definitions():
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 1.0]])
    f1, loss = validate(logits, np.array([0, 1, 1]))
    assert f1 == pytest.approx(2 / 3)
    assert loss == pytest.approx(np.mean([np.log1p(np.exp(-2)), np.log1p(np.exp(-1)), np.log1p(np.exp(2))]))
    assert np.isnan(validate(logits[:0], np.empty(0, dtype=np.int64))).all()


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
