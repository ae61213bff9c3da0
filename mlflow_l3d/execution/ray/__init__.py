"""Cells in actors of Ray."""
