"""Stability of single predictions over runs."""
