"""Cells read back from runs."""

import re
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest
import requests
from mlflow.store.entities import PagedList

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier import own_parameter, reader
from mlflow_l3d.tracking.earlier.reader import cells_of_runs, fetch_document, parent_run, read_predictions


def a_run(number: int, **tags: str) -> Any:
    info = SimpleNamespace(run_id=str(number), experiment_id="0", status="FINISHED", artifact_uri="")
    tagged = {names.ROLE: "cell", names.FACTOR: "data_order", names.ROW: str(number)}
    tagged |= {names.COORDINATES[name]: value for name, value in tags.items()}
    return SimpleNamespace(info=info, data=SimpleNamespace(tags=tagged, params={}, metrics={}))


@pytest.mark.parametrize("phase", ["investigation", "swap", "phase_of_a_stranger"])
def test_a_cell_of_any_phase_keeps_its_factor(phase: str) -> None:
    cells = cells_of_runs([a_run(number, phase=phase) for number in range(2)])
    assert cells["factor"].tolist() == ["data_order"] * 2
    assert cells["row"].tolist() == [0, 1]


@pytest.mark.parametrize("tags", [{"phase": "golden", "index": "0"}, {"phase": "base"}])
def test_a_cell_of_all_factors_has_none(tags: dict[str, str]) -> None:
    assert pd.isna(cells_of_runs([a_run(0, **tags)])["factor"]).all()


@pytest.mark.parametrize(
    ("tags", "line"),
    [
        ({}, "Run 0: the tag l3d.phase is missing. Set it to investigation or golden."),
        ({"phase": "investigation", "row": "a"}, "Run 0: the tag l3d.row is 'a', not a whole number from 0."),
        ({"phase": "golden", "index": "-1"}, "Run 0: the tag l3d.index is '-1', not a whole number from 0."),
    ],
)
def test_tags_that_do_not_say_which_cell_it_is(tags: dict[str, str], line: str) -> None:
    with pytest.raises(L3DError) as caught:
        cells_of_runs([a_run(0, **tags)])
    assert str(caught.value) == line


def test_two_runs_without_keys_in_one_place() -> None:
    twins = [a_run(number, phase="investigation", row="2", column="1") for number in range(2)]
    with pytest.raises(L3DError, match=r"^Runs 0 and 1 are one cell \(phase investigation, factor data_order, row 2, "):
        cells_of_runs(twins)
    twins[0].info.status = "FAILED"
    assert cells_of_runs(twins)["run_id"].tolist() == ["1"]
    for twin in twins:
        twin.info.status, twin.data.tags[names.CELL_KEY] = "FINISHED", "the same"
    assert cells_of_runs(twins)["run_id"].tolist() == ["0"]


def test_a_score_is_computed_from_the_test_examples_alone(tmp_path: Path) -> None:
    columns = {"example_id": [4, 5, 6], "label": [0, 1, 1], "prediction": [0, 0, 1], "score_0": [0.9, 0.8, 0.1]}
    own = pd.DataFrame(columns)
    ours, strangers = (own.assign(reference=each) for each in ([False, True, False], ["an", "answer", "text"]))
    stored = {"of_ours": ours, "without": own, "of_a_stranger": strangers}
    for name, table in stored.items():
        (tmp_path / name).mkdir()
        table.to_parquet(tmp_path / name / names.PREDICTIONS)
    cells = pd.DataFrame({"run_id": list(stored), "artifact_uri": [f"{tmp_path}/{name}" for name in stored]})
    client: Any = SimpleNamespace(tracking_uri=str(tmp_path))

    ids = {name: table["example_id"].to_pylist() for name, table in read_predictions(client, cells)}
    assert ids == {"of_ours": [4, 6], "without": [4, 5, 6], "of_a_stranger": [4, 5, 6]}
    every = dict(read_predictions(client, cells, scores=True, reference=True))
    assert every["of_ours"].to_pandas()[[*columns, "reference"]].equals(stored["of_ours"])
    assert [every[name].column_names for name in ("without", "of_a_stranger")] == [[*columns]] * 2


@pytest.mark.parametrize(
    ("logged", "read"),
    [("'head'", "head"), ('"a b"', "a b"), ("python x.py --seed '{seed}'", "python x.py --seed '{seed}'"), ("1", "1")],
)
def test_quotes_around_a_parameter_are_no_part_of_it_and_those_within_are(logged: str, read: str) -> None:
    parent = SimpleNamespace(data=SimpleNamespace(params={"command": logged}))
    assert own_parameter(cast("Any", parent), "command") == read


def test_a_server_that_is_away_is_no_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> Any:
        raise requests.ConnectionError("away")

    monkeypatch.setattr(reader, "file_of", away)
    with pytest.raises(requests.ConnectionError):
        fetch_document(FolderServer(tmp_path), "a", "a.json")  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "is_file"), [("runs.csv", True), ("folder", False), (300 * "a", False)])
def test_only_a_file_in_place_of_a_run_is_called_one(tmp_path, monkeypatch, name, is_file) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("runs.csv").touch()
    monkeypatch.setattr(reader, "found", lambda *_: None)
    with pytest.raises(ParameterError) as caught:
        parent_run(cast("Any", FolderServer(tmp_path)), name)
    assert ("It is a file" in str(caught.value)) == is_file


class FolderServer:
    """A tracking server whose runs all have one folder of artifacts; it notes how many runs it was asked for."""

    tracking_uri = "sqlite://"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[int] = []

    def get_run(self, run_id: str) -> Any:
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id, artifact_uri=str(self.folder)))

    def search_experiments(self, **_: Any) -> Any:
        return PagedList([SimpleNamespace(experiment_id="0")], None)

    def search_runs(self, _: Any, wanted: str, **__: Any) -> Any:
        run_ids = re.findall("'(.+?)'", wanted)
        self.asked.append(len(run_ids))
        return PagedList([self.get_run(run_id) for run_id in run_ids], None)


def test_who_stops_at_the_first_run_without_predictions_asks_for_few_runs(tmp_path: Path) -> None:
    server: Any = FolderServer(tmp_path)
    with closing(read_predictions(server, pd.DataFrame({"run_id": [f"run{at}" for at in range(1000)]}))) as read:
        assert next(read) == ("run0", None)
    assert sum(server.asked) <= 100


def test_cells_that_their_parent_holds_have_their_rows_of_its_table(tmp_path: Path) -> None:
    rows = pd.DataFrame({"example_id": range(10), "label": 0, "prediction": range(10), "cell_key": [*"aaabbbbccc"]})
    rows.to_parquet(tmp_path / names.PREDICTIONS, row_group_size=2)
    cells = pd.DataFrame({"run_id": ["parent/3", "parent/4", "parent/2"], "cell_key": ["c", "d", "b"]})
    read = dict(read_predictions(FolderServer(tmp_path), cells))  # type: ignore[arg-type]
    numbers = {run_id: table and table["prediction"].to_pylist() for run_id, table in read.items()}
    assert numbers == {"parent/3": [7, 8, 9], "parent/4": None, "parent/2": [3, 4, 5, 6]}
