"""A finished search on a tracking server: found as the latest one or by its run, handed over, and recorded."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_helpers import SMALL, Place

from mlflow_l3d import cli, strategies
from mlflow_l3d.cells.factors import configuration_seed
from mlflow_l3d.errors import L3DError
from mlflow_l3d.parameters.search_document import Subject, search_document
from mlflow_l3d.studies.evaluation.run import evaluate
from mlflow_l3d.studies.investigation.request import InvestigationRequest, specify
from mlflow_l3d.studies.investigation.results import Investigation
from mlflow_l3d.studies.planning.run import plan
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier import find_search

pytestmark = pytest.mark.slow

SPLIT = ("data_split", "label_selection")
ABSENT = "f" * 32
NOTE = "Hyperparameters were searched with version 0 of synthetic, and are used with version 1."
NONE = "hyperparameters=latest: there is no finished search of synthetic on synthetic"


@pytest.fixture(scope="module")
def asked() -> InvestigationRequest:
    return specify(SMALL)


@pytest.fixture(scope="module")
def subject(asked: InvestigationRequest) -> Subject:
    return asked.setup.subject


def search(place: Place, of: InvestigationRequest, noise: float, **changes: Any) -> str:
    """Log what a finished search leaves; `changes` are tags, or parts of its document, or how the run ends."""
    ends = changes.pop("ends", "FINISHED")
    experiment = changes.pop("experiment", "0")
    tags = {names.ROLE: "search", names.STATE: "complete", names.SEARCH_SUBJECT: of.setup.subject.key}
    client = place.client
    run_id = str(client.create_run(experiment, tags=tags | changes.pop("tags", {})).info.run_id)
    document = search_document(
        of.setup.subject,
        {**of.setup.hyperparameters, "noise": noise},
        score=0.8,
        metric="f1_macro",
        search_run_id=run_id,
        searched_on=[dict.fromkeys(of.setup.all_factors, 1)],
    )
    client.log_text(run_id, json.dumps(document | changes), names.HYPERPARAMETERS)
    if ends != "RUNNING":
        client.set_terminated(run_id, ends)
    return run_id


def refused(place: Place, text: str, subject: Subject) -> str:
    with place.entered(), pytest.raises(L3DError) as caught:
        find_search(text, subject)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_latest_is_the_one_that_ended_last_in_any_experiment(place, asked, subject) -> None:
    other = place.client.create_experiment("other")
    search(place, asked, 0.1)
    late = search(place, asked, 0.2, experiment=other, ends="RUNNING")
    early = search(place, asked, 0.3)
    with place.entered():
        assert find_search("latest", subject).run_id == early
        place.client.set_terminated(late, "FINISHED")
        assert find_search("latest", subject).run_id == late
        assert find_search("latest", subject).document["hyperparameters"]["noise"] == 0.2
        assert find_search(early, subject).document["search_run_id"] == early
        place.client.delete_run(late)
        assert find_search("latest", subject).run_id == early


def test_the_latest_of_another_subject_does_not_count(place, asked, subject) -> None:
    search(place, asked, 0.1, tags={names.SEARCH_SUBJECT: replace(subject, task_fingerprint="x").key})
    search(place, asked, 0.1, tags={names.STATE: "incomplete"})
    search(place, asked, 0.1, tags={names.STATE: "running"}, ends="RUNNING")
    search(place, asked, 0.1, tags={names.ROLE: "trial"})
    assert refused(place, "latest", subject) == (
        f"{NONE} on this tracking server. Run mlflow-l3d search --approach synthetic --task synthetic first."
    )
    assert "of synthetic with model mini on" in refused(place, "latest", replace(subject, model="mini"))


def test_a_run_that_is_no_finished_search(place: Place, asked: InvestigationRequest, subject: Subject) -> None:
    client = place.client
    said = "no such run on the tracking server. Set MLFLOW_TRACKING_URI to the server that has it."
    assert refused(place, ABSENT, subject) == f"hyperparameters={ABSENT}: {said}"
    plain = client.create_run("0").info.run_id
    line = "must be the run of a search, and is a run with the role none. Run mlflow-l3d search"
    assert line in refused(place, plain, subject)
    investigation = client.create_run("0", tags={names.ROLE: "investigation"}).info.run_id
    assert "and is a run with the role investigation." in refused(place, investigation, subject)
    trial = client.create_run("0", tags={names.ROLE: "trial", names.PARENT_RUN_ID: plain}).info.run_id
    assert refused(place, trial, subject).endswith(f"and is a run with the role trial. Its search is {plain}.")
    running = search(place, asked, 0.1, tags={names.STATE: "running"}, ends="RUNNING")
    said = "is a search that did not finish (running). The same command that began it continues it."
    assert refused(place, running, subject) == f"hyperparameters={running}: {said}"
    tags = {names.STATE: "incomplete", names.SUPERSEDED_BY: plain}
    ended = search(place, asked, 0.1, tags=tags, ends="KILLED")
    assert f"(incomplete). Run {plain} continued it." in refused(place, ended, subject)
    client.delete_run(ended)
    assert f"is a run that was deleted. Run: mlflow runs restore -r {ended}" in refused(place, ended, subject)


@pytest.mark.parametrize("content", [None, "[1]", "{", "\udcff"])
def test_a_search_that_left_nothing_of_use(place: Place, subject: Subject, tmp_path: Path, content: str | None) -> None:
    line = "has no artifact hyperparameters.json that can be read"
    tags = {names.ROLE: "search", names.STATE: "complete", names.SEARCH_SUBJECT: subject.key}
    run_id = place.client.create_run("0", tags=tags).info.run_id
    if content is not None:
        file = tmp_path / names.HYPERPARAMETERS
        file.write_bytes(content.encode("utf-8", "surrogateescape"))
        place.client.log_artifact(run_id, str(file))
    place.client.set_terminated(run_id, "FINISHED")
    assert refused(place, run_id, subject).startswith(f"hyperparameters={run_id}: {line}")
    assert refused(place, "latest", subject).startswith(f"hyperparameters={run_id}: {line}")


def test_a_server_that_is_away(tmp_path: Path, subject: Subject) -> None:
    place = Place("http://127.0.0.1:9", tmp_path / "cache", {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"})
    assert refused(place, "latest", subject).startswith("MLFLOW_TRACKING_URI=http://127.0.0.1:9: no tracking server")


def test_an_investigation_links_its_search(place, asked, tmp_path, caplog) -> None:
    run_id = search(place, asked, 0.25, approach_version="0")
    with caplog.at_level(logging.WARNING, "mlflow_l3d"):
        found = place.investigate(hyperparameters="latest")
    assert NOTE in caplog.messages
    assert found.request.setup.hyperparameters["noise"] == 0.25
    parent = place.client.get_run(found.run_id)
    assert parent.data.tags["l3d.search"] == run_id
    assert parent.data.params["hyperparameters"] == "latest"
    assert json.loads(parent.data.params["resolved.hyperparameters"])["noise"] == 0.25
    assert {run.data.params["noise"] for run in place.cells(found.run_id)} == {"0.25"}
    document = json.loads(place.download(found.run_id, "investigation.json", tmp_path).read_text())
    assert document["hyperparameters"]["noise"] == 0.25
    assert document["hyperparameters_from"]["source"] == "search"
    assert document["hyperparameters_from"]["search_run_id"] == run_id
    assert document["notes"] == [NOTE]
    assert NOTE in place.download(found.run_id, "report.html", tmp_path).read_text()
    assert "L3D011" not in codes(found)
    typed = place.investigate(hyperparameters="noise=0.25")
    assert typed.computed == 0  # the same cells, wherever their hyperparameters come from
    assert "l3d.search" not in place.client.get_run(typed.run_id).data.tags


def codes(found: Investigation) -> set[str]:
    return {check.code for check in found.analysis.checks}


def test_cells_on_the_split_that_was_searched_are_named_also_by_evaluate(place, asked) -> None:
    column = {name: configuration_seed(0, name, 1_000_001) for name in SPLIT}
    search(place, asked, 0.25, searched_on=[{**column, "data_order": 77}])
    found = place.investigate(hyperparameters="latest", mitigation_runs=3)
    (check,) = (check for check in found.analysis.checks if check.code == "L3D011")
    assert check.message.startswith("3 of 13 cells have the very split")  # one row of 3 columns, no golden run
    with place.entered():
        again = evaluate(found.run_id).analysis
    assert check in again.checks
    place.client.delete_tag(found.run_id, names.SEARCH)
    with place.entered():
        assert check not in evaluate(found.run_id).analysis.checks


def test_the_other_entry_points_take_a_search_too(place, asked, caplog) -> None:
    run_id = search(place, asked, 0.25, approach_version="0")
    with place.entered():
        made = plan(**SMALL, hyperparameters=run_id, pilot="none")
        assert made.request.setup.hyperparameters["noise"] == 0.25
        assert NOTE in made.notes
        given = {name: value for name, value in SMALL.items() if name != "design"}
        with caplog.at_level(logging.WARNING, "mlflow_l3d"):
            compared = strategies(**given, executor="inline", hyperparameters=f"{run_id},noise=0.5")
    assert caplog.messages.count(NOTE) == 1
    assert {each.request.setup.hyperparameters["noise"] for each in compared.investigations.values()} == {0.5}
    for each in compared.investigations.values():
        assert place.client.get_run(each.run_id).data.tags["l3d.search"] == run_id


def test_through_the_command_line(place, asked, capsys) -> None:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    options += ["--executor=inline", "--hyperparameters=latest"]
    with place.entered():
        assert cli.main(["investigate", *options]) == 2
        assert capsys.readouterr().err.startswith(f"mlflow-l3d: error: {NONE}")
        assert place.parents() == []
        run_id = search(place, asked, 0.25)
        assert cli.main(["investigate", *options]) == 0
        (parent,) = place.parents()
    assert parent.data.tags["l3d.search"] == run_id
    assert parent.data.tags["l3d.state"] == "complete"
