"""The published method next to its baselines."""
