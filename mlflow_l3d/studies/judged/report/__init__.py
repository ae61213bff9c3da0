"""The reports of evaluation runs."""
