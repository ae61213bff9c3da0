"""Evaluations of GenAI apps over prompts, models, judges and repeats."""
