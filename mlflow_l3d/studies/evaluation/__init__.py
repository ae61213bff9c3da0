"""`evaluate` and `delete`: existing runs are scored again, or deleted."""
