"""Ready tracking stores for tests."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path


def copy_store(template: Path, folder: Path, artifacts: str) -> str:
    """Copy the empty store to `folder`, with `artifacts` as the place of its default experiment; return its URI."""
    path = folder / "mlflow.db"
    shutil.copyfile(template, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE experiments SET artifact_location = ? WHERE experiment_id = 0", (artifacts,))
    return f"sqlite:///{path}"
