"""Score a data frame of cells that never were MLflow runs."""

from __future__ import annotations

import pandas as pd

from mlflow_l3d.analysis.importance.reml import MISSING
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named
from mlflow_l3d.designs.analyse import Planned
from mlflow_l3d.errors import unknown_name
from mlflow_l3d.studies.investigation.scoring import score, tables


def score_frame(
    cells: pd.DataFrame, *, metric: str = "score", design: str | None = None, missing: str = "drop"
) -> Analysis:
    """Score a data frame of cells that never were MLflow runs.

    Parameters
    ----------
    cells
        One row a cell. Columns: ``phase`` (``investigation`` or ``golden``; in the radial design ``base`` or ``swap``),
        ``row``, ``column`` (not in the radial design), and `metric`;
        optional ``index`` (golden runs are numbered as they stand, else), ``factor`` (one factor, else) and
        ``predictions``: for each cell a frame with ``example_id``, ``label`` and ``prediction``, or None.
    metric
        The column of scores, fractions (0..1).
    design
        Name of the design; None is the one whose phases the cells have, else crossed.
    missing
        ``drop`` or ``reml``: what to do with rows of a crossed table that lack cells.

    Raises
    ------
    ParameterError
        If a column is missing, or `design` or `missing` is not allowed.
    """
    if missing not in MISSING:
        raise unknown_name("missing", missing, MISSING)
    known = None if design is None else design_named(design)
    planned = Planned(design=known, missing="reml" if missing == "reml" else "drop")
    if "column" not in cells and not planned.design_of(cells).has_columns:
        cells = cells.assign(column=None)
    for column in ("phase", "row", "column", metric):
        if column not in cells:
            raise unknown_name("column", column, map(str, cells.columns), "present in the frame, which has")
    frame = cells.copy()
    golden = frame["phase"].eq("golden")
    if "factor" not in frame:
        frame["factor"] = None
        frame.loc[frame["phase"].isin(["investigation", "swap"]), "factor"] = "factor"
    if "index" not in frame:
        frame["index"] = golden.cumsum().sub(1).where(golden)
    frame = planned.select(frame)
    given = frame["predictions"].tolist() if "predictions" in frame else None
    frame = frame.drop(columns="predictions", errors="ignore")
    predictions = None if given is None else tables((str(at), table) for at, table in enumerate(given))
    return score(frame, predictions, metric=metric, planned=planned).analysis
