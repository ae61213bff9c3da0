"""The notebook of the documentation runs from its first to its last cell, and says what it said."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebooks" / "first-hour.ipynb"


def said(notebook: Any) -> list[str]:
    """Return what each cell shows, without stderr."""
    outputs = (out for cell in notebook.cells for out in cell.get("outputs", []))
    return [out.get("text") or out["data"]["text/plain"] for out in outputs if out.get("name", "stdout") == "stdout"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the kernel's own libraries
def test_the_notebook_runs(tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a store that is made already, which is not shown."""
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    shown = nbformat.read(NOTEBOOK, as_version=4)
    before = said(shown)
    NotebookClient(shown, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    after = said(shown)
    assert len(after) == len(before)
    assert after[-1] == before[-1]
    assert after[-1].startswith("0 trained, ")
    # Everything but seconds and ids of runs is as it stands in the documentation.
    first, last = (re.sub(r"[0-9a-f]{32}", "RUN", each[0]).splitlines() for each in (before, after))
    assert last[:2] + last[4:] == first[:2] + first[4:]
    assert after[1:3] == before[1:3]
