"""Names that MLflow does not take are logged under one that it takes, and read back by their own."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from mlflow.utils.validation import _validate_metric, _validate_param, _validate_tag
from run_helpers import CELLS

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier.reader import read_investigation

LEGAL = ("f1_macro", "a b/c.d:e-f", "größe", "a" * 250, "curve/x")
ILLEGAL = (
    "hits@10",
    "hits#10",
    "m<b>",
    "",
    ".",
    "..",
    "../a",
    "/a",
    "a/",
    "a//b",
    "a/./b",
    "./a",
    "a\n",
    "a\tb",
    "😀",
    "\ud800",
    "a+b",
    "a" * 251,
    "a" * 252,
    "a@" + "b" * 400,
    "a@" + "b" * 401,
)


def test_every_name_is_accepted_and_no_two_become_one() -> None:
    taken = [names.accepted(name) for name in (*LEGAL, *ILLEGAL)]
    assert taken[: len(LEGAL)] == list(LEGAL)
    assert len(set(taken)) == len(taken)
    assert not set(taken[len(LEGAL) :]) & set(ILLEGAL)
    for name in taken:
        _validate_metric(name, 0.5, 0, 0)
        _validate_param(name, "x")
        _validate_tag(name, "x")
    assert names.accepted("hits@10").startswith("hits-10-")
    assert names.metric_name("importance/data_order+data_split") == "importance/data_order-data_split"


class Named(Synthetic):
    """Has metrics with names that MLflow does not take."""

    metrics = ("synthetic_score", "hits@10")

    def prepare(self, *args: Any, **kwargs: Any) -> Any:
        session = super().prepare(*args, **kwargs)

        class Renaming(Session):
            def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
                for outcome in session.run(cells):
                    score = outcome.metrics["synthetic_score"]
                    more = {"hits@10": score, "hits#10": -score, "": 0.25, "x" * 300: 0.75}
                    yield replace(outcome, metrics={**outcome.metrics, **more}, curves={"hits@10": (0.25, score)})

            def close(self) -> None:
                session.close()

        return Renaming()


@pytest.mark.slow
def test_a_study_of_a_metric_with_such_a_name(place, caplog) -> None:
    first = place.investigate(approach=Named(), metric="hits@10")
    assert caplog.text.count("MLflow does not take the metric name 'hits@10'") == 1
    run = place.cells(first.run_id)[0]
    assert run.data.metrics[names.accepted("hits@10")] == run.data.metrics["synthetic_score"]
    assert names.accepted("curve/hits@10") in run.data.metrics
    table = read_investigation(first.run_id, place.client).cells
    assert table["hits@10"].tolist() == table["synthetic_score"].tolist() == (-table["hits#10"]).tolist()
    assert {"", "x" * 300} <= set(table)
    again = place.investigate(approach=Named(), metric="hits@10", golden_runs=6)
    assert (again.computed, again.reused) == (2, CELLS)
    assert again.analysis.cells_failed == 0
