"""The referee: many candidates, one noisy score, and claims that hold over the whole session."""
