"""Executors that break the contract: the suite must notice each."""

from dataclasses import replace
from typing import ClassVar

import pytest

from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.testing import check_executor


class Eager(InlineExecutor):
    def run(self, cells):
        import itertools

        return super().run(list(itertools.islice(cells, 1000)))


class Doubling(InlineExecutor):
    def run(self, cells):
        for outcome in super().run(cells):
            yield outcome
            yield outcome


class Dropping(InlineExecutor):
    def run(self, cells):
        for outcome in super().run(cells):
            if not outcome.error:
                yield outcome


class Mixing(InlineExecutor):
    """Gives every cell the metrics of the first."""

    def run(self, cells):
        first = None
        for outcome in super().run(cells):
            first = first or outcome
            yield outcome if outcome.error else replace(outcome, metrics=first.metrics)


class Hiding(InlineExecutor):
    """Turns an error of the preparation into cells that failed."""

    def run(self, cells):
        waiting = list(cells) if not hasattr(cells, "gi_frame") else cells
        try:
            yield from super().run(waiting)
        except L3DError as error:
            for cell in waiting:
                yield Outcome(cell.key, error=str(error))


class Leaving(ProcessExecutor):
    """Does not stop its workers: somebody holds the iterator."""

    held: ClassVar = []

    def run(self, cells):
        inner = super().run(cells)
        self.held.append(inner)
        # Not `yield from`, which would close the inner iterator, too.
        for outcome in inner:  # noqa: UP028
            yield outcome


@pytest.mark.parametrize(
    ("executor", "said"),
    [
        (Eager, "cells are taken before the first outcome is asked for"),
        (Doubling, "a cell gave two outcomes"),
        (Dropping, "24 cells gave"),
        (Mixing, "has the score of another cell"),
        (Hiding, "prepare raised, and the executor gave 4 outcomes instead"),
    ],
)
def test_what_breaks_the_contract_is_named(executor, said, tmp_path):
    with pytest.raises(AssertionError, match=said):
        check_executor(executor, cache=tmp_path, workers=1, separate_processes=False)


@pytest.mark.slow
def test_a_worker_left_behind_is_noticed(tmp_path):
    try:
        with pytest.raises(AssertionError, match=r"check_laziness: worker process\(es\) \[[\d, ]+\] are left behind"):
            check_executor(Leaving, cache=tmp_path, workers=1)
    finally:
        for outcomes in Leaving.held:
            outcomes.close()


def test_a_false_declaration_is_noticed(tmp_path):
    with pytest.raises(AssertionError, match="separate_processes is not as declared"):
        check_executor(InlineExecutor, cache=tmp_path, workers=1)
