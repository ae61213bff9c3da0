"""The verb `referee`: sessions of golden runs, candidates relative to the champion, and scores measured elsewhere."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from refusals import refuses
from run_helpers import Place, copied, sqlite_place

from mlflow_l3d import Referee, cli, load, referee, seeds
from mlflow_l3d.approaches.synthetic import FACTORS
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.evaluation.view import studies_of
from mlflow_l3d.studies.gate.golden import GoldenRuns

pytestmark = pytest.mark.slow

LOW = {f"a_{factor}": 0.5 for factor in FACTORS}
FINE: dict[str, Any] = {"baseline_runs": 10, "candidates": 10, "most_runs": 20, "confirm": 2, "executor": "inline"}
FINE["smallest_effect"] = 20  # points: runs of BETTER vary by as much

"""A session that keeps BETTER after few runs."""
BETTER = "hyperparameters=" + ",".join(f"a_{factor}=99" for factor in FACTORS[:5])
KEPT = ", ".join(f"a_{factor}=99.0" for factor in FACTORS[:5])
AFTER = "hyperparameters=a_model_randomness=0.3"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> tuple[Place, str, str]:
    """Give a session without candidates, with its baseline; the tests take a copy."""
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("begun"))
    baseline = place.investigate(golden_runs=12, hyperparameters=LOW).run_id
    with place.entered():
        session = referee(action="start", baseline=baseline, **FINE)
    return place, baseline, session.run_id


@pytest.fixture
def place(begun: tuple[Place, str, str], tmp_path: Path) -> Iterator[Place]:
    with copied(begun[0], tmp_path / "place").entered() as place:
        yield place


def test_what_is_better_is_kept_and_the_next_change_is_relative_to_it(
    place: Place,
    begun: tuple[Place, str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    _, baseline, session = begun
    command = ["referee", "judge", "--candidate", BETTER, "--executor", "inline"]
    assert cli.main([*command, "--most-runs", "1"]) == 2
    first = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert (first["verdict"], first["spent"]) == ("undecided", 1)
    assert first["more"] > 0
    assert cli.main(command) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    answer = json.loads(lines[-1])
    assert (answer["verdict"], answer["number"], answer["referee"]) == ("keep", 1, session)
    assert lines[0].startswith("keep: a_label_selection=99")
    assert max(map(len, lines[:-1])) <= 100
    assert answer["low"] > 0
    # Its runs, those that decided and the fresh ones, are golden runs with the seeds of the baseline's.
    own = {int(run.data.tags["l3d.index"]): run for run in golden(place)}
    deciding = range(answer["runs"])
    assert [*deciding] == [number for number in sorted(own) if number in deciding]
    assert len(own) >= answer["runs"] + 2
    theirs = {run.data.tags["l3d.index"]: run for run in place.cells(baseline) if "l3d.index" in run.data.tags}
    seeds = {name: value for name, value in own[2].data.params.items() if name.startswith("seed.")}
    assert {name: theirs["2"].data.params[name] for name in seeds} == seeds
    # A change on top of it that changes little is rejected after a few runs; it keeps the champion's change.
    run_id = place.client.create_run("0").info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", run_id)  # as of mlflow run, which ends it by the exit status
    assert cli.main(["referee", "judge", "--candidate", AFTER, "--executor", "inline", "--referee", session]) == 1
    second = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert (second["verdict"], second["champion"]) == ("reject", KEPT)
    note = place.client.get_run(run_id).data.tags["mlflow.note.content"]
    assert f"/runs/{session})" in note
    assert "\nreject: a_model_randomness=0.3\n" in note
    assert golden(place, a_model_randomness="0.3")
    # The same again is neither run nor counted again, also that of the champion.
    judge = Referee.resume(executor="inline")
    for again, verdict in ((AFTER, "reject"), (BETTER, "keep")):
        repeated = judge.judge(again)
        assert (repeated.verdict, repeated.spent) == (verdict, 0)
    status = judge.status()
    assert [each.verdict for each in status.course.systems] == ["", "keep", "reject"]
    assert [look.runs for look in status.course.systems[1].looks] == [*range(1, answer["runs"] + 1)]
    of_baseline, fresh = status.course.systems[0].scores, (answer["runs"], answer["runs"] + 1)
    gains = [own[number].data.metrics["synthetic_score"] - of_baseline[number] for number in fresh]
    assert status.course.path[0].confirmed == pytest.approx(sum(gains) / 2)
    assert load(session).summary() == status.summary()
    assert [run.data.tags["l3d.role"] for run in studies_of(place.client)] == ["referee", "investigation"]
    page = place.download(session, "report.html", tmp_path).read_text(encoding="utf-8")
    assert f"The champion is {KEPT[:37]}" in page
    assert "interim analysis" in page


def golden(place: Place, **more: str) -> list[Any]:
    """Return the golden runs of the champion, or with one more change."""
    wanted = {f"hyperparameter.{name}": value for name, value in {"a_model_randomness": "0.5", **more}.items()}
    wanted |= {"hyperparameter.a_data_order": "99.0", "hyperparameter.a_sample_choice": "99.0"}
    own = [run for run in place.runs("tags.`l3d.role` = 'golden_runs'") if wanted.items() <= run.data.params.items()]
    return [cell for parent in own for cell in place.cells(parent.info.run_id)]


def test_an_investigation_is_a_candidate_whose_golden_runs_are_taken_and_changes_are_relative_to_it(
    place: Place, begun: tuple[Place, str, str]
) -> None:
    settings = {**LOW, **{f"a_{factor}": 99.0 for factor in FACTORS[:5]}}
    other = place.investigate(golden_runs=22, hyperparameters=settings).run_id
    cells = len(place.cells())
    judge = Referee.resume(executor="inline")
    kept = judge.judge(other)
    assert (kept.verdict, kept.candidate) == ("keep", KEPT)
    scores = judge.status().course.systems[1].scores
    golden = {int(run.data.tags["l3d.index"]): run for run in place.cells(other) if "l3d.index" in run.data.tags}
    assert scores == {number: golden[number].data.metrics["synthetic_score"] for number in scores}
    changed = judge.judge({"hyperparameters": {"a_model_randomness": 0.3}})
    assert (changed.candidate, changed.champion) == ("a_model_randomness=0.3", KEPT)
    # Only the baseline, beyond the runs that it had, and the change on top were trained.
    of_baseline = judge.status().course.systems[0].scores
    assert len(place.cells()) == cells + len(of_baseline) - 12 + changed.assessment.runs
    # Without shared seeds scores from anywhere are compared as independent ones.
    apart = Referee.start(baseline=begun[1], **{**FINE, "baseline_runs": 10, "shared_seeds": False})
    lone = apart.judge({"name": "mine", "scores": {"2": 0.9, "3": 0.8}})
    assert lone.verdict == "undecided"
    assert apart.conduct.session.noise.estimate().correlation == 0


def test_scores_that_were_measured_elsewhere_are_judged_as_far_as_they_go(place: Place, tmp_path: Path) -> None:
    judge = Referee.resume()
    of_baseline = judge.status().course.systems[0].scores
    # All are better by 30 points or so, which a few runs show.
    scores = {str(number): of_baseline[number] + 0.3 for number in range(5)}
    few = {"name": "mine", "seeds": "shared", "scores": {"0": scores["0"]}}
    early = judge.judge(few)
    assert (early.verdict, early.assessment.runs, early.following) == ("undecided", 1, 1)
    assert json.loads(early.to_json())["next"] == 1
    (tmp_path / "mine.json").write_text(json.dumps({"seeds": "shared", "scores": scores}), encoding="utf-8")
    kept = judge.judge(str(tmp_path / "mine.json"))
    assert (kept.verdict, kept.number) == ("keep", 1)
    assert kept.assessment.runs == 5  # two more confirm, after those of the baseline that decided
    scores["10"] = 0.7
    assert judge.judge({**few, "scores": scores}).following == 11
    assert math.isnan(judge.status().course.path[0].confirmed)
    more = {**few, "scores": {**scores, "11": 0.8}}
    assert judge.judge(more).verdict == "keep"
    course = judge.status().course
    fresh = sum(course.systems[0].scores[number] for number in (10, 11))
    assert course.path[0].confirmed == pytest.approx((0.7 + 0.8 - fresh) / 2)
    refuses("no change of it can be trained", judge.judge, AFTER)


def test_existing_runs_are_named_alone_and_must_have_the_same_test_set(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    study = seeds(approach="synthetic", executor="inline", seeds=3).run_id
    tuning = place.client.create_experiment("tuning")
    for seed in range(3):
        run_id = place.client.create_run(tuning).info.run_id
        place.client.log_param(run_id, "seed", seed)
        place.client.log_metric(run_id, "synthetic_score", 0.5 + 0.01 * seed)
        place.client.set_terminated(run_id)
    assert cli.main(["referee", "judge", "--candidate", "experiment:tuning", "--executor", "inline"]) == 2
    lines = capsys.readouterr().out.strip().splitlines()
    assert json.loads(lines[-1])["notes"] == ["Unpaired: these runs share no seeds with the baseline."]
    assert "judge it again when about" in lines[1]
    assert lines[-2].startswith("Unpaired: ")
    judge = Referee.resume(executor="inline")
    assert judge.judge({"runs": "experiment:tuning"}).number == 1
    refuses(f"candidate={study}: must have the test set", judge.judge, study)


def test_a_session_whose_start_failed_is_ended_and_is_not_the_latest(
    place: Place, begun: tuple[Place, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_spread(*_: object) -> None:
        raise ParameterError("baseline", "", "has runs with equal scores")

    monkeypatch.setattr("mlflow_l3d.studies.referee.conduct.check_baseline", no_spread)
    refuses("has runs with equal scores", referee, action="start", baseline=begun[1], **FINE)
    assert Referee.resume(executor="inline").run_id == begun[2]
    stopped = [run for run in place.runs() if "equal scores" in run.data.tags.get("l3d.error", "")]
    assert {(run.data.tags["l3d.role"], run.info.status) for run in stopped} == {
        ("referee", "FAILED"),
        ("baseline", "FAILED"),
    }


def test_bad_input_is_refused_before_anything_is_recorded(
    begun: tuple[Place, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates: dict[str, Any] = {
        "must have a name": {"scores": {"2": 0.5}},
        '"seeds": "shared"': {"name": "mine", "scores": {"2": 0.5}},
        "whole numbers of runs": {"name": "mine", "seeds": "shared", "scores": {"two": 0.5}},
        "has the same runs as baseline": "hyperparameters=a_data_order=0.5",
        "is the baseline itself": begun[1],
        f"candidate={begun[1]}: is the baseline itself": {"runs": begun[1]},
        "must have root_seed=0": "root_seed=7",
        "golden_runs": "golden_runs=7",
    }
    with begun[0].entered():
        judge = Referee.resume(executor="inline")
        for message, candidate in candidates.items():
            refuses(message, judge.judge, candidate)
        assert len(judge.status().course.systems) == 1
        refuses("must be what to change", referee, action="judge")
        refuses(r"alpha=0\.1: has no effect on referee judge", referee, action="judge", candidate=AFTER, alpha=0.1)
        refuses("must be the run of a session", referee, referee=begun[1])
        run_id = begun[0].client.create_run("0").info.run_id
        monkeypatch.setenv("MLFLOW_RUN_ID", run_id)  # as of mlflow run
        assert cli.main(["referee", "judge", "--candidate", "nonsense"]) == 3
        assert begun[0].client.get_run(run_id).data.tags["l3d.error"].startswith("candidate")


class Killed(BaseException):
    """In the place of a signal: nothing is ended."""


def test_golden_runs_of_a_judgement_that_was_killed_at_its_end_are_ended_by_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finish(*_: Any) -> None:
        raise Killed

    monkeypatch.setattr("mlflow_l3d.tracking.auxiliary._YOUNG_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(GoldenRuns, "finish", finish)
        with pytest.raises(Killed):
            Referee.resume(executor="inline").judge(AFTER)
    (killed,) = place.runs("tags.`l3d.role` = 'golden_runs' AND attributes.status = 'RUNNING'")
    assert Referee.resume(executor="inline").judge(AFTER).spent == 0
    ended = place.client.get_run(killed.info.run_id)
    assert (ended.info.status, ended.data.tags["l3d.error"]) == ("KILLED", "Its process was killed.")


def test_a_fresh_half_confirms_and_took_no_part_before(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    task: dict[str, Any] = {"golden_runs": 10, "metric": "accuracy", "hyperparameters": LOW, "test_selection": "fixed"}
    baseline = place.investigate(**task).run_id
    keys = {run.data.tags["l3d.cell_key"] for run in place.cells(baseline)}
    judge = Referee.start(baseline=baseline, **{**FINE, "smallest_effect": 10, "fresh_half": True})
    judged = judge.judge(BETTER)
    assert judged.verdict == "keep"
    status = judge.status()
    table = predictions(place, baseline, 0)
    # Half of each class, and the score that judges is the one of its half: computed here again, by hand.
    source: Any = judge.conduct.source
    fresh = source._halves._fresh
    for _, of_class in table.groupby("label"):
        assert abs(2 * of_class["example_id"].isin(fresh).sum() - len(of_class)) <= 1
    first = table["prediction"].eq(table["label"])[~table["example_id"].isin(fresh)].mean()
    assert status.course.systems[0].scores[0] == pytest.approx(first)
    kept, base = status.course.systems[1], status.course.systems[0]
    numbers = sorted(kept.fresh_half)
    assert numbers == sorted(base.fresh_half) == [judged.assessment.runs, judged.assessment.runs + 1]
    gains = [kept.fresh_half[number] - base.fresh_half[number] for number in numbers]
    assert status.course.path[0].confirmed == pytest.approx(sum(gains) / 2)
    assert json.loads(judged.to_json())["confirmed_on"] == "the fresh half"
    assert json.loads(judged.to_json())["confirmed"] == pytest.approx(sum(gains) / 2)
    assert "on the fresh half of the test examples" in " ".join(status.summary().split())
    again = Referee.resume(executor="inline")
    assert again.status().course.path == status.course.path
    assert again.conduct.source._halves._fresh == fresh  # type: ignore[attr-defined]
    refuses("cannot be scored on halves of the test examples", again.judge, "experiment:Default")
    refuses("scores without predictions", again.judge, {"name": "mine", "seeds": "shared", "scores": {"2": 0.5}})
    assert keys <= {run.data.tags["l3d.cell_key"] for run in place.cells()}
    with pytest.raises(ParameterError, match="fresh_half=true: needs predictions"):
        Referee.start(baseline=str(place.parents()[0].info.run_id), **{**FINE, "fresh_half": True})


def predictions(place: Place, parent: str, number: int) -> Any:
    cell = next(run for run in place.cells(parent) if run.data.tags.get("l3d.index") == str(number))
    return pd.read_parquet(place.client.download_artifacts(cell.info.run_id, "predictions.parquet"))
