"""Pretrained models: how they are named, found, converted, loaded and shared; texts as tokens, and their features."""
