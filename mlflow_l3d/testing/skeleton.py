"""A package to begin with: an approach that keeps the contract as it is, its entry point and its test."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mlflow_l3d import registry
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name

_PYPROJECT: Final = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "l3d-mine"
version = "0.1.0"
dependencies = ["mlflow-l3d"]

[project.entry-points."mlflow_l3d.approaches"]
mine = "l3d_mine:Mine"

[tool.setuptools]
py-modules = ["l3d_mine"]
"""
_MODULE: Final = '''\
"""The approach mine."""

from mlflow_l3d.approaches.base import Approach, CellwiseSession
from mlflow_l3d.plan.cells import Outcome
from mlflow_l3d.plan.factors import stream


class Mine(Approach):
    name = "mine"
    version = "1"  # change it whenever the same cell would predict otherwise
    factors = ("label_selection", "data_split", "model_initialisation")
    default_task = "synthetic"

    def prepare(self, task, hyperparameters, *, model, device, cache):
        return MineSession(task)


class MineSession(CellwiseSession):
    def __init__(self, task):
        self.task = task

    def run_cell(self, cell):
        split = self.task.split(cell.seeds)
        # Train on split.train with the seeds of the cell, and score split.test. So far scores are drawn:
        shape = len(split.test), len(self.task.class_names)
        scores = stream(cell.seeds["model_initialisation"], "scores").random(shape)
        ids, labels = self.task.example_ids[split.test], self.task.labels[split.test]
        return Outcome(cell.key, ids, labels, scores.argmax(axis=1), scores)
'''
_TEST: Final = """\
from dataclasses import replace

from l3d_mine import Mine
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.synthetic import generate
from mlflow_l3d.testing import check_approach


def test_mine_keeps_the_contract(tmp_path):
    task = replace(generate(60), settings=SplitSettings(num_labelled=12, test_size=10))
    check_approach(Mine(), task, cache=tmp_path)
"""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """What was written.

    Attributes
    ----------
    folder
        Where.
    files
        Names of the files in it.
    """

    folder: Path
    files: tuple[str, ...]

    def summary(self) -> str:
        """Return what there is, and what to do next."""
        steps = f"Try it: pip install -e {self.folder} && pytest {self.folder}"
        return f"{self.folder}: {', '.join(self.files)}. {steps}"


def new(kind: str, name: str, *, folder: Path | None = None) -> Skeleton:
    """Write a package that passes the conformance suite as it is.

    Parameters
    ----------
    kind
        ``approach``.
    name
        What the approach is to be called: small letters, digits and underscores.
    folder
        Where the package's folder ``l3d-NAME`` is made; the current one where None.

    Raises
    ------
    ParameterError
        If the kind is another, or the name is not allowed or taken.
    L3DError
        If there is such a folder already.
    """
    if kind != "approach":
        raise unknown_name("kind", kind, ["approach"])
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ParameterError("name", name, "must be small letters, digits and underscores, a letter first")
    if name in registry.names("approach"):
        raise ParameterError("name", name, "is the name of an approach that is installed", "Choose another one.")
    root = (folder or Path()) / f"l3d-{name}"
    if root.exists():
        raise L3DError(f"the folder {root} is there already; nothing was written.")
    root.mkdir(parents=True)
    texts = {"pyproject.toml": _PYPROJECT, "l3d_mine.py": _MODULE, "test_l3d_mine.py": _TEST}
    camel = "".join(part.capitalize() for part in name.split("_"))
    files = {file.replace("mine", name): text for file, text in texts.items()}
    for file, text in files.items():
        (root / file).write_text(text.replace("mine", name).replace("Mine", camel), encoding="utf-8")
    return Skeleton(root, tuple(files))
