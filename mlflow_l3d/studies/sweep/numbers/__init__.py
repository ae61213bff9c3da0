"""What the points of a sweep say together."""
