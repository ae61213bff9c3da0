"""Is a candidate worse than a baseline? Runs until that is answered."""
