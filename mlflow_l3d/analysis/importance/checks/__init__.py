"""The numbered checks: what may be wrong with the tables behind an importance."""
