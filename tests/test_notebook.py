"""The notebook of the documentation runs from its first to its last cell, and says what it said."""

import ast
import asyncio
import re
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from pprint import pformat
from typing import Any

import pandas as pd
import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebooks" / "first-hour.ipynb"


def said(notebook: Any) -> list[str]:
    """Return what each cell shows, without stderr."""
    outputs = (out for cell in notebook.cells for out in cell.get("outputs", []))
    return [out.get("text") or out["data"]["text/plain"] for out in outputs if out.get("name", "stdout") == "stdout"]


async def run(sources: list[str]) -> list[str]:
    """Run cells in one namespace while an event loop runs, as in a kernel; return what they print and show."""
    shown: list[str] = []
    names: dict[str, Any] = {"__name__": "__main__"}
    for source in sources:
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else ast.Expr(ast.Constant(None))
        ending = ast.fix_missing_locations(ast.Expression(last.value))  # type: ignore[attr-defined]
        with redirect_stdout(StringIO()) as printed:
            exec(compile(tree, "cell", "exec"), names)
            value = eval(compile(ending, "cell", "eval"), names)
        shown += filter(None, [printed.getvalue(), "" if value is None else pformat(value)])
    return shown


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a store that is made already, which is not shown."""
    import nbformat

    monkeypatch.setenv("L3D_CACHE", str(tmp_path))  # the notebook sets another one
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    before = said(notebook)
    with pd.option_context("display.max_columns", 20):  # of a kernel
        after = asyncio.run(run([cell.source for cell in notebook.cells if cell.cell_type == "code"]))
    assert len(after) == len(before)
    assert after[-1] == before[-1]
    assert after[-1].startswith("0 trained, ")
    # Everything but seconds and ids of runs is as it stands in the documentation.
    changing = r"[0-9a-f]{32}|about [\d.]+ m?s|in \d+ s;"
    first, last = (re.sub(changing, "RUN", each[0]).splitlines() for each in (before, after))
    assert last == first
    assert after[1:3] == before[1:3]
