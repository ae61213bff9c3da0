"""Answers that reach scorers as the app returned them, and that are asked for again if they may have changed."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from datetime import date
from typing import Any

import genai_apps as apps
import genai_calls as calls
import mlflow
import numpy as np
import pytest
from mlflow.genai.scorers import Scorer, scorer
from refusals import fails, refuses

from mlflow_l3d import genai
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.genai.contents import read_rows, scorer_content
from mlflow_l3d.tracking.evaluating import App

KEPT = ['{"label": "a"}', '"a"', "123", "null", "", "é\0", 3, 2.0, True, None, math.nan, [1, {"a": '"b"'}]]
"""Answers that JSON represents; some stores return texts that are JSON as what they represent."""


@pytest.fixture(autouse=True)
def place(tracking_uri: str) -> None:
    """Work on an empty store; nobody was asked yet."""
    mlflow.set_tracking_uri(tracking_uri)
    calls.forget()


def one_of(q: int) -> Any:
    return KEPT[q]


@scorer
def is_the_same(inputs: dict[str, Any], outputs: Any) -> bool:
    return repr(outputs) == repr(KEPT[inputs["q"]])


@pytest.mark.slow
def test_scorers_get_what_the_app_returned() -> None:
    result = genai.investigate(one_of, apps.rows(len(KEPT)), [is_the_same], progress=False)
    assert result.to_frame()["value"].tolist() == [1.0] * len(KEPT)


REFUSED = r"^predict_fn: returned what JSON cannot represent \(\w+\)\. Return text, "


def pieces(q: int) -> Iterator[str]:
    yield "a"


async def later_pieces(q: int) -> AsyncIterator[str]:
    yield "a"


@pytest.mark.parametrize("output", [(1, 2), {1: 2}, {1}, date(2020, 1, 1), np.array([1]), [("a",)], "\ud800"])
def test_an_answer_that_json_changes_is_refused(output: Any) -> None:
    with pytest.raises(L3DError, match=REFUSED) as caught:
        App(len, {}, {}, {})._check(output, "app")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_after_an_answer_that_is_refused_nobody_is_asked() -> None:
    def app(q: int) -> Any:
        calls.count("app")
        return 1, 2

    fails(REFUSED, genai.investigate, app, apps.rows(9), [apps.length], workers=1, version="1", progress=False)
    assert calls.CALLS == {"app": 1}


@pytest.mark.parametrize("app", [pieces, later_pieces])
def test_a_stream_is_refused(app: Any) -> None:
    with pytest.raises(L3DError, match=r"\((async_)?generator\)\. .* of a stream its whole text\.$"):
        genai.investigate(app, apps.rows(2), [apps.length], progress=False)


def by_alias(q: int) -> str:
    calls.count("app")
    client = mlflow.MlflowClient()
    tail = max(client.search_prompt_versions("tail"), key=lambda each: each.version)
    return client.get_prompt_version_by_alias("sys", "prod").template + tail.template


@scorer
def judged_by_alias(outputs: str) -> int:
    calls.count("scorer")
    return len(outputs) + 100 * len(mlflow.genai.load_prompt("prompts:/rules@latest").template)


@pytest.mark.slow
def test_an_alias_that_moved_is_asked_again_and_one_that_came_back_is_not() -> None:
    for name, text in (("sys", "a"), ("sys", "aaa"), ("tail", "b"), ("rules", "r")):
        mlflow.genai.register_prompt(name, text)

    def mean(version: int) -> tuple[float, int, int]:
        mlflow.genai.set_prompt_alias("sys", "prod", version)
        calls.CALLS.clear()
        result = genai.investigate(by_alias, apps.rows(2), [judged_by_alias], progress=False)
        return result.to_frame()["value"].mean(), calls.CALLS["app"], calls.CALLS["scorer"]

    assert mean(1) == (102, 2, 2)
    assert mean(1) == (102, 0, 0)
    assert mean(2) == (104, 2, 2)
    assert mean(1) == (102, 0, 0)
    mlflow.genai.register_prompt("rules", "rr")
    assert mean(1) == (202, 0, 2)
    mlflow.genai.register_prompt("tail", "bbb")
    assert mean(1) == (204, 2, 2)


def limited(q: int) -> str:
    if calls.count("app", asked=str(q)) == 0 and q == 1:
        raise RuntimeError("Error code: 429 - rate limit reached")
    return "a"


@pytest.mark.slow
def test_an_attempt_that_mlflow_repeats_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlflow.genai.evaluation.rate_limiter.time.sleep", lambda _: None)
    for asked in (4, 0):
        calls.CALLS.clear()
        result = genai.investigate(limited, apps.rows(3), [apps.length], progress=False)
        assert (calls.CALLS["app"], result.to_frame()["failed"].tolist()) == (asked, [""] * 3)


def test_a_data_set_of_mlflow_has_no_outputs() -> None:
    data = mlflow.genai.datasets.create_dataset(name="questions", experiment_id=["0"]).merge_records(apps.rows(2))
    assert sorted(row["inputs"]["q"] for row in read_rows(data)) == [0, 1]


def points() -> int:
    return 7


class Points(Scorer):
    """A scorer as MLflow documents classes of scorers."""

    name: str = "points"
    factor: int = 1
    _more: int = 0

    def __call__(self, *, outputs: str) -> int:
        return self.factor * points() + self._more


@pytest.mark.slow
def test_a_class_of_scorers_is_what_its_fields_and_sources_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for factor in (1, 2):
        result = genai.investigate(one_of, apps.rows(2), [Points(factor=factor)], progress=False)
        assert result.to_frame()["value"].tolist() == [7.0 * factor] * 2
    changed = Points()
    changed._more = 1
    contents = [scorer_content("scorers", each, "") for each in (Points(), Points(), changed)]
    assert contents[0] == contents[1] != contents[2]
    assert "return 7" in str(contents[0])


@pytest.mark.slow
def test_equal_rows_are_named_and_must_expect_the_same() -> None:
    rows = [*apps.rows(2), *apps.rows(1)]
    result = genai.investigate(one_of, rows, [is_the_same], progress=False)
    assert "Equal inputs: 1 row of the data counted as a repeat of an earlier row." in result.notes
    rows[2]["expectations"] = {"e": 5}
    refuses(r"^data=row 2: has the inputs of row 0, but other expectations\. Give each ", read_rows, rows)
    rows[2]["tags"] = {"l3d.row": "other"}
    assert len({row["tags"]["l3d.row"] for row in read_rows(rows)}) == 3


@pytest.mark.parametrize("part", ["inputs", "expectations"])
def test_data_that_json_changes_are_refused(part: str) -> None:
    with pytest.raises(ParameterError, match=r"^data=row 0: holds what JSON cannot represent \(tuples, or keys "):
        read_rows([{**apps.rows(1)[0], part: {"e": (1, 2)}}])


@pytest.mark.slow
def test_runs_names_the_levels_that_there_are() -> None:
    def app(q: int, n: int) -> int:
        return q

    result = genai.investigate(app, apps.rows(2), [Points()], {"n": [1, 2]}, progress=False)
    assert result.runs(n=1) == result.runs(n="1") == result.to_frame().query("n == '1'")["run_id"].unique().tolist()
    refuses(r"^runs=n=3: must be one of 1, 2\.$", result.runs, n=3)
    refuses(r"^runs=m: must be a column of the table: row, ", result.runs, m=3)
