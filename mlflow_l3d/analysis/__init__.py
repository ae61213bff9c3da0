"""Numbers about tables of scores and predictions: pure numpy and pandas, without torch and MLflow.

The entry points are :func:`mlflow_l3d.analysis.aggregate.analyse` (a frame of cells of any design, through
:mod:`mlflow_l3d.analysis.layouts`), :class:`mlflow_l3d.analysis.stability.Stability` (predictions of all cells),
:func:`mlflow_l3d.analysis.importance.importance` (one table), :class:`mlflow_l3d.analysis.consistency.VoteCounter`
(predictions, run by run) and :func:`mlflow_l3d.analysis.metrics.classification_metrics` (predictions of one run).

Around the score of one table:

* :func:`~mlflow_l3d.analysis.importance.radial_importance`: all factors at once;
* :func:`~mlflow_l3d.analysis.multiplicity.important_factors`, :func:`~mlflow_l3d.analysis.multiplicity.rank_factors`:
  claims about several factors;
* :mod:`~mlflow_l3d.analysis.strategies`: the published baselines;
* :mod:`~mlflow_l3d.analysis.planning`, :mod:`~mlflow_l3d.analysis.stopping`: runs needed, and when there are enough;
* :func:`~mlflow_l3d.analysis.ablation.ablation`: what fewer runs would have found;
* :func:`~mlflow_l3d.analysis.reml.components_of`: variances where cells are missing;
* :func:`~mlflow_l3d.analysis.noise.population_std`: without test-set noise.

The random-seeds study: :func:`mlflow_l3d.analysis.seeds_study.seeds_study` (one task),
:func:`mlflow_l3d.analysis.over_tasks.over_tasks` (several: better seeds, training size) and
:mod:`mlflow_l3d.analysis.seeds_tables` (the papers' tables).
"""
