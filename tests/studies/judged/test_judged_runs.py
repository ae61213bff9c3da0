"""Evaluation runs that MLflow made without us: what `evaluate` and `compare` say about them, against known numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest
from evaluation_runs import evaluated, exact, fails_on_q2, judge, quick_evaluations, rows
from mlflow import MlflowClient
from mlflow.genai.scorers import scorer
from refusals import refuses
from stores import copy_store

import mlflow_l3d
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.judged.numbers import score_scorer, without_verdict
from mlflow_l3d.studies.judged.results import JudgedEvaluation
from mlflow_l3d.studies.judged.run import compare_evaluations, compare_judged, evaluate_judged
from mlflow_l3d.tracking.earlier.evaluations import read_judged

pytestmark = pytest.mark.slow

ROWS = 12
RIGHT = {"a": (2, 4, 6), "b": (11,)}
"""System -> how many of the rows are right in each of its evaluations: the first ones."""
APP = "mlflow.genaiEvaluate.agent.digest"
FIRST, SECOND = (["q3", "q10", "q11"], ["q0", "q10", "q11"])
"""The answers that two judges refuse: 8 of 12 have both verdicts yes, 2 both no, 1 and 1 one each."""


@scorer
def length(outputs: str) -> float:
    return float(len(outputs))


@scorer
def length_error(outputs: str) -> float:
    return float(len(outputs))


@scorer
def in_words(outputs: str) -> str:
    return "rather good"


def first_six(q: str) -> str:
    return q.upper() + "?" * (int(q[1:]) >= RIGHT["a"][0])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> dict[str, str]:
    """Give the runs of one store by their names; `uri` is the store."""
    folder = tmp_path_factory.mktemp("evaluations")
    runs = {"uri": copy_store(migrated_store, folder, (folder / "mlruns").as_uri())}
    data = rows(*(f"q{number}" for number in range(ROWS)))
    with quick_evaluations(runs["uri"]):
        for system, counts in RIGHT.items():
            for number, count in enumerate(counts):
                app = lambda q, count=count: q.upper() + "?" * (int(q[1:]) >= count)  # noqa: E731
                with mlflow.start_run(run_name=f"{system}{number}"):
                    runs[f"{system}{number}"] = evaluated(data, predict_fn=app, scorers=[exact, length])
        answers = mlflow.search_traces(run_id=runs["a0"], return_type="list")
        runs["first"] = evaluated(answers, scorers=[judge("judge/1", FIRST)])
        runs["second"] = evaluated(answers, scorers=[judge("judge/2", SECOND)])
        runs["words"] = evaluated(answers, scorers=[in_words])
        for name in ("a0", "b0"):
            traces = mlflow.search_traces(run_id=runs[name], return_type="list")
            runs[f"{name} error"] = evaluated(traces, scorers=[length_error])
        with mlflow.start_run(run_name="same"):
            runs["same"] = evaluated(data, predict_fn=first_six, scorers=[exact])
        for name in set(runs) - {"uri", "same"}:  # MLflow before 3.17 writes no digest
            MlflowClient().set_tag(runs[name], APP, "sha256:1")
        MlflowClient().set_tag(runs["same"], APP, "sha256:2")
        failing = rows("q0", "q1", "q2", "q3", "raise")
        runs["failing"] = evaluated(failing, predict_fn=fails_on_q2, scorers=[exact, judge("judge/1", ["q3"])])
    return runs


@pytest.fixture(autouse=True)
def store(made: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let each test use the store; results are written to it, too."""
    monkeypatch.setenv("L3D_CACHE", str(tmp_path))
    mlflow.set_tracking_uri(made["uri"])
    yield
    mlflow.set_tracking_uri(None)


def of(made: dict[str, str], names: str) -> str:
    return ",".join(made[name] for name in names.split())


def test_repeats_of_an_evaluation_have_luck_and_pass_k(made: dict[str, str]) -> None:
    result = evaluate_judged(of(made, "a0 a1 a2"), metric="exact", log=False)
    one = result.scorers[0]
    assert one.components.mean == pytest.approx(sum(RIGHT["a"]) / 3 / ROWS)
    assert (one.components.rows, one.components.answers, len(one.unstable)) == (ROWS, 3 * ROWS, 6 - 2)
    # Rows 0 and 1 pass in 3 of 3 answers, 2 and 3 in 2, 4 and 5 in 1, the others in none.
    assert one.passes["all_pass"].tolist() == pytest.approx([12 / 36, (2 + 2 / 3) / 12, 2 / 12])
    assert one.passes["any_pass"].tolist() == pytest.approx([12 / 36, (2 + 2 + 2 * 2 / 3) / 12, 6 / 12])
    eight = pd.DataFrame({"k": range(1, 9), "all_pass": 0.5, "any_pass": 0.5})
    logged = [name for name in replace(one, passes=eight).metrics() if "/pass_hat_" in name]
    assert logged == [f"exact/pass_hat_{k}" for k in (1, 2, 3, 4, 8)]
    assert [each.scorer for each in result.scorers] == ["exact", "length"]
    assert result.to_frame().set_index("scorer").loc["length", "mean"] == pytest.approx(
        (10 * 2 + 2 * 3) / 12 + 1 - 12 / 36
    )


