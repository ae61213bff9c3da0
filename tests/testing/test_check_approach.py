from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.hyperparameters import Hyperparameter
from mlflow_l3d.approaches.synthetic import FACTORS, Synthetic, SyntheticSession
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.packaged import generate
from mlflow_l3d.testing import check_approach

TASK = replace(generate(90, 3), settings=SplitSettings(num_labelled=15, test_size=12))


def test_the_synthetic_approach_keeps_the_contract(tmp_path):
    check_approach(Synthetic(), TASK, cache=tmp_path)


def test_with_inactive_factors_and_noise(tmp_path):
    settings = {"a_data_split": 1e6, "a_label_selection": 1e6, "a_model_randomness": 1e7, "noise": 0.5}
    check_approach(Synthetic(), TASK, hyperparameters=settings, cache=tmp_path)


def test_a_factor_that_the_task_switches_off_needs_no_effect(tmp_path):
    # Every example of this task is labelled or tested, so the factor has nothing to select.
    everything = replace(TASK, settings=SplitSettings())
    approach = FunctionApproach(ordered, name="mine", version="1", factors=("data_order",))
    check_approach(approach, everything, cache=tmp_path)


def ordered(task, split, seeds, _):
    return stream(seeds["data_order"], "scores").random((len(split.test), 3))


def relative(task, split, seeds, _):
    """Predict by the rank of an example among all that are predicted."""
    drawn = stream(seeds["data_order"], "drawn").random(len(split.test))
    return drawn.argsort().argsort() % 2


def constant(task, split, seeds, _):
    return np.zeros(len(split.test), dtype=int)


def global_generator(task, split, seeds, _):
    return np.random.rand(len(split.test), 3)  # noqa: NPY002


class WithHyperparameter(Synthetic):
    hyperparameters: ClassVar = {"depth": Hyperparameter(5, "layers", high=3)}


class UnderAnotherSeed(Synthetic):
    """Looks at a seed that it does not declare."""

    factors = tuple(factor for factor in FACTORS if factor != "sample_choice")


class Forgetful(Synthetic):
    """Its predictions depend on the cells before."""

    def prepare(self, task, hyperparameters, *, model, device, cache):
        return ForgetfulSession(task, dict(hyperparameters), [])


class ForgetfulSession(Session):
    def __init__(self, task, hyperparameters, seen):
        self.inner, self.seen = SyntheticSession(task, hyperparameters), seen

    def run(self, cells):
        for outcome in self.inner.run(cells):
            self.seen.append(outcome.key)
            yield replace(outcome, predictions=np.full_like(outcome.predictions, len(self.seen) // 5 % 2))

    def close(self):
        pass


class Unpicklable(Synthetic):
    def __reduce__(self):
        raise TypeError("a lock cannot be pickled")


def synthetic(**attributes):
    """Return the synthetic approach with other attributes."""
    return type("Own", (Synthetic,), attributes)()


WASTEFUL = synthetic(inactive_factors=lambda *_: {"data_order": "never mind"})  # and it has an effect


def mine(function):
    return FunctionApproach(function, name="mine", version="1", factors=("data_order",))


@pytest.mark.parametrize(
    ("approach", "said"),
    [
        (object(), "object is not an approach: it is not a subclass of mlflow_l3d.approaches.base.Approach"),
        (synthetic(version=""), "Own is not an approach: it lacks version"),
        (
            synthetic(factors=("data_order",)),
            "factors must contain those of the task, label_selection, data_split is missing",
        ),
        (WithHyperparameter(), "default of hyperparameter depth is not allowed"),
        (Unpicklable(), "does not survive pickling: a lock"),
        (synthetic(inactive_factors=lambda *_: {"data_order": ""}), "must give a reason and the fix for data_order"),
        (synthetic(numerics=lambda *_: {"threads": 1}), "numerics must map texts to texts"),
        (mine(relative), "other predictions of its test examples if a reference set is predicted, too"),
        (mine(constant), "factor data_order has no effect in 2 other configuration"),
        (mine(global_generator), "a cell gives other .*predictions.* the same cell again in the same session"),
        (UnderAnotherSeed(), "a cell failed: KeyError: 'sample_choice'"),
        (Forgetful(), "a cell gives other .*predictions"),
        (WASTEFUL, "factor data_order is said to be inactive, and changes .*synthetic_score"),
    ],
)
def test_what_breaks_the_contract_is_named(approach, said, tmp_path):
    with pytest.raises(AssertionError, match=said):
        check_approach(approach, TASK, cache=tmp_path)


def test_what_a_notebook_defines_passes(tmp_path):
    check_approach(mine(lambda task, split, seeds, chosen: global_free(seeds, len(split.test))), TASK, cache=tmp_path)


def global_free(seeds, count):
    """Return predictions that every declared seed moves."""
    return np.random.default_rng([seeds[name] for name in sorted(seeds)]).integers(2, size=count)


def test_a_wrong_length_is_named(tmp_path):
    with pytest.raises(AssertionError, match=r"returned shape \(1,\)"):
        check_approach(mine(lambda task, split, seeds, _: [0]), TASK, cache=tmp_path)
