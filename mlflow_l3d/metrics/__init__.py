"""Scores of predictions: one object a metric, ours and those of other packages."""
