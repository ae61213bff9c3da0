"""Studies of seeds: spread, agreement, and what holds over tasks."""