def test_judges_of_the_same_answers_are_not_mixed(made: dict[str, str]) -> None:
    one = evaluate_judged(of(made, "first second"), log=False).scorers[0]
    assert one.components.mean == 0.75
    assert len(one.unstable) == 2
    # By hand: (equal 10/12 - by chance 0.75² + 0.25²) / (1 - by chance).
    assert one.agreement["kappa"].iloc[0] == pytest.approx((10 / 12 - 0.625) / 0.375)
    assert one.agreed == ("Cohen's kappa", one.agreement["kappa"].iloc[0])
    assert one.metrics()["good/kappa"] == one.agreed[1]
    # MLflow 3.18 averages the verdicts of both runs on both sides: all ties.
    record = compare_judged(made["first"], made["second"], log=False).pairs[0].record
    assert (record.difference, record.verdict, record.rows) == (0.0, "undecided", ROWS)
    assert record.error > 0


def test_failed_answers_do_not_count(made: dict[str, str]) -> None:
    result = evaluate_judged(made["failing"])
    one = result.scorers[0]
    assert (one.scorer, one.components.mean, one.recorded_mean) == ("exact", 1.0, 0.8)
    text = result.report().to_html()
    assert "MLflow logged 80.0" in text
    assert "Left out: 1 of 5 answers, as predict_fn raised." in text
    assert "Left out: 1 of 4 answers on which the scorer good raised." in text


def test_no_verdict_if_more_than_a_tenth_of_the_answers_is_lost(made: dict[str, str]) -> None:
    result = compare_judged(made["a0"], made["failing"])
    headline = "No verdict on exact: 1 of 5 answers of failing are lost."
    assert result.report().headline == headline.replace("failing", result.pairs[0].second)
    assert result.pairs[0].record.verdict == "undecided"
    assert "**Not known**" in str(result.report().answers[0])
    pair = compare_judged(made["a0"], made["b0"], log=False).pairs[0]
    assert without_verdict(pair, {"a0": (0, 20), "b0": (2, 20)}) is pair
    assert without_verdict(pair, {"a0": (3, 20), "b0": (0, 20)}).record.obstacle
    decided, other = (several := compare_judged(made["a0"], made["b0"], metric="exact,length", log=False)).pairs
    one_lossy = replace(several, pairs=(decided, without_verdict(other, {"a0": (0, 20), "b0": (3, 20)})))
    said = "1 of 2 comparisons. On length nothing can be decided: 3 of 20 answers of b0 are lost."
    assert said in str(one_lossy.report().answers)


def test_the_better_system_is_the_subject(made: dict[str, str]) -> None:
    pairs = {system: [made[f"{system}{number}"] for number in range(len(RIGHT[system]))] for system in RIGHT}
    result = compare_evaluations(pairs["a"], pairs["b"], metric="exact")
    record = result.pairs[0].record
    assert record.difference == pytest.approx((12 / 3 - 11) / ROWS)
    assert (record.verdict, record.rows, record.repeats_first, record.repeats_second) == ("worse", ROWS, 3, 1)
    assert result.report().headline == "b0 is better than a0 and 2 more by 58.3 points on exact."
    table = result.report().table
    assert (str(table.rows[0][1]), str(table.rows[0][3])[:5]) == ("better", "+58.3")
    assert table.note.startswith("Verdict and difference: of b0")
    run = MlflowClient().get_run(result.run_id)
    assert run.data.metrics["exact/difference"] == record.difference
    assert run.info.experiment_id == MlflowClient().get_run(made["a0"]).info.experiment_id
    assert run.data.tags["l3d.role"] == "compare"
    client = MlflowClient()
    values = {
        system: pd.Series(
            {
                (run_id, json.loads(trace.info.request_preview)["q"]): feedback.value
                for run_id in run_ids
                for trace in client.search_traces(locations=[run.info.experiment_id], run_id=run_id)
                for feedback in trace.info.assessments
                if feedback.name == "exact" and feedback.metadata["mlflow.assessment.sourceRunId"] == run_id
            }
        )
        for system, run_ids in pairs.items()
    }
    gaps = (values["a"].groupby(level=1).mean() - values["b"].groupby(level=1).mean()).to_numpy(dtype=float)
    assert record.difference == pytest.approx(gaps.mean())


