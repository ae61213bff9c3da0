"""How many runs are needed, and when there are enough: of investigations, comparisons and tests that are running."""
