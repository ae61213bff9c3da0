"""Judges whose answers are known: what they say depends on question, prompt and how often the app was asked."""

from __future__ import annotations

from typing import Any

import evaluation_runs  # noqa: F401 - MLflow's evaluations begin sooner
from genai_calls import count
from mlflow.entities import AssessmentSource, Feedback
from mlflow.genai.scorers import Scorer, scorer

FAILS = 3
"""The question that the app cannot answer."""


def rows(number: int) -> list[dict[str, Any]]:
    """Return rows of data: the questions 0, 1, ..."""
    return [{"inputs": {"q": q}, "expectations": {"e": q}} for q in range(number)]


def says(judge: str, q: int, version: int, repeat: int) -> bool:
    """Return what a judge thinks of an answer: the known truth."""
    return (q + version + repeat) % 3 != 0 if judge == "strict" else q % 2 == 0 or version == 2


def judge(name: str) -> Scorer:
    """Return a stand-in for a judge that a model is."""

    @scorer(name=name)
    def verdict(outputs: str, expectations: dict[str, Any]) -> Feedback:
        count(name)
        assert isinstance(expectations["e"], int)  # as in the data, not as in the trace
        version, repeat, q = map(int, outputs.split())
        assert q == expectations["e"]
        source = AssessmentSource(source_type="LLM_JUDGE", source_id="model")
        return Feedback(value="yes" if says(name, q, version, repeat) else "no", source=source)

    return verdict


@scorer
def length(outputs: str) -> int:
    count("length")
    return len(outputs)
