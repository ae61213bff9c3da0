"""Studies with the parameter `cure`: keys, executors, continuing, comparing and a gate work as for any approach."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_helpers import Place, sqlite_place

from mlflow_l3d import cli, compare, cured, gate, seeds
from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.cells.cell import cell_key
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.studies.investigation.results import Investigation

pytestmark = pytest.mark.slow
VOTE = {"kind": "vote", "over": ["data_order", "model_initialisation"], "members": 3}
COMMON: dict[str, Any] = {"factor": "sample_choice", "metric": "accuracy", "golden_runs": 12}
FEWER: dict[str, Any] = {**COMMON, "golden_runs": 4}


def predictions(place: Place, result: Investigation, folder: Path) -> dict[str, bytes]:
    """Return key -> predictions of each cell."""
    runs = place.cells(result.run_id)
    files = {run: place.download(run.info.run_id, "predictions.parquet", folder) for run in runs}
    return {run.data.tags["l3d.cell_key"]: pd.read_parquet(file).to_json().encode() for run, file in files.items()}


def test_a_file_is_logged_by_its_content_and_the_same_remedy_continues(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "private" / "cure.json"
    file.parent.mkdir()
    file.write_text(json.dumps(VOTE))
    result = place.investigate(**FEWER, cure=str(file))
    run = place.client.get_run(result.run_id)
    assert json.loads(run.data.params["cure"]) == {**VOTE, "changes": {}}
    words = "synthetic, vote of 3 over data_order and model_initialisation"
    assert words in run.info.run_name
    assert "private" not in json.dumps([run.data.params, run.data.tags])
    report = place.download(result.run_id, "report.html", tmp_path).read_text()
    assert words in report
    assert "private" not in report
    # Another executor, and the remedy as a mapping in another order: the same cells.
    other = {**FEWER, "cure": {**VOTE, "over": VOTE["over"][::-1]}, "executor": "processes", "workers": 2}
    assert (again := place.investigate(**other)).computed == 0
    assert again.reused == len(list(result.request.design().cells()))
    file.unlink()
    assert place.investigate(**FEWER, cure=run.data.params["cure"]).computed == 0


def test_cells_have_the_same_predictions_in_worker_processes(
    place: Place, migrated_store: Path, tmp_path: Path
) -> None:
    made = {**FEWER, "cure": VOTE, "hyperparameters": "noise=0.3"}
    inline = predictions(place, place.investigate(**made), tmp_path / "inline")
    approach = cured(Synthetic(), VOTE)
    object_given = place.investigate(**{**FEWER, "hyperparameters": "noise=0.3"}, approach=approach)
    assert object_given.computed == 0  # the same keys as with the parameter
    assert json.loads(place.client.get_run(object_given.run_id).data.params["cure"]) == {**VOTE, "changes": {}}
    elsewhere = sqlite_place(migrated_store, tmp_path / "other")
    processes = elsewhere.investigate(**made, executor="processes", workers=1)
    assert predictions(elsewhere, processes, tmp_path / "processes") == inline


def test_the_context_without_the_remedy_gives_the_keys_of_the_first_members() -> None:
    given = {"approach": "synthetic", **COMMON, "root_seed": 3}
    plain, with_remedy = specify(given), specify({**given, "cure": VOTE})
    approach: Any = with_remedy.setup.approach
    assert plain.context_key != with_remedy.context_key
    pairs = zip(plain.design().cells(), with_remedy.design().cells(), strict=True)
    assert all(approach.member_keys(plain.context_key, cell.seeds)[0] == one.key for one, cell in pairs)
    member = approach.member_keys(plain.context_key, {"data_order": 5, "model_initialisation": 6, "sample_choice": 7})
    assert cell_key(plain.context_key, {"data_order": 5, "model_initialisation": 6, "sample_choice": 7}) == member[0]
    changed = specify({**given, "cure": {"kind": "training", "changes": {"a_data_order": 2}}})
    assert changed.context_key == specify({**given, "hyperparameters": "a_data_order=2"}).context_key


def test_it_is_compared_gated_and_swept_like_any_approach(place: Place) -> None:
    plain, vote = place.investigate(**COMMON), place.investigate(**COMMON, cure=VOTE)
    difference = compare(plain.run_id, vote.run_id).comparison.differences[0]
    assert (difference.shared_runs, difference.second) == (
        12,
        "synthetic, vote of 3 over data_order and model_initialisation",
    )
    verdict = gate(baseline=plain.run_id, candidate=vote.run_id, most_runs=12, executor="inline")
    assert verdict.run_id
    candidate = gate(baseline=plain.run_id, candidate={"cure": VOTE}, most_runs=12, executor="inline")
    assert candidate.run_id
    ran = seeds("synthetic", approach="synthetic", cure=VOTE, seeds=3, executor="inline")
    assert ran.run_id


def test_mistakes_are_one_line(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ParameterError, match=r"cure.over='luck': must be a factor of synthetic"):
        place.investigate(**COMMON, cure={"kind": "vote", "over": ["luck"], "members": 3})
    with pytest.raises(ParameterError, match=r"cure.over=data_split: draws other test examples for each member"):
        place.investigate(**COMMON, cure={"kind": "vote", "over": ["data_split"], "members": 3})
    status = cli.main(["investigate", "--approach", "synthetic", "--cure", '{"kind": "vote", "members": 3}'])
    assert status != 0
    error = capsys.readouterr().err.strip()
    assert error.endswith("cure.over=(none): must name what differs between the members.")
    assert "\n" not in error
