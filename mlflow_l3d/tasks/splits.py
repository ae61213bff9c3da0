"""The split that two randomness factors decide: ``data_split`` divides, ``label_selection`` selects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlflow_l3d.cells.factors import TASK_FACTORS, stream
from mlflow_l3d.errors import L3DError, ParameterError, leave_out, unknown_name
from mlflow_l3d.tasks.settings import IntArray, Split, SplitSettings

DEFAULT_SIZE: Final = 1000
"""Labelled examples, and test examples, if the user gives no number (Pecher et al. 2024, section 4)."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """How many examples each class gives to each part; the seeds decide only which ones. All arrays have shape (C,).

    Attributes
    ----------
    train_part, test_part
        The two sides of the outer division, of all examples but the reference set and a fixed test set.
    labelled
        Examples of the training part that count as labelled.
    train
        Labelled examples for training; the others are for validation.
    test
        Test examples of a cell.
    reference
        Examples of the reference set.
    """

    train_part: IntArray
    test_part: IntArray
    labelled: IntArray
    train: IntArray
    test: IntArray
    reference: IntArray


def quotas(
    counts: IntArray, settings: SplitSettings, class_names: Sequence[str] | None = None, label_column: str = ""
) -> Quotas:
    """Return how many examples each class gives to each part.

    Parameters
    ----------
    counts
        Shape (C,): examples of each class.
    settings
        The requested numbers. With a fixed test set, too, the test examples are at most the class's test share
        (20 % at the default), so that enough examples remain for training.
    class_names, label_column
        For the text of errors; class numbers if None, and no line to type if empty.

    Raises
    ------
    ParameterError
        If a setting is not allowed, or a class has too few examples for an explicit number.
        Likewise if the settings evaluate on the validation part and it is empty.
    L3DError
        If a class has fewer than two examples.
    """
    names = [str(number) for number in range(len(counts))] if class_names is None else class_names
    check_settings(settings)
    if counts.min() < 2:
        small = int(counts.argmin())
        raise L3DError(f"class {names[small]!r} has {counts[small]} examples; every class needs at least 2.")
    reference = np.zeros_like(counts)
    if settings.reference_size:
        reference = _even("reference_size", settings.reference_size, counts - 2, names, "spare", label_column)
    counts = counts - reference
    train_part = _share(counts, settings.train_fraction)
    test_part = counts - train_part
    test = _even("test_size", settings.test_size, test_part, names, "test", label_column)
    if settings.test_selection == "fixed":
        pool = counts - test
        train_part = _share(pool, settings.train_fraction)
        test_part = pool - train_part
    labelled = _even("num_labelled", settings.num_labelled, train_part, names, "training", label_column)
    train = _share(labelled, settings.train_fraction)
    if settings.evaluated == "validation" and not (labelled - train).any():
        asked = "auto" if settings.num_labelled is None else settings.num_labelled
        allowed = "leaves no validation example to be scored on"
        raise ParameterError("num_labelled", asked, allowed, f"Ask for {2 * len(counts)} at least.")
    return Quotas(train_part, test_part, labelled, train, test, reference)


def draw_split(labels: IntArray, classes: int, seeds: Mapping[str, int], settings: SplitSettings) -> Split:
    """Draw the examples that one cell uses (Pecher et al. 2024, section 3 and appendix B).

    ``data_split`` draws the outer division of all examples (train/test) and the inner one of the labelled examples
    (train/validation), both stratified by class. ``label_selection`` draws which examples of the training part are
    labelled and which of the test part are evaluated, both balanced over classes. Each of the four draws has a stream
    of its own. A selection is one of *positions within the class's part*; stratification keeps the size of that part
    constant, so another ``data_split`` changes the examples at these positions, and not the positions.
    A larger number of examples contains the smaller one.

    Parameters
    ----------
    labels
        Shape (n,), int64, in ``[0, classes)``.
    classes
        C.
    seeds
        Factor -> seed; ``data_split`` and ``label_selection`` must be there, others are not used.
    settings
        How many examples, and whether the test set is fixed: its examples are then drawn from ``fixed_seed`` and taken
        out of the pool. The rest is divided as above, and the test side of that division is not used. A reference set
        is drawn and taken out before.

    Returns
    -------
    Split
        Disjoint, sorted positions: ``data_order`` alone decides the order of training. A class with one
        labelled example has none for validation. With ``evaluated=validation`` the seeds draw the same training and
        validation parts, and the validation part replaces the test part, too, without a reference set. Else that set
        follows the test examples, so that numbers drawn for these one after the other are the same without it.

    Raises
    ------
    ParameterError
        As :func:`quotas`, and if a seed is missing.
    """
    for factor in TASK_FACTORS:
        if factor not in seeds:
            needed = f"a split needs the seeds of {' and '.join(TASK_FACTORS)}, and {factor} is missing"
            raise L3DError(f"{needed}. Name both among the factors of the approach.")
    split_seed, selection_seed = seeds["data_split"], seeds["label_selection"]
    sizes = quotas(np.bincount(labels, minlength=classes), settings)
    reference, fixed, train_side, test_side = _outer(by_class(labels, classes), sizes, split_seed, settings)
    labelled, _ = divide(train_side, sizes.labelled, stream(selection_seed, "labelled"))
    train, validation = divide(labelled, sizes.train, stream(split_seed, "train_validation"))
    if settings.evaluated == "validation":
        held_out = merge(validation)
        return Split(merge(train), held_out, held_out)
    test = fixed or divide(test_side, sizes.test, stream(selection_seed, "test"))[0]
    return Split(merge(train), merge(validation), np.concatenate([merge(test), reference]), reference)


def train_part(labels: IntArray, classes: int, seeds: Mapping[str, int], settings: SplitSettings) -> IntArray:
    """Return the positions among which :func:`draw_split`, whose parameters these are, draws the labelled examples."""
    sizes = quotas(np.bincount(labels, minlength=classes), settings)
    return merge(_outer(by_class(labels, classes), sizes, seeds["data_split"], settings)[2])


def _outer(
    members: list[IntArray], sizes: Quotas, split_seed: int, settings: SplitSettings
) -> tuple[IntArray, list[IntArray], list[IntArray], list[IntArray]]:
    """Return the reference set, the fixed test examples, and the two sides of the outer division; some may be empty."""
    reference, fixed = np.zeros(0, dtype=np.int64), list[IntArray]()
    if settings.reference_size:
        drawn, members = divide(members, sizes.reference, stream(settings.fixed_seed, "reference"))
        reference = merge(drawn)
    if settings.test_selection == "fixed":
        fixed, members = divide(members, sizes.test, stream(settings.fixed_seed, "fixed_test"))
    return reference, fixed, *divide(members, sizes.train_part, stream(split_seed, "train_test"))


def divide(
    members: list[IntArray], sizes: IntArray, generator: np.random.Generator
) -> tuple[list[IntArray], list[IntArray]]:
    """Draw ``sizes[c]`` of the positions of class c; return those and the others, each in the order of `members`."""
    drawn, others = [], []
    for positions, size in zip(members, sizes.tolist(), strict=True):
        chosen = np.zeros(len(positions), dtype=bool)
        chosen[generator.permutation(len(positions))[:size]] = True
        drawn.append(positions[chosen])
        others.append(positions[~chosen])
    return drawn, others


def by_class(labels: IntArray, classes: int) -> list[IntArray]:
    """Return the sorted positions of each class."""
    # Short integers are sorted by radix, in linear time.
    short = labels.astype(np.uint16) if classes <= 2**16 else labels
    order = np.argsort(short, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=classes))[:-1])


def merge(members: list[IntArray]) -> IntArray:
    """Return the positions of all classes, sorted."""
    return np.sort(np.concatenate(members))


def _share(counts: IntArray, fraction: float) -> IntArray:
    """Return the rounded share of each count; of two or more, at least one is on either side."""
    rounded = np.floor(counts * fraction + 0.5).astype(np.int64)
    share: IntArray = np.clip(rounded, 1, np.maximum(counts - 1, 1))
    return share


def _even(
    parameter: str, asked: int | None, available: IntArray, names: Sequence[str], part: str, label_column: str
) -> IntArray:
    """Return the same number for each class, rounded up; only the default takes fewer if a class has fewer."""
    each = -(-(DEFAULT_SIZE if asked is None else asked) // len(available))
    if asked is None:
        return np.minimum(each, available)
    smallest = int(available.argmin())
    most = int(available[smallest])
    if each > most:
        there = f"class {names[smallest]!r} has" if len(available) > 1 else "there are"
        allowed = f"{there} {most} {part} examples, so at most {most * len(available)} are allowed"
        auto = "" if parameter == "reference_size" else ", or for auto, which takes what there is"
        if len(available) > 2 and np.partition(available, 1)[1] >= -(-asked // (len(available) - 1)):  # others have it
            auto += f"; or {leave_out('the class', label_column, [names[smallest]])}"
        raise ParameterError(parameter, asked, allowed, f"Ask for fewer{auto}.")
    return np.full(len(available), each, dtype=np.int64)


def check_settings(settings: SplitSettings) -> None:
    """Raise a ParameterError for a setting that is not allowed with any data."""
    for parameter, asked in (("num_labelled", settings.num_labelled), ("test_size", settings.test_size)):
        if asked is not None and asked < 1:
            raise ParameterError(parameter, asked, "must be at least 1, or auto")
    if settings.reference_size < 0:
        raise ParameterError("reference_size", settings.reference_size, "must be at least 0, which is none")
    selections = ("fixed", "label_selection")
    parts = ("test", "validation")
    sources = ("drawn", "own")
    for parameter, choices in (("test_selection", selections), ("evaluated", parts), ("source", sources)):
        if (value := getattr(settings, parameter)) not in choices:
            raise unknown_name(parameter, value, choices)
    if not 0.0 < settings.train_fraction < 1.0:
        raise ParameterError("train_fraction", settings.train_fraction, "must lie between 0 and 1, both excluded")
    if not 0.0 <= settings.validation_fraction < 1.0:
        raise ParameterError("validation_fraction", settings.validation_fraction, "must lie in [0, 1), 1 excluded")
    if settings.validation_fraction and settings.source != "own":
        allowed = "is for a task's own split; a drawn one holds out what train_fraction says"
        raise ParameterError("validation_fraction", settings.validation_fraction, allowed, "Leave it out.")
