"""An import and a command read the same file alike, however labels are spelt: brute force is the truth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import fails, refuses
from sklearn.metrics import f1_score

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.command.approach import Command
from mlflow_l3d.approaches.command.written import Written, read
from mlflow_l3d.metrics.known import scores_of
from mlflow_l3d.studies.importing import RecordedRun
from mlflow_l3d.studies.importing.checking import checked, with_kinds
from mlflow_l3d.studies.importing.formats import csv_file
from mlflow_l3d.studies.seeds.numbers import seeds_study
from mlflow_l3d.tasks.answers import order
from mlflow_l3d.testing import one_cell

SEEDS = 4
EXAMPLES = 60
SPELLINGS: dict[str, tuple[list[str], list[str]]] = {
    "same": (["no", "yes"], ["no", "yes"]),
    "decimal both": (["0.0", "1.0"], ["0.0", "1.0"]),
    "decimal predictions": (["0", "1", "2"], ["0.0", "1.0", "2.0"]),
    "signs": (["-1", "1"], ["-1.0", "+1"]),
    "case": (["true", "false"], ["True", "False"]),
    "blanks": (["a", "b c"], ["a ", " b  c"]),
    "two labels that differ by case": (["A", "a"], ["A", "a"]),
    "never labelled": (["a", "b"], ["a", "b", "c"]),
    "never labelled number": (["0", "1"], ["0", "1", "2.0"]),
    "unreadable": (["0", "1"], ["0", "1", "I cannot answer", ""]),
    "words that look missing": (["NA", "None", "null"], ["NA", "None", "null"]),
}


def table(spelling: str) -> tuple[list[int], list[list[int]], pd.DataFrame]:
    """Return the true class of each example, those predicted with each seed (places in lists), and both as spelt."""
    labels, answers = SPELLINGS[spelling]
    draw = np.random.default_rng(3)
    truth = [place % len(labels) for place in range(EXAMPLES)]
    guesses = [
        [int(draw.integers(len(answers))) if draw.random() < 0.4 else true for true in truth] for _ in range(SEEDS)
    ]
    rows = [
        {"example_id": example, "label": labels[truth[example]], "prediction": answers[guess[example]], "seed": seed}
        for seed, guess in enumerate(guesses)
        for example in range(EXAMPLES)
    ]
    return truth, guesses, pd.DataFrame(rows)


def imported(path: Path, **given: str) -> tuple[list[RecordedRun], list[str], list[str]]:
    runs, _, problems, notes = checked(
        csv_file.read(path, {}), **{"metric": "auto", "task_kind": "auto", "classes": "auto", **given}
    )
    return runs, problems, notes


class FromFolder(Command):
    """A command that has run already."""

    folder: Path

    def execute(self, seeds: Mapping[str, int], hyperparameters: Mapping[str, Any]) -> Written:
        del hyperparameters
        return read(self.folder / str(seeds["seed"] % SEEDS))


def commanded(frame: pd.DataFrame, folder: Path) -> list[dict[str, float]]:
    for seed, rows in frame.groupby("seed"):
        (folder / str(seed)).mkdir()
        rows.drop(columns="seed").to_csv(folder / str(seed) / "predictions.csv", index=False)
    approach = FromFolder("echo {seed}")
    approach.folder = folder
    hyperparameters = resolve_hyperparameters(approach, {})
    task = approach.own_task(hyperparameters, folder / "cache")
    session = approach.prepare(task, hyperparameters, model="", device="cpu", cache=folder)
    cell = one_cell(("seed",))
    scores = []
    for seed in range(SEEDS):
        cell.seeds["seed"] = seed  # type: ignore[index]
        (outcome,) = session.run([cell])
        assert outcome.error is None, outcome.error
        scores.append(scores_of(outcome.labels, outcome.predictions, classes=len(task.class_names)))
    return scores


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_import_and_a_command_give_the_numbers_of_brute_force(spelling: str, tmp_path: Path):
    truth, guesses, frame = table(spelling)
    frame.to_csv(tmp_path / "runs.csv", index=False)
    runs, problems, notes = imported(tmp_path / "runs.csv")
    assert problems == []
    assert [run.kind for run in runs] == ["classification"] * SEEDS
    assert notes[0].startswith("Read as classification with the classes ")
    assert {name.casefold() for name in runs[0].classes} >= {name.casefold() for name in {*frame["label"].map(str)}} - {
        "0.0",
        "1.0",
    }
    accuracy = [np.mean([one == other for one, other in zip(guess, truth, strict=True)]) for guess in guesses]
    assert [run.scores["accuracy"] for run in runs] == pytest.approx(accuracy)
    assert [run.scores for run in runs] == commanded(frame, tmp_path)
    unread = {2, 3} if spelling == "unreadable" else set()
    agree = [
        np.mean([one == other and one not in unread for one, other in zip(guess, their, strict=True)])
        for guess, their in combinations(guesses, 2)
    ]
    columns = ("example_id", "label", "prediction")
    predictions = pd.concat(
        pd.DataFrame(dict(zip(columns, (run.ids, run.labels, run.predictions), strict=True))).assign(seed=seed)
        for seed, run in enumerate(runs)
    )
    study = seeds_study(pd.DataFrame([{"seed": seed, **run.scores} for seed, run in enumerate(runs)]), predictions)
    assert study.pairs["consistency"].mean == pytest.approx(np.mean(agree))
    assert study.constant_seeds == ()


def test_a_class_that_one_run_alone_predicts_changes_no_other_run(tmp_path: Path):
    truth = ["a", "b"] * 6
    answers = [["a", "a", "b", "b"] * 3, ["a", "b"] * 5 + ["c", "b"], ["a", "b"] * 5 + ["c", "d"]]
    own = {"example_id": range(12), "label": truth}
    rows = pd.concat([pd.DataFrame({**own, "prediction": given, "seed": seed}) for seed, given in enumerate(answers)])
    rows.to_csv(tmp_path / "runs.csv", index=False)
    runs, *_ = imported(tmp_path / "runs.csv")
    wanted = [f1_score(truth, given, average="macro") for given in answers]
    assert [run.scores["f1_macro"] for run in runs] == pytest.approx(wanted)
    numbers = {name: number for number, name in enumerate("abcd")}
    predictions = rows.assign(**{name: rows[name].map(numbers) for name in ("label", "prediction")})
    study = seeds_study(pd.DataFrame({"seed": range(3)}), predictions)
    assert study.scores["f1_macro"].tolist() == pytest.approx(wanted)


def test_what_is_read_otherwise_is_said(tmp_path: Path):
    table("never labelled")[2].to_csv(tmp_path / "runs.csv", index=False)
    runs, _, notes = imported(tmp_path / "runs.csv")
    assert notes[0] == "Read as classification with the classes a, b, c."
    assert "no label has, read as classes of their own: 'c' (" in notes[1]
    # Wrong predictions of a class of its own lower precision as much as accuracy.
    assert runs[0].scores["precision_macro"] < runs[0].scores["accuracy"]


@pytest.mark.parametrize(
    ("labels", "answers", "reason"),
    [
        (["Positive", "Negative"], ["pos", "neg"], "no prediction is one of the labels"),
        (["0", "1"], ["0.1", "0.9"], "most predictions are decimals"),
        (["0", "1", "1"], ["0.1", "0.9", "1"], "most predictions are decimals"),
    ],
)
def test_answers_that_are_none_of_the_labels_are_the_reason_given(labels, answers, reason, tmp_path) -> None:
    examples = range(5 * len(labels))
    frame = pd.DataFrame({"example_id": examples, "label": labels * 5, "prediction": answers * 5})
    pd.concat([frame.assign(seed=seed) for seed in range(2)]).to_csv(tmp_path / "runs.csv", index=False)
    runs, problems, _ = imported(tmp_path / "runs.csv")
    assert runs == []
    assert all(reason in line for line in problems)
    refuses(reason, commanded, pd.concat([frame.assign(seed=seed) for seed in range(SEEDS)]), tmp_path)


def test_the_kind_and_the_classes_can_be_said(tmp_path: Path):
    frame = pd.DataFrame({"example_id": range(8), "label": [0, 1] * 4, "prediction": [0, 1, 1, 1] * 2})
    pd.concat([frame.assign(seed=seed) for seed in range(2)]).to_csv(tmp_path / "runs.csv", index=False)
    path = tmp_path / "runs.csv"
    named = imported(path, classes="neg|pos|neutral")[0][0]
    assert named.classes == ("neg", "pos", "neutral")
    assert named.scores["recall_macro"] == pytest.approx((0.5 + 1 + 0) / 3)
    numbers = imported(path, task_kind="regression")[0][0]
    assert numbers.scores["mae"] == 0.25
    (texts, _), *_ = with_kinds(csv_file.read(path, {}), "generation", "auto")
    assert (texts.kind, texts.predictions.tolist()[:3]) == ("generation", ["0", "1", "1"])  # type: ignore[union-attr]
    assert "has the label '1', which --classes does not name" in imported(path, classes="0|2")[1][0]


def test_free_text_has_no_scores_of_classes(tmp_path: Path):
    frame = pd.DataFrame({"example_id": range(9), "label": [f"capital {i}" for i in range(9)]})
    frame["prediction"] = frame["label"].where(frame.index < 6, "none")
    pd.concat([frame.assign(seed=seed) for seed in range(2)]).to_csv(tmp_path / "runs.csv", index=False)
    (run, *_), _, notes = imported(tmp_path / "runs.csv")
    assert run.scores == {"accuracy": pytest.approx(6 / 9)}
    assert notes[0].startswith("Read as texts")


@pytest.mark.parametrize("index", ["", "Unnamed: 0"])
@pytest.mark.parametrize(("sep", "encoding"), [(",", "utf-8"), (";", "utf-8-sig"), ("\t", "utf-16"), ("|", "utf-8")])
def test_index_columns_separators_and_encodings(index: str, sep: str, encoding: str, tmp_path: Path):
    frame = table("same")[2]
    frame.to_csv(tmp_path / "plain.csv", index=False)
    frame.to_csv(tmp_path / "other.csv", index_label=index, sep=sep, encoding=encoding)
    one, other = (imported(tmp_path / f"{name}.csv")[0] for name in ("plain", "other"))
    assert [run.scores for run in one] == [run.scores for run in other]
    assert [run.settings for run in one] == [run.settings for run in other]


def test_texts_in_a_wide_file_are_no_runs(tmp_path: Path):
    frame = pd.DataFrame({"example_id": range(6), "sentence1": list("uvwxyz"), "sentence2": list("zyxwvu")})
    frame = frame.assign(label=["no", "yes"] * 3, seed_1=["no", "No"] * 3, seed_2=["yes"] * 6)
    frame.to_csv(tmp_path / "wide.csv", index=False)
    assert [run.scores["accuracy"] for run in imported(tmp_path / "wide.csv")[0]] == [0.5, 0.5]


def rows_of_scores(path: Path, **columns: list[Any]) -> Path:
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("columns", "scores", "note"),
    [
        ({"accuracy": [0.5, 0.75]}, {"accuracy": [0.5, 0.75]}, ""),
        ({"accuracy": [81.63, 79.5]}, {"accuracy": [0.8163, 0.795]}, "accuracy, from 79.5 to 81.63, is read as"),
        ({"accuracy": ["81.63%", "0.5 %"]}, {"accuracy": [0.8163, 0.005]}, ""),
        ({"accuracy": [0.5, 1.0], "loss": [2.5, 3.5]}, {"accuracy": [0.5, 1.0], "loss": [2.5, 3.5]}, ""),
        ({"eval_f1": [0, 61.5]}, {"eval_f1": [0, 0.615]}, "percent"),
        ({"hits@10": [20.5, 31.25]}, {"hits@10": [0.205, 0.3125]}, "percent"),
        ({"reward": [0.25, 153.5]}, {"reward": [0.25, 153.5]}, ""),
        ({"accuracy": [0.5, 0.75], "loss": ["nan", 2.5]}, {"accuracy": [0.5, 0.75]}, ""),
        ({"accuracy": ["81,5", "79,25"]}, {"accuracy": [0.815, 0.7925]}, "percent"),
    ],
)
def test_scores_without_predictions(columns: dict[str, Any], scores: dict[str, list[float]], note: str, tmp_path: Path):
    path = rows_of_scores(tmp_path / "scores.csv", seed=[42, 52], lr=["1e-5", "1e-5"], **columns)
    runs, problems, notes = imported(path)
    assert problems == []
    assert [run.settings for run in runs] == [{"seed": seed, "lr": "1e-5"} for seed in ("42", "52")]
    for name, values in scores.items():
        assert [run.scores[name] for run in runs] == pytest.approx(values)
    assert note in " ".join(notes)
    assert bool(notes) == bool(note)


@pytest.mark.parametrize(
    ("columns", "metric", "why"),
    [
        ({"accuracy": [0.83, 81.2]}, "auto", r"accuracy: has scores from 0.83 to 81.2, which are neither fractions"),
        ({"accuracy": [83, 812]}, "auto", "from 83 to 812, which are neither"),
        ({"one": [0.5, 0.25], "two": [0.5, 0.75]}, "auto", r"which of one, two is the metric is not known\. Name it:"),
        (
            {"id": [1, 2], "gold": ["a", "b"], "score": [0.5, 1]},
            "auto",
            "has neither a column prediction nor any that names",
        ),
        ({"kind": ["a", "b"]}, "auto", "has no column example_id and no label, but seed, kind"),
    ],
)
def test_scores_that_could_be_either_are_refused(columns: dict[str, Any], metric: str, why: str, tmp_path: Path):
    fails(why, imported, rows_of_scores(tmp_path / "scores.csv", seed=[1, 2], **columns), metric=metric)


def test_names_of_more_digits_than_python_reads_are_classes() -> None:
    assert sorted(["2", "1" * 5000, "a", "10"], key=order) == ["2", "10", "1" * 5000, "a"]


@pytest.mark.parametrize(
    ("kind", "label", "answers", "scores"),
    [
        ("tagging", ["B-PER", "O"], [["B-PER", "O"], ["O", "O"]], [1.0, 0.5]),
        ("ranking", ["d2"], [["d2", "d1"], ["d1", "d2"]], [1.0, 1 / np.log2(3)]),
        ("ranking", {"d1": 3, "d2": 0}, [["d1", "d2"], ["d2", "d1"]], [1.0, 1 / np.log2(3)]),
        ("generation", ["a cat", "one cat"], ["one cat", "a dog"], [1.0, 0.0]),
    ],
)
def test_lists_in_a_jsonl_file_are_read_as_lists(
    kind: str, label: Any, answers: list[Any], scores: list[float], tmp_path: Path
):
    rows = [
        {"example_id": example, "label": label, "prediction": answer, "seed": seed}
        for seed, answer in enumerate(answers)
        for example in (1, 2)
    ]
    (tmp_path / "runs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    runs, headline, problems, _ = checked(csv_file.read(tmp_path / "runs.jsonl", {}), "auto", kind, "auto")
    assert not problems
    np.testing.assert_allclose([run.scores[headline.name] for run in runs], scores)


def test_tags_of_other_tokens_in_a_file_are_refused(tmp_path: Path):
    row = {"example_id": 1, "label": ["B-PER", "O"], "prediction": ["O"], "seed": 1}
    (tmp_path / "runs.jsonl").write_text(json.dumps(row))
    _, _, problems, _ = checked(csv_file.read(tmp_path / "runs.jsonl", {}), "auto", "tagging", "auto")
    assert "another number of tags than tokens" in problems[0]
