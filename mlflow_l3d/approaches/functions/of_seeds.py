"""A function of seeds as an approach: it trains, or returns a ``Trainer`` that is trained here."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from inspect import Parameter
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlflow_l3d.approaches.command.approach import Command
from mlflow_l3d.approaches.command.files import MOST_FILES, Stamps
from mlflow_l3d.approaches.command.scores import FirstRun
from mlflow_l3d.approaches.command.template import Output
from mlflow_l3d.approaches.command.written import CommandSession, Written
from mlflow_l3d.approaches.functions.versions import BySource, own_mlflow
from mlflow_l3d.approaches.global_seeds import globally_seeded
from mlflow_l3d.approaches.hyperparameters import AUTO, Hyperparameter, Value
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.base import Task

_OF_SEED: Final = re.compile(r"(?!(?:n|num|use|set|fix|fixed)_)(?:\w+_)?(?:seed|random_state)")
"""Names of parameters that are seeds though they have a default; num_seed and use_seed sound like settings."""
_OF_TORCH: Final = ("torch", "transformers", "lightning", "pytorch_lightning")


class SeedFunction(BySource, Command):
    """A function of seeds: ``mlflow_l3d.seeds(train)`` makes one of ``def train(seed, width=8)``.

    Each parameter without a default is a seed; those with a default keep it. If all have one, those that are called
    ``seed`` or ``random_state``, or end so, are seeds.

    The global generators of Python, numpy and torch are seeded with the first seed while it runs. A first call, with
    all seeds 0, shows which scores it gives.

    Parameters
    ----------
    function
        Returns a score, a mapping of names to scores, or labels and predictions of the test examples. Or something that
        is not trained yet: a ``Trainer`` of transformers with an ``eval_dataset``, or a ``Trainer`` of Lightning, its
        module and, if there is one, its data module, which has a test part.
    version
        As for :func:`mlflow_l3d.approaches.functions.estimator.training`.
    metric
        The score that is investigated; by default that of the predictions, else it is chosen in the first run.

    Raises
    ------
    ParameterError
        If the function has no such parameter.

    Examples
    --------
    >>> import random
    >>> import mlflow_l3d
    >>> def train(seed):
    ...     return {"accuracy": 0.8 + random.Random(seed).random() / 10}
    >>> mlflow_l3d.seeds(train, seeds=[1, 2, 3], executor="inline").study.scores["accuracy"].round(3).tolist()
    [0.813, 0.896, 0.824]
    >>> versioned = mlflow_l3d.SeedFunction(train, version="1")
    >>> mlflow_l3d.seeds(approach=versioned, seeds=[1, 2], executor="inline").study.scores["accuracy"].round(3).tolist()
    [0.813, 0.896]
    """

    name = "function"
    version = "2"
    what = "the function"
    otherwise = "return it"
    choice = "metric='{}'"
    own_folder = "a folder that tempfile.mkdtemp() makes"
    not_in_key = ""
    parameters = ()
    _needs_folder = False
    hyperparameters: Mapping[str, Hyperparameter] = {"classes": Command.hyperparameters["classes"]}

    def __init__(self, function: Callable[..., Any], *, version: str = "", metric: str = AUTO) -> None:
        parameters = inspect.signature(function).parameters
        several = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        single = {name: each for name, each in parameters.items() if each.kind not in several}
        needed = [name for name, each in single.items() if each.default is each.empty]
        self.function = function
        self.factors = tuple(needed or filter(_OF_SEED.fullmatch, single))
        if not self.factors:
            fix = "Give it one: def train(seed)."
            raise ParameterError("function", self.label({}), "takes no seed", fix)
        self.version = version or self.version
        self.is_versioned = bool(version)
        self.here = Path.cwd()
        self._ask_for(metric)

    def dependencies(self, hyperparameters: Mapping[str, Value], model: str) -> Mapping[str, str]:
        """Return also the name of the function."""
        name = self.label({})
        try:
            return {"function": f"{name} {self.version}", **super().dependencies(hyperparameters, model)}
        except ParameterError as error:
            fix = f'Give a version, which you change with it: approach=mlflow_l3d.SeedFunction({name}, version="1").'
            raise ParameterError("function", name, error.allowed, fix) from None

    def label(self, hyperparameters: Mapping[str, Value]) -> str:
        """Return the name of the function."""
        return str(getattr(self.function, "__name__", self.name))

    def prepare(self, task: Task, hyperparameters: Mapping[str, Value], **given: Any) -> CommandSession:
        """Return a session that calls the function once a cell; what the calls change is then no other version."""
        session = super().prepare(task, hyperparameters, **given)
        session.at_end = self.own_changes().note
        return session

    def _first_run(self, hyperparameters: Mapping[str, Value]) -> FirstRun:
        with self.own_changes():
            return super()._first_run(hyperparameters)

    def _why_alone(self, before: Stamps) -> str:
        """Return why later calls follow one another, of a large folder in any case."""
        if len(before) >= MOST_FILES:
            return f"its folder has more than {MOST_FILES:,} files, too many to see what it writes there"
        return super()._why_alone(before)

    def _run(self, seeds: Mapping[str, int], hyperparameters: Mapping[str, Value], *, alone: bool) -> Written:
        """Call the function once.

        Raises
        ------
        L3DError
            If it fails, or gives anything else than scores or predictions.
        """
        small = self.small_seeds(seeds)
        seed = small[self.factors[0]]
        sources = str(self.texts) if self.texts else str(_OF_TORCH)
        needs_torch = any(name in sys.modules or name in sources for name in _OF_TORCH)
        try:
            with_torch = needs_torch and find_spec("torch") is not None
            with own_mlflow(), globally_seeded(seed, with_torch=with_torch):
                written = _written(self.function(**small), seed)
        except L3DError:
            raise
        except Exception as error:
            raise L3DError(f"{type(error).__name__}: {error}") from error
        return self._scored(written, Output(), {})


def _written(returned: Any, seed: int) -> Written:
    """Return predictions and scores of what a function returned."""
    if hasattr(returned, "args") and hasattr(returned, "train") and hasattr(returned, "predict"):
        return _by_transformers(returned, seed)
    if isinstance(returned, tuple) and hasattr(returned[0], "fit") and hasattr(returned[0], "test"):
        trainer, *data = returned
        trainer.fit(*data)
        return Written(metrics={name: float(value) for each in trainer.test(*data) for name, value in each.items()})
    if isinstance(returned, tuple) and len(returned) == 2:
        if any(not hasattr(each, "__iter__") or getattr(each, "ndim", 1) == 0 for each in returned):
            fix = 'Name scores, such as {"loss": 0.3, "accuracy": 0.8}, or return (labels, predictions)'
            raise L3DError(f"the function returned ({', '.join(map(repr, returned))}). {fix}")
        labels, predictions = map(_texts, returned)
        if len(labels) != len(predictions):
            raise L3DError(f"the function returned {len(labels)} labels and {len(predictions)} predictions")
        return Written(np.arange(len(labels)), labels, predictions)
    if isinstance(returned, Mapping):
        return Written(metrics={str(name): _number(str(name), value) for name, value in returned.items()})
    if isinstance(returned, int | float | np.number):
        return Written(metrics={"score": float(returned)})
    expected = "a score, a mapping of names to scores, (labels, predictions), a Trainer, or (Trainer, module)"
    raise L3DError(f"the function returned {type(returned).__name__}, and must return {expected}")


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        fix = 'Map each name to one number, such as {"test_accuracy": 0.8}'
        raise L3DError(f"the function returned {name}={value!r}, not a number. {fix}") from None


def _texts(values: Any) -> list[str]:
    held = values.tolist() if hasattr(values, "tolist") else list(values)
    first = np.asarray(next(iter(held), None))
    if first.ndim and first.dtype.kind in "biuf":
        fix = "Return one each: of probabilities or scores the class, predictions.argmax(axis=1)"
        raise L3DError(f"the function returned {first.size} numbers for each label or prediction. {fix}")
    return list(map(str, held))


def _by_transformers(trainer: Any, seed: int) -> Written:
    """Train and evaluate with a seed; dropout and the order of batches follow it, and new weights if it makes them."""
    from transformers import set_seed

    if trainer.eval_dataset is None:
        raise L3DError("the Trainer has no eval_dataset: give it one, on which each seed is evaluated")
    trainer.args.seed = seed
    set_seed(seed)
    trainer.train()
    predicted = trainer.predict(trainer.eval_dataset, metric_key_prefix="eval")
    metrics = {name: float(value) for name, value in predicted.metrics.items()}
    outputs, labels = predicted.predictions, predicted.label_ids
    outputs = outputs[0] if isinstance(outputs, tuple) else outputs
    if getattr(labels, "ndim", 0) != 1 or outputs.ndim != 2:
        return Written(metrics=metrics)
    if outputs.shape[1] == 1:
        return Written(np.arange(len(labels)), _texts(labels), _texts(outputs[:, 0]), metrics=metrics)
    shown = getattr(trainer.model.config, "id2label", {})
    names = [shown.get(number, str(number)) for number in range(outputs.shape[1])]
    truth, predictions = ([names[number] for number in each] for each in (labels, outputs.argmax(axis=1)))
    scores = dict(zip(names, outputs.astype(np.float32).T, strict=True))
    return Written(np.arange(len(labels)), truth, predictions, scores, metrics)
