"""MLflow's evaluator plug-in ``l3d``: a thin adapter over `score_parent` of studies/investigation/evaluate.py.

MLflow imports this module while it starts: only leaf modules of MLflow may be imported here.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from mlflow.models.evaluation.base import EvaluationResult, ModelEvaluator

if TYPE_CHECKING:
    from mlflow import MlflowClient


class L3DEvaluator(ModelEvaluator):
    """Importance and prediction consistency of the child runs of a parent run; several parent runs are compared.

    Called as ``mlflow.models.evaluate(data=mlflow.data.from_l3d_runs(parent_run_id), model_type="l3d",
    evaluators="l3d", evaluator_config={...})``.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str, evaluator_config: dict[str, Any], **kwargs: Any) -> bool:  # noqa: ARG003
        """Return True for ``model_type="l3d"`` only."""
        return model_type == "l3d"

    def evaluate(
        self,
        *,
        model_type: str,  # noqa: ARG002 - MLflow's signature
        dataset: Any,
        run_id: str,
        evaluator_config: dict[str, Any],
        model: Any = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> EvaluationResult:
        """Score the cells in `dataset` and write metrics and artifacts to the run `run_id`.

        Parameters
        ----------
        model_type
            ``l3d``.
        dataset
            A data set of :func:`mlflow_l3d.plugin.dataset.from_l3d_runs`.
        run_id
            The active run; start it with the id of the parent run. A comparison of several needs a run of its own.
        evaluator_config
            ``metric``: the metric whose spread is investigated, by default that of the parent run, ``f1_macro``, or
            the only one that the cells have;
            ``design``, ``missing`` and ``agreement`` as for :func:`mlflow_l3d.studies.evaluation.run.evaluate`. For a
            comparison the options of :func:`mlflow_l3d.studies.comparison.run.compare`.
        model, **kwargs
            Unused.

        Raises
        ------
        L3DError
            If the cells lack the metric or a coordinate.
        """
        from mlflow.tracking import MlflowClient

        from mlflow_l3d.studies.investigation.evaluate import score_parent
        from mlflow_l3d.tracking.connection import own_settings

        client, settings = MlflowClient(), evaluator_config or {}
        if "parent_run_id" in dataset.features_data:
            from mlflow_l3d.studies.comparison.run import compare_into

            with own_settings():
                parents = dataset.features_data["parent_run_id"].unique().tolist()
                compared = compare_into(client, run_id, parents, settings)
            return _result(client, run_id, compared.metrics())
        options = {name: settings[name] for name in ("metric", "design", "missing", "agreement") if name in settings}
        with own_settings():
            found = score_parent(client, client.get_run(run_id), dataset.features_data, **options)
        return _result(client, run_id, found.analysis.metrics())


def _result(client: MlflowClient, run_id: str, metrics: dict[str, float]) -> EvaluationResult:
    """Return the result for the user: numbers, and the report, tables and figures by the names of their files."""
    from mlflow.models.evaluation import artifacts as kinds

    by_ending: dict[str, Any] = {
        ".json": kinds.JsonEvaluationArtifact,
        ".parquet": kinds.ParquetEvaluationArtifact,
        ".csv": kinds.CsvEvaluationArtifact,
        ".png": kinds.ImageEvaluationArtifact,
    }
    place, artifacts = client.get_run(run_id).info.artifact_uri, {}
    for entry in client.list_artifacts(run_id):
        if not entry.is_dir:
            kind = by_ending.get(PurePosixPath(entry.path).suffix, kinds.TextEvaluationArtifact)
            artifacts[entry.path] = kind(uri=f"{place}/{entry.path}")
    return EvaluationResult(metrics=metrics, artifacts=artifacts, run_id=run_id)  # type: ignore[no-untyped-call]
