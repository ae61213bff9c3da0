"""The report of groups of existing runs."""
