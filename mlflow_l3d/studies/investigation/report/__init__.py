"""The report of one investigation."""
