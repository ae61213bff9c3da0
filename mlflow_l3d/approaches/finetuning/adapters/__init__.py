"""Adapters: low-rank weights on a frozen model, also those of several cells side by side."""