def test_several_scorers_and_systems_are_adjusted_and_a_lower_length_may_be_better(made: dict[str, str]) -> None:
    result = compare_judged(made["a0"], made["a1"], made["b0"], metric="exact,length:lower")
    assert [(pair.scorer, pair.first, pair.second) for pair in result.pairs] == [
        (name, *pair) for name in ("exact", "length") for pair in combinations(("a0", "a1", "b0"), 2)
    ]
    verdicts = {(pair.scorer, pair.first, pair.second): pair.record.verdict for pair in result.pairs}
    assert verdicts["exact", "a0", "b0"] == verdicts["length", "a0", "b0"] == "worse"
    assert all(pair.record.p_adjusted > pair.record.p for pair in result.pairs if pair.record.p < 0.01)
    assumed = "Assumed: higher values are better, except for length (else: --metric exact:lower)."
    assert assumed in " ".join(result.summary().split())
    assert "of the first of a pair; higher values are better, except for length." in result.report().to_html()
    assert len(result.metrics()) == 5 * 6


def test_the_name_of_a_scorer_says_that_less_is_better_unless_it_is_said_otherwise(made: dict[str, str]) -> None:
    runs = made["a0 error"], made["b0 error"]
    verdicts = {"auto": "worse", "length_error": "worse", "length_error:higher": "better"}  # a0 writes more
    for metric, verdict in verdicts.items():
        result = compare_judged(*runs, metric=metric)
        assert result.pairs[0].record.verdict == verdict
        said = "Assumed: lower values of length_error are better (else: --metric" in " ".join(result.summary().split())
        assert said == (":" not in metric)
    assert "Assumed" not in compare_judged(*runs, log=False, metric="length_error:higher").summary()


def test_smallest_effects_are_points_or_units(made: dict[str, str]) -> None:
    runs = made["a0"], made["a1"]
    cases = [("exact", 80, "equivalent"), ("exact", 1, "undecided"), ("length:lower", 1, "equivalent")]
    for metric, effect, verdict in cases:
        result = compare_judged(*runs, smallest_effect=effect, metric=metric, log=False)
        assert result.pairs[0].record.verdict == verdict
    refuses("several units", compare_judged, *runs, smallest_effect=1, log=False)


def test_results_are_read_back_and_evaluations_stay_as_they_are(made: dict[str, str]) -> None:
    client = MlflowClient()
    before = {name: client.get_run(made[name]).to_dictionary() for name in ("a0", "b0")}
    results: list[Any] = [evaluate_judged(of(made, "a0 a1")), mlflow_l3d.compare(of(made, "a0 b0"), metric="exact")]
    assert {name: client.get_run(made[name]).to_dictionary() for name in before} == before
    for result in results:
        again = mlflow_l3d.load(result.run_id)
        assert again.report().to_html() == result.report().to_html()
        assert again.summary() == result.summary()
        files = {each.path for each in client.list_artifacts(result.run_id)}
        assert {"report.html", "summary.svg", "result.json"} < files


@pytest.mark.parametrize(
    ("names", "options", "line"),
    [
        ("a0 a0", {}, "must be two or more different systems"),
        ("a0+a1 a0", {}, "Name each run once"),
        ("a0+a0 b0", {}, "Name each run once"),
        ("a0+same b0", {}, "are of different apps, no repeats of one. Compare them: mlflow-l3d compare --runs"),
        ("a0 failing", {"metric": "length"}, "must be a scorer of the evaluation: exact"),
        ("a0 first", {}, "share no scorer"),
        ("a0 words", {}, "share no scorer .*: exact, length; .*: no numbers"),
    ],
)
def test_evaluations_that_cannot_be_compared(
    made: dict[str, str], names: str, options: dict[str, Any], line: str
) -> None:
    with pytest.raises(ParameterError, match=line):
        compare_judged(*("+".join(made[each] for each in side.split("+")) for side in names.split()), **options)


def test_systems_whose_rows_all_tie(made: dict[str, str]) -> None:
    result = compare_judged(made["a0"], made["same"])
    record = result.pairs[0].record
    assert (record.difference, record.rows, record.ties, record.verdict) == (0, ROWS, ROWS, "undecided")
    assert result.report().headline == "No difference between a0 and same is established on exact: all rows tie."
    assert "neither is ahead on exact" in result.summary()
    run = MlflowClient().get_run(result.run_id)
    assert run.info.status == "FINISHED"
    assert "Not compared, as not all systems have it: length." in result.notes
    table = mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/differences.json")
    assert dict(zip(table["columns"], table["data"][0], strict=True))["rows_needed"] is None


