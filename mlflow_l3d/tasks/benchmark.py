"""The seven data sets of Pecher et al. (2024, section 4) by name, from a local folder or from the Hugging Face hub."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.base import IntArray, Task
from mlflow_l3d.tasks.files import load_file
from mlflow_l3d.tasks.hub import PREFIX, load_from_hub
from mlflow_l3d.tasks.identity import make_task, shorten
from mlflow_l3d.tasks.packaged import refuse_options
from mlflow_l3d.tasks.pooling import Pool, pool_examples

FOLDER_VARIABLE: Final = "L3D_DATA"
"""Environment variable: a folder that may hold ``NAME.parquet``."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A public data set, and the loader of its task (see :class:`mlflow_l3d.tasks.base.TaskLoader`).

    Attributes
    ----------
    name
        Name of the task, and of its file in the local folder.
    class_names
        In label order.
    hub
        What follows ``hf:``. Where the usual copy on the hub is one that only code can read, which is never run, it
        is one that holds the same texts as plain files.
    hub_texts, hub_label
        Columns there.
    columns
        Text columns of the local file, in which the column of labels is ``label``.
    """

    name: str
    class_names: tuple[str, ...]
    hub: str
    hub_texts: tuple[str, ...]
    hub_label: str = "label"
    columns: tuple[str, ...] = ("text",)

    def __call__(self, options: Mapping[str, str]) -> Task:
        """Return all labelled examples of all splits as one task; the study draws its own splits.

        Each text occurs once, and texts with two labels not at all; `notes` say how many were left out and where the
        data is from. Ids, order and fingerprint depend on the content alone, not on where or in which order it was
        found.

        Raises
        ------
        ParameterError
            If `options` names a column, or ``L3D_DATA`` is no folder.
        L3DError
            If the data is neither in that folder nor to be had from the hub, or is not what this version knows.
        """
        refuse_options(self.name, options)
        folder = _data_folder()
        file = folder / f"{self.name}.parquet" if folder else None
        found, source = self._from_folder(file) if file and file.is_file() else self._from_hub(bool(folder))
        pool = pool_examples(found.texts, self._labels(found, source))
        notes = (f"{self.name}: read from {source}", *found.notes, *_left_out(self.name, pool))
        return make_task(self.name, pool.texts, pool.labels, self.class_names, pool.ids, notes)

    def _from_folder(self, file: Path) -> tuple[Task, str]:
        source = f"{file.name} in the folder {FOLDER_VARIABLE}"
        try:
            return load_file(file, ",".join(self.columns)), source
        except L3DError as error:
            columns = ", ".join((*self.columns, "label"))
            msg = f"task={self.name}: {source} cannot be used ({_without_stop(error)}). It needs the columns {columns}."
            raise L3DError(msg) from error

    def _from_hub(self, has_folder: bool) -> tuple[Task, str]:
        try:
            return load_from_hub(PREFIX + self.hub, ",".join(self.hub_texts), self.hub_label), f"the hub ({self.hub})"
        except L3DError as error:
            local = f"not in the folder {FOLDER_VARIABLE}" if has_folder else f"{FOLDER_VARIABLE} names no folder"
            msg = (
                f"task={self.name}: {local}, and not to be had from the hub ({_without_stop(error)}). Either set "
                f"{FOLDER_VARIABLE} to a folder with {self.name}.parquet (columns {', '.join(self.columns)}, label), "
                "or load it once with a network: offline, it is then read from the cache of the package datasets."
            )
            raise L3DError(msg) from error

    def _labels(self, found: Task, source: str) -> IntArray:
        """Return the labels of `found` (shape (n,)) in our order of the classes, which are matched by their names."""
        number = {str(label): label for label in range(len(self.class_names))}
        number |= {_plain(name): label for label, name in enumerate(self.class_names)}
        names = [_plain(name) for name in found.class_names]
        for name, plain in zip(found.class_names, names, strict=True):
            if plain not in number:
                known = ", ".join(self.class_names)
                msg = f"task={self.name}: {source} has a class {shorten(name)!r}; known are {known}, or their numbers."
                raise L3DError(msg)
        return np.array([number[name] for name in names], dtype=np.int64)[found.labels]


def _data_folder() -> Path | None:
    given = os.environ.get(FOLDER_VARIABLE, "").strip()
    if not given:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise ParameterError(
            FOLDER_VARIABLE, given, "must be a folder that exists", "Unset it to read data sets from the hub."
        )
    return folder


def _left_out(name: str, pool: Pool) -> Sequence[str]:
    parts = []
    if pool.repeats:
        parts.append(f"{pool.repeats} repeated example{'s' * (pool.repeats > 1)}")
    if pool.contradictions:
        parts.append(f"{pool.contradictions} text{'s' * (pool.contradictions > 1)} with more than one label")
    return [f"{name}: left out {' and '.join(parts)}"] if parts else []


def _plain(name: str) -> str:
    """Return a class name without what copies of a data set write differently: case, blanks and punctuation."""
    return re.sub(r"[\W_]", "", name.casefold())


def _without_stop(error: L3DError) -> str:
    return str(error).rstrip(".")


sst2: Final = Benchmark("sst2", ("negative", "positive"), "nyu-mll/glue/sst2", ("sentence",))
cola: Final = Benchmark("cola", ("unacceptable", "acceptable"), "nyu-mll/glue/cola", ("sentence",))
mrpc: Final = Benchmark(
    "mrpc",
    ("not_equivalent", "equivalent"),
    "nyu-mll/glue/mrpc",
    ("sentence1", "sentence2"),
    columns=("sentence1", "sentence2"),
)
ag_news: Final = Benchmark("ag_news", ("World", "Sports", "Business", "Sci/Tech"), "fancyzhx/ag_news", ("text",))
trec: Final = Benchmark(
    "trec", ("ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM"), "SetFit/TREC-QC", ("text",), "label_coarse_original"
)
snips: Final = Benchmark(
    "snips",
    (
        "AddToPlaylist",
        "BookRestaurant",
        "GetWeather",
        "PlayMusic",
        "RateBook",
        "SearchCreativeWork",
        "SearchScreeningEvent",
    ),
    "benayas/snips",
    ("text",),
    "category",
)
dbpedia: Final = Benchmark(
    "dbpedia",
    (
        "Company",
        "EducationalInstitution",
        "Artist",
        "Athlete",
        "OfficeHolder",
        "MeanOfTransportation",
        "Building",
        "NaturalPlace",
        "Village",
        "Animal",
        "Plant",
        "Album",
        "Film",
        "WrittenWork",
    ),
    "fancyzhx/dbpedia_14",
    ("content",),
)

BENCHMARKS: Final = {each.name: each for each in (sst2, cola, mrpc, ag_news, trec, snips, dbpedia)}
"""Name -> data set."""
