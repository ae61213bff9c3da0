"""The cells of an investigation as an MLflow data set, so that lineage shows the origin of the scores.

MLflow imports this module while it starts: only leaf modules of MLflow may be imported here.
"""

# No postponed annotations here: MLflow checks that the constructor's return annotation is a class.
from typing import TYPE_CHECKING, Any

from mlflow.data.dataset import Dataset
from mlflow.data.dataset_source import DatasetSource

if TYPE_CHECKING:
    import pandas as pd


class L3DRunsSource(DatasetSource):
    """The child runs of one parent run on a tracking server, or of several to compare.

    Parameters
    ----------
    parent_run_id
        Id of the parent run; several separated by commas. The address of the server is not kept: it may hold a
        password.
    """

    def __init__(self, parent_run_id: str) -> None:
        self.parent_run_id = parent_run_id

    @staticmethod
    def _get_source_type() -> str:
        return "l3d_runs"

    def load(self) -> "pd.DataFrame":
        """Return the cells from the current tracking server, one row each; of several parent runs with their ids."""
        import pandas as pd
        from mlflow.tracking import MlflowClient

        from mlflow_l3d.tracking.connection import own_settings
        from mlflow_l3d.tracking.earlier.reader import read_investigation

        run_ids = [run_id.strip() for run_id in self.parent_run_id.split(",")]
        with own_settings():
            every = [read_investigation(run_id, MlflowClient()).cells for run_id in run_ids]
        if len(every) == 1:
            return every[0]
        return pd.concat(
            [cells.assign(parent_run_id=run_id) for run_id, cells in zip(run_ids, every, strict=True)],
            ignore_index=True,
        )

    @staticmethod
    def _can_resolve(raw_source: Any) -> bool:
        return isinstance(raw_source, str) and raw_source.startswith("l3d-runs:")

    @classmethod
    def _resolve(cls, raw_source: Any) -> "L3DRunsSource":
        return cls(str(raw_source).removeprefix("l3d-runs:"))

    def to_dict(self) -> dict[Any, Any]:
        """Return the arguments of :meth:`from_dict`."""
        return {"parent_run_id": self.parent_run_id}

    @classmethod
    def from_dict(cls, source_dict: dict[Any, Any]) -> "L3DRunsSource":
        """Build the source from :meth:`to_dict`."""
        return cls(source_dict["parent_run_id"])


def from_l3d_runs(parent_run_id: str | list[str], name: str | None = None, digest: str | None = None) -> Dataset:
    """Return the cells of a parent run as a data set for ``mlflow.models.evaluate``.

    Parameters
    ----------
    parent_run_id
        A run whose child runs have the tags of a cell (``l3d.role`` = ``cell``), also of other code. Several, in a
        list or separated by commas, are compared.
    name, digest
        As of every MLflow data set; by default the id of the run, and a hash of the cells.
    """
    from mlflow.data.pandas_dataset import from_pandas

    source = L3DRunsSource(parent_run_id if isinstance(parent_run_id, str) else ",".join(parent_run_id))
    title = name or f"l3d-{source.parent_run_id}"[:500]
    return from_pandas(source.load(), source=source, name=title, digest=digest)
