"""A place for each test of a study, and one investigation that is finished for those that begin with one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from run_helpers import Place, copied, sqlite_place

from mlflow_l3d.studies.investigation.results import Investigation


@pytest.fixture
def place(tmp_path: Path, migrated_store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Let the test work in an empty place of its own, and in the folder around it."""
    monkeypatch.chdir(tmp_path)
    with sqlite_place(migrated_store, tmp_path / "place").entered() as place:
        yield place


@pytest.fixture
def elsewhere(tmp_path: Path, migrated_store: Path) -> Place:
    """Give another place, an empty one, where nobody who is given a client looks."""
    return sqlite_place(migrated_store, tmp_path / "elsewhere")


@pytest.fixture(scope="session")
def _investigated(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> tuple[Place, Investigation]:
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("investigated"))
    return place, place.investigate()


@pytest.fixture
def done(_investigated: tuple[Place, Investigation], tmp_path: Path) -> Iterator[tuple[Place, Investigation]]:
    """Let the test work in a place of its own with one finished investigation, that of SMALL."""
    place, result = _investigated
    with copied(place, tmp_path / "done").entered() as own:
        yield own, result
