"""What the user asks for: the parameters of the entry points, checked."""
