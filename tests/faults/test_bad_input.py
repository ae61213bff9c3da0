"""What a user gets wrong: one line on stderr, an exit status, and a run that says the same."""

from pathlib import Path

import pytest
from run_helpers import SMALL, Place, one_line

from mlflow_l3d import cli


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def command(place: Place, capsys: pytest.CaptureFixture[str], *more: str, verb: str = "investigate") -> tuple[int, str]:
    """Run the command line in this process; return its status and its one line."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    with place.entered():
        status = cli.main([verb, *options, "--executor=inline", *more])
    captured = capsys.readouterr()
    assert captured.out == ""
    return status, one_line(captured.err)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--factor=data_ordr", "Did you mean 'data_order'?"),
        ("--approach=sinthetic", "Did you mean 'synthetic'?"),
        ("--task=rotten_tomatos", "Did you mean 'rotten_tomatoes'?"),
        ("--metric=synthetic_scor", "Did you mean 'synthetic_score'?"),
        ("--hyperparameters=duratoin=1", "Did you mean 'duration'?"),
        ("--hyperparameters=duration=-1", "hyperparameters.duration=-1"),
        ("--investigation-runs=1", "investigation_runs=1"),
        ("--golden-runs=12345678901234567890", "golden_runs=12345678901234567890"),
        (f"--task={'x' * 5000}", "task=xxxxx"),
        ("--golden-runs=none", "golden_runs=none"),
        ("--workers=2", "workers=2"),
        ("--root-sed=1", "--root-seed"),
        (
            f"plan --hyperparameters={'f' * 32}",
            "ffff: no such run on the tracking server. Set MLFLOW_TRACKING_URI to the",
        ),
    ],
)
def test_the_attached_run_fails_with_the_line(place, capsys, monkeypatch, words, says) -> None:
    run = place.client.create_run("0")
    monkeypatch.setenv("MLFLOW_RUN_ID", run.info.run_id)
    *verb, option = words.split()
    status, line = command(place, capsys, option, verb=verb[0] if verb else "investigate")
    assert status == 2
    assert says in line
    after = place.client.get_run(run.info.run_id)
    assert (after.info.status, after.data.tags["l3d.state"]) == ("FAILED", "incomplete")
    said = line.removeprefix("mlflow-l3d: error: ")
    assert after.data.tags["l3d.error"] == after.data.tags["mlflow.note.content"] == said
    assert len(place.runs()) == 1


def test_what_is_wrong_before_there_is_a_run_leaves_none(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(place, capsys, "--factor=x")[0] == 2
    (place.cache.parent / "artifacts").touch()
    status, line = command(place, capsys)
    assert (status, line.count("/artifacts, which cannot be written (File exists). Allow that;")) == (2, 1)
    assert place.runs() == []


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("MLFLOW_RUN_ID", "0" * 32, "there is no such run on the tracking server"),
        ("MLFLOW_EXPERIMENT_ID", "1", "no such experiment, or it was deleted"),
        ("MLFLOW_EXPERIMENT_NAME", "gone", "no such experiment, or it was deleted"),
        ("MLFLOW_EXPERIMENT_ID", "77", "MLFLOW_EXPERIMENT_ID=77: there is no such experiment"),
    ],
)
def test_a_run_or_an_experiment_that_is_not_there(place, capsys, monkeypatch, variable, value, says) -> None:
    assert place.client.create_experiment("gone") == "1"
    place.client.delete_experiment("1")
    monkeypatch.setenv(variable, value)
    status, line = command(place, capsys)
    assert status == 1
    assert says in line


def test_an_address_where_nobody_is(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    status, line = command(Place("http://ann:s3cret@127.0.0.1:9", place.cache), capsys)
    assert status == 2
    assert "no tracking server answers there" in line
    assert "s3cret" not in line


def test_a_cache_that_cannot_be_written(place: Place, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    status, line = command(Place(place.uri, tmp_path / "file" / "cache"), capsys)
    assert status == 2
    assert "L3D_CACHE" in line
    assert {run.info.status for run in place.runs()} <= {"FAILED"}
