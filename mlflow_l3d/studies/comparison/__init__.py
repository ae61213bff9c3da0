"""Investigations against each other: whether A is better than B, counting every kind of luck."""
