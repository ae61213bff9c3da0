"""MLflow's evaluator plug-in ``l3d``: a thin adapter over :func:`mlflow_l3d.evaluate.score`.

MLflow imports this module while it starts: only leaf modules of MLflow may be imported here.
"""

from __future__ import annotations

from typing import Any

from mlflow.models.evaluation.base import EvaluationResult, ModelEvaluator


class L3DEvaluator(ModelEvaluator):
    """Importance scores and prediction consistency of the child runs of a parent run.

    Called as ``mlflow.models.evaluate(data=mlflow.data.from_l3d_runs(parent_run_id), model_type="l3d",
    evaluators="l3d", evaluator_config={...})``.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str, evaluator_config: dict[str, Any], **kwargs: Any) -> bool:  # noqa: ARG003
        """Answer True to ``model_type="l3d"`` only."""
        return model_type == "l3d"

    def evaluate(
        self,
        *,
        model_type: str,
        dataset: Any,
        run_id: str,
        evaluator_config: dict[str, Any],
        model: Any = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Score the cells in `dataset` and write metrics and artifacts to the run `run_id`."""
        raise NotImplementedError
