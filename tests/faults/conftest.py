"""What disturbed studies have in common."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_helpers import Place, sqlite_place


@pytest.fixture
def place(tmp_path: Path, migrated_store: Path) -> Place:
    """Give a place for studies with an empty store."""
    return sqlite_place(migrated_store, tmp_path / "place")
