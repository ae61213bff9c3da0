"""Splits of a public data set as one pool: no text twice, ids and order that depend on the content alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.tasks.base import IntArray

ID_DIGITS: Final = 16
"""Hexadecimal digits of an id: with 64 bits, two of 600,000 examples get the same one with a chance of 1 in 10^8."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Examples of all splits, sorted by id.

    Attributes
    ----------
    texts
        Text columns, each with m texts; no two examples have the same texts.
    labels
        Shape (m,), int64.
    ids
        Shape (m,), strings of 16 hexadecimal digits: see :func:`content_id`.
    repeats
        Examples left out because their texts, with the same label, are in the pool already.
    contradictions
        Texts left out, with all their examples, because they have more than one label.
    """

    texts: tuple[tuple[str, ...], ...]
    labels: IntArray
    ids: npt.NDArray[np.str_]
    repeats: int
    contradictions: int


def pool_examples(texts: Sequence[Sequence[str]], labels: IntArray) -> Pool:
    """Return the examples without repeats and contradictions, the same for every order of the same rows.

    Blanks at both ends are cut off, and a run of blanks or line breaks becomes one blank: copies of a data set differ
    in them, and a prompt keeps a text on one line. A repeated text could be both trained on and tested on, since the
    study draws its own splits; a text with two labels has no right answer.

    Parameters
    ----------
    texts
        Text columns, each with n texts.
    labels
        Shape (n,), int64.
    """
    labels_of: dict[tuple[str, ...], set[int]] = {}
    counts: dict[tuple[str, ...], int] = {}
    columns = [[" ".join(text.split()) for text in column] for column in texts]
    for row, label in zip(zip(*columns, strict=True), labels.tolist(), strict=True):
        labels_of.setdefault(row, set()).add(label)
        counts[row] = counts.get(row, 0) + 1
    kept = sorted((content_id(row), row, next(iter(found))) for row, found in labels_of.items() if len(found) == 1)
    return Pool(
        texts=tuple(tuple(row[column] for _, row, _ in kept) for column in range(len(columns))),
        labels=np.array([label for _, _, label in kept], dtype=np.int64),
        ids=np.array([example for example, _, _ in kept], dtype=f"<U{ID_DIGITS}"),
        repeats=sum(counts[row] - 1 for _, row, _ in kept),
        contradictions=len(labels_of) - len(kept),
    )


def content_id(texts: Sequence[str]) -> str:
    """Return the id of an example: the first 16 hexadecimal digits of the SHA-256 of its texts, each after its length.

    The label has no part in it: where a later edition of the data mends a label, the example stays the same example.
    """
    digest = hashlib.sha256()
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()[:ID_DIGITS]
