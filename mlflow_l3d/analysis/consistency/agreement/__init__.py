"""Agreement of predictions that are not classes: texts, tags, structures, answers, rankings, numbers.

:class:`~mlflow_l3d.analysis.consistency.agreement.scored.ScoredComparison` computes CON and CCON with any scoring
function; :func:`~mlflow_l3d.analysis.consistency.agreement.choice.scoring` gives those of Zhou et al. 2025, Table 2, by
name. Libraries that a scoring function needs come with ``pip install 'mlflow-l3d[agreement]'`` and are imported where
they are used.
"""
