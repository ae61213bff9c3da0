"""The statistics of a gate: its looks, their bounds, and what they cost."""
