"""What tests of tasks share: a hub that is played."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], Any]:
    """Return what the hub holds: (name, configuration) -> a data set, or what is raised."""
    datasets = pytest.importorskip("datasets")
    holdings: dict[tuple[str, ...], Any] = {}

    def load_dataset(*name: str) -> Any:
        held = holdings.get(name, datasets.exceptions.DatasetNotFoundError("no such"))
        if isinstance(held, Exception):
            raise held
        return held

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return holdings
