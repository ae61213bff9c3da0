"""Runs that exist are scored again: an investigation, or studies of seeds."""
