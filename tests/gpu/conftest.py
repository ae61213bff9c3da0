"""Tests on a real GPU: they are skipped where torch finds none.

``L3D_TEST_GPU=cpu`` rehearses all of them on the CPU, except for what only a GPU does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

DEVICE = os.environ.get("L3D_TEST_GPU", "cuda")

sys.path.append(str(Path(__file__).parent.parent / "approaches"))  # its ways, tasks and tiny models


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU that is not there; an operation that need not repeat is an error."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    if here:
        import torch

        absent = DEVICE == "cuda" and not torch.cuda.is_available()
        for item in here:
            item.add_marker(pytest.mark.filterwarnings("error:.*deterministic"))
            if absent:
                item.add_marker(pytest.mark.skip("torch finds no GPU here"))


@pytest.fixture(scope="session")
def device() -> str:
    """Return the device under test."""
    return DEVICE


@pytest.fixture
def note() -> Callable[[str], None]:
    """Return a function that writes a measured number where ``L3D_TEST_GPU_NOTES`` says, a line each."""

    def write(line: str) -> None:
        if place := os.environ.get("L3D_TEST_GPU_NOTES"):
            with open(place, "a", encoding="utf-8") as file:
                file.write(f"{line}\n")

    return write


@pytest.fixture
def gpu() -> None:
    """Let a test run on a GPU only."""
    if DEVICE != "cuda":
        pytest.skip("is about what only a GPU does")


@pytest.fixture
def at_most(gpu: None) -> Iterator[object]:
    """Return a function that limits the memory of this process on the GPU to a number of bytes."""
    import torch

    def limit(size: float) -> None:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(min(1.0, size / torch.cuda.mem_get_info()[1]))

    yield limit
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Return a function from the name of a tiny model to its folder."""
    from device_ways import MODELS

    place = tmp_path_factory.mktemp("models")

    def folder(name: str) -> str:
        if not (place / name).exists():
            MODELS[name](place / name)
        return str(place / name)

    return folder
