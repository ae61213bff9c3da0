"""Files of other tools: what is written, that `evaluate` and `compare` read it, bad input, and the same again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import fails, refuses
from run_helpers import Place

from mlflow_l3d import cli
from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.comparison.run import compare
from mlflow_l3d.studies.evaluation.run import evaluate
from mlflow_l3d.studies.evaluation.view import view
from mlflow_l3d.studies.importing.run import FilesEvaluation
from mlflow_l3d.studies.seeds.results import SeedsEvaluation
from mlflow_l3d.tracking.earlier.reader import known_document, read_investigation

LOGS = Path(__file__).parent / "logs" / "lm_eval"
EXAMPLES = 40


def importing(path: Path, **parameters: Any) -> FilesEvaluation:
    return evaluate(path, **{"from_": "csv", **parameters})


def table(seed: int, shots: int = 0, model: str = "a") -> pd.DataFrame:
    draw = np.random.default_rng([seed, shots, len(model)])
    labels = np.arange(EXAMPLES) % 2
    wrong = draw.random(EXAMPLES) < 0.35 - 0.05 * shots
    content = {"example_id": range(EXAMPLES), "label": labels, "prediction": np.where(wrong, 1 - labels, labels)}
    return pd.DataFrame({**content, "task": "yes_no", "seed": seed, "shots": shots, "model": model})


def write(folder: Path, *tables: pd.DataFrame) -> Path:
    folder.mkdir(exist_ok=True)
    for number, frame in enumerate(tables):
        frame.to_csv(folder / f"run-{number}.csv", index=False)
    return folder


def scores(runs: FilesEvaluation | SeedsEvaluation) -> dict[str, float]:
    study = runs.studies[0] if isinstance(runs, SeedsEvaluation) else runs.study
    return study.metrics()


def cells_of(place: Place, runs: FilesEvaluation) -> tuple[pd.DataFrame, list[dict[str, str]]]:
    """Return the cells of a parent run as every study reads them, and the settings of each."""
    cells = read_investigation(runs.run_id, place.client).cells
    recorded = known_document(place.client, runs.run_id, "investigation.json")["runs"]
    assert cells["cell_key"].tolist() == [each["cell_key"] for each in recorded]
    return cells, [each["settings"] for each in recorded]


@pytest.mark.slow
def test_logs_of_lm_eval_become_runs_that_evaluate_reads(place: Place):
    refuses(r"runs of 2 tasks, capitals_text, reviews\. Name one", importing, LOGS, from_="lm-eval")
    done = importing(LOGS, from_="lm-eval", task="reviews")
    assert (done.written, done.skipped, done.problems) == (4, 0, ())
    study = done.study
    assert (study.groups["runs"].tolist(), study.seeds) == ([2, 2], ("params.fewshot_seed",))
    assert {*study.groups["group"]} == {"num_fewshot=1", "num_fewshot=4"}
    parent = place.client.get_run(done.run_id)
    assert parent.data.tags["l3d.state"] == "complete"
    assert parent.data.params["model"] == "SmolLM2-135M-Instruct"
    held, settings = cells_of(place, done)
    every = [(shots, seed) for shots in "14" for seed in "12"]
    assert sorted((each["num_fewshot"], each["fewshot_seed"]) for each in settings) == every
    lines = [
        json.loads(line)
        for path in LOGS.glob("samples_reviews_2*")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert held["accuracy"].mean() == pytest.approx(np.mean([one["acc"] for one in lines]))
    again = evaluate(done.run_id)
    assert scores(again) == pytest.approx(scores(done))
    assert "num_fewshot" in again.summary()


@pytest.mark.slow
def test_one_varying_seed_is_a_study_of_seeds(place: Place, tmp_path: Path):
    done = importing(write(tmp_path / "logs", *(table(seed) for seed in (42, 52, 62))))
    assert done.study.seeds == (42, 52, 62)
    assert done.study.recorded is None
    assert done.study.kind == "classification"
    assert "3 seeds" in place.client.get_run(done.run_id).info.run_name
    assert view(done.run_id, cite=True).summary().startswith("Over 3 seeds, ")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run", "seed"])
def test_numbers_longer_than_64_bits_are_names(place: Place, tmp_path: Path, name: str):
    rows = pd.DataFrame({name: [str(10**20), str(10**20 + 1), "5"], "accuracy": [0.5, 0.75, 0.6]})
    rows.to_csv(tmp_path / "scores.csv", index=False)
    assert importing(tmp_path / "scores.csv").study.seeds == (0, 1, 2)


@pytest.mark.slow
def test_what_is_broken_is_named_and_what_is_whole_is_written_once(place, tmp_path, capsys) -> None:
    whole = [table(seed) for seed in range(6)]
    broken = [frame.copy() for frame in whole]
    broken[1].loc[3, "example_id"] = 2
    broken[2] = broken[2].iloc[:-1]
    broken[3]["label"] = 1 - broken[3]["label"]
    logs = write(tmp_path / "logs", *broken[:4], *whole[4:])
    (logs / "run-9.csv").write_text("nothing\n", encoding="utf-8")
    first = importing(logs)
    assert (first.written, first.exit_status) == (3, 1)
    said = dict(line.split(":", 1) for line in first.problems)
    assert "no column example_id" in said["run-9.csv"]
    assert "example 2 occurs 2 times" in said["run-1.csv (seed=1, shots=0, model=a)"]
    assert "lacks 1 (39, ...)" in said["run-2.csv (seed=2, shots=0, model=a)"]
    assert "has another label of 40 examples (0, ...)" in said["run-3.csv (seed=3, shots=0, model=a)"]
    assert place.client.get_run(first.run_id).data.tags["l3d.state"] == "incomplete"

    write(logs, *whole)
    (logs / "run-9.csv").unlink()
    second = importing(logs)
    assert (second.written, second.skipped, second.exit_status) == (3, 3, 0)
    held, settings = cells_of(place, second)
    assert [each["seed"] for each in settings] == [*"012345"]
    assert held["run_id"].tolist() == [f"{second.run_id}/{number}" for number in range(1, 7)]
    assert {run.info.run_id for run in place.runs()} == {first.run_id, second.run_id}, "the parent holds its cells"

    assert cli.main(["evaluate", str(logs), "--from", "csv"]) == 0
    assert f"0 runs written, 6 there before\nMLflow run {second.run_id}" in capsys.readouterr().out
    write(logs, *whole, whole[0])
    more = importing(write(logs, *whole, whole[0], table(7)))
    assert (more.written, more.skipped) == (1, 6)
    assert "run-6.csv" in more.notes[0]
    assert cells_of(place, more)[0]["cell_key"].nunique() == 7
    assert scores(evaluate(more.run_id)) == pytest.approx(scores(more))


@pytest.mark.slow
def test_models_that_were_imported_are_compared_in_pairs_of_equal_settings(place: Place, tmp_path: Path):
    runs = [table(seed, shots, model) for seed in range(4) for shots in (0, 4) for model in ("a", "bb")]
    for run in runs:  # answers are texts
        answers = ["answer " + run["example_id"].astype(str), "none of these"]
        run["prediction"] = answers[0].where(run["prediction"] == run["label"], answers[1])
        run["label"] = answers[0]
    logs = write(tmp_path / "logs", *runs)
    parents = [importing(logs, only=f"model={model}") for model in ("a", "bb")]
    assert [parent.written for parent in parents] == [8, 8]
    compared = compare(runs=",".join(parent.run_id for parent in parents))
    studies = [parent.study for parent in parents]
    means = [study.runs["score"].mean() for study in studies]
    assert f"{100 * abs(means[0] - means[1]):.1f}" in compared.summary()
    pairs = compared.report().sections[0].parts[0]
    shown = dict(zip(pairs.head, pairs.rows[0], strict=True))
    assert shown["difference (pp)"] == f"{100 * abs(means[0] - means[1]):+.2f}"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"from_": "lm_eval"}, "Did you mean 'lm-eval'"),
        ({"path": "nowhere"}, "no such file or folder"),
        ({"from_": "lm-eval"}, "holds no file that lm-eval writes"),
        ({"from_": "lm-eval", "path": "logs/run-0.csv"}, "holds no file that lm-eval writes"),
        ({"task": "no_yes"}, "must be one of yes_no"),
        ({"only": "sed=1"}, "Did you mean 'params.seed'"),
        ({"only": "seed=9"}, "no run has these"),
        ({"only": "seed=1"}, "holds 1 run, and at least two are needed"),
        ({"metric": "acc"}, "metric='acc': must be one that the runs have"),
    ],
)
def test_a_parameter_that_is_not_allowed_is_one_line(place: Place, tmp_path: Path, parameters: Any, said: str):
    logs = write(tmp_path / "logs", table(0), table(1))
    fails(said, importing, **{"path": logs, **parameters})
    assert place.runs() == []


@pytest.mark.slow
def test_runs_keep_their_pairs_when_their_parents_are_evaluated_again(place: Place, tmp_path: Path):
    """Runs pair by their settings, not by their numbers in each parent: there seed 0 of one is seed 2 of the other."""
    seeds = {"a": (0, 1, 2, 3), "bb": (2, 3, 4, 5)}
    runs = [table(seed, shots, model) for model in seeds for seed in seeds[model] for shots in (0, 4)]
    logs = write(tmp_path / "logs", *runs)
    parents = [importing(logs, only=f"model={model}").run_id for model in seeds]
    before = compare(runs=parents)
    for parent in parents:  # one alone, then both
        evaluate(parent)
        assert compare(runs=parents).metrics() == before.metrics()


def test_a_file_that_may_not_be_read_is_one_line(place: Place, monkeypatch: pytest.MonkeyPatch):
    def denied(path: Path, *given: Any, **named: Any) -> Any:
        if path.name == "results.json":
            raise PermissionError(13, "Permission denied")
        return whole(path, *given, **named)

    whole = Path.open
    Path("results.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(L3DError, match=r"^results\.json: cannot be read \(Permission denied\)\. Make it readable"):
        importing(Path("results.json"), from_="auto")
