"""Consistency of single predictions over runs."""
