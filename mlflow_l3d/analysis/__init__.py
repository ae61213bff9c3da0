"""Numbers about tables of scores and predictions: pure numpy and pandas, without torch and MLflow.

The entry points are :func:`mlflow_l3d.analysis.aggregate.analyse` (a frame of cells),
:func:`mlflow_l3d.analysis.importance.importance` (one table), :class:`mlflow_l3d.analysis.consistency.VoteCounter`
(predictions, run by run) and :func:`mlflow_l3d.analysis.metrics.classification_metrics` (predictions of one run).
"""
