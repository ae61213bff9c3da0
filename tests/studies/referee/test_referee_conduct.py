"""Sessions in MLflow: what is recorded, continued, shared by two processes, and refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from refusals import fails, refuses

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.known import named
from mlflow_l3d.parameters.values import json_of
from mlflow_l3d.studies.referee.conduct import Conduct
from mlflow_l3d.studies.referee.door import Referee
from mlflow_l3d.studies.referee.existing import RunSource
from mlflow_l3d.studies.referee.numbers import Rules
from mlflow_l3d.studies.referee.record import SessionRecorder
from mlflow_l3d.studies.referee.source import LONGEST, Candidate, FunctionSource, check_measured, measured_elsewhere
from mlflow_l3d.tracking.connection import connect

RULES = Rules(effect=math.nan, candidates=20)


class Trained(FunctionSource):
    """Scores of one deviation around a mean of `x`; it counts what it runs, and may be stopped."""

    def __init__(self) -> None:
        super().__init__(self.train, {"x": 0.0}, metric="accuracy")
        self.made: list[tuple[float, int]] = []
        self.stop_after = math.inf

    def train(self, candidate: Any, seed: int) -> float:
        if len(self.made) >= self.stop_after:
            raise KeyboardInterrupt
        self.made.append((candidate["x"], seed))
        luck = np.random.default_rng(seed).standard_normal()
        own = np.random.default_rng([seed, round(1000 * candidate["x"])]).standard_normal()
        return float(0.7 + 0.02 * (candidate["x"] + 0.9 * luck + 0.3 * own))


def resumed(source: RunSource, run_id: str) -> Conduct:
    return Conduct.resume(source, SessionRecorder.find(connect(), run_id))


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tracking_uri: str) -> Trained:
    del tracking_uri
    monkeypatch.setenv("L3D_CACHE", str(tmp_path / "cache"))
    return Trained()


@pytest.fixture
def conduct(source: Trained) -> Conduct:
    """Give a session that has run its baseline."""
    return Conduct.start(source, RULES, baseline_runs=8)


@pytest.mark.slow
def test_a_session_interrupted_at_every_run_is_the_same_and_runs_nothing_twice(source: Trained) -> None:
    candidates = [{"x": 0.01}, {"x": 2.0}, {"x": 2.01}, {"x": 1.0}]
    whole = Conduct.start(source, RULES, baseline_runs=8)
    expected = [whole.judge(each) for each in candidates]
    cost, path = len(source.made), whole.status().course.path
    assert [each.verdict for each in expected] == ["reject", "keep", "reject", "reject"]
    assert [each.exit_status for each in expected] == [1, 0, 1, 1]
    assert len(set(source.made)) == cost == whole.status().course.spent
    assert sum(each.spent for each in expected) == cost - 8

    source.made.clear()
    stopped = Conduct.start(source, RULES, baseline_runs=8)
    verdicts = []
    for candidate in candidates:
        for _ in range(40):
            source.stop_after = len(source.made) + 1
            try:
                verdicts.append(resumed(source, stopped.run_id).judge(candidate).verdict)
                break
            except KeyboardInterrupt:
                runs = connect().search_runs([stopped.recorder.experiment_id], "attributes.status = 'RUNNING'")
                assert not [run.info.run_name for run in runs]
    assert verdicts == [each.verdict for each in expected]
    assert len(source.made) == cost
    assert resumed(source, stopped.run_id).status().course.path == path


def test_what_was_judged_keeps_its_verdict(source: Trained, conduct: Conduct) -> None:
    first = conduct.judge({"x": 2.0})
    made = len(source.made)
    for tag in ("fresh_half", "looks", "decided", "order"):  # which earlier versions did not write of a baseline
        connect().delete_tag(conduct.recorder.systems[0].run_id, f"l3d.referee_{tag}")
    again = resumed(source, conduct.run_id).judge({"x": 2.0})
    assert (again.verdict, again.number, again.spent, len(source.made)) == (first.verdict, 1, 0, made)
    assert (first.notes, again.notes) == ((), ("It was judged before: count its verdict once.",))
    line = json.loads(again.to_json())
    assert (line["verdict"], line["champion"], line["referee"]) == ("keep", "x=2.0", conduct.run_id)


def test_only_the_champion_is_kept_and_the_baseline_is_not_better(conduct: Conduct) -> None:
    assert [conduct.judge({"x": x}).verdict for x in (0.0, 2.0, 4.0, 2.0, 0.0, 4.0)] == [
        *("reject", "keep", "keep", "reject", "reject", "keep")
    ]
    assert [each.number for each in conduct.status().course.systems] == [0, 1, 2]
    for x in (0.0, 2.0):
        text = replace(conduct.status(), judgement=conduct.judge({"x": x})).summary()
        assert text.startswith(f"reject: x={x}")
        assert "champion now" not in text


def test_a_second_handle_sees_runs_of_an_undecided_candidate(source: Trained, conduct: Conduct) -> None:
    other = resumed(source, conduct.run_id)
    conduct.judge({"x": 2.0}, most_runs=2)
    other.judge({"x": 2.0}, most_runs=3)
    assert conduct.judge({"x": 2.0}, most_runs=1).assessment.runs == 6
    assert len(set(source.made)) == len(source.made)


@pytest.mark.slow
def test_two_that_judge_in_turn_see_what_the_other_kept(source: Trained, conduct: Conduct) -> None:
    other = resumed(source, conduct.run_id)
    assert conduct.judge({"x": 2.0}).verdict == "keep"
    second = other.judge({"x": 2.001})
    assert (second.number, second.verdict, second.champion) == (2, "reject", "x=2.0")
    assert conduct.judge({"x": 4.0}).number == 3
    assert [each.number for each in other.status().course.systems] == [0, 1, 2, 3]


def test_a_limit_of_runs_leaves_it_open_and_the_next_call_continues(source: Trained, conduct: Conduct) -> None:
    open_ = conduct.judge({"x": 2.0}, most_runs=2)
    assert (open_.verdict, open_.exit_status, open_.assessment.runs) == ("undecided", 2, 2)
    assert 1 <= open_.more <= 38
    made = len(source.made)
    closed = conduct.judge({"x": 2.0})
    assert (closed.verdict, closed.number) == ("keep", 1)
    assert abs(closed.assessment.runs - 2 - open_.more) <= 6
    assert closed.assessment.runs - 2 <= len(source.made) - made


class Measured(Trained):
    """Candidates that were run elsewhere."""

    def describe(self, candidate: object) -> Candidate:
        if not isinstance(candidate, dict) or "scores" not in candidate:
            return super().describe(candidate)
        return Candidate("measured", candidate, candidate, check_measured(candidate["scores"]))

    def run(self, candidate: Candidate, numbers: Sequence[int]) -> Iterator[tuple[int, float]]:
        assert candidate.measured is None
        return super().run(candidate, numbers)


def test_scores_that_were_measured_elsewhere(source: Trained) -> None:
    conduct = Conduct.start(Measured(), RULES, baseline_runs=8)
    numbers = range(conduct.session.next_number, conduct.session.next_number + 3)
    other = Trained()
    scores = {str(number): score for number, score in other.run(other.describe({"x": 2.0}), numbers)}
    judged = conduct.judge({"scores": scores})
    assert (judged.verdict, judged.assessment.runs) == ("undecided", 3)
    for wrong in ({}, {"a": 1.0}, {"-1": 0.5}, {"0": "high"}):
        refuses("candidate", check_measured, wrong)


def test_refused(source: Trained, conduct: Conduct) -> None:
    fails("the seed has no effect", Conduct.start, FunctionSource(lambda candidate, seed: 0.5), RULES, baseline_runs=5)
    with pytest.raises(ParameterError, match="must return a number"):
        Conduct.start(FunctionSource(lambda candidate, seed: [1]), RULES, baseline_runs=5)  # type: ignore[arg-type,return-value]
    with pytest.raises(ParameterError, match="would record this secret"):
        FunctionSource(lambda candidate, seed: 0.5, {"model": {"api_key": "sk-1234567890"}})
    for text in ("curl https://u:pw@host/x", ["train --api-key=sk-12345678"], {"all": [{"a": ["hf_ABCDEFGH1234"]}]}):
        refuses("would record this secret", FunctionSource, lambda candidate, seed: 0.5, text)
    for secret in ("first line\nsk-1234567890ABC", {"password": ["pw1", "pw2"]}):
        with pytest.raises(ParameterError, match=r"cannot be part of a candidate.*this secret") as refused:
            FunctionSource(lambda candidate, seed: 0.5, secret)
        assert "pw1" not in str(refused.value)
        assert "pw2" not in str(refused.value)
    FunctionSource(
        lambda candidate, seed: 0.5, {"token": 5, "max_tokens": 9, "tokenizer": "a", "n": {"token": [1, 0.5]}}
    )
    FunctionSource(lambda candidate, seed: 0.5, "a prompt about /home/me and *** stars")
    refuses("finite numbers", FunctionSource, lambda candidate, seed: 0.5, {"x": math.nan})
    for effect in (1e300, 1e-300):
        fails("Check its unit", Conduct.start, source, replace(RULES, effect=effect), baseline_runs=3)
    refuses("alpha=1e-300", Referee, source.train, {"x": 0.0}, alpha=1e-300)
    referee = Referee(source.train, {"x": 0.0}, baseline_runs=3)
    for most in (0, "x", 1.5):
        with pytest.raises(ParameterError, match="most_runs"):
            referee.judge({"x": 1.0}, most_runs=most)  # type: ignore[arg-type]
    refuses("characters", FunctionSource, lambda candidate, seed: 0.5, "long prompt " * 600)
    refuses("JSON types", FunctionSource, lambda candidate, seed: 0.5, object())
    fails("another baseline", resumed, FunctionSource(lambda candidate, seed: 0.5, {"x": 0.0}), conduct.run_id)
    refuses("must be the run of a session", resumed, source, "0" * 32)


@pytest.mark.slow
def test_one_that_was_begun_first_and_is_kept_last_is_the_champion(source: Trained, conduct: Conduct) -> None:
    """Records are read in the order of verdicts: B was kept while A, begun before it, was undecided."""
    first = conduct.judge({"x": 6.0}, most_runs=1)
    assert (first.verdict, conduct.judge({"x": 3.0}).verdict) == ("undecided", "keep")
    assert conduct.judge({"x": 6.0}).verdict == "keep"
    again = resumed(source, conduct.run_id)
    last = again.judge({"x": 4.5})
    assert (last.verdict, last.number, last.champion) == ("reject", 3, "x=6.0")
    assert [step.number for step in again.status().course.path] == [2, 1]
    assert again.status().course.path[-1].confirmed == pytest.approx(0.12, abs=0.02)


@pytest.mark.slow
def test_what_was_deleted_neither_frees_a_number_nor_lowers_the_evidence_that_others_need(source: Trained) -> None:
    conduct = Conduct.start(source, replace(RULES, candidates=1), baseline_runs=8)
    before = [conduct.judge({"x": x}) for x in (0.01, 0.02)]
    for each in before:
        connect().delete_run(each.candidate_run_id)
    after = resumed(source, conduct.run_id).judge({"x": 0.03})
    assert after.number == 3
    assert after.assessment.needed > before[0].assessment.needed
    open_ = [conduct.judge({"x": x}, most_runs=1) for x in (0.5, 3.0)]
    assert [each.number for each in open_] == [4, 5]
    assert conduct.judge({"x": 3.0}).assessment.needed >= open_[1].assessment.needed


def test_scores_that_cannot_be_or_contradict_recorded_ones_are_refused(source: Trained) -> None:
    elsewhere = Measured()
    conduct = Conduct.start(elsewhere, RULES, baseline_runs=8)
    with pytest.raises(ParameterError, match=r"score 71 of run 0: accuracy must lie between 0 and 1\. Divide percent"):
        conduct.judge({"name": "percent", "scores": {"0": 71.0}})
    assert len(conduct.status().course.systems) == 1  # nothing is recorded
    with pytest.raises(ParameterError, match="must lie between 0 and 1"):
        Conduct.start(FunctionSource(lambda candidate, seed: 70.0 + seed % 5, metric="accuracy"), RULES)
    conduct.judge({"scores": {"0": 0.9}})
    record = conduct.recorder.systems[1]
    elsewhere.describe = lambda given: Candidate("measured", record.content, None, check_measured(given["scores"]))  # type: ignore[method-assign,assignment,index]
    assert conduct.judge({"scores": {"0": 0.9, "1": 0.9}}).assessment.runs == 2
    refuses(r"score 0\.7 of run 0: contradicts .* 0\.9", conduct.judge, {"scores": {"0": 0.7, "1": 0.9, "2": 0.9}})
    elsewhere.metric = named("pass_rate")  # without bounds, but a share by its name
    with pytest.raises(ParameterError, match=r"unit of the baseline: pass_rate is up to 71, there 0\.\d+\. Log"):
        conduct.judge({"scores": {"0": 0.9, "1": 0.9, "2": 71.0}})
    refuses("one score of run 0", check_measured, {"0": 0.5, "00": 0.6})
    refuses("a name is there twice", json_of, "candidate", "", '{"scores": {"0": 0.5, "0": 0.6}}')


def test_a_candidate_is_recorded_whole_or_refused(source: Trained, conduct: Conduct) -> None:
    longest = {"x": 0.0, "y": "y" * (LONGEST - len('{"candidate": {"x": 0.0, "y": ""}}'))}
    conduct.judge(longest, most_runs=1)
    refuses(r"candidate=x=0.0, y=y+[.]{3}: has 5,921 characters", conduct.judge, {**longest, "y": f"{longest['y']}y"})
    elsewhere = {"name": "n" * 6000, "seeds": "shared", "scores": {"0": 0.5}}
    with pytest.raises(ParameterError, match=r"candidate=n+[.]{3}: has 6,016 characters, and a session records 5,920"):
        measured_elsewhere(elsewhere, shares_seeds=True, fresh_half=False)
    contents = [each.content for each in resumed(source, conduct.run_id).status().course.systems]
    assert contents == [{"candidate": {"x": 0.0}}, {"candidate": longest}]


def test_two_that_start_at_once_share_a_session(source: Trained) -> None:
    """The second one waits for the first, which runs the baseline, and continues its session."""
    with ThreadPoolExecutor(2) as threads:
        begun = [threads.submit(Referee, source.train, {"x": 0.0}, baseline_runs=8) for _ in range(2)]
    assert len({each.result().run_id for each in begun}) == 1
    assert len(source.made) == 8


@pytest.mark.slow
def test_a_status_does_not_wait_for_the_judgement_of_a_thread(source: Trained) -> None:
    """It is what is recorded so far, of this object, of another and of the command; the judgement is undisturbed."""
    begun, go_on = Event(), Event()

    def train(candidate: Any, seed: int) -> float:
        if candidate["x"] == 2.0 and len(source.made) == 9:
            begun.set()
            assert go_on.wait(60)
        return source.train(candidate, seed)

    referee = Referee(train, {"x": 0.0}, baseline_runs=8)
    assert not referee.status().course.is_judging
    with ThreadPoolExecutor(1) as threads:
        judged = threads.submit(referee.judge, {"x": 2.0})
        try:
            assert begun.wait(60)
            same = Referee(train, {"x": 0.0}, baseline_runs=8)
            seen = [referee.status(), same.status(), resumed(same.conduct.source, referee.run_id).status()]
        finally:
            go_on.set()
        assert judged.result().verdict == "keep"
    for each in seen:
        assert each.course.is_judging
        assert [len(system.scores) for system in each.course.systems] == [8, 1]
        assert "A judgement is under way" in each.summary()
    after = referee.status()
    assert "under way" not in after.summary()
    assert after.course.systems == same.status().course.systems
    assert same.judge({"x": 2.0}).spent == 0
