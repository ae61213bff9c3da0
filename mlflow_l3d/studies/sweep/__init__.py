"""Several investigations as one study: the points of a sweep, and what they say together."""
