"""A user's own files of every format."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def written(path: Path, frame: pd.DataFrame) -> Path:
    """Write a data frame in the format that the ending of the path names."""
    if path.suffix in {".csv", ".tsv"}:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True)
    return path
