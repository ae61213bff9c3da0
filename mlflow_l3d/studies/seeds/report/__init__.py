"""The report of a study of seeds."""
