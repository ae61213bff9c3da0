"""Frozen encoders: the tokens of texts, and the features that they give."""
