"""A public data set as one pool, or whole and in its published parts; ids and order depend on the content alone.

In a pool no text occurs twice: if a study draws its own splits, a repeated text could be both trained on and tested
on, and a text with two labels has no right answer. With the published parts every published example is kept: scores
are then comparable to importance on the validation set, which has the same repeats.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.tasks.settings import PARTS, IntArray

ID_DIGITS: Final = 16
"""Hexadecimal digits of an id: with 64 bits, two of 600,000 examples get the same one with a chance of 1 in 10^8."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Examples of all splits, sorted by id; with the published parts all examples, sorted by part and id.

    Attributes
    ----------
    texts
        Text columns, each with m texts; in a pool no two examples have the same texts.
    labels
        Shape (m,), int64, or float64 scores.
    ids
        Shape (m,), strings of 16 hexadecimal digits: see :func:`content_id`. With the published parts the name of the
        part comes first, as in ``validation/0123456789abcdef``; the second example of a part with the same texts ends
        in ``-2``, and so on.
    repeats
        Examples left out because their texts, with the same label, are in the pool already.
    contradictions
        Texts left out, with all their examples, because they have more than one label.
    parts
        Shape (m,), int64: positions in :data:`mlflow_l3d.tasks.settings.PARTS`; None in a pool.
    """

    texts: tuple[tuple[str, ...], ...]
    labels: npt.NDArray[Any]
    ids: npt.NDArray[np.str_]
    repeats: int = 0
    contradictions: int = 0
    parts: IntArray | None = None


def pool_examples(texts: Sequence[Sequence[str]], labels: npt.NDArray[Any]) -> Pool:
    """Return the examples without repeats and contradictions, the same for every order of the same rows.

    Blanks at both ends are cut off, and a run of blanks or line breaks becomes one blank: copies of a data set differ
    in them, and a prompt keeps a text on one line.

    Parameters
    ----------
    texts
        Text columns, each with n texts.
    labels
        Shape (n,), int64, or float64 scores.
    """
    rows = _plain_rows(texts)
    counts = Counter(rows)
    labels_of: dict[tuple[str, ...], set[float]] = {row: set() for row in counts}
    for row, label in zip(rows, labels.tolist(), strict=True):
        labels_of[row].add(label)
    kept = sorted((content_id(row), row, min(values)) for row, values in labels_of.items() if len(values) == 1)
    return Pool(
        texts=tuple(tuple(row[column] for _, row, _ in kept) for column in range(len(texts))),
        labels=np.array([label for _, _, label in kept], dtype=labels.dtype),
        ids=np.array([example for example, _, _ in kept], dtype=f"<U{ID_DIGITS}"),
        repeats=sum(counts[row] - 1 for _, row, _ in kept),
        contradictions=len(labels_of) - len(kept),
    )


def published_examples(texts: Sequence[Sequence[str]], labels: npt.NDArray[Any], parts: IntArray) -> Pool:
    """Return all examples, repeats and contradictions included, the same for every order of the same rows.

    Parameters
    ----------
    texts, labels
        See :func:`pool_examples`; blanks are treated alike.
    parts
        Shape (n,), int64.
    """
    rows = _plain_rows(texts)
    order = sorted(zip(parts.tolist(), map(content_id, rows), labels.tolist(), range(len(rows)), strict=True))
    seen: Counter[str] = Counter()
    ids = []
    for part, example, _, _ in order:
        name = f"{PARTS[part]}/{example}"
        seen[name] += 1
        ids.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    positions = [position for *_, position in order]
    return Pool(
        texts=tuple(tuple(rows[position][column] for position in positions) for column in range(len(texts))),
        labels=labels[positions],
        ids=np.array(ids),
        parts=parts[positions],
    )


def content_id(texts: Sequence[str]) -> str:
    """Return the id of an example: the first 16 hexadecimal digits of the SHA-256 of its texts, each after its length.

    The id does not depend on the label: if a later edition of the data corrects a label, the example keeps its id.
    """
    digest = hashlib.sha256()
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()[:ID_DIGITS]


def _plain_rows(texts: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the rows without blanks at the ends, and with one blank for each run of blanks and line breaks."""
    return list(zip(*([" ".join(text.split()) for text in column] for column in texts), strict=True))
