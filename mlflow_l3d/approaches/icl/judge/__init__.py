"""Judges of answers that are texts: language models that say how good each is."""
