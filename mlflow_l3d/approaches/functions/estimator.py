"""Ready approaches: ``@training`` makes one of a function where it stands, :class:`Estimator` one of scikit-learn."""

from __future__ import annotations

import inspect
import re
import sys
from collections import abc
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.functions.approach import Function, FunctionApproach
from mlflow_l3d.approaches.functions.versions import content_texts
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.cells.factors import TASK_FACTORS, stream
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task, TaskKind
from mlflow_l3d.tasks.settings import Split

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def training(
    *,
    factors: Iterable[str],
    name: str = "",
    version: str = "",
    hyperparameters: Mapping[str, Hyperparameter | Value] | None = None,
    default_task: str = "",
    task_kinds: Iterable[TaskKind] = ("classification",),
    metrics: Iterable[str] = (),
) -> abc.Callable[[Function], Training]:
    """Return a decorator that makes a function an approach: ``@training(factors=["data_order"])``.

    Parameters
    ----------
    factors, hyperparameters, default_task, task_kinds, metrics
        As for :class:`mlflow_l3d.approaches.functions.approach.FunctionApproach`.
    name
        Name of the approach; by default that of the function.
    version
        Changed by you whenever the same cell would give other predictions. By default the version follows from the
        content as a study begins: the code of your files that the function reaches, and the value of each variable,
        default and enclosed object that this code names. What its own runs change does not count. Give one if the
        content of an object is not known, or if the function reads files or depends on packages that change.

    Raises
    ------
    ParameterError
        As :class:`mlflow_l3d.approaches.functions.approach.FunctionApproach`.

    Examples
    --------
    >>> import mlflow_l3d
    >>> from mlflow_l3d.cells.factors import stream
    >>> @mlflow_l3d.training(factors=["data_order"])
    ... def last_seen(task, split, seeds, hyperparameters):
    ...     order = stream(seeds["data_order"], "order").permutation(split.train)
    ...     return [task.labels[order[-1]]] * len(split.test)
    >>> mlflow_l3d.self_test("synthetic", approach=last_seen, factor="data_order", executor="inline")
    self-test: what a new seed changes
    data_order  400 of 400 predictions
    replicate   nothing
    """
    return partial(
        Training,
        name=name,
        version=version,
        factors=factors,
        hyperparameters=hyperparameters,
        default_task=default_task,
        task_kinds=task_kinds,
        metrics=metrics,
    )


class Training(FunctionApproach):
    """What :func:`training` makes; called, it is the function."""

    def __init__(self, function: Function, *, name: str, version: str, **given: Any) -> None:
        super().__init__(function, name=name or getattr(function, "__name__", ""), version=version or "1", **given)
        self.is_versioned = bool(version)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""
        return self.function(*arguments, **named)


