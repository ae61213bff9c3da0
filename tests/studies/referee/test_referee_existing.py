"""Runs that exist already as candidates: groups of other code, evaluations and studies; none shares seeds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
from evaluation_runs import evaluated, exact, quick_evaluations, rows
from mlflow import MlflowClient
from mlflow.genai.scorers import scorer
from refusals import refuses

from mlflow_l3d import Referee, seeds
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.referee.numbers import Rules
from mlflow_l3d.studies.referee.numbers.session import Session, SystemRecord
from mlflow_l3d.studies.referee.source import Candidate

pytestmark = pytest.mark.slow

RULES: dict[str, Any] = {"baseline_runs": 12, "candidates": 10, "confirm": 2, "smallest_effect": 2}


def accuracy(candidate: Any, seed: int) -> float:
    """Return a score whose luck is of the seed alone: 0.7 with a deviation of 0.02."""
    return float(0.7 + 0.02 * (candidate["x"] + np.random.default_rng(seed).standard_normal()))


@pytest.fixture
def referee(tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> Referee:
    monkeypatch.setenv("L3D_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("mlflow_l3d.report.page.Document.to_html", lambda *_, **__: "<html></html>")
    mlflow.set_tracking_uri(tracking_uri)
    return Referee(accuracy, {"x": 0.0}, metric="accuracy", **RULES)


def log(score: float, seed: int | None, *, experiment: str = "theirs", status: str = "FINISHED", **more: Any) -> str:
    """Log one run as other code does."""
    client = MlflowClient()
    found = client.get_experiment_by_name(experiment)
    run = client.create_run(found.experiment_id if found else client.create_experiment(experiment))
    for name, value in {"lr": 0.1, **({} if seed is None else {"seed": seed}), **more}.items():
        client.log_param(run.info.run_id, name, value)
    client.log_metric(run.info.run_id, "accuracy", score)
    if status != "RUNNING":
        client.set_terminated(run.info.run_id, status)
    return str(run.info.run_id)


def test_without_shared_seeds_the_gain_is_the_difference_of_means_with_both_variances() -> None:
    """With the correlation of 0.9 that others have, the error would be half as large, and the claim too early."""
    random, gains = np.random.default_rng(2), []
    for _ in range(1500):
        baseline = SystemRecord("", 0, "baseline", "", scores=dict(enumerate(random.standard_normal(40))))
        session = Session(Rules(effect=1.0, confirm=5), baseline)
        luck = np.array([session.baseline.scores[number] for number in range(20)])
        session.noise.add_candidate(0.9 * luck + 0.4 * random.standard_normal(20), luck)
        runs = dict(enumerate(random.standard_normal(5)))
        look = session.look(runs, paired=False)
        assert look.gain == pytest.approx(np.mean([*runs.values()]) - np.mean([*session.baseline.scores.values()]))
        gains.append((look.gain, look.error))
    assert session.noise.estimate().correlation > 0.7
    spread, errors = np.std([gain for gain, _ in gains]), np.median([error for _, error in gains])
    assert spread == pytest.approx(math.sqrt(1 / 5 + 1 / 40), rel=0.06)
    assert errors == pytest.approx(spread, rel=0.15)
    four = dict([*runs.items()][:4])
    assert session.look(four).error < 0.75 * session.look(four, paired=False).error
    # Neither a pair with its numbers nor one with the champion that it becomes says anything of shared seeds.
    before = session.noise.estimate().correlation
    kept = session.look(runs, paired=False).__class__(*[5, 1, 1, 0, 2, 9, 9, "keep"])
    session.conclude(SystemRecord("", 1, "existing", "", {"runs": ""}, runs, "keep", [kept], 5))
    assert session.noise.estimate().correlation == before
    assert session.noise_of().correlation == 0


def test_a_group_is_judged_when_enough_runs_are_there_and_confirmed_by_later_ones(referee: Referee) -> None:
    source = {"runs": "experiment:theirs"}
    scores = [0.85, 0.86, 0.84, 0.87, 0.85, 0.86, 0.83, 0.88]
    log(scores[0], 0)
    one = referee.judge(source)
    assert (one.verdict, one.assessment.runs, one.spent, one.exit_status) == ("undecided", 1, 0, 2)
    assert one.more >= 4
    late = log(scores[1], 1, status="RUNNING")
    log(0.1, 8, status="FAILED")
    log(scores[2], 2)
    log(scores[2], 2)  # its seed again
    few = referee.judge(source)
    assert (few.verdict, few.assessment.runs) == ("undecided", 2)
    line = json.loads(few.to_json())["notes"]
    assert line[0] == "Unpaired: these runs share no seeds with the baseline."
    assert "2 runs not finished, and left out:" in line[1]
    assert "(FAILED)" in line[1]
    assert any("Left out: 1 run with the seed of another." in note for note in line)
    MlflowClient().set_terminated(late, "FINISHED")  # the second one by its start
    for seed, score in enumerate(scores[3:5], 3):
        log(score, seed)
    kept = referee.judge(source)
    assert (kept.verdict, kept.assessment.runs) == ("keep", 5)
    course = referee.status().course
    baseline, own = (each.scores for each in course.systems)
    assert [*own.values()] == [scores[at] for at in (0, 2, 1, 3, 4)]  # recorded ones keep their numbers
    assert kept.assessment.gain == pytest.approx(np.mean(scores[:5]) - np.mean([*baseline.values()]))
    assert math.isnan(course.path[0].confirmed)
    assert kept.notes[-1] == "experiment:theirs is confirmed when 2 fresh runs of it are there."
    fresh = referee.conduct.session.next_number
    # As long as it has no fresh runs, nothing is compared with it and nothing is run.
    waiting = referee.judge({"x": 1.5})
    assert (waiting.verdict, waiting.spent) == ("undecided", 0)
    for seed, score in enumerate(scores[5:], 5):
        log(score, seed)
    assert referee.judge({"x": 1.5}).verdict == "reject"
    course = referee.status().course
    gains = [score - course.systems[0].scores[at] for at, score in enumerate(scores[5:7], fresh)]
    assert course.path[0].confirmed == pytest.approx(np.mean(gains))
    again = Referee(accuracy, {"x": 0.0}, metric="accuracy", **RULES)
    assert (again.run_id, again.status().course.path) == (referee.run_id, course.path)


def test_runs_are_compared_afresh_with_another_champion(referee: Referee) -> None:
    conduct = referee.conduct
    conduct.session.champion, conduct.session.next_number = SystemRecord("", 2, "another", "", scores={20: 0.7}), 20
    look = conduct.session.look({0: 0.8})
    candidate = Candidate("theirs", {"runs": "theirs"}, None, {0: 0.8, 1: 0.9})
    record = SystemRecord("", 1, "theirs", candidate.key, candidate.content, {0: 0.8}, looks=[look])
    assert conduct._numbered(record, candidate).measured == {20: 0.8, 21: 0.9}
    assert not record.looks
    record.scores, record.looks = {20: 0.9}, [look]
    assert conduct._numbered(record, candidate).measured == {20: 0.9, 21: 0.8}
    record.looks = [conduct.session.look({})]  # when the champion had no runs
    assert conduct._numbered(record, candidate).measured == {20: 0.8, 21: 0.9}


def test_a_run_that_was_judged_and_is_gone_is_noticed(referee: Referee) -> None:
    runs = [log(0.7 + 0.01 * seed, seed) for seed in range(3)]
    assert referee.judge({"runs": "experiment:theirs"}).verdict == "undecided"
    MlflowClient().delete_run(runs[1])
    with pytest.raises(ParameterError, match=r"candidate=experiment:theirs: no longer has a run with the score 0\.71"):
        referee.judge({"runs": "experiment:theirs"})


def test_what_is_not_one_group_of_the_same_scores_is_refused(referee: Referee) -> None:
    for seed in range(3):
        log(0.8, seed)
        log(0.9, seed, lr=0.2)
        log(0.8 + 0.01 * seed, 1, experiment="one seed")
    wrong = {
        r"has 2 groups \(lr=0.1; lr=0.2\)": "experiment:theirs",
        "candidate=experiment:nowhere: this tracking server has no": "experiment:nowhere",
        "finds no runs in the experiment": "params.lr = '7'",
        "there is no such file": "nonsense",
    }
    for message, source in wrong.items():
        refuses(message, referee.judge, {"runs": source})
    other = Referee(accuracy, {"x": 0.0}, metric="f1", **RULES)
    with pytest.raises(ParameterError, match="candidate: metric='f1': must be one that finished runs have: accuracy"):
        other.judge({"runs": "experiment:one seed"})
    log(75.0, 0, experiment="per cent")
    percent = referee.judge({"runs": "experiment:per cent"})
    assert 0.03 < percent.assessment.gain < 0.07  # 75 % is 0.75, as evaluate reads it
    single = referee.judge({"runs": "experiment:one seed"})
    assert single.assessment.runs == 1  # three runs with one seed are one
    assert [each.title for each in referee.status().course.systems[2:]] == ["experiment:one seed"]
    assert referee.judge({"runs": 3, "x": 0.0}).verdict == "reject"  # a hyperparameter


def test_an_evaluation_is_one_run_however_many_rows_it_has(referee: Referee, tracking_uri: str) -> None:
    data = rows(*(f"q{number}" for number in range(4)))
    share = Referee(accuracy, {"x": 0}, metric="exact", **RULES)
    with quick_evaluations(tracking_uri):
        apps = [lambda q, right=right: q.upper() + "?" * (int(q[1:]) >= right) for right in (3, 4)]
        runs = [evaluated(data, predict_fn=app, scorers=[exact]) for app in apps]
        again = evaluated(mlflow.search_traces(run_id=runs[0], return_type="list"), scorers=[exact])
        percent = evaluated(data[:1], predict_fn=apps[0], scorers=[scorer(name="accuracy")(lambda outputs: 75.0)])
    mlflow.set_tracking_uri(tracking_uri)
    one = share.judge({"runs": runs[0]})
    assert (one.verdict, one.assessment.runs) == ("undecided", 1)
    assert share.status().course.systems[1].scores == {0: pytest.approx(0.75)}
    share.judge({"runs": runs})
    assert [*share.status().course.systems[2].scores.values()] == pytest.approx([0.75, 1.0])
    refuses("judge the same answers", share.judge, {"runs": [runs[0], again]})
    refuses("candidate: metric='accuracy': must be a scorer of the evaluation: exact", referee.judge, {"runs": runs[0]})
    why = r"not in the unit of the baseline: accuracy is up to 75, there 0\.\d+\. Log"
    refuses(why, referee.judge, {"runs": percent})


def test_a_seeds_study_is_a_candidate_of_its_runs(referee: Referee) -> None:
    study = seeds(approach="synthetic", seeds=5, executor="inline")
    judged = referee.judge({"runs": study.run_id})
    scores = referee.status().course.systems[1].scores
    assert sorted(scores.values()) == sorted(study.study.scores["accuracy"])
    assert judged.notes == ("Unpaired: these runs share no seeds with the baseline.",)
