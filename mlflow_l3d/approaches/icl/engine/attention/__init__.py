"""Attention of our own, which models of `transformers` can be told to use."""
