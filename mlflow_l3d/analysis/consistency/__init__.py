"""How alike single predictions are: classes, numbers, and by a scoring function texts, tags, structures and rankings.

:class:`~mlflow_l3d.analysis.consistency.scored.ScoredComparison` computes CON and CCON with any scoring function;
:func:`~mlflow_l3d.analysis.consistency.choice.scoring` gives those of Zhou et al. 2025, Table 2, by name. Libraries
that one needs come with ``pip install 'mlflow-l3d[agreement]'`` and are imported where they are used.
"""
