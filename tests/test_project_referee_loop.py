"""`projects/referee_loop.py`: the loop runs end to end on a small head, and takes over the runs that are done."""

import json

import numpy as np
import pandas as pd
import pytest
from project_scripts import load_script

import mlflow_l3d

pytestmark = pytest.mark.slow


def test_the_loop_runs_again_with_the_runs_that_are_done(tmp_path, place, capsys, monkeypatch) -> None:
    loop = load_script("projects/referee_loop.py")
    monkeypatch.setattr(loop, "SPACE", {"epochs": [1, 2], "dropout": [0.0, 0.3]})
    generator = np.random.default_rng(0)
    labels = np.tile([0, 1], 60)
    words = [["bad", "poor"], ["good", "fine"]]
    texts = [f"a {generator.choice(words[label])} film {at}" for at, label in enumerate(labels)]
    pd.DataFrame({"text": texts, "label": labels}).to_csv(tmp_path / "films.csv", index=False)
    monkeypatch.chdir(tmp_path)  # runs record the name of a file alone
    options = ["--baseline-runs", "7", "--num-labelled", "20", "--test-size", "20", "--executor", "inline"]
    with place.entered():
        for candidates in (1, 2):
            command = ["--task", "films.csv", "--candidates", str(candidates), *options]
            assert loop.main(command) == 0
        session = mlflow_l3d.referee()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [line["number"] for line in lines] == [1, 1, 2]
    assert lines[1]["gain"] == lines[0]["gain"]
    assert session.course.judged == 2
