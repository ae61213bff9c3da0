"""A public data set as one pool, or whole and in its published parts; ids and order depend on the content alone.

In a pool no text occurs twice: if a study draws its own splits, a repeated text could be both trained on and tested
on, and a text with two labels has no right answer. With the published parts every published example is kept: scores
are then comparable to importance on the validation set, which has the same repeats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

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


def pool_examples(texts: Sequence[Sequence[str]], labels: npt.NDArray[Any], parts: IntArray | None = None) -> Pool:
    """Return the examples without repeats and contradictions, or with `parts` all, the same for every order of rows.

    Blanks at both ends are cut off, and a run of blanks or line breaks becomes one blank: copies of a data set differ
    in them, and a prompt keeps a text on one line.

    Parameters
    ----------
    texts
        Text columns, each with n texts.
    labels
        Shape (n,), int64, or float64 scores.
    parts
        Shape (n,), int64: the published part of each example; None for a pool.
    """
    rows = [*zip(*([" ".join(text.split()) for text in column] for column in texts), strict=True)]
    order = ["part", "id", "label"]
    frame = pd.DataFrame({"part": 0 if parts is None else parts, "id": [*map(content_id, rows)], "label": labels})
    frame, counts = frame.sort_values(order, kind="stable"), {}
    if parts is None:
        has_one_label = frame.groupby("id")["label"].transform("nunique") == 1
        whole, frame = frame, frame[has_one_label].drop_duplicates("id")
        contradictions = whole["id"].nunique() - len(frame)
        counts = {"repeats": int(has_one_label.sum()) - len(frame), "contradictions": contradictions}
        ids = frame["id"]
    else:
        times = frame.groupby(["part", "id"]).cumcount() + 1
        ids = frame["part"].map(dict(enumerate(PARTS))) + "/" + frame["id"]
        ids += ("-" + times.astype(str)).where(times > 1, "")
    kept = frame.index.to_numpy()
    columns = tuple(tuple(rows[place][column] for place in kept) for column in range(len(texts)))
    return Pool(columns, labels[kept], ids.to_numpy(np.str_), parts=None if parts is None else parts[kept], **counts)


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
