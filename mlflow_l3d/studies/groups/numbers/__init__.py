"""Which runs form a group, and what groups say: pure functions."""
