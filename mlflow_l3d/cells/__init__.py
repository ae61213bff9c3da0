"""A cell, its identity and its outcome, and the seeds of factors."""