class Estimator(FunctionApproach):
    """A classifier or regressor of scikit-learn, or a pipeline that begins with texts.

    ``random_state`` means several things: where weights begin, which features a tree looks at, which examples are held
    out for early stopping. A pipeline has several. All are drawn from one factor, each from a stream of its own, and
    none from a global generator; the order in which examples are fitted is another factor, since many solvers depend on
    it, whatever their random state is.

    Parameters
    ----------
    estimator
        Fitted on a list of texts, on an array of texts of shape (n, columns) if the task has several columns, or on the
        array of features if the task has features. It is cloned for each cell.
    name
        Name of the approach; by default that of the last step.
    random_state
        The factor that decides all random states; if empty, they stay as they are.
    order
        The factor that decides the order of the training examples; if empty, they stay in the order of the split.
    version
        Changed whenever the same cell would give other predictions, for example after a change of a function that is a
        parameter. Other parameters of the estimator and the version of scikit-learn are part of the cell's key anyway.

    Raises
    ------
    ParameterError
        If the estimator has no random state, or two factors are one.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import mlflow_l3d
    >>> wine = load_wine(as_frame=True).frame
    >>> forest = mlflow_l3d.Estimator(RandomForestClassifier(n_estimators=10))
    >>> run = mlflow_l3d.seeds(wine, approach=forest, label_column="target", seeds=[1, 2, 3], executor="inline")
    >>> run.study.scores["accuracy"].round(2).tolist()
    [0.97, 0.94, 0.97]
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        name: str = "",
        random_state: str = "model_initialisation",
        order: str = "data_order",
        version: str = "1",
    ) -> None:
        from sklearn.base import is_regressor

        self.estimator, self.random_state, self.order = estimator, random_state, order
        last = type(estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator).__name__
        if random_state and not random_states(estimator):
            fix = 'Say random_state="".'
            raise ParameterError("random_state", random_state, f"has no effect: {last} has no random_state", fix)
        super().__init__(
            self.fitted_and_asked,
            name=name or last.lower(),
            version=version,
            factors=[factor for factor in (random_state, order) if factor] or TASK_FACTORS,
            task_kinds=("regression",) if is_regressor(estimator) else ("classification",),
        )

    def numerics(self, device: str) -> Mapping[str, str]:
        """Return the version of scikit-learn, too."""
        import sklearn

        return {**super().numerics(device), "scikit-learn": sklearn.__version__}

    def dependencies(self, hyperparameters: Mapping[str, Value], model: str) -> Mapping[str, str]:
        """Return the hash of all parameters of the estimator, and of the classes in it that no package brings along."""
        parameters = self.estimator.get_params(deep=True)
        texts = {name: _parameter_text(name, value) for name, value in parameters.items()}
        for kind in {type(value) for value in (self.estimator, *parameters.values())}:
            texts |= {f"{kind.__qualname__}.{name}": text for name, text in _own_class(kind).items()}
        return {"estimator": content_key({"type": repr(type(self.estimator)), **texts})}

    def fitted_and_asked(
        self, task: Task, split: Split, seeds: Mapping[str, int], hyperparameters: Mapping[str, Value]
    ) -> Any:
        """Fit a clone on the training examples of a split, and return what it says of the test examples."""
        from sklearn.base import clone

        model = clone(self.estimator)
        if self.random_state:
            seed = seeds[self.random_state]
            drawn = {name: int(stream(seed, name).integers(2**32 - 1)) for name in random_states(model)}
            model.set_params(**drawn)
        train = split.train
        if self.order:
            train = stream(seeds[self.order], "order").permutation(train)
        model.fit(_texts(task, train), task.labels[train])
        test = _texts(task, split.test)
        predicted = np.asarray(model.predict(test))
        if task.form.has_numbers:
            return predicted
        scores = _scores(model, test, len(task.class_names))
        # Those of some estimators, as SVC, name another class than they predict.
        if scores is not None and (scores.argmax(axis=1) == predicted).all():
            return scores
        return np.asarray(task.class_names)[predicted]


def _parameter_text(name: str, value: Any) -> str:
    """Return the content of a parameter; what it shows of itself, if that is not known, as of an estimator."""
    texts: dict[str, str] = {}
    if not (getattr(value, "__module__", None) or "").startswith("sklearn."):
        with suppress(ParameterError):
            texts = content_texts(value, name)
    return "\n".join(texts.values()) or re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _own_class(kind: type) -> dict[str, str]:
    """Return the source of a class and of what it refers to; empty if a package brings it, or that is not known."""
    with suppress(ParameterError, OSError, TypeError):
        packaged = not {"site-packages", "dist-packages"}.isdisjoint(Path(inspect.getfile(kind)).parts)
        if not packaged and kind.__module__.partition(".")[0] not in sys.stdlib_module_names:
            return content_texts(kind, kind.__name__)
    return {}


def random_states(estimator: BaseEstimator) -> tuple[str, ...]:
    """Return the names of all random states of an estimator and of what it is made of."""
    names: Iterable[str] = estimator.get_params(deep=True)
    return tuple(sorted(name for name in names if name.rpartition("__")[2] == "random_state"))


def _scores(model: Any, texts: Any, classes: int) -> npt.NDArray[np.float64] | None:
    """Return class scores of shape (n, classes); None if an estimator has none."""
    has_shares = hasattr(model, "predict_proba")
    if not has_shares and not hasattr(model, "decision_function"):
        return None
    columns = np.asarray((model.predict_proba if has_shares else model.decision_function)(texts), dtype=np.float64)
    columns = np.column_stack([-columns, columns]) if columns.ndim == 1 else columns
    # Of few examples a class may be missing, and has no column.
    scores = np.full((len(columns), classes), 0.0 if has_shares else columns.min() - 1)
    scores[:, np.asarray(model.classes_)] = columns
    return scores


def _texts(task: Task, positions: npt.NDArray[np.intp]) -> Sequence[str] | npt.NDArray[Any]:
    if task.features is not None:
        return task.features[positions]
    if len(task.texts) == 1:
        return [task.texts[0][position] for position in positions]
    return np.array([[column[position] for column in task.texts] for position in positions])
