"""The statistics of a study of seeds: spread, agreement, and what holds over tasks."""
