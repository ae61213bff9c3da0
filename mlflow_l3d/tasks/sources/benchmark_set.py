"""A public data set by name, from a local folder or from the Hugging Face hub: one pool, or its published parts.

In a pool no text occurs twice: if a study draws its own splits, a repeated text could be both trained on and tested
on, and a text with two labels has no right answer. With the published parts every published example is kept: scores
are then comparable to importance on the validation set, which has the same repeats.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.forms import form_of
from mlflow_l3d.tasks.base import Task, TaskKind
from mlflow_l3d.tasks.files import PREFIX, load_file, load_from_hub
from mlflow_l3d.tasks.identity import make_task, shorten
from mlflow_l3d.tasks.kinds import Reading
from mlflow_l3d.tasks.settings import PARTS, IntArray
from mlflow_l3d.tasks.sources.packaged import refuse_options

FOLDER_VARIABLE: Final = "L3D_DATA"
"""Environment variable: a folder that may hold ``NAME.parquet``."""
SCORE_DECIMALS: Final = 3

Columns: TypeAlias = Sequence[Sequence[str]]
"""Text columns, each with n texts."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A public data set, and the loader of its task (see :class:`mlflow_l3d.tasks.base.TaskLoader`).

    Attributes
    ----------
    name
        Name of the task, and of its file in the local folder.
    class_names
        In label order; of multiple choice the columns of the choices; empty for regression.
    hub
        Name behind ``hf:``. If only code can read the usual copy on the hub (which is never run), it
        is a copy that holds the same texts as plain files.
    columns
        Text columns of the local file, in which the column of labels is ``label`` and that of parts ``split``.
    hub_columns, hub_label
        Columns on the hub; if left out, the text columns have the same names as in the local file.
    kind, metric
        See :class:`mlflow_l3d.tasks.base.Task`.
    prepared
        Makes the text columns of the task from the columns that were read; None if they are the same.
    file
        Name of the local file if it differs from the task's: two tasks may have the same data.
    """

    name: str
    class_names: tuple[str, ...]
    hub: str
    columns: tuple[str, ...] = ("text",)
    hub_columns: tuple[str, ...] = ()
    hub_label: str = "label"
    kind: TaskKind = "classification"
    metric: str = ""
    prepared: Callable[[Columns], Columns] | None = None
    file: str = ""

    def __call__(self, options: Mapping[str, str]) -> Task:
        """Return all labelled examples of all splits as one task; a study draws its own splits from them.

        Each text occurs once, and texts with two labels not at all; `notes` report how many were left out and the
        source of the data. Ids, order and fingerprint depend on the content alone, not on its place or order.

        With the option ``split=own`` the published parts are kept, whole, and `parts` says which example is in which.
        This is another reading of the data and not an index into the pool: the pool leaves out repeats and
        contradictions over all parts, so its parts would be smaller than the published ones, and scores on them not
        comparable to the published numbers.

        Raises
        ------
        ParameterError
            If `options` names a column, or ``L3D_DATA`` is not a folder, or the set lacks a part.
        L3DError
            If the data is neither in that folder nor on the hub, or differs from the data that this version expects.
        """
        with_parts = options.get("split") == "own"
        refuse_options(self.name, {name: value for name, value in options.items() if name != "split"})
        raw, source = self._read(with_parts)
        texts = (*(self.prepared(raw.texts) if self.prepared else raw.texts), *raw.choices)
        labels = self._labels(raw, source)
        notes = [f"{self.name}: read from {source}", *raw.notes]
        examples = pool_examples(texts, labels, raw.parts)
        counts = ((examples.repeats, "repeated examples"), (examples.contradictions, "texts with more than one label"))
        if left_out := " and ".join(f"{what} ({count:,})" for count, what in counts if count):
            notes.append(f"{self.name}: left out {left_out}")
        contexts = len(examples.texts) - len(raw.choices)
        texts, choices = examples.texts[:contexts], examples.texts[contexts:]
        make = partial(make_task, self.name, kind=self.kind, metric=self.metric, parts=examples.parts)
        return make(texts, examples.labels, self.class_names, examples.ids, notes, choices=choices)

    def _read(self, with_parts: bool) -> tuple[Task, str]:
        """Return the data, from the local folder or else from the hub, and where it comes from."""
        choices = self.class_names if form_of(self.kind).has_choices else ()
        read_as = partial(Reading, task_kind=self.kind, choice_columns=choices or "auto", leave_out_empty=True)
        name, folder = f"{self.file or self.name}.parquet", _data_folder()
        is_local = folder is not None and (folder / name).is_file()
        source = f"{name} in the folder {FOLDER_VARIABLE}" if is_local else f"the hub ({self.hub})"
        try:
            if folder is not None and is_local:
                return load_file(folder / name, read_as(self.columns, predefined_split=with_parts)), source
            columns, label = self.hub_columns or self.columns, self.hub_label
            return load_from_hub(PREFIX + self.hub, read_as(columns, label, predefined_split=with_parts)), source
        except L3DError as error:
            needed = ", ".join((*self.columns, *choices, "label", *(["split"] if with_parts else [])))
            raise L3DError(
                f"task={self.name}: {source} cannot be used ({str(error).rstrip('.')}). Either set {FOLDER_VARIABLE} "
                f"to a folder with {name}, which needs the columns {needed}, or load it once with a network: offline, "
                "it is then read from the cache of the package datasets."
            ) from error

    def _labels(self, raw: Task, source: str) -> npt.NDArray[Any]:
        """Return the labels of `raw` (shape (n,)) in our order of the classes, which are matched by their names.

        Scores are rounded to three decimals, as GLUE gives them: copies hold them in single or in double precision.
        """
        if form_of(self.kind).has_choices:
            return raw.labels
        if form_of(self.kind).has_numbers:
            return np.asarray(np.round(raw.labels, SCORE_DECIMALS))
        number = {text: label for label, name in enumerate(self.class_names) for text in (str(label), _plain(name))}
        if strangers := [name for name in raw.class_names if _plain(name) not in number]:
            classes = f"known are {', '.join(self.class_names)}, or their numbers"
            raise L3DError(f"task={self.name}: {source} has a class {shorten(strangers[0])!r}; {classes}.")
        return np.take(np.array([number[_plain(name)] for name in raw.class_names], dtype=np.int64), raw.labels)


def _data_folder() -> Path | None:
    text = os.environ.get(FOLDER_VARIABLE, "").strip()
    if not text:
        return None
    folder = Path(text).expanduser()
    if not folder.is_dir():
        fix = "Unset it to read data sets from the hub."
        raise ParameterError(FOLDER_VARIABLE, text, "must be a folder that exists", fix)
    return folder


def _plain(name: str) -> str:
    """Return a class name without case, blanks and punctuation, which copies of a data set write differently."""
    return re.sub(r"[\W_]", "", name.casefold())


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


sst2: Final = Benchmark("sst2", ("negative", "positive"), "nyu-mll/glue/sst2", hub_columns=("sentence",))
cola: Final = Benchmark(
    "cola", ("unacceptable", "acceptable"), "nyu-mll/glue/cola", hub_columns=("sentence",), metric="matthews_corrcoef"
)
mrpc: Final = Benchmark("mrpc", ("not_equivalent", "equivalent"), "nyu-mll/glue/mrpc", ("sentence1", "sentence2"))
ag_news: Final = Benchmark("ag_news", ("World", "Sports", "Business", "Sci/Tech"), "fancyzhx/ag_news")
trec: Final = Benchmark(
    "trec", ("ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM"), "SetFit/TREC-QC", hub_label="label_coarse_original"
)
_SNIPS: Final = "AddToPlaylist BookRestaurant GetWeather PlayMusic RateBook SearchCreativeWork SearchScreeningEvent"
snips: Final = Benchmark("snips", tuple(_SNIPS.split()), "benayas/snips", hub_label="category")
_DBPEDIA: Final = (
    "Company EducationalInstitution Artist Athlete OfficeHolder MeanOfTransportation Building NaturalPlace Village "
    "Animal Plant Album Film WrittenWork"
)
dbpedia: Final = Benchmark("dbpedia", tuple(_DBPEDIA.split()), "fancyzhx/dbpedia_14", hub_columns=("content",))

BENCHMARKS: Final = {each.name: each for each in (sst2, cola, mrpc, ag_news, trec, snips, dbpedia)}
"""Name -> data set."""
