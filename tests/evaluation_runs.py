"""Evaluations that MLflow itself makes, without this package: small ones, each with a pitfall."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import mlflow
import pytest
from mlflow.entities import AssessmentSource, Feedback
from mlflow.genai.evaluation import harness
from mlflow.genai.scorers import Scorer, scorer

LIMITS: Final = {
    "MLFLOW_GENAI_EVAL_MAX_WORKERS": "2",
    "MLFLOW_GENAI_EVAL_PREDICT_RATE_LIMIT": "0",
    "MLFLOW_GENAI_EVAL_SCORER_RATE_LIMIT": "0",
    # Copies of traces are judged before a queue has written them: MLflow waits for each, or fails (3.14).
    "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
}
harness._warmup_databricks_sdk = lambda: None  # imports for seconds what no scorer here needs


def rows(*questions: str) -> list[dict[str, Any]]:
    """Return rows of data; the right answer to a question is the question in capitals."""
    return [{"inputs": {"q": each}, "expectations": {"a": each.upper()}} for each in questions]


@scorer
def exact(outputs: Any, expectations: dict[str, Any]) -> bool:
    return bool(outputs == expectations["a"])


def judge(name: str, refused: Sequence[str] = (), scorer_name: str = "good") -> Scorer:
    """Return a stand-in for a judge that a model is: it refuses the answers to some questions."""

    @scorer(name=scorer_name)
    def verdict(inputs: dict[str, Any]) -> Feedback:
        if inputs["q"] == "raise":
            raise ValueError("no verdict")
        source = AssessmentSource(source_type="LLM_JUDGE", source_id=name)
        return Feedback(value="no" if inputs["q"] in refused else "Yes", source=source)

    return verdict


@mlflow.trace
def helper(text: Any) -> Any:
    return text


@scorer
def traced(outputs: Any) -> float:
    helper(outputs)
    return 0.5


def fails_on_q2(q: str) -> str:
    if q == "q2":
        raise RuntimeError("no answer")
    return q.upper()


def evaluated(data: Any, **more: Any) -> str:
    """Return the run of an evaluation."""
    return str(mlflow.genai.evaluate(data=data, **more).run_id)


@contextmanager
def quick_evaluations(uri: str) -> Iterator[None]:
    """Let MLflow evaluate on a store, in whose folder it puts artifacts, in two threads and as quickly as it can."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(Path(uri.removeprefix("sqlite:///")).parent)
        for name, value in LIMITS.items():
            patch.setenv(name, value)
        mlflow.tracing.reset()
        mlflow.set_tracking_uri(uri)
        mlflow.set_experiment("app")
        try:
            yield
        finally:
            mlflow.set_tracking_uri(None)
            mlflow.tracing.reset()
