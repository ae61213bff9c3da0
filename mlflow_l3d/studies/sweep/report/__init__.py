"""The report of a sweep."""
