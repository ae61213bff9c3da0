"""Comparisons that are looked at while they run: spending of alpha, evidence at any time, and many claims in a row."""
