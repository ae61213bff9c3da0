"""Importance scores of randomness factors, and everything beside them."""
