"""The report of several investigations."""
