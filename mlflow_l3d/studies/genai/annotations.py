"""Our own assessments of answers, for those who look at traces: written only if the user asks for them."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from mlflow_l3d.analysis.judged.judges import unstable_rows
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.base import entry_point
from mlflow_l3d.studies.genai.results import GenaiInvestigation
from mlflow_l3d.studies.result_file import read_result
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.earlier.reader import parent_run
from mlflow_l3d.tracking.evaluating import Assessment, write_assessments


def annotate(run_id: str) -> int:
    """Write onto each answer whether the verdict on its row changes, and whether the judges agree on it.

    The assessments are ``l3d.fragile_row/SCORER``, true or false, and ``l3d.agreement/SCORER``, the share of pairs of
    judgements that are equal. Their source is this package, and their run is `run_id`: no evaluation counts them.

    Parameters
    ----------
    run_id
        The parent run of :func:`investigate`.

    Returns
    -------
    int
        How many were written; those that are there already are left as they are.

    Raises
    ------
    ParameterError
        If the run is none of :func:`investigate`.

    Examples
    --------
    >>> import mlflow
    >>> from mlflow_l3d import genai
    >>> @mlflow.genai.scorer
    ... def short(outputs):
    ...     return len(outputs) < 4
    >>> rows = [{"inputs": {"word": word}} for word in ("two", "three")]
    >>> result = genai.investigate(lambda word, style: word, rows, [short], {"style": ["loud"]}, version="1")
    >>> genai.annotate(result.run_id), genai.annotate(result.run_id)
    (2, 0)
    """
    with entry_point():
        client = connect()
        run = parent_run(client, run_id, "run_id")
        result = read_result(client, run_id, files=True)
        if not isinstance(result, GenaiInvestigation):
            fix = "Name the run that mlflow_l3d.genai.investigate returned."
            raise ParameterError("run_id", run_id, "is not an investigation of an app", fix)
        judged = result.to_frame().query("failed == ''").dropna(subset="value")
        assessments = [each for _, part in judged.groupby("scorer", sort=False) for each in _assessments(part)]
        runs = judged.drop_duplicates("answer")["run_id"].unique().tolist()
        return write_assessments(str(run.info.experiment_id), runs, run_id, assessments)


def _assessments(table: pd.DataFrame) -> Iterator[Assessment]:
    """Yield what is said of each answer by one scorer."""
    scorer, fragile = table["scorer"].iloc[0], set(unstable_rows(table)["row"])
    of_rows = table.groupby("row")["value"].agg(["mean", "size"]).to_dict("index")
    for (row, answer), values in table.groupby(["row", "answer"], sort=False)["value"]:
        why = "Mean {mean:.3g} of {size:.0f} judgements of this row.".format(**of_rows[row])
        yield Assessment(str(answer), f"l3d.fragile_row/{scorer}", row in fragile, why)
        if len(values) > 1:
            counts = values.value_counts()
            equal = (counts * (counts - 1)).sum() / (len(values) * (len(values) - 1))
            yield Assessment(str(answer), f"l3d.agreement/{scorer}", float(equal), f"{len(values)} judgements.")
