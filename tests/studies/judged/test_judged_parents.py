"""Parents of `genai.investigate` are compared by the runs that judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from evaluation_runs import exact, quick_evaluations, rows
from refusals import refuses

import mlflow_l3d
from mlflow_l3d import genai

pytestmark = pytest.mark.slow

DATA = rows(*(f"q{number}" for number in range(4)))


def always_right(q: str, style: str = "plain") -> str:
    return q.upper()


def half_right(q: str, style: str = "plain") -> str:
    return q.upper() if int(q[1:]) % 2 else q + style


@pytest.fixture(autouse=True)
def store(tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work on an empty store."""
    monkeypatch.setenv("L3D_CACHE", str(tmp_path))
    with quick_evaluations(tracking_uri):
        yield


def test_parents_are_compared_by_all_that_they_judged_and_known_by_the_app() -> None:
    first, second = (
        genai.investigate(app, DATA, [exact], {"replicate": 2}, version="1") for app in (always_right, half_right)
    )
    result = mlflow_l3d.compare(first.run_id, second.run_id)
    assert list(result.systems) == ["always_right", "half_right"]
    assert result.systems["half_right"] == "+".join(second.run_ids)
    record = result.pairs[0].record
    assert (record.difference, record.rows, record.repeats_first) == (0.5, len(DATA), 2)
    refuses(f"mlflow-l3d view {first.run_id}", mlflow_l3d.evaluate, first.run_id)
    assert genai.compare(first.run_id, second.runs()).title == result.title


def test_levels_of_a_factor_are_known_by_their_names() -> None:
    result = genai.investigate(half_right, DATA, [exact], {"style": ["loud", "quiet"]}, version="1")
    compared = genai.compare(result.runs(style="loud"), result.runs(style="quiet"))
    assert compared.title == "loud vs quiet"
    assert mlflow.get_run(compared.run_id).data.tags["mlflow.runName"] == "loud vs quiet"