def test_runs_of_other_apps_are_no_repeats(made: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    refuses("are of different apps, no repeats of one", evaluate_judged, of(made, "a0 same"))
    assert evaluate_judged(of(made, "a0 a1"), log=False).notes == ()
    assert evaluate_judged(of(made, "first second"), log=False).notes == ()
    judged = read_judged(MlflowClient(), made["a0"], made["a1"])
    assert [run.apps for run in judged.runs] == [("sha256:1", "")] * 2
    unknown = replace(judged, runs=tuple(replace(run, apps=("", "")) for run in judged.runs))
    monkeypatch.setattr("mlflow_l3d.studies.judged.run.read_judged", lambda client, *run_ids: unknown)
    assert (
        "Nothing in the runs says that one app gave these answers"
        in evaluate_judged(of(made, "a0 a1"), log=False).notes[0]
    )


def test_runs_without_numbers(made: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    refuses("no such run", evaluate_judged, " ,")
    judged = read_judged(MlflowClient(), made["first"])
    texts = replace(judged, table=judged.table.assign(value=float("nan")))
    monkeypatch.setattr("mlflow_l3d.studies.judged.run.read_judged", lambda client, *run_ids: texts)
    refuses("has no judgement that is a number, yes or no", evaluate_judged, made["first"])


def test_compare_leaves_other_runs_to_investigations(made: dict[str, str]) -> None:
    refuses("is not an investigation", mlflow_l3d.compare, made["a0"], MlflowClient().create_run("0").info.run_id)
    refuses("has no effect on evaluation runs", mlflow_l3d.compare, made["a0"], made["b0"], self_check=10)


def test_one_row_has_no_interval(made: dict[str, str]) -> None:
    judged = {name: read_judged(MlflowClient(), made[name]) for name in ("a0", "b0")}
    right = judged["a0"].table.query("scorer == 'exact' and value == 1")["row"].iloc[0]
    of_row = {
        made[name]: replace(
            each,
            table=each.table[each.table["row"].eq(right)],
            runs=tuple(
                replace(run, answers=run.answers[run.answers["row"].eq(right)], expected=1) for run in each.runs
            ),
        )
        for name, each in judged.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlflow_l3d.studies.judged.run.read_judged", lambda client, *run_ids: of_row[run_ids[0]])
        alone = evaluate_judged(made["a0"], metric="exact", log=False)
        compared = compare_judged(made["a0"], made["b0"], metric="exact", log=False)
    assert alone.report().headline == "exact is 100.0 %, without an interval."
    assert "Not known: 1 row and 1 answer show no luck." in alone.summary()
    assert "No luck can be estimated below 3 rows." in alone.summary()
    assert "Not known: neither is ahead on exact; no luck is seen in 1 paired row." in compared.summary()
    assert "only 1 of the 6 paired rows that are needed" in compared.summary()
    wrong = ("n/a to", "n/a %", "1 rows", "1 paired rows")
    assert not [part for shown in (alone, compared) for part in wrong if part in shown.summary()]


def test_a_source_without_an_upper_limit_has_no_line() -> None:
    lines = [(row, f"{row}-{repeat}", "exact", "exact", row % 3) for row in range(8) for repeat in range(2)]
    table = pd.DataFrame(lines, columns=["row", "answer", "judge", "scorer", "value"])
    page = JudgedEvaluation("", ("run",), "app", (score_scorer(table),), ()).report().to_html()
    assert page.count('class="interval"') == 3  # of rows; answers never differ


def judged_table(**judges: list[float]) -> pd.DataFrame:
    """Return one scorer's judgements of as many answers as each judge has verdicts, one per row."""
    frame = pd.DataFrame(judges).melt(var_name="judge", value_name="value", ignore_index=False).reset_index(names="row")
    return frame.assign(row=frame["row"].astype(str), answer=frame["row"], scorer="judge", failed="")


def test_two_different_verdicts_are_not_called_the_same() -> None:
    page = JudgedEvaluation("", ("run",), "app", (score_scorer(judged_table(exact=[0.0, 1.0])),), ()).summary()
    assert "all judgements are the same" not in page
    assert "Which luck is it? Not known: there are too few rows." in page


def test_a_judge_that_gives_words_leaves_the_other_ones_numbers() -> None:
    one = score_scorer(judged_table(words=[math.nan] * 6, strict=[0.0, 1.0, 1.0, 0.0, 1.0, 0.0]))
    assert one.agreement.empty
    assert (
        "One judge of judge: the judge's luck is not known." in JudgedEvaluation("", ("r",), "a", (one,), ()).summary()
    )


def test_judges_on_different_scales_are_named() -> None:
    strict = [0.0, 1.0, 1.0, 0.0, 1.0, 0.0]
    apart = score_scorer(judged_table(points=[3.0, 5.0, 3.0, 3.0, 5.0, 5.0], strict=strict))
    assert "Judges rate points from 3 to 5, strict from 0 to 1. If these are different" in apart.components.notes[0]
    alike = score_scorer(judged_table(lenient=[1.0, 1.0, 1.0, 0.5, 1.0, 0.0], strict=strict))
    assert not [note for note in alike.components.notes if "scales" in note]
