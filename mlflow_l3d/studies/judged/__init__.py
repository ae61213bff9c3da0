"""Evaluation runs of MLflow that exist: what their scores are worth, and whether one is better than another."""
