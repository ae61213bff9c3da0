"""A user's own file: the same data in every format is the same task, and every fault has its line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal
from task_files import written

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.files import is_data, load_data, load_file
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.kinds import Reading

TEXTS = ['say "no"', "two\nlines", "NA", "null", "comma, tab\tand é", "None"]
LABELS = ["yes", "no", "yes", "no", "None", "None"]


def csv(tmp_path: Path, text: str, name: str = "mine.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


NUMBERS = pd.DataFrame({"b": [0.1, 1e-9, 2, 3], "a": [1, 2, 3, 4], "id": [4, 3, 2, 1], "label": ["x", "y"] * 2})


def test_columns_of_numbers_are_features(tmp_path: Path) -> None:
    """In a file, a data frame, and from Python, they are the same numbers; others are another task."""
    task = load_file(written(tmp_path / "mine.csv", NUMBERS))
    assert task.features.tolist() == NUMBERS[["b", "a"]].to_numpy().tolist()
    assert (task.texts[0][1], task.example_ids.tolist()) == ("1e-09 2.0", [4, 3, 2, 1])
    content = {"class_names": "xy", "example_ids": [4, 3, 2, 1], "features": task.features}
    same = make_task("mine.csv", labels=[0, 1, 0, 1], **content)
    frame = load_data(NUMBERS, "DataFrame")
    as_texts = make_task("mine", task.texts, task.labels, "xy", task.example_ids)
    keys = [each.fingerprint for each in (task, same, frame, as_texts)]
    assert len({*keys[:3]}) == 1 != len({*keys})
    named = load_data(NUMBERS, "DataFrame", Reading(text_column="a"))
    assert named.features.shape == (4, 1)
    with pytest.raises(L3DError, match=r"features must be finite numbers of shape \(4, columns\)"):
        make_task("mine", labels=task.labels, class_names="xy", features=task.features * np.inf)
    with pytest.raises(ParameterError, match="no column has a name that is known"):
        load_data(NUMBERS.assign(c="word"), "DataFrame")


def test_data_frames_and_data_sets_are_read_as_files_are(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    texts = pd.DataFrame({"text": TEXTS, "label": LABELS})
    read = load_file(written(tmp_path / "mine.csv", texts)).fingerprint
    for data in (texts, texts.set_index(pd.Index(LABELS)), datasets.Dataset.from_pandas(texts)):
        assert is_data(data)
        assert load_data(data, "mine").fingerprint == read
    with pytest.raises(ParameterError, match="1 of 6 labels are missing"):
        load_data(texts.assign(label=[None, *LABELS[1:]]), "mine")
    with pytest.raises(ParameterError, match="the data names text twice"):
        load_data(pd.concat([texts, texts], axis=1), "mine")


@pytest.mark.parametrize("labels", [LABELS, [7, -1, 7, -1, 3, 3]], ids=["names", "numbers"])
@pytest.mark.parametrize("ids", [None, [5, 3, 9, 8, 1, 0], list("abcdef"), ["007", "7", "8", "9", "10", "11"]])
def test_every_format_gives_the_same_task(tmp_path: Path, labels: list[object], ids: list[object] | None) -> None:
    frame = pd.DataFrame({"text": TEXTS, "label": labels})
    if ids:
        frame["id"] = ids
    tasks = [load_file(written(tmp_path / f"mine{suffix}", frame)) for suffix in (".csv", ".tsv", ".parquet", ".jsonl")]
    assert len({task.fingerprint for task in tasks}) == 1
    task = tasks[0]
    assert task.name == "mine.csv"
    assert task.texts == (tuple(TEXTS),)
    assert task.example_ids.tolist() == (ids or list(range(6)))
    assert task.class_names == (("None", "no", "yes") if labels is LABELS else ("-1", "3", "7"))
    assert [task.class_names[label] for label in task.labels] == list(map(str, labels))


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1).filter(str.strip)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(texts, st.sampled_from(["x", "y z", "1.5"])), min_size=1, max_size=6))
def test_any_text_survives_csv_and_jsonl(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    folder = tmp_path_factory.mktemp("any")
    rows = [*rows, ("a", "x"), ("b", "x"), ("c", "y z"), ("d", "y z"), ("e", "1.5"), ("f", "1.5")]
    frame = pd.DataFrame(rows, columns=["text", "label"])
    lines = "\n".join(json.dumps({"text": text, "label": label}) for text, label in rows)
    for path in (written(folder / "mine.csv", frame), csv(folder, lines, "mine.jsonl")):
        task = load_file(path)
        assert task.texts == (tuple(text for text, _ in rows),)
        assert [task.class_names[label] for label in task.labels] == [label for _, label in rows]


def test_text_columns_by_name(tmp_path: Path) -> None:
    columns = ["premise", "hypothesis", "text", "label"]
    path = written(tmp_path / "pair.csv", pd.DataFrame([[*"pht", k % 2] for k in range(4)], columns=columns))
    assert load_file(path).texts == (("t",) * 4,)
    assert load_file(path, Reading("hypothesis, premise")).texts == (("h",) * 4, ("p",) * 4)
    assert load_file(path, Reading("premise")).texts == (("p",) * 4,)


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (("sentence1", "sentence2"), 2),
        (("premise", "hypothesis"), 2),
        (("question", "passage"), 2),
        (("sentence", "question"), 2),
        (("sentence",), 1),
        (("content",), 1),
    ],
)
def test_text_columns_that_are_found(tmp_path: Path, columns: tuple[str, ...], found: int) -> None:
    frame = pd.DataFrame({name: ["a", "b", "c", "d"] for name in columns} | {"label": [0, 0, 1, 1], "other": "z"})
    assert len(load_file(written(tmp_path / "mine.parquet", frame)).texts) == found


def test_names_of_numbered_classes(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": list("abcd"), "y": [4, 2, 4, 2], "y_name": ["four", "two", "four", "two"]})
    task = load_file(written(tmp_path / "mine.csv", frame), Reading(label_column="y"))
    assert task.class_names == ("two", "four")
    assert task.labels.tolist() == [1, 0, 1, 0]
    frame["y_name"] = ["four", "two", "quatre", "two"]
    with pytest.raises(ParameterError, match="y_name must hold exactly one name for each number in y"):
        load_file(written(tmp_path / "mine.csv", frame), Reading(label_column="y"))


def test_bools_are_classes(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": list("abcd"), "label": [True, False, True, False]})
    for suffix in (".csv", ".parquet", ".jsonl"):
        task = load_file(written(tmp_path / f"mine{suffix}", frame))
        assert task.class_names == ("False", "True")
        assert task.labels.tolist() == [1, 0, 1, 0]


def test_ids_that_identify_nothing_are_remarked_on(tmp_path: Path) -> None:
    task = load_file(csv(tmp_path, "id,text,label\n1,a,0\n1,b,1\n2,c,0\n3,d,1\n"))
    assert task.example_ids.tolist() == [0, 1, 2, 3]
    assert task.notes == ("mine.csv: the column id does not identify examples, so their rows are numbered instead",)


def test_bom_upper_case_ending_and_blank_lines(tmp_path: Path) -> None:
    task = load_file(csv(tmp_path, "\ufefftext,label\r\na,0\r\n\r\nb,1\r\nc,0\r\nd,1\r\n", "MINE.CSV"))
    assert task.texts == (("a", "b", "c", "d"),)
    rows = ['{"text": "a", "label": 0}', "", '{"label": 1, "text": "b"}', '{"text": "c", "label": 0}']
    jsonl = "\ufeff" + "\n".join([*rows, '{"text": "d", "label": 1}'])
    assert load_file(csv(tmp_path, jsonl, "mine.jsonl")).texts == task.texts


GOOD = "a,0\nb,1\nc,0\nd,1\n"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "task=mine.csv: the file is empty"),
        ("text,label\n", "task=mine.csv: the file holds no examples"),
        (
            "text,lable,kind\na,0,z0\nb,1,z1\nc,0,z0\nd,1,z1\n",
            r"label_column='label': must be one of the columns kind, lable, text. Add --label-column lable, or",
        ),
        (f"body,label\n{GOOD}", "text_column=auto: no column has a name that is known; there are body, label. Name it"),
        (
            f"text,label\n ,1\n{GOOD},0\n",
            "text_column=text: 2 of 6 texts are empty or missing, the first in row 1 of the data. Fill or remove",
        ),
        (f"text,label\n{GOOD}e,\nf\n", "label_column=label: 2 of 6 labels are missing, the first in row 5 of the data"),
        ("text,label\na,1\nb,1\n", "label_column=label: every example has the label '1', and at least 2 classes"),
        (f"text,label\n{GOOD}e,2\n", "label_column=label: class '2' has 1 example, and every class needs at least 2"),
        ("text,label\na,1.0\nb,0.0\n", r"label_column=label: .* may be classes or scores .* Store classes as"),
        (
            "example_id,text,label\n7,a,0\n8,b,1\n7,c,0\n9,d,1\n",
            "task=mine.csv: the column example_id must hold unique ids, .*; row 3 of the data repeats an earlier one",
        ),
        (f"text,label\n{GOOD}e,1,2\n", r"not well-formed \(Expected 2 fields in line 6, saw 3\). Put double quotes"),
        ("text,label\na,0,x\nb,1,y\n", "not well-formed"),
        (f'text,label\n"{GOOD}', r"not well-formed \(EOF inside string"),
        ("text,label\n1,0\n2,1\n3,0\n4,1\n", "text_column=text: must hold texts, not values of type int"),
    ],
)
def test_a_file_with_a_fault(tmp_path: Path, content: str, line: str) -> None:
    with pytest.raises(ParameterError, match=f"^(task=mine.csv: the file is )?{line}") as caught:
        load_file(csv(tmp_path, content))
    assert "\n" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


TOLD = [f"a film of {row} kinds" for row in range(100)]
REVIEWS = pd.DataFrame({"Review ID": range(1, 101), "Review Text ": TOLD, "Mood": ["+", "-"] * 50})


def test_columns_with_odd_names_are_found(tmp_path: Path) -> None:
    """By their values if nobody names them and one pair is plausible; else ignoring case and outer spaces."""
    task = load_file(written(tmp_path / "mine.csv", REVIEWS))
    assert task.texts == (tuple(REVIEWS["Review Text "]),)
    notes = {note.removeprefix("mine.csv: ") for note in task.notes}
    assert notes == {"labels are read from the column 'Mood'", "the text is read from the column 'Review Text '"}
    for named in (("review text", "mood"), ("Review Text ", "Mood")):
        same = load_data(REVIEWS, "DataFrame", Reading(*named))
        assert (same.fingerprint, same.notes) == (task.fingerprint, ())
    assert load_data(REVIEWS.rename(columns={"Mood": "Label", "Review Text ": " Text"}), "DataFrame").notes == ()


def test_columns_that_could_be_others_are_not_guessed() -> None:
    """The refusal holds what to type."""
    typed = "Add --text-column 'Review Text ' --label-column Mood, or name"
    found = refusal(load_data, REVIEWS.assign(stars=[1, 2, 3, 4] * 25), "DataFrame")
    assert found.endswith(f"{typed} stars.")
    found = refusal(load_data, REVIEWS.assign(title="by and large"), "DataFrame", Reading(label_column="Mood"))
    assert found.endswith(f"{typed} title.")


def test_rows_with_gaps_are_left_out_if_they_are_few_and_refused_together_if_not() -> None:
    """The others keep the numbers that they have in the file."""
    gaps = REVIEWS.assign(**{"Review Text ": REVIEWS["Review Text "].where(REVIEWS["Review ID"] != 3, " ")})
    gaps.loc[[6, 7], "Mood"] = None
    task = load_data(gaps, "mine")
    assert task.example_ids.tolist() == [row for row in range(100) if row not in (2, 6, 7)]
    left_out = "1 without Review Text (row 3); 2 without Mood (row 7, 8)"
    assert f"mine: left out 3 rows with gaps, counted from 1: {left_out}" in task.notes
    gaps.loc[10:15, "Mood"] = None
    rows = "1 without Review Text (row 3); 8 without Mood (row 7, 8, 11, 12, 13, 14, 15, 16). Fill"
    assert f"rows, counted from 1, have gaps: {rows}" in refusal(load_data, gaps, "mine")


@pytest.mark.parametrize(
    ("text_column", "label_column", "line"),
    [
        ("txt", "label", "text_column='txt': must be one of the columns label, text. Did you mean 'text'?"),
        ("text,txt", "label", "text_column='txt': must be one of the columns label, text. Did you mean 'text'?"),
        ("text,text", "label", "text_column=text,text: must name different columns, and not label."),
        ("label", "label", "text_column=label: must name different columns, and not label."),
    ],
)
def test_columns_that_cannot_be_meant(tmp_path: Path, text_column: str, label_column: str, line: str) -> None:
    assert refusal(load_file, csv(tmp_path, f"text,label\n{GOOD}"), Reading(text_column, label_column)) == line


def test_columns_of_one_name_in_parquet(tmp_path: Path) -> None:
    table = pa.table([["a"], ["b"], ["c"]], names=["text", "label", "text"])
    pq.write_table(table, tmp_path / "mine.parquet")
    with pytest.raises(ParameterError, match="the data names text twice"):
        load_file(tmp_path / "mine.parquet")


ONCE = "Give each column a name of its own."
LATER = "or later). Save it as UTF-8: in Excel as 'CSV UTF-8', or by iconv -f ENCODING -t UTF-8, with its encoding."


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_separator_and_mark_of_a_spreadsheet_are_found(tmp_path: Path, separator: str, encoding: str) -> None:
    rows = [["text", "label"], ["é, and more; | ", "0"], ["b", "1"], ["c", "0"], ["d", "1"]]
    text = "".join(separator.join(f'"{cell}"' if "é" in cell else cell for cell in row) + "\n" for row in rows)
    (tmp_path / "mine.csv").write_text(text, encoding=encoding)
    task = load_file(tmp_path / "mine.csv")
    assert task.texts == (("é, and more; | ", "b", "c", "d"),)
    assert task.class_names == ("0", "1")


def test_no_text_of_an_example_is_in_an_error(tmp_path: Path) -> None:
    secret = "my secret diary " * 20
    for content in (f"{secret},x\nb,1\n", f"label,text\n{secret},a\nb,c\nb,d\n", f'text,label\na,"{secret}\n'):
        shown = refusal(load_file, csv(tmp_path, content))
        assert len(shown) < 250
        assert secret[:60] not in shown


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("mine.parquet", b"PAR1 no", "task=mine.parquet: the file is not Parquet, or is damaged."),
        ("mine.csv", b"text,label\n\xe9,0", f"task=mine.csv: the file is not UTF-8 (byte 0xe9 in line 2 {LATER}"),
        ("mine.jsonl", b'{"text": "\xe9"}', f"task=mine.jsonl: the file is not UTF-8 (byte 0xe9 in line 1 {LATER}"),
        ("mine.jsonl", b"[" * 100_000, "task=mine.jsonl: line 1 is not JSON ("),
        ("mine.jsonl", b'{"a": %s}' % (b"1" * 5000), "task=mine.jsonl: line 1 is not JSON ("),
        ("mine.jsonl", b'{"text": "a", "text": "b"}', "task=mine.jsonl: line 1 is not JSON (a name is there twice)."),
        ("mine.csv", b"text,label,text\na,b,c\n", f"task=mine.csv: the file names text twice. {ONCE}"),
        ("mine.tsv", b"label\ttext\tlabel\na\tb\tc\n", f"task=mine.tsv: the file names label twice. {ONCE}"),
        ("mine.jsonl", b'{"text": "a"}\n{"text"\n', "task=mine.jsonl: line 2 is not JSON (Expecting ':' delimiter)."),
        ("mine.jsonl", b'["a", 1]\n', "task=mine.jsonl: line 1 must be a JSON object."),
        (
            "mine.jsonl",
            b'{"text": "a", "label": 1}\n{"text": "b", "label": "x"}',
            "label_column=label: must hold whole numbers or class names, not int, str.",
        ),
        (
            "mine.jsonl",
            b'{"text": "a", "label": ["x", "y"]}\n{"text": "b", "label": ["X", "y"]}',
            "label_column=label: must hold whole numbers or class names, not list. "
            "Use task_kind=tagging, ranking or generation.",
        ),
        (
            "mine.jsonl",
            b'{"text": "a", "label": 1}\n{"body": "b", "label": 0}\n' * 2,
            "text_column=text: 2 of 4 texts are empty or missing, the first in row 2 of the data. "
            "Fill or remove these rows.",
        ),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, line: str) -> None:
    (tmp_path / name).write_bytes(content)
    found = refusal(load_file, tmp_path / name)
    assert found == line or (line.endswith("(") and found.startswith(line))


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"^task=.*none\.csv: there is no such file"):
        load_file(tmp_path / "none.csv")
