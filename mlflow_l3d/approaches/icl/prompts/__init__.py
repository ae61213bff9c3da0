"""Prompts of in-context learning: formats, class words, and what a generated text says."""
