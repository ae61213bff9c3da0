"""The paper's data sets as files and packages: recognised by name, with every class word in its place."""

import os
from pathlib import Path

import pytest

from mlflow_l3d.approaches.icl.formats import format_for
from mlflow_l3d.approaches.icl.paper import LETTERS, TABLES
from mlflow_l3d.tasks.resolve import load_task

FOLDER = os.environ.get("L3D_TEST_DATA", "")


@pytest.mark.skipif(not FOLDER, reason="L3D_TEST_DATA names no folder")
@pytest.mark.parametrize("name", TABLES)
def test_a_set_of_the_paper(name: str) -> None:
    task = load_task(str(Path(FOLDER) / f"{name}.parquet"))
    formats = [format_for(task.name, letter, task.class_names, columns=len(task.texts)) for letter in LETTERS]
    assert [found.name for found in formats] == [f"{name}-{letter}" for letter in LETTERS]
    last = [int((task.labels == label).nonzero()[0][-1]) for label in range(len(task.class_names))]
    shots = [(tuple(column[row] for column in task.texts), label) for label, row in enumerate(last)]
    for found in formats:
        lines = found.render(shots, shots[0][0]).split("\n")
        # Two lines an example; the last one waits for its answer.
        assert len(lines) == 2 * (len(shots) + 1) + bool(found.instruction)
        answers = lines[bool(found.instruction) + 1 :: 2]
        assert all(line == answers[-1] + word for line, word in zip(answers, found.answers, strict=False))
        assert len(answers) == len(shots) + 1


def test_articles_of_many_lines() -> None:
    task = load_task("bbc_news")
    found = format_for(task.name, "A", task.class_names)
    assert found.name == "bbc_news-A"
    prompt = found.render([((task.texts[0][0],), int(task.labels[0]))], (task.texts[0][-1],))
    assert len(prompt.split("\n")) == 5
