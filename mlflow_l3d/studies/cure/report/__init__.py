"""A cure as people read it."""
