"""The split that a data set comes with: its own train examples, and its own validation examples as test examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from mlflow_l3d.cells.factors import stream
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.settings import PARTS, Divisible, IntArray, Split
from mlflow_l3d.tasks.splits import by_class, check_settings, divide, merge

_NAMES: Final = (("train", "training"), ("validation", "valid", "val", "dev", "development"), ("test", "testing"))
SYNONYMS: Final = {name: part for part, names in enumerate(_NAMES) for name in names}
"""Name of a part in data sets -> position in `PARTS`."""


def predefined_split(task: Divisible) -> Split:
    """Return the split of ``source=own``: the same for every seed.

    Parameters
    ----------
    task
        With `parts`. `Split.test` is its published validation part, on which Zhou et al. (2025, appendix A.2)
        evaluate, because the labels of the test parts of GLUE and SuperGLUE are not public; the test part of a task
        that has no validation part. If the settings give numbers or a share for validation, these are drawn once from
        ``fixed_seed``. A reference set is drawn out of the evaluated part first.

    Returns
    -------
    Split
        Sorted positions of each part.

    Raises
    ------
    ParameterError
        If the task has no such parts, a class has no train example, or a setting is not allowed.
    """
    settings, parts = task.settings, task.parts
    if parts is None:
        raise no_predefined_split(task.name, "it has no parts of its own")
    _check(task, parts, evaluated_part(parts))
    train = _drawn(task, np.flatnonzero(parts == 0), settings.num_labelled, "own_train", least=1)
    pool, reference = np.flatnonzero(parts == evaluated_part(parts)), np.zeros(0, dtype=np.int64)
    if settings.reference_size:
        reference = _drawn(task, pool, settings.reference_size, "own_reference", least=0)
        pool = np.setdiff1d(pool, reference, assume_unique=True)
    test = _drawn(task, pool, settings.test_size, "own_test", least=0)
    validation = np.zeros(0, dtype=np.int64)
    if settings.validation_fraction:
        train, validation = _held_out(task, train)
    if settings.evaluated == "validation":
        return Split(train, validation, validation)
    return Split(train, validation, np.concatenate([test, reference]), reference)


def _check(task: Divisible, parts: IntArray, evaluated: int) -> None:
    """Raise the errors of :func:`predefined_split` about the parts and the numbers of the settings."""
    for position in (0, evaluated):
        if not (parts == position).any():
            raise no_predefined_split(task.name, f"the {PARTS[position]} part has no example", ParameterError)
    counts = np.bincount(task.strata[parts == 0], minlength=len(task.strata_names))
    if not counts.all():
        missing = task.strata_names[int(counts.argmin())]
        raise no_predefined_split(task.name, f"the train part has no example of class {missing!r}", ParameterError)
    settings = task.settings
    check_settings(settings)
    labelled, most = settings.num_labelled, int(counts.sum())
    if labelled is not None and not len(counts) <= labelled <= most:
        raise ParameterError("num_labelled", labelled, f"must lie between {len(counts)} and the {most} train examples")
    there, reference, test = int((parts == evaluated).sum()), settings.reference_size, settings.test_size
    if reference + (test or 1) > there:
        allowed = f"there are {there} examples in the {PARTS[evaluated]} part, with those of the reference set"
        name, asked = ("test_size", test) if test else ("reference_size", reference)
        raise ParameterError(name, asked, allowed, "Ask for fewer.")
    if settings.evaluated == "validation" and not settings.validation_fraction:
        allowed = "leaves no validation example to be scored on"
        raise ParameterError("validation_fraction", settings.validation_fraction, allowed, "Use 0.1, for instance.")


def evaluated_part(parts: IntArray) -> int:
    """Return the position in `PARTS` of the evaluated part: validation, or test if only that has examples."""
    return 2 if (parts == 2).any() and not (parts == 1).any() else 1


def numbers_of_parts(names: Iterable[object], column: str) -> IntArray:
    """Return the position in `PARTS` of each name, shape (n,).

    Raises
    ------
    ParameterError
        For the first unknown name; rows are counted from 1.
    """
    values = list(names)
    positions = {value: SYNONYMS.get(str(value).strip().casefold(), -1) for value in set(values)}
    numbers = np.fromiter((positions[value] for value in values), dtype=np.int64, count=len(values))
    if len(numbers) and numbers.min() < 0:
        row = int(numbers.argmin())
        name = str(values[row])[:40]
        allowed = f"the column {column} has {name!r} in row {row + 1} of the data; known are {', '.join(PARTS)}"
        raise ParameterError(column, name, allowed, "Correct the column.")
    return numbers


class NoParts(ParameterError):
    """The study uses the own split of a task, and the data does not name the parts of its examples."""


def no_predefined_split(task: str, why: str, kind: type[ParameterError] = NoParts) -> ParameterError:
    """Return the error for a study that uses the own split of a task without parts, or without a needed part."""
    allowed = f"is to be used with its own train and validation parts, and {why}"
    fix = "Name one with both; in a file of your own, a column `split` says train, validation or test."
    return kind("task", task, allowed, fix)


def _drawn(task: Divisible, positions: IntArray, asked: int | None, purpose: str, *, least: int) -> IntArray:
    """Return `asked` of the sorted `positions` in the shares that the classes have there, or all of them."""
    if asked is None or asked == len(positions):
        return positions
    members = by_class(task.strata[positions], len(task.strata_names))
    sizes = _allotted(np.array([*map(len, members)]), asked, least)
    drawn, _ = divide(members, sizes, stream(task.settings.fixed_seed, purpose))
    return positions[merge(drawn)]


def _allotted(counts: IntArray, total: int, least: int) -> IntArray:
    """Return shares of `total` by the method of largest remainders, each at least `least` or the whole class."""
    floor = np.minimum(counts, least)
    exact = (counts - floor) * ((total - int(floor.sum())) / max(int((counts - floor).sum()), 1))
    sizes: IntArray = np.floor(exact + 1e-9).astype(np.int64)
    left = total - int(floor.sum()) - int(sizes.sum())
    sizes[np.argsort(sizes - exact, kind="stable")[:left]] += 1
    return floor + sizes


def _held_out(task: Divisible, train: IntArray) -> tuple[IntArray, IntArray]:
    """Return the train examples, divided into those for training and those for validation, stratified by class."""
    fraction, members = task.settings.validation_fraction, by_class(task.strata[train], len(task.strata_names))
    # A class keeps one example to be trained on.
    spare = np.array([max(len(positions) - 1, 0) for positions in members])
    total = max(1, int(len(train) * fraction + 0.5))
    if total > spare.sum():
        allowed = f"would hold out {total} of {len(train)} train examples, and every class needs one to be trained on"
        raise ParameterError("validation_fraction", fraction, allowed, "Lower it, or train on more.")
    held, kept = divide(members, _allotted(spare, total, 0), stream(task.settings.fixed_seed, "own_validation"))
    return train[merge(kept)], train[merge(held)]
