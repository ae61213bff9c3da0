"""Runs that are there already: found, read, and ended if nobody else will."""
