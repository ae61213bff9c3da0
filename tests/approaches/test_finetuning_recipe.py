import math

import pytest
import torch
from refusals import refusal

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.approaches.finetuning.training import DivergedError, Progress, learning_rates
from mlflow_l3d.approaches.numerics import one_thread
from mlflow_l3d.errors import L3DError, ParameterError

APPROACH = Finetuning()


def recipe(**given):
    return Recipe(**APPROACH.complete(resolve_hyperparameters(APPROACH, given)))


@pytest.mark.parametrize(("trainable", "rate", "epochs"), [("head", 3e-4, 10), ("full", 1e-5, 5), ("lora", 2e-4, 5)])
def test_auto_is_the_recipes_own(trainable, rate, epochs):
    resolved = resolve_hyperparameters(APPROACH, {"trainable": trainable})
    completed = APPROACH.complete(resolved)
    assert (completed["learning_rate"], completed["epochs"]) == (rate, epochs)
    numbers = [name for name, declaration in APPROACH.hyperparameters.items() if declaration.auto]
    if trainable != "full":
        numbers.remove("head_dropout")
    assert "auto" not in [completed[name] for name in numbers]
    assert APPROACH.complete(completed) == completed


def test_a_given_number_beats_auto():
    chosen = recipe(trainable="full", learning_rate="2e-5", epochs="7")
    assert (chosen.learning_rate, chosen.epochs) == (2e-5, 7)
    assert isinstance(chosen.epochs, int)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"learning_rate": "fast"}, "hyperparameters.learning_rate=fast: must be a float."),
        ({"learning_rate": 0}, "must lie in [1e-08, 10]"),
        ({"epochs": 2.5}, "hyperparameters.epochs=2.5: must be a int."),
        ({"epochs": 0}, "must lie in [1, 1000]"),
        ({"trainable": "ful"}, "Did you mean 'full'?"),
        ({"learning_rates": 1}, "Did you mean 'learning_rate'?"),
        ({"trainable": "full", "pooling": "cls"}, "hyperparameters.pooling=cls: has no effect with trainable=full."),
        ({"trainable": "full", "hidden_units": 64}, "hyperparameters.hidden_units=64: has no effect"),
        ({"trainable": "full", "lora_r": 4}, "hyperparameters.lora_r=4: has no effect with trainable=full."),
        ({"trainable": "full", "quantise": "4bit"}, "hyperparameters.quantise=4bit: has no effect"),
        ({"selection": "last"}, "hyperparameters.selection=last: has no effect with trainable=head."),
        ({"truncation": "false"}, "hyperparameters.truncation=False: has no effect with trainable=head."),
        ({"trainable": "lora", "pooling": "cls"}, "hyperparameters.pooling=cls: has no effect with trainable=lora."),
        ({"trainable": "lora", "head_dropout": 0.3}, "hyperparameters.head_dropout=0.3: has no effect"),
        ({"head_dropout": 0.3}, "hyperparameters.head_dropout=0.3: has no effect with trainable=head."),
    ],
)
def test_bad_values_name_the_way_out(given, line):
    assert line in refusal(recipe, **given)


def test_without_dropout_model_randomness_is_inactive():
    assert APPROACH.inactive_factors(resolve_hyperparameters(APPROACH, {})) == {}
    reasons = APPROACH.inactive_factors(resolve_hyperparameters(APPROACH, {"dropout": 0}))
    assert list(reasons) == ["model_randomness"]
    lora = {"trainable": "lora"}
    assert APPROACH.inactive_factors(resolve_hyperparameters(APPROACH, lora)) == {}
    silent = resolve_hyperparameters(APPROACH, {**lora, "lora_dropout": 0})
    assert "lora_dropout" in APPROACH.inactive_factors(silent)["model_randomness"]
    assert APPROACH.inactive_factors({**silent, "dropout": 0.1}) == {}


