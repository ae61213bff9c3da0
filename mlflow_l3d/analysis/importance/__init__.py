"""Importance scores of randomness factors, and everything next to them."""
