"""The report of a gate."""
