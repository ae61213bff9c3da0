"""Before an investigation: its cells, their cost, and how many it needs."""
