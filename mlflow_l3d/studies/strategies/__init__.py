"""The published method beside its baselines."""
