"""Labelled data by name, and the splits that randomness factors decide."""
