"""How many runs are needed, and when to stop."""
