"""The loop over cells, without a tracking server."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from mlflow_l3d.approaches.synthetic import FACTORS
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.studies import loop
from mlflow_l3d.studies.loop import CellLoop, CellOwner
from mlflow_l3d.testing import design_cells

CELLS = list(design_cells(FACTORS, 6))


class Owner(CellOwner):
    """A study; another process trains the cells of `elsewhere_keys`, and `looks` says what becomes of them."""

    def __init__(self, elsewhere_keys: set[str], looks: list[tuple[list[Cell], list[Cell]]]) -> None:
        self.released: list[str] = []
        self.known: set[str] = set()
        self.no_longer: list[Cell] = []
        self.unneeded: set[str] = set()
        self.recorder: Any = SimpleNamespace(claims=SimpleNamespace(release=self.released.append))

        def settled(cells: list[Cell]) -> tuple[list[Cell], list[Cell]]:
            done, given_back = looks.pop(0)
            self.known |= {cell.key for cell in done}
            return done, given_back

        free = lambda cell: cell.key not in elsewhere_keys  # noqa: E731
        self.elsewhere: Any = SimpleNamespace(free=free, settled=settled)

    def needs(self, cell: Cell) -> bool:
        return cell.key not in self.unneeded

    def take_known(self, cell: Cell) -> bool:
        return cell.key in self.known

    def stop_waiting(self, cell: Cell) -> None:
        self.no_longer.append(cell)

    def as_handed_out(self, cell: Cell) -> Cell:
        return cell


class Inline:
    """An executor whose cells are done at once."""

    def run(self, cells: Iterable[Cell]) -> Generator[Outcome, None, None]:
        for cell in cells:
            yield Outcome(cell.key, metrics={"score": 1.0})


def trained(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], CellLoop[Owner]]:
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.0)
    cells: CellLoop[Owner] = CellLoop(Inline, lambda: len(CELLS))  # type: ignore[arg-type]
    return [outcome.key for outcome, _ in cells.outcomes((owner, cell) for cell in CELLS)], cells


def test_cells_of_other_processes_come_last_and_those_given_back_are_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third, *rest = CELLS
    owner = Owner({first.key, second.key, third.key}, [([], []), ([first], [second]), ([third], [])])
    keys, cells = trained(owner, monkeypatch)
    assert keys == [*(cell.key for cell in rest), second.key]
    assert owner.no_longer == [first, third]
    assert not cells.under_way
    assert not cells.elsewhere


def test_what_is_done_or_no_longer_needed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, *rest = CELLS
    owner = Owner({first.key, second.key}, [])
    owner.known, owner.unneeded = {first.key}, {second.key}
    keys, _ = trained(owner, monkeypatch)
    assert keys == [cell.key for cell in rest]
    assert owner.no_longer == [first, second]


def test_claims_on_what_is_under_way_can_be_given_back() -> None:
    owner = Owner({CELLS[0].key}, [])
    cells: CellLoop[Owner] = CellLoop(Inline, lambda: len(CELLS))  # type: ignore[arg-type]
    outcomes = cells.outcomes((owner, cell) for cell in CELLS)
    next(outcomes)
    outcomes.close()
    cells.abandon()
    assert owner.released == [CELLS[0].key]
    assert not cells.under_way
