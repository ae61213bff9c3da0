"""Scores of predictions."""
