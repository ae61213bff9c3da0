"""Pretrained encoders: their weights, their tokens, and the features that they give when frozen."""
