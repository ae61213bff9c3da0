"""The report of a referee's session."""
