"""The recorder: every outcome goes to a local spool first and to MLflow after, and nothing is computed twice."""
