"""The report of an investigation."""
