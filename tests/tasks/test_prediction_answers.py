"""Which kind answers are, and which spellings name one class: by brute force, and as scikit-learn scores them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mlflow_l3d.errors import L3DError
from mlflow_l3d.tasks.answers import Classes, kind_of, labels_of, plain_number
from mlflow_l3d.tasks.columns import task_from_table
from mlflow_l3d.tasks.kinds import Reading
from mlflow_l3d.tasks.table import Table, read_columns

COLUMNS = {"example_id": ["1", "2"], "label": ["no; never, ever", "yes"], "prediction": ["yes", None]}


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_any_usual_separator_and_encoding(mark: str, encoding: str, tmp_path: Path):
    pd.DataFrame(COLUMNS).to_csv(tmp_path / "a.csv", sep=mark, encoding=encoding, index=False)
    assert read_columns(tmp_path / "a.csv") == COLUMNS


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.0", "0"), ("-1.0", "-1"), ("+1", "1"), (" 10 ", "10"), ("1e3", "1000"), ("-0", "0"), (".50", "0.5")]
    + [(text, None) for text in ("nan", "inf", "1_000", "a", "", "1e9999", "0x1", "\uff11")],
)
def test_numbers_that_texts_spell(text: str, number: str | None):
    assert plain_number(text) == number


@pytest.mark.parametrize(
    ("labels", "answers", "kind"),
    [
        (["0.0", "1.0"] * 20, ["0.0", "1.0"] * 20, "classification"),
        (["0", "1"] * 20, ["0.73", "0.2"] * 20, "classification"),  # probabilities: no prediction is a label
        (["0", "1"] * 20, ["0", "1"] * 19 + ["I cannot say", None], "classification"),
        ([*map(str, range(10))], [*map(str, range(10))], "classification"),
        ([*map(str, range(30, 90))] * 2, ["50.5"] * 120, "regression"),
        ([f"{i / 7:.3f}" for i in range(60)], ["3"] * 60, "regression"),
        (["0.5", "1.5", "2.0"], ["0.4", None, "2.1"], "regression"),
        (["0.5", "1.0"] * 9, ["1.0", "0.5"] * 9, "classification"),
        ([f"capital {i}" for i in range(36)], ["capital 1"] * 36, "texts"),
        ([str(i * 7) for i in range(400)] * 3, [str(i * 7) for i in range(400)] * 3, "texts"),
        ([f"intent {i}" for i in range(150)] * 30, ["intent 3"] * 4500, "classification"),
    ],
)
def test_the_kind_of_answers(labels: list[str], answers: list[str | None], kind: str):
    assert kind_of({*labels}, Counter(answers), len(labels)) == kind


@pytest.mark.parametrize(
    ("labels", "fix"),
    [
        (["3,5", "4", "-1,25"], "decimals with a point"),
        (["1,234", "12,345.5", "700"], "thousands without a mark"),
        (['["B-PER","O"]', '["O"]'], "task_kind=tagging, ranking or generation"),
        (['{"d1": 2}', '["d2"]'], "task_kind=tagging, ranking or generation"),
        (["3.1 kg", "4 kg", "5 kg"], "labels such as 3.1 kg are numbers with a comma or a unit"),
        ([f"{number}%" for number in range(21)], "or a unit. Write the numbers alone"),
        (["a|b", "b|a"], r"(a\|b and b\|a|b\|a and a\|b) are one set of names, but two classes. Sort the names"),
    ],
)
def test_labels_that_do_not_show_their_kind_are_no_classes(labels: list[str], fix: str):
    with pytest.raises(L3DError, match=fix):
        kind_of({*labels}, Counter(labels), 2)
    if "one set" not in fix:
        assert kind_of({*labels, "yes"}, Counter(labels), 2) in ("classification", "texts")
    columns = {"text": [f"text {row}" for row in range(42)], "label": (labels * 42)[:42]}
    table = Table(tuple(columns), columns.__getitem__)
    with pytest.raises(L3DError, match=fix):
        task_from_table("scores", table, Reading())
    assert task_from_table("scores", table, Reading(task_kind="classification")).kind == "classification"


def test_sets_in_another_order_are_refused_only_if_a_label_has_the_same_names():
    with pytest.raises(L3DError, match=r"b;a and a;b are one set"):
        kind_of({"a;b", "c"}, Counter(["a;b", "b;a"]), 40)
    assert kind_of({"a;b", "b;c"}, Counter(["x;y", "y;x", "a;b"]), 40) == "classification"
    assert kind_of({f"{stars} stars" for stars in range(1, 6)}, Counter(["3 stars"]), 40) == "classification"


@pytest.mark.parametrize(
    ("labels", "answers", "names", "numbers"),
    [
        (["no", "yes"], ["No", " YES ", "yes", "maybe", "I cannot"], "no yes maybe", [0, 1, 1, 2, -1]),
        (["no", "yes"], [None, "nan", "NaN"], "no yes", [-1, -1, -1]),
        (["true", "false"], ["True", "False"], "false true", [1, 0]),
        (["a", "A"], ["A", "a", " a "], "A a", [0, 1, 1]),
        (["-1", "1"], ["-1.0", "+1", "0", "none", "0.5"], "-1 1 0", [0, 1, 2, -1, -1]),
        (["0.0", "1.0"], ["1", "2", "0.73"], "0 1 2", [1, 2, -1]),
        (["10", "9"], ["9.0", "10"], "9 10", [0, 1]),
        (["01", "1"], ["1", "01", "1.0"], "01 1 1.0", [1, 0, 2]),
        ([" a", "b c"], ["a ", "x y", "x y z"], "a,b c,x y", [0, 2, -1]),
    ],
)
def test_spellings_of_classes(labels: list[str], answers: list[str | None], names: str, numbers: list[int]):
    classes = Classes.found([{*labels}], answers)
    assert classes.names == tuple(names.split("," if "," in names else " "))
    assert classes.numbers(answers).tolist() == numbers
    assert (classes.numbers(labels) < classes.labelled).all()


def test_runs_may_spell_labels_otherwise_but_each_keeps_its_own_apart():
    assert Classes.found([{"0", "1"}, {"0.0", "1.0"}], []).names == ("0", "1")
    assert Classes.found([{"0", "0.0"}], ["0"]).names == ("0", "0.0")


def test_what_is_read_otherwise_than_written_is_said_with_counts():
    labels = ["no", "yes"] * 3
    answers: list[str | None] = ["No", "No", "yes", "maybe", None, "I cannot answer"]
    lines = Classes.found([{*labels}], answers).remarks(labels, Counter(answers))
    assert lines == [
        "Spellings that are read as one class: 'No' (2) as 'no'.",
        "Answers that no label has, read as classes of their own: 'maybe' (1).",
        "Answers that name no class (2), counted as wrong: (empty) (1), 'I cannot answer' (1).",
    ]
    coded = Classes.found([{"0", "1"}], ["-1", "1"]).remarks(["0", "1"], Counter({"-1": 3, "1": 4}))
    assert len(coded) == 1
    assert coded[0].endswith("own: '-1' (3). None is '0': write a class alike in labels and answers.")
    assert Classes.found([{"0.0", "1.0"}], ["1.0"]).remarks(["0.0", "1.0"], Counter(["1.0"])) == []


def test_nan_among_numbers_is_missing_and_a_name_among_names():
    assert labels_of(["nan", "1", None, 2.0]) == [None, "1", None, "2"]
    assert labels_of(["nan", "b"]) == ["nan", "b"]


def test_no_prediction_is_one_of_the_labels():
    classes = Classes.found([{"Positive", "Negative"}], ["pos", "neg"])
    assert classes.mismatch(["pos", "neg", "pos"]).endswith("labels (Negative, Positive), but 'pos' (2), 'neg' (1)")
    assert not classes.mismatch(["pos", "negative"])


def test_classes_that_are_only_predicted_lower_macro_scores_as_in_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    draw = np.random.default_rng(1)
    labels, answers = draw.choice(["a", "b"], 90).tolist(), draw.choice(["a", "b", "c"], 90).tolist()
    classes = Classes.found([{*labels}], answers)
    from mlflow_l3d.metrics.known import scores_of

    scores = scores_of(classes.numbers(labels), classes.numbers(answers), classes=len(classes.names))
    assert scores["accuracy"] == np.mean([one == other for one, other in zip(labels, answers, strict=True)])
    for name in ("f1", "precision", "recall"):
        score = getattr(metrics, f"{name}_score")(labels, answers, average="macro", zero_division=0)
        assert scores[f"{name}_macro"] == pytest.approx(score)


def test_an_answer_that_ends_with_a_dot_is_the_class_without_it() -> None:
    answers = ["No.", " yes. ", "no", "maybe.", "no.."]
    for classes in (Classes.found([{"yes", "no"}], answers), Classes.named(["no", "yes"])):
        assert classes.numbers(answers[:3]).tolist() == [0, 1, 0]
        assert classes.names[:2] == ("no", "yes")
    assert Classes.found([{"yes", "no"}], answers).names == ("no", "yes", "maybe.", "no..")
    assert Classes.found([{"a", "a."}], ["a", "a."]).numbers(["a", "a."]).tolist() == [0, 1]
