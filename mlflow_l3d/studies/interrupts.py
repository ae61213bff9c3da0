"""Ctrl-C and SIGTERM at moments when an exception out of nowhere would do harm."""

from mlflow_l3d.execution.environment import deferred_interrupts

__all__ = ["deferred_interrupts"]