def test_the_head_has_the_dropout_of_the_model_unless_it_is_given():
    def own(**given):
        return APPROACH.complete(resolve_hyperparameters(APPROACH, {"trainable": "full", **given}))

    assert own(dropout=0.2)["head_dropout"] == 0.2
    assert "head_dropout" not in APPROACH.identity(own(dropout=0.2))
    assert APPROACH.identity(own(head_dropout=0.3))["head_dropout"] == 0.3
    assert APPROACH.inactive_factors(own(dropout=0, head_dropout=0.3)) == {}


def test_keys_of_older_cells_stay_as_they_are():
    older = {"trainable": "full", "learning_rate": 1e-5, "epochs": 5, "batch_size": 8, "warmup_share": 0.1}
    older |= {"weight_decay": 0.01, "dropout": 0.1, "early_stopping_metric": "f1_macro", "early_stopping_patience": 3}
    older |= {"max_length": 128, "pooling": "mean", "hidden_units": 128}
    completed = APPROACH.complete(resolve_hyperparameters(APPROACH, {"trainable": "full"}))
    assert APPROACH.identity(completed) == older
    assert APPROACH.identity({**completed, "selection": "last"}) == {**older, "selection": "last"}
    assert APPROACH.dependencies(completed, "any") == {}


def test_numerics_name_what_decides_the_numbers():
    numerics = APPROACH.numerics("cpu")
    assert numerics["device"] == "cpu"
    assert numerics["threads"] == "1"
    assert torch.__version__.startswith(numerics["torch"] + ".")


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cuda:63", "CPU"])
def test_a_device_that_is_none(device):
    with pytest.raises(ParameterError, match=r"^device="):
        APPROACH.numerics(device)


def test_a_missing_library_names_the_pip_command(monkeypatch):
    from importlib.metadata import PackageNotFoundError

    from mlflow_l3d.approaches import numerics

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(numerics, "version", missing)
    with pytest.raises(L3DError, match=r"needs torch. Run: pip install 'mlflow-l3d\[models\]'"):
        APPROACH.numerics("cpu")


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "share"), [(500, 0.1), (7, 0.1), (10, 0.0), (1, 0.1), (4, 1.0)])
def test_schedule_is_that_of_transformers(steps, share):
    from transformers import get_linear_schedule_with_warmup

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2e-5)
    schedule = get_linear_schedule_with_warmup(optimizer, math.ceil(share * steps), steps)
    expected = []
    for _ in range(steps):
        expected += schedule.get_last_lr()
        optimizer.step()
        schedule.step()
    assert learning_rates(recipe(learning_rate=2e-5, warmup_share=share), steps) == pytest.approx(expected)


def course(epochs, **given):
    progress = Progress(recipe(**given))
    for f1, loss in epochs:
        progress.add(f1, loss, 0.5)
        if progress.stop:
            break
    return progress


def test_best_epoch_and_patience():
    epochs = [(0.5, 0.9), (0.7, 0.8), (0.7, 0.7), (0.7, 0.7), (0.6, 0.1), (0.9, 0.9)]
    assert course(epochs, early_stopping_patience=2).metrics["best_epoch"] == 3
    assert len(course(epochs, early_stopping_patience=2).f1) == 5
    assert course(epochs, early_stopping_patience=0).metrics["best_epoch"] == 6
    by_loss = course(epochs, early_stopping_patience=0, early_stopping_metric="loss")
    expected = {"best_epoch": 5.0, "train_loss": 0.5, "validation_f1_macro": 0.6, "validation_loss": 0.1}
    assert by_loss.metrics == expected


def test_without_validation_the_last_epoch_counts():
    progress = course([(math.nan, math.nan)] * 5, early_stopping_patience=1)
    assert progress.metrics == {"best_epoch": 5.0, "train_loss": 0.5}
    assert list(progress.curves) == ["train_loss"]


@pytest.mark.parametrize("numbers", [(0.5, 0.5, math.nan), (0.5, math.inf, 0.5)])
def test_nan_ends_the_training(numbers):
    with pytest.raises(DivergedError):
        Progress(recipe()).add(*numbers)


def test_one_thread_puts_the_number_back():
    before = torch.get_num_threads()

    @one_thread()
    def inside():
        raise KeyError(torch.get_num_threads())

    with pytest.raises(KeyError, match=r"^1$"):
        inside()
    assert torch.get_num_threads() == before
