"""Evaluation runs that MLflow made without us, read as one table of judgements: each pitfall of them, known numbers."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest
from evaluation_runs import evaluated, exact, fails_on_q2, helper, judge, quick_evaluations, rows, traced
from mlflow import MlflowClient
from mlflow.entities import Feedback
from mlflow.genai.scorers import scorer
from mlflow.metrics import MetricValue
from mlflow.models import make_metric
from stores import copy_store

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier.evaluations import is_evaluation, read_judged
from mlflow_l3d.tracking.earlier.judgements import Judged

pytestmark = pytest.mark.slow

QUESTIONS = [f"q{number}" for number in range(8)]
LONG = "x" * 1200
CHAT = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "same"}]


FIRST, SECOND = (["q3", "q6", "q7"], ["q0", "q6", "q7"])
"""The answers that two judges refuse: 4 of 8 have both verdicts yes, 2 both no, 1 and 1 one each."""


@scorer
def several(outputs: Any) -> list[Feedback]:
    if outputs == "Q0":
        raise ValueError("no numbers")
    return [Feedback(name="a", value=1), Feedback(name="b", value=0.25), Feedback(name="b", value=0.75)]


@scorer
def word(inputs: Any) -> str | None:
    return {"q0": "YES", "q1": "No", "q2": "good"}.get(inputs["q"])


@scorer(name="hits@10")
def hits(outputs: Any) -> int:
    return len(outputs)


def answer(q: str) -> str:
    return q.upper()


def with_settings(q: str, temperature: float = 0.5) -> str:
    return q.upper()


def chat(messages: Any) -> str:
    return "same"


def of(runs: dict[str, str], *which: str) -> Judged:
    """Return the table of some runs."""
    return read_judged(MlflowClient(runs["uri"]), *(runs[each] for each in which))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> dict[str, str]:
    """Give the runs of one store by what they show; `uri` is the store."""
    folder = tmp_path_factory.mktemp("evaluations")
    made = {"uri": copy_store(migrated_store, folder, (folder / "mlruns").as_uri())}
    with quick_evaluations(made["uri"]):
        client, data = MlflowClient(), rows("q0", "q1", "q2", "raise", "q4", "q0")
        made["app"] = evaluated(data, predict_fn=fails_on_q2, scorers=[exact, judge("fake/judge"), traced])
        with mlflow.start_run(run_id=made["app"]):
            helper("a trace that scorers or the app leave in the run, if MLflow does not know it as one of theirs")
        made["answers"] = evaluated(rows(*QUESTIONS), predict_fn=answer, scorers=[])
        answers = mlflow.search_traces(run_id=made["answers"], return_type="list")
        made["first"] = evaluated(answers, scorers=[judge("judge", FIRST)])
        made["second"] = evaluated(answers, scorers=[judge("judge/2", SECOND)])
        made["again"] = evaluated(answers, scorers=[judge("judge", SECOND)])
        made["static"] = evaluated([{**row, "outputs": "Q1"} for row in rows(*"aabbccdd")], scorers=[exact, several])
        made["words"] = evaluated(rows("q0", "q1", "q2", "q3"), predict_fn=answer, scorers=[word, several, exact])
        with mlflow.start_run() as run:
            evaluated(rows("q0", "q1"), predict_fn=answer, scorers=[exact])
            evaluated([{**row, "outputs": ""} for row in rows("q0", "q1", "q2")], scorers=[exact])
        made["twice"] = run.info.run_id
        with pytest.raises(mlflow.MlflowException):
            evaluated(rows("q0"), predict_fn=answer, scorers=[hits])
        made["hits"] = mlflow.search_runs(filter_string="status = 'FAILED'", output_format="list")[0].info.run_id
        made["long"] = evaluated(rows(LONG + "a", LONG + "b", LONG + "a"), predict_fn=answer, scorers=[exact])
        chats = [[{"role": "system", "content": each}, {"role": "user", "content": "hi"}] for each in ("a", "b")]
        made["chat"] = evaluated([{"inputs": {"messages": each}} for each in chats], predict_fn=chat, scorers=[traced])
        for row, repeat in zip(tagged := rows("a", "b"), "10", strict=True):
            row["tags"] = {names.ROW: "7", names.REPEAT: repeat}
        made["tagged"] = evaluated(tagged, predict_fn=answer, scorers=[exact])
        made["settings"] = evaluated(rows("q0", "q1"), predict_fn=with_settings, scorers=[exact])
        experiment = str(run.info.experiment_id)
        static = mlflow.search_traces(run_id=made["static"], return_type="list")
        client.delete_traces(experiment, trace_ids=[each.info.trace_id for each in static[:3]])
        for each in mlflow.search_traces(run_id=made["words"], return_type="list"):
            right = next(one for one in each.info.assessments if one.name == "exact")
            if "q1" in each.info.request_preview:
                mlflow.override_feedback(trace_id=each.info.trace_id, assessment_id=right.assessment_id, value=False)
                mlflow.log_feedback(trace_id=each.info.trace_id, name="exact", value=True)
        mlflow.set_experiment("elsewhere")
        made["clones"] = evaluated(answers[:1], scorers=[judge("judge/2", SECOND)])
    return made


def test_judgements_of_one_run(runs: dict[str, str]) -> None:
    judged = of(runs, "app")
    shown = judged.table.groupby(["scorer", "judge", "failed"])["value"].agg(["size", "mean"]).reset_index()
    assert shown.fillna(-1).to_numpy().tolist() == [
        ["exact", "exact", "", 5, 1.0],
        ["exact", "exact", "answer", 1, 0.0],
        ["good", "fake/judge", "", 4, 1.0],
        ["good", "fake/judge", "answer", 1, 1.0],
        ["good", "fake/judge", "judge", 1, -1.0],
        ["traced", "traced", "", 5, 0.5],
        ["traced", "traced", "answer", 1, 0.5],
    ]
    assert judged.notes == (
        "Rows of equal inputs count as repeats of one: 6 rows of data have 5 different inputs.",
        "Left out: 1 of 6 answers, as predict_fn raised. Scorers judged them anyway, and MLflow's own means count "
        "these judgements.",
        "Left out: 1 trace, made by functions that scorers or the app call.",
        "Left out: 1 of 5 answers on which the scorer good raised.",
    )
    assert judged.scorers == ["exact", "good", "traced"]
    assert judged.runs[0].means == {"exact": 5 / 6, "good": 1.0, "traced": 0.5}
    assert judged.table.groupby("row")["repeat"].max().sort_values().tolist() == [0, 0, 0, 0, 1]


def test_the_numbers_are_those_of_the_database(runs: dict[str, str]) -> None:
    query = """
        SELECT avg(assessment.value = 'true')
        FROM assessments assessment JOIN trace_info ON assessment.trace_id = request_id
        WHERE assessment.name = 'exact' AND status = 'OK'
        AND json_extract(assessment.assessment_metadata, '$."mlflow.assessment.sourceRunId"') = ?
    """
    with closing(sqlite3.connect(runs["uri"].removeprefix("sqlite:///"))) as connection:
        for which in ("app", "twice", "long", "tagged", "hits"):
            table = of(runs, which).table
            counts = table[table["scorer"].eq("exact") & table["failed"].eq("")]
            expected = connection.execute(query, (runs[which],)).fetchone()[0]
            assert (counts["value"].mean() if len(counts) else None) == expected, which


def test_verdicts_of_two_runs_over_the_same_answers_are_not_mixed(runs: dict[str, str]) -> None:
    first, second = (of(runs, which).table.set_index("row")["value"] for which in ("first", "second"))
    assert pd.crosstab(first, second.loc[first.index]).to_numpy().tolist() == [[2, 1], [1, 4]]
    with pytest.raises(ParameterError, match=f"has 8 traces and no judgements.*{runs['first']}, {runs['second']}"):
        of(runs, "answers")


def test_runs_over_the_same_answers_together_are_judges_or_repeats(runs: dict[str, str]) -> None:
    judged = of(runs, "first", "second", "again")
    size = judged.table.groupby(["judge", "judgement", "run_id"]).size()
    judges = [("judge", 0, "first"), ("judge", 1, "again"), ("judge/2", 0, "second")]
    assert size.to_dict() == {(judge, number, runs[which]): 8 for judge, number, which in judges}


def test_runs_with_answers_of_their_own_together_are_repeats(runs: dict[str, str]) -> None:
    judged = of(runs, "app", "words")
    answers = judged.table.drop_duplicates("answer")
    assert answers.groupby("row")["repeat"].agg(list).map(sorted).max() == [0, 1, 2]
    assert not [note for note in judged.notes if "shares no row" in note]
    note = f"Run {runs['long'][:8]} shares no row with the first run: its rows are further rows."
    assert note in of(runs, "app", "long").notes


def test_answers_that_the_server_lost_are_counted(runs: dict[str, str]) -> None:
    judged = of(runs, "static")
    assert judged.table["answer"].nunique() == 5
    assert judged.notes[0].startswith("3 of 8 answers are missing on the server, though MLflow's own means count them.")
    # Repeated rows of given outputs share their request id and are separate answers nevertheless.
    assert judged.table[judged.table["scorer"].eq("exact")].groupby("row").size().sum() == 5


def test_values_of_all_kinds_and_corrections(runs: dict[str, str]) -> None:
    judged = of(runs, "words")
    values = judged.table.groupby("scorer")["value"].agg(lambda each: sorted(each.dropna()))
    expected = {"a": [1.0] * 3, "b": [0.25] * 3 + [0.75] * 3, "exact": [0.0, 1.0, 1.0, 1.0]}
    assert values.to_dict() == {**expected, "several": [], "word": [0.0, 1.0]}
    assert judged.table.groupby("scorer")["judgement"].max()["b"] == 1
    assert judged.scorers == ["a", "b", "exact", "word"]
    assert {
        "Left out: 1 judgement of word, neither a number nor yes or no.",
        "No judgement of word for 1 of 4 answers.",
        "No judgement of a for 1 of 4 answers.",
        "No judgement of b for 1 of 4 answers.",
        "Left out: 1 of 4 answers on which the scorer several raised.",
        "Left out: 1 assessment, made outside evaluation runs.",
    } == {*judged.notes}


def test_a_run_that_was_evaluated_twice_has_both_sets_of_answers(runs: dict[str, str]) -> None:
    judged = of(runs, "twice")
    assert judged.table["answer"].nunique() == 5
    assert not [note for note in judged.notes if "missing" in note]
    assert judged.table["value"].mean() == pytest.approx(2 / 5)
    assert judged.runs[0].means == {"exact": 0.0}


def test_a_run_that_failed_at_the_name_of_a_metric_is_whole(runs: dict[str, str]) -> None:
    judged = of(runs, "hits")
    assert judged.table[["scorer", "value"]].to_numpy().tolist() == [["hits@10", 2.0]]
    assert judged.notes == ("The run has the status FAILED: judgements may be missing.",)


@pytest.mark.parametrize(("which", "counts"), [("long", [1, 2]), ("chat", [1, 1])])
def test_rows_are_known_by_all_of_their_inputs(runs: dict[str, str], which: str, counts: list[int]) -> None:
    assert sorted(of(runs, which).table.groupby("row")["answer"].nunique()) == counts


def test_arguments_that_the_data_do_not_have_are_not_part_of_a_row(runs: dict[str, str]) -> None:
    assert set(of(runs, "settings").table["row"]) < set(of(runs, "first").table["row"])


def test_tags_name_rows_and_repeats(runs: dict[str, str]) -> None:
    table = of(runs, "tagged").table
    client = MlflowClient(runs["uri"])
    inputs = {each: client.get_trace(each).info.request_preview for each in table["answer"]}
    numbers = [(row["row"], row["repeat"], inputs[row["answer"]]) for row in table.to_dict("records")]
    assert sorted(numbers) == [("7", 0, '{"q": "b"}'), ("7", 1, '{"q": "a"}')]


def test_copies_of_answers_in_another_experiment_are_the_same_rows(runs: dict[str, str]) -> None:
    clones, first = of(runs, "clones").table, of(runs, "first").table
    assert set(clones["row"]) <= set(first["row"])
    assert not set(clones["answer"]) & set(first["answer"])


def test_errors_name_the_run(runs: dict[str, str]) -> None:
    client = MlflowClient(runs["uri"])
    plain = client.create_run("0")
    assert is_evaluation(client, client.get_run(runs["app"]))
    assert not is_evaluation(client, plain)
    with pytest.raises(ParameterError, match="is not an evaluation run"):
        read_judged(client, plain.info.run_id)
    with pytest.raises(ParameterError, match="run_id=nothing"):
        read_judged(client, "nothing")


def shown_length(predictions: pd.Series, targets: pd.Series, metrics: dict[str, Any]) -> MetricValue:
    return MetricValue(scores=[len(each) for each in predictions])


# pandas 3, about how MLflow computes the digest of a data set.
@pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes are included")
def test_a_classic_evaluation_has_the_scores_of_its_rows(tracking_uri: str) -> None:
    mlflow.set_tracking_uri(tracking_uri)
    data = pd.DataFrame({"question": ["a", "b", "c"], "answer": ["x", "xx", "xxx"], "target": ["x", "y", "z"]})
    length = make_metric(eval_fn=shown_length, greater_is_better=True, name="length")
    with mlflow.start_run() as run:
        mlflow.models.evaluate(data=data, predictions="answer", targets="target", extra_metrics=[length])
    judged = read_judged(MlflowClient(), run.info.run_id)
    assert judged.scorers == ["length"]
    assert judged.table[["row", "repeat", "judge", "value"]].to_numpy().tolist() == [
        ["0", 0, "length", 1.0],
        ["1", 0, "length", 2.0],
        ["2", 0, "length", 3.0],
    ]
    assert {*judged.runs[0].contents} >= {"question", "answer"}
    assert judged.notes == ()
